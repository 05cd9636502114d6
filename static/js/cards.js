// One card for each upload of the page: its name and size, a bar, what is happening, what can be done about it. What is
// sent is then followed until it is read, and what was recognised stands where the progress was.
import { bytes, count } from "./format.js";
import { follow } from "./events.js";

const form = document.getElementById("drop");
export const list = form.querySelector(".drop-list");
let under = 0; // uploads of this page that are not done

// Counts the upload as under way until `work` ends: the page is not left for it by itself.
export async function busy(work) {
  under += 1;
  form.dataset.busy = "";
  try {
    return await work();
  } finally {
    under -= 1;
    if (!under) delete form.dataset.busy;
  }
}

const alone = () => under === 1 && list.children.length === 1;

export function make(name, properties = {}, ...children) {
  const element = Object.assign(document.createElement(name), properties);
  element.append(...children);
  return element;
}

export const button = (textContent) => make("button", { type: "button", className: "quiet", textContent });

export const named = (files) => (files.length > 1 ? `${files[0].path} and ${files.length - 1} more` : files[0].path);

export function card(title, size) {
  const bar = make("progress", { max: 1, value: 0 });
  const what = make("span", { className: "what", textContent: "Sending …" });
  const status = make("span", { className: "visually-hidden" });
  const actions = make("span", { className: "actions" });
  bar.setAttribute("aria-label", `Progress of ${title}`);
  status.setAttribute("role", "status");
  const item = make(
    "li",
    {},
    make("span", { className: "name" }, make("span", { textContent: title, title }), make("span", { textContent: bytes(size) })),
    bar,
    make("span", { className: "bar" }, what, actions),
    status,
  );
  list.prepend(item);
  return { item, bar, what, actions, status, title };
}

// Said once to who does not see the card; the bar and the figures beside it change too often for that.
export function say(parts, text) {
  if (parts.status.textContent !== text) parts.status.textContent = text;
}

export function fail(parts, text) {
  parts.bar.remove();
  parts.actions.remove();
  parts.what.className = "failed";
  parts.what.textContent = text;
  say(parts, text.startsWith(`${parts.title}: `) ? text : `${parts.title}: ${text}`);
}

function done(parts, receipt) {
  const { counts, batches, format, problems } = receipt;
  parts.bar.remove();
  parts.actions.remove();
  say(parts, `${parts.title} is read.`);
  const rejected = counts.rejected ? `, ${count(counts.rejected)} rejected` : "";
  const noted = problems.length ? `, ${problems.length === 1 ? "1 note" : `${count(problems.length)} notes`}` : "";
  parts.what.replaceChildren(
    `${format}: ${count(counts.accepted)} of ${count(counts.rows)} rows${rejected}${noted} · `,
    make("a", { href: `/uploads/${receipt.id}`, textContent: "receipt" }),
  );
  if (batches.length) {
    const first = batches[0];
    const where = first.step === null ? first.run : `${first.run} · step ${first.step}`;
    const more = batches.length > 1 ? ` and ${batches.length - 1} more` : "";
    parts.item.append(make("span", {}, make("a", { href: `/batches/${first.id}`, textContent: `Open ${where}${more}` })));
  }
}

export async function watch(parts, receipt) {
  const { id } = receipt;
  parts.actions.remove();
  await follow(`/api/v1/uploads/${id}/events`, (job) => {
    parts.bar.value = job.total ? job.done / job.total : 0;
    const rate = job.rows_per_second ? `, ${count(job.rows_per_second)} rows/s` : "";
    parts.what.replaceChildren(`${job.stage}: ${count(job.rows ?? 0)} rows${rate} · `, make("a", { href: `/uploads/${id}`, textContent: "receipt" }));
  });
  const answer = await fetch(`/api/v1/uploads/${id}`, { headers: { Accept: "application/json" } });
  const body = await answer.json();
  if (body.state === "succeeded") {
    done(parts, body);
    // One upload that made something: its receipt is what the person came for.
    if (alone()) location.assign(`/uploads/${id}`);
  } else {
    fail(parts, body.error ?? body.detail ?? "Nothing of it could be read.");
    parts.item.append(make("a", { href: `/uploads/${id}`, textContent: "receipt" }));
    const asking = ["columns_unknown", "decimal_comma"].some((code) => body.problem_counts?.[code]);
    if (!asking) return;
    parts.item.append(make("a", { href: `/uploads/${id}/columns`, textContent: "choose the columns" }));
    // What is missing can be said there, and nothing else of this page is under way.
    if (alone()) location.assign(`/uploads/${id}/columns`);
  }
}
