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
