// Another colour for the tokens of a response without another page: only their classes come, one byte for each, and
// what stands above them; see app/pages/colours.py. Whatever fails ends at the page itself.
import { fetchFramed } from "./framed.js";

const FLAGS = ["m", "o", "sp", "cl"]; // the bits of app/tokens.py
const NONE = 11;
const NAMES = Array.from({ length: 256 }, (_, key) =>
  [key >> 4 < NONE ? `b${key >> 4}` : "bx", ...FLAGS.filter((_, bit) => key & (1 << bit))].join(" "));

const MARGIN = 600; // CSS pixels above and below what can be seen
const SLICE = 12; // milliseconds
const above = document.querySelector(".token-top");
const box = document.querySelector(".tokens");
const later = window.requestIdleCallback ?? ((work) => setTimeout(() => work({ timeRemaining: () => SLICE }), 0));
let latest = 0;
let coat = null; // the colour that is being put on

// One colour for all tokens. A hundred thousand elements take a third of a second: those to be seen come first, the
// others while nothing else is to be done, or as soon as they are scrolled to.
class Coat {
  constructor(keys) {
    this.keys = keys;
    this.begins = new Map(); // chunk without its colour -> the place of its first key
    let begin = 0;
    for (const chunk of box.querySelectorAll(".chunk")) {
      this.begins.set(chunk, begin);
      begin += chunk.childElementCount;
    }
    if (begin !== keys.length) throw new Error("The page shows another text.");
  }

  paint(chunk) {
    let place = this.begins.get(chunk);
    this.begins.delete(chunk);
    const marked = chunk.querySelector(":scope > .at");
    for (const element of chunk.children) element.className = NAMES[this.keys[place++]];
    marked?.classList.add("at");
  }

  paintSeen() {
    if (!this.begins.size) return;
    const frame = box.getBoundingClientRect();
    const top = Math.max(frame.top, 0) - MARGIN;
    const bottom = Math.min(frame.bottom, innerHeight) + MARGIN;
    const seen = [...this.begins.keys()].filter((chunk) => {
      const place = chunk.getBoundingClientRect();
      return place.bottom > top && place.top < bottom;
    });
    for (const chunk of seen) this.paint(chunk);
  }

  paintAll() {
    for (const chunk of [...this.begins.keys()]) this.paint(chunk);
  }

  // Calls `done` once everything has its colour, unless another coat has been begun meanwhile.
  paintRest(done) {
    later((deadline) => {
      if (coat !== this) return;
      const end = performance.now() + Math.min(deadline.timeRemaining(), SLICE);
      for (const chunk of [...this.begins.keys()]) {
        this.paint(chunk);
        if (performance.now() >= end) break;
      }
      if (this.begins.size) this.paintRest(done);
      else done();
    }, { timeout: 100 });
  }
}

function replaceHead(html) {
  const focused = above.contains(document.activeElement);
  const fresh = new DOMParser().parseFromString(html, "text/html");
  above.replaceChildren(...document.importNode(fresh.body, true).childNodes);
  if (focused) above.querySelector("[aria-current]")?.focus();
}

// Neighbours are to be seen the same way.
function carry(url) {
  const color = url.searchParams.get("color");
  const below = url.pathname.replace(/[^/]*$/, "");
  for (const link of document.links) {
    if (above.contains(link) || !link.pathname.startsWith(below)) continue;
    const address = new URL(link.href);
    if (color) address.searchParams.set("color", color);
    else address.searchParams.delete("color");
    link.href = address.pathname + address.search + address.hash;
  }
}

async function recolour(url, go) {
  const turn = ++latest;
  box.setAttribute("aria-busy", "true");
  try {
    const { header, buffer, begin } = await fetchFramed(`${url.pathname}/colours${url.search}`);
    if (turn !== latest) return;
    coat = new Coat(new Uint8Array(buffer, begin));
    coat.paintSeen();
    replaceHead(header.head);
    box.setAttribute("aria-label", header.label);
    carry(url);
    go?.();
    coat.paintRest(() => box.removeAttribute("aria-busy"));
  } catch {
    if (turn === latest) location.assign(url);
  }
}

above.addEventListener("click", (event) => {
  const link = event.target.closest(".switch a");
  if (!link || !box || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  event.preventDefault();
  const url = new URL(link.href);
  const token = new URL(location.href).searchParams.get("token");
  if (token) url.searchParams.set("token", token);
  recolour(url, () => history.pushState(null, "", url));
});
if (box) {
  addEventListener("popstate", () => recolour(new URL(location.href)));
  addEventListener("beforeprint", () => coat?.paintAll());
  for (const scrolled of [box, window]) scrolled.addEventListener("scroll", () => coat?.paintSeen(), { passive: true });
}
