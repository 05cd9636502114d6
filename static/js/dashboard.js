// The pages of dashboards: make one, edit its title, note, captions and order, make and withdraw links.

const API = "/api/v1";

async function send(method, path, body, headers = {}) {
  const response = await fetch(API + path, {
    method,
    headers: { Accept: "application/json", "Content-Type": "application/json", ...headers },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const answer = response.status === 204 ? null : await response.json().catch(() => null);
  if (!response.ok) throw new Error(answer?.detail ?? `The server answered ${response.status}.`);
  return answer;
}

// Runs an action of a form or button: says what went wrong, and keeps the button from being pressed twice.
async function attempt(status, button, action) {
  button.disabled = true;
  status.textContent = "";
  try {
    await action();
  } catch (error) {
    status.textContent = error.message;
  } finally {
    button.disabled = false;
  }
}

function newDashboard(form) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    attempt(form.querySelector("[data-status]"), form.querySelector("button"), async () => {
      const made = await send("POST", "/dashboards", { title: form.elements.title.value.trim() || "Untitled" });
      location.assign(`/dashboards/${made.id}`);
    });
  });
}

// The address without its fragment is this page; after a change it is read anew with the same box open.
function reload(box) {
  sessionStorage.setItem("vantage-open-box", box);
  location.reload();
}

function sharing(id, box) {
  const status = box.querySelector("[data-status]");
  const form = box.querySelector("[data-new-share]");
  const made = box.querySelector("[data-share-made]");
  const url = box.querySelector("[data-share-url]");
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    attempt(status, form.querySelector("button"), async () => {
      const share = await send("POST", `/dashboards/${id}/shares`, {
        expires_in_hours: Number(form.elements.expires_in_hours.value),
        hide_text: form.elements.hide_text.checked,
        snapshot: form.elements.snapshot.checked,
      });
      url.value = share.url;
      made.hidden = false;
      url.focus();
      url.select();
      addLink(box, share);
    });
  });
  box.querySelector("[data-copy]").addEventListener("click", async () => {
    url.select();
    try {
      await navigator.clipboard.writeText(url.value);
      status.textContent = "Copied.";
    } catch {
      status.textContent = "Copy the selected link with the keyboard.";
    }
  });
  box.addEventListener("click", (event) => {
    const button = event.target.closest("[data-withdraw]");
    if (!button) return;
    attempt(status, button, async () => {
      await send("DELETE", `/shares/${button.dataset.withdraw}`);
      button.closest("tr").remove();
      status.textContent = "The link is withdrawn: it shows nothing any more.";
    });
  });
}

function cell(content, className = "") {
  const made = document.createElement("td");
  made.className = className;
  made.append(content);
  return made;
}

function addLink(box, share) {
  const row = document.createElement("tr");
  row.dataset.link = share.id;
  const button = Object.assign(document.createElement("button"), {
    className: "button small danger",
    type: "button",
    textContent: "Withdraw",
  });
  button.dataset.withdraw = share.id;
  const kinds = [share.hide_text && "text hidden", share.snapshot && "snapshot"].filter(Boolean);
  row.append(
    cell("just now"),
    cell(`${share.expires_at.slice(0, 16).replace("T", " ")} UTC`),
    cell("never"),
    cell("0", "r"),
    cell(kinds.join(", ") || "live"),
    cell(button),
  );
  const body = box.querySelector("[data-links] tbody");
  body.querySelector("td[colspan]")?.parentElement.remove();
  body.prepend(row);
}

function textRow() {
  const row = document.createElement("div");
  row.className = "panel-edit";
  const text = Object.assign(document.createElement("textarea"), { className: "input", placeholder: "Text", maxLength: 20000 });
  const remove = Object.assign(document.createElement("button"), { className: "button small danger", type: "button", textContent: "Remove" });
  remove.dataset.remove = "";
  row.append(text, remove);
  return row;
}

function editing(id, box) {
  const form = box.querySelector("[data-edit-form]");
  const list = form.querySelector("[data-panel-list]");
  const status = form.querySelector("[data-status]");
  const bodies = JSON.parse(form.querySelector("[data-bodies]").textContent);
  list.addEventListener("click", (event) => {
    const row = event.target.closest(".panel-edit");
    const move = event.target.closest("[data-move]")?.dataset.move;
    if (event.target.closest("[data-remove]")) row.remove();
    else if (move === "-1" && row.previousElementSibling) row.previousElementSibling.before(row);
    else if (move === "1" && row.nextElementSibling) row.nextElementSibling.after(row);
  });
  form.querySelector("[data-add-text]").addEventListener("click", () => {
    const row = textRow();
    list.append(row);
    row.querySelector("textarea").focus();
  });
  const panels = () =>
    [...list.querySelectorAll(".panel-edit")].map((row) => {
      if (row.dataset.place === undefined) return { text: row.querySelector("textarea").value };
      const { id: _id, ...body } = bodies[Number(row.dataset.place)];
      return { ...body, caption: row.querySelector("input").value };
    });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    attempt(status, event.submitter, async () => {
      await send("PATCH", `/dashboards/${id}`, {
        title: form.elements.title.value.trim() || "Untitled",
        note: form.elements.note.value,
        panels: panels(),
      });
      reload("edit");
    });
  });
  form.querySelector("[data-delete]").addEventListener("click", (event) => {
    if (!confirm("Delete this dashboard? Its links will show nothing.")) return;
    attempt(status, event.target, async () => {
      await send("DELETE", `/dashboards/${id}`);
      location.assign("/dashboards");
    });
  });
}

document.querySelectorAll("[data-new-dashboard]").forEach(newDashboard);
const bar = document.querySelector("[data-dashboard]");
if (bar) {
  const boxes = { share: bar.querySelector("[data-share]"), edit: bar.querySelector("[data-edit]") };
  sharing(bar.dataset.dashboard, boxes.share);
  editing(bar.dataset.dashboard, boxes.edit);
  const open = sessionStorage.getItem("vantage-open-box");
  sessionStorage.removeItem("vantage-open-box");
  if (open in boxes) boxes[open].open = true;
}
