// The card with all numbers of the token under the mouse or the keyboard. Numbers come per chunk, as float32, when
// they are first needed; ?token=N in the URL is the token that is marked.
import { count, number, signed } from "./format.js";
import { fetchFramed } from "./framed.js";

const SIGNED = new Set(["advantage", "TD error", "log p − ref"]);

// The header and the tracks of a stretch of tokens; see app/pages/numbers.py.
async function fetchNumbers(url, start, end) {
  const separator = url.includes("?") ? "&" : "?";
  const { header, buffer, begin } = await fetchFramed(`${url}${separator}start=${start}&end=${end}`);
  const length = header.end - header.start;
  const first = 4 * Math.ceil(begin / 4);
  return new Map(header.tracks.map((name, i) => [name, new Float32Array(buffer, first + 4 * length * i, length)]));
}

class Reader {
  constructor(box) {
    this.box = box;
    this.url = box.dataset.numbers;
    this.known = new Map(); // chunk -> promise of its numbers
    this.at = null;
    this.card = null;
  }

  // How many tokens an element stands for.
  static width(element) {
    return Number(element.dataset.n ?? 1);
  }

  first(element) {
    let token = Number(element.parentElement.dataset.start);
    for (let before = element.previousElementSibling; before; before = before.previousElementSibling) token += Reader.width(before);
    return token;
  }

  find(token) {
    const chunks = [...this.box.querySelectorAll(".chunk")];
    const chunk = chunks.findLast((one) => Number(one.dataset.start) <= token);
    if (!chunk) return null;
    let place = Number(chunk.dataset.start);
    for (const element of chunk.children) {
      place += Reader.width(element);
      if (place > token) return element;
    }
    return null;
  }

  numbersOf(chunk) {
    if (!this.known.has(chunk)) {
      const start = Number(chunk.dataset.start);
      const length = [...chunk.children].reduce((sum, element) => sum + Reader.width(element), 0);
      this.known.set(chunk, fetchNumbers(this.url, start, start + length));
    }
    return this.known.get(chunk);
  }

  async show(element, focus = false) {
    if (!element || element === this.at) return;
    this.at?.classList.remove("at");
    this.at = element;
    if (focus) {
      element.classList.add("at");
      element.scrollIntoView({ block: "nearest" });
    }
    const chunk = element.parentElement;
    const token = this.first(element);
    try {
      const tracks = await this.numbersOf(chunk);
      if (this.at === element) this.draw(element, token, tracks, Number(chunk.dataset.start));
    } catch {
      this.known.delete(chunk);
      this.hide();
    }
  }

  draw(element, token, tracks, start) {
    this.card ??= this.make();
    const width = Reader.width(element);
    const title = document.createElement("h4");
    title.textContent = element.textContent.trim() || "space";
    const list = document.createElement("dl");
    const add = (name, text, main = false) => {
      const dt = document.createElement("dt");
      const dd = document.createElement("dd");
      dt.textContent = name;
      dd.textContent = text;
      if (main) dt.className = dd.className = "main";
      list.append(dt, dd);
    };
    add("token", width > 1 ? `${count(token)}–${count(token + width - 1)}` : count(token));
    for (const [name, values] of tracks) {
      if (name === "mask") continue;
      const write = SIGNED.has(name) ? signed : number;
      const own = Array.from(values.subarray(token - start, token - start + width));
      add(name, own.map((value) => (Number.isNaN(value) ? "–" : write(value))).join(" | "), name === "advantage");
    }
    const notes = [];
    if (element.classList.contains("m")) notes.push("Masked: not trained on.");
    if (element.classList.contains("o")) notes.push("Beyond the colour scale.");
    if (width > 1) notes.push(`${width} tokens make this character${element.dataset.bytes ? `: ${element.dataset.bytes}` : ""}. Its colour is that of the strongest.`);
    const parts = [title, list];
    if (notes.length) {
      const p = document.createElement("p");
      p.textContent = notes.join(" ");
      parts.push(p);
    }
    this.card.replaceChildren(...parts);
    this.card.hidden = false;
    this.place(element);
  }

  make() {
    const card = document.createElement("div");
    card.className = "card";
    card.setAttribute("role", "status");
    document.body.append(card);
    return card;
  }

  place(element) {
    const box = element.getClientRects()[0] ?? element.getBoundingClientRect();
    const { width, height } = this.card.getBoundingClientRect();
    const below = box.bottom + 8 + height <= innerHeight;
    this.card.style.top = `${Math.max(8, below ? box.bottom + 8 : box.top - height - 8)}px`;
    this.card.style.left = `${Math.max(8, Math.min(box.left, innerWidth - width - 8))}px`;
  }

  hide() {
    this.at?.classList.remove("at");
    this.at = null;
    if (this.card) this.card.hidden = true;
  }

  // The card does not follow its token; a marked token stays marked.
  away() {
    if (this.card) this.card.hidden = true;
  }

  mark(element) {
    if (!element) return;
    this.show(element, true);
    const url = new URL(location.href);
    url.searchParams.set("token", this.first(element));
    history.replaceState(history.state, "", url);
  }

  step(by) {
    if (!this.at) return this.mark(this.box.querySelector(".chunk > span"));
    const chunk = this.at.parentElement;
    const beside = by > 0 ? this.at.nextElementSibling : this.at.previousElementSibling;
    const next = beside ?? (by > 0 ? chunk.nextElementSibling?.firstElementChild : chunk.previousElementSibling?.lastElementChild);
    this.mark(next);
  }
}

const tokenOf = (event) => event.target.closest?.(".chunk > span");
const readers = [...document.querySelectorAll(".tokens[data-numbers]")].map((box) => {
  const reader = new Reader(box);
  box.addEventListener("pointerover", (event) => {
    const element = tokenOf(event);
    if (element) reader.show(element);
  });
  box.addEventListener("pointerleave", () => reader.hide());
  box.addEventListener("click", (event) => {
    const element = tokenOf(event);
    if (!element || String(getSelection())) return;
    reader.at = null;
    reader.mark(element);
  });
  box.addEventListener("scroll", () => reader.away(), { passive: true });
  box.addEventListener("focusout", () => reader.hide());
  box.addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (by) {
      event.preventDefault();
      reader.step(by);
    } else if (event.key === "Escape") reader.hide();
  });
  return reader;
});

// A place in a lane, or a point of a track, leads to its token.
function go(token) {
  const [reader] = readers;
  const element = reader?.find(token);
  if (!element) return;
  reader.at = null;
  element.scrollIntoView({ block: "center" });
  reader.mark(element);
}

for (const lane of document.querySelectorAll(".lanes a")) {
  lane.addEventListener("click", (event) => {
    const picture = event.target.closest("svg");
    const length = Number(lane.dataset.length);
    if (!picture || !length || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const longest = Math.max(...[...document.querySelectorAll(".lanes a")].map((one) => Number(one.dataset.length)));
    const box = picture.getBoundingClientRect();
    const token = Math.floor(((event.clientX - box.left) / box.width) * longest);
    if (token >= length) return;
    event.preventDefault();
    if (lane.hasAttribute("aria-current") && readers.length === 1) return go(token);
    const url = new URL(lane.href);
    url.searchParams.set("token", token);
    location.assign(url);
  });
}
document.addEventListener("chartclick", (event) => {
  if (event.detail.chart === "token_tracks") go(Math.round(event.detail.x));
});

const asked = new URL(location.href).searchParams.get("token");
if (asked && /^\d+$/.test(asked)) go(Number(asked));
document.querySelector(".group-line[aria-current]")?.scrollIntoView({ block: "nearest" });
