// The drop zone. One file goes as the raw body, several together as one multipart upload. Sending shows bytes sent;
// then the receipt is followed until the file is read, and what was recognised stands where the progress was.
import { bytes, count, duration } from "./format.js";
import { follow } from "./events.js";

const form = document.getElementById("drop");
const list = form.querySelector(".drop-list");
const OPTIONS = ["run", "step", "split", "format", "group_by", "tokenizer"];
let under = 0; // uploads of this page that are not done

function make(name, properties = {}, ...children) {
  const element = Object.assign(document.createElement(name), properties);
  element.append(...children);
  return element;
}

function query(filename) {
  const data = new FormData(form);
  const parts = new URLSearchParams();
  for (const name of OPTIONS) {
    const value = String(data.get(name) ?? "").trim();
    if (value) parts.set(name, value);
  }
  if (filename) parts.set("filename", filename);
  return parts;
}

// Posts and reports sent bytes. Resolves with {status, body}; rejects where nothing was answered.
function post(url, body, type, progress) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", url);
    request.setRequestHeader("Accept", "application/json");
    if (type) request.setRequestHeader("Content-Type", type);
    request.responseType = "json";
    request.upload.addEventListener("progress", (event) => progress(event.loaded, event.total));
    request.addEventListener("load", () => resolve({ status: request.status, body: request.response }));
    request.addEventListener("error", () => reject(new Error("The connection broke before everything was sent. Try again.")));
    request.addEventListener("abort", () => reject(new Error("Stopped before everything was sent.")));
    request.send(body);
    progress.stop = () => request.abort();
  });
}

function card(title, size) {
  const bar = make("progress", { max: 1, value: 0 });
  const what = make("span", { className: "what", textContent: "Sending …" });
  const stop = make("button", { type: "button", className: "quiet", textContent: "stop" });
  bar.setAttribute("aria-label", `Progress of ${title}`);
  const item = make(
    "li",
    {},
    make("span", { className: "name" }, make("span", { textContent: title, title }), make("span", { textContent: bytes(size) })),
    bar,
    make("span", { className: "bar" }, what, stop),
  );
  list.prepend(item);
  return { item, bar, what, stop };
}

function fail(parts, text) {
  parts.bar.remove();
  parts.stop.remove();
  parts.what.className = "failed";
  parts.what.textContent = text;
}

function done(parts, receipt) {
  const { counts, batches, format, problems } = receipt;
  parts.bar.remove();
  parts.stop.remove();
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

async function send(files) {
  const several = files.length > 1;
  const size = files.reduce((sum, { file }) => sum + file.size, 0);
  const title = several ? `${files[0].path} and ${files.length - 1} more` : files[0].path;
  const parts = card(title, size);
  const started = performance.now();
  const progress = (sent, total) => {
    parts.bar.value = total ? sent / total : 0;
    const rate = (1000 * sent) / (performance.now() - started + 1);
    parts.what.textContent = sent < total ? `Sending, ${bytes(rate)}/s, ${duration((total - sent) / rate)} left` : "Stored, waiting for a worker …";
  };
  parts.stop.addEventListener("click", () => progress.stop?.());
  under += 1;
  try {
    const body = several ? new FormData() : files[0].file;
    if (several) for (const { file, path } of files) body.append("file", file, path);
    const address = `${form.dataset.upload}?${query(several ? "" : files[0].path)}`;
    const answer = await post(address, body, several ? null : "application/octet-stream", progress);
    if (!answer.body?.id) return fail(parts, answer.body?.detail ?? `The server answered ${answer.status}.`);
    await watch(parts, answer.body);
  } catch (error) {
    fail(parts, error.message);
  } finally {
    under -= 1;
  }
}

async function watch(parts, receipt) {
  const { id } = receipt;
  parts.stop.remove();
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
    if (under === 1 && list.children.length === 1) location.assign(`/uploads/${id}`);
  } else {
    fail(parts, body.error ?? body.detail ?? "Nothing of it could be read.");
    parts.item.append(make("a", { href: `/uploads/${id}`, textContent: "receipt" }));
    const asking = ["columns_unknown", "decimal_comma"].some((code) => body.problem_counts?.[code]);
    if (asking) parts.item.append(make("a", { href: `/uploads/${id}/columns`, textContent: "choose the columns" }));
  }
}

