// An upload in pieces: begun, sent from where the server stands, completed. Whatever fails on the way is tried again;
// what is there is not sent again.
import { digest } from "./digest.js";
import { forget, keep } from "./kept.js";

export const LARGE = 16 << 20; // from here on, in pieces
const PIECE = 8 << 20;
const PAUSES = [0.5, 1, 2, 4, 8, 15]; // seconds between tries
const WINDOW = 5; // seconds that the rate is of

export class Refused extends Error {} // the server, or the file, says no: trying again changes nothing
export class Gone extends Refused {} // what was there is not there any more
export class Stopped extends Error {}
class Passing extends Error {}

const secret = () => [...crypto.getRandomValues(new Uint8Array(32))].map((byte) => byte.toString(16).padStart(2, "0")).join("");

// What is to be sent: `files` are {path, file}, `query` the options as text.
export function planned(files, query) {
  const listed = files.map(({ path, file }) => ({ path, size: file.size }));
  return { id: null, key: secret(), once: secret(), files: listed, query, bytes: listed.reduce((sum, { size }) => sum + size, 0) };
}

function judged(status, body) {
  if (status === 404) return new Gone(body?.detail ?? "What was here of it is gone. Upload it again.");
  const said = body?.detail ?? `The server answered ${status}.`;
  return status === 408 || status === 409 || status === 429 || status >= 500 ? new Passing(said) : new Refused(said);
}

const AWAY = "No connection to the server";

async function ask(method, entry, below = "", body = undefined, headers = {}) {
  const sent = { Accept: "application/json", "Upload-Key": entry.key, ...headers };
  if (body !== undefined) sent["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(`/api/v1/transfers${below}`, { method, headers: sent, body: body === undefined ? undefined : JSON.stringify(body) });
  } catch {
    throw new Passing(AWAY);
  }
  const told = method === "HEAD" || answer.status === 204 ? null : await answer.json().catch(() => null);
  return { status: answer.status, ok: answer.ok, headers: answer.headers, body: told };
}

async function begin(entry) {
  const files = entry.files.map(({ path, size }) => ({ filename: path, bytes: size }));
  const answer = await ask("POST", entry, entry.query ? `?${entry.query}` : "", { files }, { "Idempotency-Key": entry.once });
  if (!answer.ok) throw judged(answer.status, answer.body);
  Object.assign(entry, { id: answer.body.id, expires: answer.body.expires });
  keep(entry);
}

// How it stands with a kept upload, or null where nothing is there any more. Throws where that cannot be known now.
export async function standing(entry) {
  const answer = await ask("GET", entry, `/${entry.id}`);
  if (answer.status === 404) return null;
  if (!answer.ok) throw judged(answer.status, answer.body);
  return answer.body;
}

// Whether the file is the one that was begun: every block that is there has the digest of its own.
export async function same(entry, blob, tell) {
  for (let start = 0; start !== null; ) {
    const answer = await ask("GET", entry, `/${entry.id}/digests?start=${start}`);
    if (!answer.ok) throw judged(answer.status, answer.body);
    const { step, sha256, offset, next } = answer.body;
    for (const [i, expected] of sha256.entries()) {
      const from = start + i * step;
      const to = Math.min(from + step, offset);
      if ((await digest(blob.slice(from, to))) !== expected) return false;
      tell({ state: "comparing", done: to, total: offset });
    }
    start = next;
  }
  return true;
}

export async function giveUp(entry) {
  forget(entry.id);
  for (const pause of PAUSES) {
    const answer = await ask("DELETE", entry, `/${entry.id}`).catch(() => null);
    if (answer && answer.status !== 409) return;
    await new Promise((resolve) => setTimeout(resolve, 1000 * pause)); // the piece that was broken off has to end first
  }
}

// Sends `blob` and completes. `tell` hears {state, offset, rate, reason, seconds}; the answer is {result, pause, go, stop}.
export function sending(entry, blob, tell) {
  const control = { paused: false, stopped: false, request: null, wake: null };
  const seen = []; // [seconds, offset] of the last moments

  function rate(offset) {
    const now = performance.now() / 1000;
    seen.push([now, offset]);
    while (seen.length > 2 && now - seen[0][0] > WINDOW) seen.shift();
    const [[first, from]] = seen;
    return now > first ? Math.max(0, offset - from) / (now - first) : 0;
  }

  const sleep = (seconds) =>
    new Promise((resolve) => {
      const timer = seconds === null ? null : setTimeout(resolve, 1000 * seconds);
      control.wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });

  async function going() {
    while (control.paused && !control.stopped) await sleep(null);
    if (control.stopped) throw new Stopped("Stopped.");
  }

  async function readable(offset) {
    try {
      await blob.slice(offset, offset + 1).arrayBuffer();
    } catch {
      throw new Refused("The file cannot be read any more: it was changed or moved. Choose it again.");
    }
  }

  function piece(offset) {
    return new Promise((resolve, reject) => {
      const request = new XMLHttpRequest();
      control.request = request;
      request.open("PATCH", `/api/v1/transfers/${entry.id}`);
      for (const [name, value] of Object.entries({ "Upload-Key": entry.key, "Upload-Offset": String(offset), "Content-Type": "application/octet-stream" })) {
        request.setRequestHeader(name, value);
      }
      request.responseType = "json";
      request.upload.addEventListener("progress", ({ loaded }) => tell({ state: "sending", offset: offset + loaded, rate: rate(offset + loaded) }));
      request.addEventListener("load", () => {
        if (request.status === 204) resolve(Number(request.getResponseHeader("Upload-Offset")));
        else reject(judged(request.status, request.response));
      });
      request.addEventListener("error", () => reject(new Passing(AWAY)));
      request.addEventListener("abort", () => reject(new Passing("")));
      request.send(blob.slice(offset, offset + PIECE));
    });
  }

  async function attempt(gained) {
    if (entry.id === null) await begin(entry);
    const head = await ask("HEAD", entry, `/${entry.id}`);
    if (!head.ok) throw judged(head.status, null);
    let offset = Number(head.headers.get("Upload-Offset"));
    seen.length = 0;
    while (offset < entry.bytes) {
      tell({ state: "sending", offset, rate: rate(offset) });
      await readable(offset);
      await going();
      offset = await piece(offset);
      gained();
    }
    tell({ state: "completing", offset });
    const answer = await ask("POST", entry, `/${entry.id}/complete`);
    if (!answer.body?.id) throw judged(answer.status, answer.body);
    forget(entry.id);
    return answer.body;
  }

  async function run() {
    for (let tries = 0; ; ) {
      await going();
      try {
        return await attempt(() => (tries = 0));
      } catch (error) {
        if (!(error instanceof Passing)) throw error;
        if (control.paused || control.stopped) continue;
        const seconds = PAUSES[Math.min(tries, PAUSES.length - 1)];
        tries += 1;
        tell({ state: "waiting", reason: error.message, seconds });
        await sleep(seconds);
      }
    }
  }

  const online = () => control.wake?.();
  addEventListener("online", online);
  const result = run().finally(() => removeEventListener("online", online));
  const set = (changes) => {
    Object.assign(control, changes);
    control.request?.abort();
    control.wake?.();
  };
  return {
    result,
    pause: () => set({ paused: true }),
    go: () => {
      control.paused = false;
      control.wake?.();
    },
    stop: () => set({ stopped: true }),
  };
}
