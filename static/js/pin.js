// Pins what a `<button data-pin='{"figure": …, "batch": …}'>` names to a dashboard, an old one or a new one.

const API = "/api/v1/dashboards";
const TRIES = 4;

async function ask(url, options = {}) {
  const response = await fetch(url, {
    ...options,
    headers: { Accept: "application/json", "Content-Type": "application/json", ...options.headers },
  });
  const body = response.status === 204 ? null : await response.json().catch(() => null);
  if (!response.ok) {
    const error = new Error(body?.detail ?? `The server answered ${response.status}.`);
    error.status = response.status;
    throw error;
  }
  return { body, etag: response.headers.get("ETag") };
}

// Adds the panel at the end. Somebody else may change the dashboard meanwhile: then read it again.
async function append(id, panel) {
  for (let left = TRIES; ; left -= 1) {
    const { body, etag } = await ask(`${API}/${id}`);
    const panels = [...body.panels.map(({ id: _id, ...rest }) => rest), panel];
    try {
      await ask(`${API}/${id}`, {
        method: "PATCH",
        headers: etag ? { "If-Match": etag } : {},
        body: JSON.stringify({ panels }),
      });
      return body;
    } catch (error) {
      if (error.status !== 412 || left <= 1) throw error;
    }
  }
}

function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

const field = (text, control) => element("label", { className: "field" }, element("span", { className: "label", textContent: text }), control);

function build() {
  const choice = element("select", { name: "dashboard", className: "select" });
  const title = element("input", { name: "title", className: "input", type: "text", maxLength: 200, placeholder: "Title" });
  const titleRow = field("New dashboard", title);
  const caption = element("input", { name: "caption", className: "input", type: "text", maxLength: 2000 });
  const status = element("p", { className: "small" });
  status.setAttribute("role", "status");
  const save = element("button", { type: "submit", className: "button primary", textContent: "Pin" });
  const close = element("button", { type: "button", className: "button", textContent: "Close" });
  const form = element(
    "form",
    { method: "dialog", className: "dialog pin-form" },
    element("h2", { textContent: "Pin to a dashboard" }),
    field("Dashboard", choice),
    titleRow,
    field("Caption", caption),
    status,
    element("div", { className: "bar" }, save, close),
  );
  const dialog = element("dialog", { className: "pin-dialog" }, form);
  close.addEventListener("click", () => dialog.close());
  choice.addEventListener("change", () => {
    titleRow.hidden = choice.value !== "";
    if (choice.value === "") title.focus();
  });
  document.body.append(dialog);
  return { dialog, form, choice, title, titleRow, caption, status, save };
}

let parts = null;
let pinned = null;

function say(...content) {
  parts.status.replaceChildren(...content);
}

async function open(panel) {
  parts ??= connect(build());
  pinned = panel;
  parts.caption.value = panel.caption ?? "";
  parts.save.disabled = false;
  say("");
  const fresh = element("option", { value: "", textContent: "a new one" });
  parts.choice.replaceChildren(fresh);
  parts.titleRow.hidden = false;
  parts.dialog.showModal();
  try {
    const { body } = await ask(`${API}?limit=100`);
    for (const item of body.items) {
      parts.choice.append(element("option", { value: item.id, textContent: item.title }));
    }
    if (body.items.length) {
      parts.choice.value = body.items[0].id;
      parts.titleRow.hidden = true;
    }
  } catch (error) {
    say(error.message);
  }
}

async function pin() {
  const panel = { ...pinned, caption: parts.caption.value };
  const id = parts.choice.value;
  if (id) {
    const { title } = await append(id, panel);
    return { id, title };
  }
  const title = parts.title.value.trim() || "Untitled";
  const { body } = await ask(API, { method: "POST", body: JSON.stringify({ title, panels: [panel] }) });
  return { id: body.id, title };
}

function connect(made) {
  made.form.addEventListener("submit", async (event) => {
    event.preventDefault();
    made.save.disabled = true;
    say("Pinning …");
    try {
      const { id, title } = await pin();
      say("Pinned to ", element("a", { href: `/dashboards/${id}`, textContent: title }), ".");
    } catch (error) {
      made.save.disabled = false;
      say(error.message);
    }
  });
  return made;
}

document.addEventListener("click", (event) => {
  const button = event.target.closest?.("[data-pin]");
  if (button) open(JSON.parse(button.dataset.pin));
});
