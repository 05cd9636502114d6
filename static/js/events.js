// Follows jobs by server-sent events. An element with data-follow="…/events" is a live view of one job:
// inside it, [data-progress], [data-stage], [data-rate], [data-eta], [data-rows] and <progress> are kept up to date,
// and when the job ends the page is loaded again (or the address in data-then opened).
import { bytes, count, duration } from "./format.js";

const FINAL = ["succeeded", "failed", "cancelled"];

function show(element, job) {
  const set = (name, text) => element.querySelectorAll(`[data-${name}]`).forEach((e) => (e.textContent = text));
  const share = job.total ? job.done / job.total : 0;
  set("progress", job.total ? `${Math.floor(100 * share)} %` : "–");
  set("stage", job.stage);
  set("rows", count(job.rows ?? job.done));
  set("rate", rate(job));
  set("eta", job.eta_seconds == null ? "" : `about ${duration(job.eta_seconds)} left`);
  const bar = element.querySelector("progress");
  if (bar) {
    if (job.total) bar.value = share;
    else bar.removeAttribute("value");
  }
  const mark = element.querySelector(".state");
  if (mark && !mark.classList.contains(job.state)) {
    mark.className = `state ${job.state}`;
    mark.lastChild.textContent = job.state;
  }
}

function rate(job) {
  if (job.rows_per_second) return `${count(Math.round(job.rows_per_second))} rows/s`;
  if (!job.per_second) return "";
  return job.unit === "bytes" ? `${bytes(job.per_second)}/s` : `${count(Math.round(job.per_second))} ${job.unit}/s`;
}

// Calls `seen` with each state of the job; resolves with the last one. Reconnects by itself until then.
export function follow(url, seen) {
  return new Promise((resolve) => {
    const source = new EventSource(url);
    const take = (event) => {
      const job = JSON.parse(event.data);
      seen(job);
      if (FINAL.includes(job.state)) {
        source.close();
        resolve(job);
      }
    };
    source.addEventListener("message", take);
    source.addEventListener("progress", take);
    addEventListener("pagehide", () => source.close(), { once: true });
  });
}

let reloading = false;
for (const element of document.querySelectorAll("[data-follow]")) {
  follow(element.dataset.follow, (job) => show(element, job)).then((job) => {
    const then = element.dataset.then;
    if (then && job.state === "succeeded") location.assign(then);
    else if (element.dataset.follow && !reloading && !element.hasAttribute("data-stay")) {
      reloading = true;
      // A form that somebody is filling in, or files that are being sent, are worth more than a fresh page.
      if (document.activeElement?.matches("input, select, textarea") || document.querySelector("[data-busy]")) reloading = false;
      else location.reload();
    }
  });
}
