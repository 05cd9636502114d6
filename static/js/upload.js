// The drop zone. Small files go at once: one as the raw body, several together as one multipart upload. Large ones go in
// pieces and survive a lost connection and a reload (resume.js).
import { bytes, count, duration } from "./format.js";
import { busy, button, card, fail, list, named, say, watch } from "./cards.js";
import { LARGE } from "./transfer.js";
import { sendInPieces, showKept } from "./resume.js";

const form = document.getElementById("drop");
const OPTIONS = ["run", "step", "split", "format", "group_by", "tokenizer"];

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

async function send(files) {
  const several = files.length > 1;
  const parts = card(named(files), total(files));
  const started = performance.now();
  const progress = (sent, all) => {
    parts.bar.value = all ? sent / all : 0;
    const rate = (1000 * sent) / (performance.now() - started + 1);
    parts.what.textContent = sent < all ? `Sending, ${bytes(rate)}/s, ${duration((all - sent) / rate)} left` : "Stored, waiting for a worker …";
  };
  const stop = button("stop");
  stop.addEventListener("click", () => progress.stop?.());
  parts.actions.append(stop);
  say(parts, `Sending ${parts.title}`);
  try {
    const body = several ? new FormData() : files[0].file;
    if (several) for (const { file, path } of files) body.append("file", file, path);
    const address = `${form.dataset.upload}?${query(several ? "" : files[0].path)}`;
    const answer = await post(address, body, several ? null : "application/octet-stream", progress);
    if (!answer.body?.id) return fail(parts, answer.body?.detail ?? `The server answered ${answer.status}.`);
    await watch(parts, answer.body);
  } catch (error) {
    fail(parts, error.message);
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

const total = (files) => files.reduce((sum, { file }) => sum + file.size, 0);

function take(files) {
  if (!files.length) return;
  if (total(files) < LARGE) busy(() => send(files));
  else sendInPieces(files, String(query("")));
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
showKept();
