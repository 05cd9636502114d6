// Keeps an open page up to date. An element with data-live="…/events" and data-version is told by server-sent events
// when there is another version; then the page is fetched anew and every part of it with data-part that became another
// takes its new form, without a reload: what is open, chosen or being typed stays. Charts are drawn anew from their
// addresses. The element's text says whether the page follows.
const RETRY = 5000; // milliseconds, where the browser does not try again by itself

const mark = document.querySelector("[data-live]");
let version = mark.dataset.version;
let running = null;

function say(text, state) {
  mark.textContent = text;
  mark.dataset.state = state;
}

function openDetails() {
  return [...document.querySelectorAll("[data-part] [id]")]
    .filter((element) => element.querySelector("details[open]"))
    .map((element) => element.id);
}

async function refresh() {
  const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
  if (!answer.ok) throw new Error(`The server answered ${answer.status}.`);
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  const open = openDetails();
  for (const part of document.querySelectorAll("[data-part]")) {
    const other = fresh.querySelector(`[data-part="${part.dataset.part}"]`);
    if (!other || part.contains(document.activeElement?.closest("input, select, textarea"))) continue;
    if (other.innerHTML !== part.innerHTML) part.replaceChildren(...document.importNode(other, true).childNodes);
  }
  for (const id of open) document.getElementById(id)?.querySelectorAll("details").forEach((e) => (e.open = true));
  version = fresh.querySelector("[data-live]")?.dataset.version ?? version;
  document.dispatchEvent(new CustomEvent("pagechange"));
}

// One refresh at a time; what changes meanwhile is seen by the next.
async function changed(next) {
  if (next === version || running) return;
  running = refresh();
  try {
    await running;
    say("live", "live");
  } catch {
    say("changed, but not to be had now; reload the page", "away");
  } finally {
    running = null;
  }
  if (wanted !== version && wanted !== next) changed(wanted);
}

let wanted = version;
let source = null;
function listen() {
  source?.close();
  source = new EventSource(mark.dataset.live);
  source.addEventListener("open", () => say("live", "live"));
  source.addEventListener("changed", (event) => {
    wanted = JSON.parse(event.data).version;
    changed(wanted);
  });
  source.addEventListener("gone", () => {
    source.close();
    say("deleted", "away");
  });
  source.addEventListener("error", () => {
    say("not connected; trying again", "away");
    if (source.readyState === EventSource.CLOSED) setTimeout(() => document.hidden || listen(), RETRY);
  });
}

// A browser keeps few connections to a server: a page that nobody sees gives its own back, and learns by the version
// what it missed.
document.addEventListener("visibilitychange", () => (document.hidden ? source?.close() : listen()));
addEventListener("pagehide", () => source?.close());
addEventListener("pageshow", (event) => event.persisted && listen());
if (!document.hidden) listen();