// Every file below a dropped entry, with its path in the folder.
async function walk(entry, prefix, found) {
  if (entry.isFile) {
    const file = await new Promise((resolve, reject) => entry.file(resolve, reject));
    if (!entry.name.startsWith(".")) found.push({ file, path: prefix + entry.name });
    return;
  }
  const reader = entry.createReader();
  for (;;) {
    const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (!some.length) return;
    for (const inner of some) await walk(inner, `${prefix}${entry.name}/`, found);
  }
}

async function dropped(transfer) {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  if (!entries.length) return [...transfer.files].map((file) => ({ file, path: file.name }));
  const found = [];
  for (const entry of entries) await walk(entry, "", found);
  return found.sort((a, b) => (a.path < b.path ? -1 : 1));
}

function take(files) {
  if (files.length) send(files);
}

// A tokenizer.json is stored under the name of its folder, else of its file, and then chosen.
const tokenizerFile = document.getElementById("up-tokenizer-file");

function tokenizerName(file) {
  const stem = file.name.replace(/\.json$/i, "").replace(/^tokenizer$/i, "");
  const asked = prompt("Name of this tokenizer (the model's, for example)", stem || "tokenizer");
  return asked === null ? "" : asked.trim().replace(/[^A-Za-z0-9._-]+/g, "-");
}

async function storeTokenizer(file) {
  const said = document.getElementById("up-tokenizer-said");
  const name = tokenizerName(file);
  if (!name) return;
  said.textContent = "Sending …";
  const address = `${tokenizerFile.dataset.tokenizers}/${encodeURIComponent(name)}`;
  const headers = { "Content-Type": "application/json", Accept: "application/json" };
  try {
    const answer = await fetch(address, { method: "PUT", body: file, headers });
    const body = await answer.json();
    if (!answer.ok) throw new Error(body.detail ?? `The server answered ${answer.status}.`);
    const list = document.getElementById("up-tokenizer");
    if (![...list.options].some((option) => option.value === name)) list.append(new Option(name, name));
    list.value = name;
    said.textContent = `${name}: ${count(body.vocabulary)} entries`;
  } catch (error) {
    said.textContent = error.message;
  }
}

tokenizerFile.addEventListener("change", () => {
  if (tokenizerFile.files.length) storeTokenizer(tokenizerFile.files[0]);
  tokenizerFile.value = "";
});

for (const input of form.querySelectorAll('input[type="file"][name="file"], #folder')) {
  input.addEventListener("change", () => {
    take([...input.files].map((file) => ({ file, path: file.webkitRelativePath || file.name })));
    input.value = "";
  });
}
form.addEventListener("submit", (event) => event.preventDefault());

let depth = 0; // enters minus leaves: children of the page fire both
const carriesFiles = (event) => event.dataTransfer?.types.includes("Files");
addEventListener("dragenter", (event) => {
  if (!carriesFiles(event)) return;
  depth += 1;
  document.body.classList.add("dragging");
});
addEventListener("dragleave", (event) => {
  if (!carriesFiles(event)) return;
  depth -= 1;
  if (depth <= 0) document.body.classList.remove("dragging");
});
addEventListener("dragover", (event) => carriesFiles(event) && event.preventDefault());
addEventListener("drop", async (event) => {
  if (!carriesFiles(event)) return;
  event.preventDefault();
  depth = 0;
  document.body.classList.remove("dragging");
  take(await dropped(event.dataTransfer));
});
addEventListener("beforeunload", (event) => {
  if (list.querySelector("progress") && [...list.querySelectorAll(".what")].some((e) => e.textContent.startsWith("Sending"))) event.preventDefault();
});
