// The request form shows the note and the parameters of the chosen convention only; menus close when left.
import { toast } from "./keys.js";

for (const form of document.querySelectorAll("form.request")) {
  const choice = form.elements.convention;
  const show = () => {
    const option = choice.selectedOptions[0];
    form.querySelectorAll("[data-convention]").forEach((note) => (note.hidden = note.dataset.convention !== option?.value));
    form.querySelectorAll("fieldset[data-estimator]").forEach((set) => {
      set.hidden = set.dataset.estimator !== option?.dataset.estimator;
      set.disabled = set.hidden;
    });
  };
  const first = [...choice.options].find((option) => !option.disabled);
  if (first && choice.selectedOptions[0]?.disabled !== false) first.selected = true;
  choice.addEventListener("change", show);
  show();
}

// A list of many options is narrowed by what is typed beside it; what is chosen stays in it.
for (const input of document.querySelectorAll("input[data-finds]")) {
  const list = document.getElementById(input.dataset.finds);
  const groups = [...list.children];
  const narrow = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const kept = list.value;
    const fits = (option) => words.every((word) => option.dataset.words.toLowerCase().includes(word));
    list.replaceChildren(...groups.map((group) => {
      const copy = group.cloneNode(false);
      copy.append(...[...group.children].filter(fits).map((option) => option.cloneNode(true)));
      return copy;
    }).filter((group) => group.childElementCount));
    const first = [...list.options].find((option) => option.value === kept) ?? [...list.options].find((option) => !option.disabled);
    if (first) first.selected = true;
    list.dispatchEvent(new Event("change"));
  };
  input.addEventListener("input", narrow);
  input.addEventListener("keydown", (event) => event.key === "Enter" && event.preventDefault());
}

document.addEventListener("click", (event) => {
  document.querySelectorAll("details.menu[open]").forEach((menu) => {
    if (!menu.contains(event.target)) menu.open = false;
  });
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  document.querySelectorAll("details.menu[open]").forEach((menu) => {
    menu.open = false;
    menu.querySelector("summary").focus();
  });
});
// A failed fragment must not look like an empty one.
document.addEventListener("htmx:error", () => toast("The list could not be loaded; the page stays as it is"));
