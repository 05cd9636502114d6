// Runs before the first paint, so that a chosen theme never flashes. No choice: the system's.
(() => {
  const root = document.documentElement;
  root.classList.add("js");
  const KEY = "vantage-theme";
  const stored = () => {
    try {
      return localStorage.getItem(KEY);
    } catch {
      return null;
    }
  };
  const apply = (theme) => {
    if (theme === "light" || theme === "dark") root.dataset.theme = theme;
    else delete root.dataset.theme;
  };
  apply(stored());

  const NEXT = { system: "light", light: "dark", dark: "system" };
  const name = () => root.dataset.theme ?? "system";
  const label = () => document.querySelectorAll("[data-theme-name]").forEach((e) => (e.textContent = name()));
  const changed = () => document.dispatchEvent(new CustomEvent("themechange"));

  document.addEventListener("DOMContentLoaded", () => {
    label();
    document.querySelectorAll("[data-theme-switch]").forEach((button) =>
      button.addEventListener("click", () => {
        const theme = NEXT[name()];
        apply(theme);
        try {
          if (theme === "system") localStorage.removeItem(KEY);
          else localStorage.setItem(KEY, theme);
        } catch {
          // Without storage the choice lasts as long as the page.
        }
        label();
        changed();
      }),
    );
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
  // Paper is white.
  let onScreen;
  addEventListener("beforeprint", () => {
    onScreen = root.dataset.theme;
    apply("light");
    changed();
  });
  addEventListener("afterprint", () => {
    apply(onScreen);
    changed();
  });
  addEventListener("storage", (event) => {
    if (event.key !== KEY) return;
    apply(event.newValue);
    label();
    changed();
  });
})();
