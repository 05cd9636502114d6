// Sliders: each stop is asked of the API as an estimate of its own, and the page shows it beside what stood there
// before. Only the newest stop counts; the address takes it, so that a reload or a link shows the same.
import { replace, start } from "./charts.js";

const WAIT = 150; // milliseconds of rest before a stop is asked for
const form = document.querySelector("form[data-what-if]");
const status = form.querySelector("[role=status]");
const request = JSON.parse(form.dataset.whatIf);
const { batch, ghost } = form.dataset;
const first = new FormData(form); // what stands where it stood keeps the request's number, which may lie between two steps
let timer = 0;
let asking = false;
let again = false;
let own = null; // the estimate that a stop of this page made, and that the next one takes the place of

const worth = (input) => {
  if (!("log" in input.dataset)) return Number(input.value);
  return Number((10 ** Number(input.value)).toPrecision(3));
};

// The request with what was turned in place of what it said.
function asked() {
  const body = structuredClone(request);
  for (const input of form.querySelectorAll("input, select")) {
    if (input.value === first.get(input.name)) continue;
    const [part, name] = input.name.split(".");
    body[part][name] = input.type === "range" ? worth(input) : name === "ddof" ? Number(input.value) : input.value;
  }
  return body;
}

function said() {
  for (const input of form.querySelectorAll("input[type=range]")) {
    const output = input.parentElement.querySelector("output");
    output.dataset.first ??= output.textContent;
    output.textContent = input.value === first.get(input.name) ? output.dataset.first : String(Number(worth(input).toPrecision(3)));
  }
  const whitened = form.elements["whitening.scope"].value !== "none";
  form.querySelectorAll("[data-whitened]").forEach((label) => (label.hidden = !whitened));
}

const stale = (on) => document.querySelectorAll("#pair, .charts, #compared .picker-detail").forEach((part) => part.classList.toggle("stale", on));

async function answered(url, options) {
  const response = await fetch(url, { ...options, headers: { Accept: "application/json", "Content-Type": "application/json" } });
  const body = response.status === 204 ? null : await response.json().catch(() => null);
  if (!response.ok) throw new Error(body?.detail ?? `The server answered ${response.status}.`);
  return { body, made: response.status === 201 };
}

async function ask() {
  if (asking) {
    again = true;
    return;
  }
  asking = true;
  const begun = performance.now();
  try {
    const { body, made } = await answered(`/api/v1/batches/${batch}/estimates?wait=60`, { method: "POST", body: JSON.stringify(asked()) });
    if (again) await forget(made ? body.id : null);
    else if (body.state === "succeeded") {
      await show(body.id);
      const last = own;
      own = made ? body.id : null;
      if (last !== body.id) await forget(last);
      status.textContent = told(body, performance.now() - begun);
    } else status.textContent = "It is still being computed; the picker above lists it.";
  } catch (error) {
    status.textContent = error.message;
    status.classList.add("flip");
  } finally {
    asking = false;
    if (again) {
      again = false;
      ask();
    } else stale(false);
  }
}

function told(estimate, took) {
  const { std, signs } = estimate.summary;
  const after = signs?.after ?? {};
  const all = (after.positive ?? 0) + (after.negative ?? 0) + (after.zero ?? 0);
  const { gamma, lam } = estimate.request.params;
  const parts = [`answered in ${took.toFixed(0)} ms`];
  if (Number.isFinite(std)) parts.push(`σ ${std.toPrecision(3)}`);
  if (all) parts.push(`${((100 * after.positive) / all).toFixed(0)} % above 0`);
  if (gamma !== undefined && lam !== undefined) {
    parts.push(gamma * lam < 1 ? `horizon ${(1 / (1 - gamma * lam)).toPrecision(3)} tokens` : "horizon: the whole response");
  }
  return parts.join(" · ");
}

// A stop that was passed by leaves nothing behind; one that somebody pinned meanwhile stays, as the server says.
async function forget(id) {
  if (id) await fetch(`/api/v1/estimates/${id}`, { method: "DELETE" });
}

async function show(estimate) {
  const url = new URL(location.href);
  url.searchParams.set("estimate", estimate);
  url.searchParams.set("against", ghost);
  const page = await fetch(url, { headers: { Accept: "text/html" } });
  if (!page.ok) throw new Error(`The page answered ${page.status}.`);
  const parsed = new DOMParser().parseFromString(await page.text(), "text/html");
  history.replaceState(history.state, "", url);
  for (const id of ["compared", "pair"]) document.getElementById(id).replaceWith(document.adoptNode(parsed.getElementById(id)));
  for (const chart of parsed.querySelectorAll("figure.chart")) {
    const here = document.getElementById(chart.id);
    if (here) {
      here.querySelector(".actions").replaceWith(document.adoptNode(chart.querySelector(".actions")));
      if (here.dataset.state) await replace(here, chart.dataset.src);
      else here.dataset.src = chart.dataset.src;
    } else document.querySelector(".charts").prepend(document.adoptNode(chart));
  }
  start();
}

function turned() {
  said();
  stale(true);
  status.classList.remove("flip");
  status.textContent = "computing …";
  clearTimeout(timer);
  timer = setTimeout(ask, WAIT);
}

form.addEventListener("input", turned);
form.addEventListener("submit", (event) => event.preventDefault());
form.querySelector("[data-back]").addEventListener("click", () => {
  for (const [name, value] of first) form.elements[name].value = value;
  turned();
});
said();
