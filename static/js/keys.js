// Keys are attributes: an element with data-key="j" is clicked (or focused, for a field) when j is pressed, and
// data-key-label says so in the list that ? opens. One-letter keys only, and never while somebody types.
const typing = (target) =>
  target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));

const keyed = () => [...document.querySelectorAll("[data-key]")].filter((element) => element.checkVisibility?.() ?? true);

function press(element) {
  if (/^(INPUT|TEXTAREA|SELECT)$/.test(element.tagName)) {
    element.focus();
    element.select?.();
  } else element.click();
}

export function toast(text) {
  document.querySelector(".toast")?.remove();
  const element = document.createElement("p");
  element.className = "toast";
  element.setAttribute("role", "status");
  element.textContent = text;
  document.body.append(element);
  setTimeout(() => element.remove(), 2200);
}

async function copyLink() {
  try {
    await navigator.clipboard.writeText(location.href);
    toast("Link copied");
  } catch {
    toast("This browser did not allow copying; the link is in the address bar");
  }
}

const EVERYWHERE = [
  ["y", "copy the link to this view", copyLink],
  ["t", "change the theme", () => document.querySelector("[data-theme-switch]")?.click()],
];

function help() {
  const open = document.querySelector("dialog[open]");
  if (open) return open.close();
  const dialog = document.createElement("dialog");
  const box = document.createElement("div");
  box.className = "dialog";
  const head = document.createElement("div");
  head.className = "dialog-head";
  const title = document.createElement("h2");
  title.textContent = "Keys on this page";
  title.id = "keys-title";
  dialog.setAttribute("aria-labelledby", title.id);
  const close = document.createElement("button");
  close.className = "button small";
  close.type = "button";
  close.textContent = "Close";
  close.addEventListener("click", () => dialog.close());
  head.append(title, close);
  const list = document.createElement("dl");
  list.className = "key-list";
  const seen = new Set();
  const add = (key, label) => {
    if (seen.has(key) || !label) return;
    seen.add(key);
    const dt = document.createElement("dt");
    const kbd = document.createElement("kbd");
    kbd.textContent = key;
    dt.append(kbd);
    const dd = document.createElement("dd");
    dd.textContent = label;
    list.append(dt, dd);
  };
  keyed().forEach((element) => add(element.dataset.key, element.dataset.keyLabel));
  document.querySelectorAll("[data-keys]").forEach((element) => {
    for (const entry of element.dataset.keys.split(";")) add(...entry.split(":").map((part) => part.trim()));
  });
  EVERYWHERE.forEach(([key, label]) => add(key, label));
  box.append(head, list);
  dialog.append(box);
  dialog.addEventListener("close", () => dialog.remove());
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  document.body.append(dialog);
  dialog.showModal();
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || event.defaultPrevented) return;
  if (typing(event.target)) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (document.querySelector("dialog[open]") && event.key !== "?") return;
  const element = keyed().find((candidate) => candidate.dataset.key === event.key);
  const common = EVERYWHERE.find(([key]) => key === event.key);
  if (!element && !common) return;
  event.preventDefault();
  if (element?.hasAttribute("data-keys-help")) help();
  else if (element) press(element);
  else common[2]();
});
document.querySelectorAll("[data-keys-help]").forEach((button) => button.addEventListener("click", help));
