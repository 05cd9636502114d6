// Another colour for the tokens of a response without another page: only their classes come, one byte for each, and
// what stands above them; see app/pages/colours.py. Whatever fails ends at the page itself.
import { fetchFramed } from "./framed.js";

const FLAGS = ["m", "o", "sp", "cl"]; // the bits of app/tokens.py
const NONE = 11;
const NAMES = Array.from({ length: 256 }, (_, key) =>
  [key >> 4 < NONE ? `b${key >> 4}` : "bx", ...FLAGS.filter((_, bit) => key & (1 << bit))].join(" "));

const above = document.querySelector(".token-top");
const box = document.querySelector(".tokens");
let latest = 0;

function paint(keys) {
  const elements = box.querySelectorAll(".chunk > span");
  if (elements.length !== keys.length) throw new Error("The page shows another text.");
  const marked = box.querySelector(".chunk > .at");
  elements.forEach((element, i) => (element.className = NAMES[keys[i]]));
  marked?.classList.add("at");
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
    paint(new Uint8Array(buffer, begin));
    replaceHead(header.head);
    box.setAttribute("aria-label", header.label);
    carry(url);
    go?.();
    box.removeAttribute("aria-busy");
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
if (box) addEventListener("popstate", () => recolour(new URL(location.href)));
