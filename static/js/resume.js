// Cards of uploads in pieces: begun here, or by an earlier page of this browser and to be gone on with.
import { bytes, duration } from "./format.js";
import { busy, button, card, fail, make, named, say, watch } from "./cards.js";
import { all, difference, forget, freed, hold, joined } from "./kept.js";
import { Gone, Stopped, giveUp, planned, same, sending, standing } from "./transfer.js";

const waiting = new Map(); // id -> {entry, parts} of the cards that wait for their files

function show(parts, entry, offset) {
  parts.bar.value = entry.bytes ? offset / entry.bytes : 1;
  parts.bar.setAttribute("aria-valuetext", `${bytes(offset)} of ${bytes(entry.bytes)}`);
}

const far = (entry, offset) => `${bytes(offset)} of ${bytes(entry.bytes)}`;

// What the card says of each thing that `sending` tells; the second text is for who does not see it.
const SENTENCES = {
  sending: (entry, { offset, rate }) => [
    `${far(entry, offset)}${rate > 0 ? `, ${bytes(rate)}/s, ${duration((entry.bytes - offset) / rate)} left` : ""}`,
    `Sending ${named(entry.files)}`,
  ],
  paused: (entry, { offset }) => [`Paused at ${far(entry, offset)}`, `Paused at ${far(entry, offset)}`],
  waiting: (_, { reason, seconds }) => {
    const why = reason.replace(/\.$/, "");
    return [`${why}. Trying again in ${duration(seconds)}; what was sent is kept.`, `${why}. Trying again; what was sent is kept.`];
  },
  completing: () => ["All sent, being checked …", "All sent"],
  comparing: (_, { done, total }) => [`Comparing with what is here: ${bytes(done)} of ${bytes(total)}`, "Comparing the file with what is here"],
};

function tellOn(parts, entry) {
  let offset = 0;
  return (told) => {
    offset = told.offset ?? offset;
    if (told.state !== "comparing") show(parts, entry, offset);
    const [text, said] = SENTENCES[told.state](entry, { ...told, offset });
    parts.what.className = told.state === "waiting" ? "what away" : "what";
    parts.what.textContent = text;
    say(parts, said);
  };
}

// Sends until it is read, paused and stopped by the card's buttons.
async function send(parts, entry, blob) {
  const tell = tellOn(parts, entry);
  const [pause, stop] = [button("pause"), button("stop")];
  let paused = false;
  const running = sending(entry, blob, (told) => {
    parts.item.dataset.state = told.state;
    if (!paused) tell(told);
  });
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.textContent = paused ? "continue" : "pause";
    if (paused) tell({ state: "paused" });
    parts.item.dataset.state = paused ? "paused" : "sending";
    if (paused) running.pause();
    else running.go();
  });
  stop.addEventListener("click", () => running.stop());
  parts.actions.replaceChildren(pause, stop);
  try {
    const receipt = await running.result;
    parts.item.dataset.state = "sent";
    await watch(parts, receipt);
  } catch (error) {
    if (error instanceof Gone) forget(entry.id);
    if (error instanceof Stopped && entry.id) giveUp(entry);
    fail(parts, error instanceof Stopped ? "Stopped; nothing of it is kept." : error.message);
  }
}

// A large upload: goes on where an earlier one of the same files stands, else begins.
export function sendInPieces(files, query) {
  const known = [...waiting.values()].find(({ entry }) => !difference(entry, files) && ["", entry.query].includes(query));
  if (known) return goOn(known.entry, known.parts, files, () => sendNew(files, query));
  return sendNew(files, query);
}

function sendNew(files, query) {
  const entry = planned(files, query);
  const parts = card(named(entry.files), entry.bytes);
  return busy(async () => {
    const release = await hold(entry.once);
    try {
      await send(parts, entry, joined(entry, files));
    } finally {
      release?.();
    }
  });
}

// With the files chosen again. `other`: what to do with files that are not those, if not to say so.
function goOn(entry, parts, files, other = null) {
  const differs = difference(entry, files);
  if (differs) return refuse(parts, `${differs} Choose what was begun, or discard it.`);
  return busy(async () => {
    const release = await hold(entry.once);
    if (release === null) return refuse(parts, "Another tab is sending it.");
    try {
      const blob = joined(entry, files);
      parts.item.querySelector(".choice")?.remove();
      if (await same(entry, blob, tellOn(parts, entry))) {
        waiting.delete(entry.id);
        await send(parts, entry, blob);
      } else {
        await wait(entry, parts);
        if (other === null) refuse(parts, "These are other bytes than those that are here already: the file was changed, or is another one. Choose what was begun, or discard it.");
        else setTimeout(other);
      }
    } catch (error) {
      refuse(parts, `${error.message}. Choose the file again to try once more.`.replace("..", "."));
      if (!parts.item.querySelector(".choice")) offer(entry, parts);
    } finally {
      release();
    }
  });
}

function refuse(parts, text) {
  parts.what.className = "failed";
  parts.what.textContent = text;
  say(parts, text);
}

// The buttons of a card that waits for its files.
function offer(entry, parts) {
  const folder = entry.files.length > 1 && entry.files[0].path.includes("/");
  const input = make("input", { type: "file", className: "drop-input", id: `again-${entry.id}`, multiple: entry.files.length > 1, webkitdirectory: folder });
  const what = folder ? "folder" : entry.files.length > 1 ? "files" : "file";
  const label = make("label", { className: "button", htmlFor: input.id, textContent: `Choose the ${what}` });
  const discard = button("discard");
  input.addEventListener("change", () => {
    const files = [...input.files].map((file) => ({ file, path: file.webkitRelativePath || file.name }));
    input.value = "";
    if (files.length) goOn(entry, parts, files);
  });
  discard.addEventListener("click", () => {
    waiting.delete(entry.id);
    parts.item.remove();
    giveUp(entry);
  });
  parts.item.append(make("span", { className: "bar choice" }, input, label, discard));
}

// Shows how much is there and waits for the files.
async function wait(entry, parts) {
  const found = await standing(entry);
  parts.item.querySelector(".choice")?.remove();
  if (found === null) {
    forget(entry.id);
    return fail(parts, "What was here of it was deleted. Upload it again.");
  }
  if (found.upload !== null) {
    forget(entry.id);
    return busy(() => watch(parts, { id: found.upload }));
  }
  const many = entry.files.length > 1;
  const until = new Date(1000 * found.expires).toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
  show(parts, entry, found.offset);
  parts.item.dataset.state = "kept";
  parts.what.className = "what";
  parts.what.textContent = `${far(entry, found.offset)} of ${named(entry.files)} are here. Choose the same ${many ? "files" : "file"} to go on; only the rest is sent. Kept until ${until}.`;
  say(parts, parts.what.textContent);
  waiting.set(entry.id, { entry, parts });
  offer(entry, parts);
}

async function showOne(entry) {
  const parts = card(named(entry.files), entry.bytes);
  const release = await hold(entry.once);
  if (release === null) {
    parts.what.textContent = "Another tab of this browser is sending it.";
    await freed(entry.once);
  }
  release?.();
  for (;;) {
    try {
      return await wait(entry, parts);
    } catch (error) {
      refuse(parts, `${error.message.replace(/\.$/, "")}. What was sent is kept.`);
      await new Promise((resolve) => setTimeout(resolve, 5000));
    }
  }
}

// What earlier pages of this browser have begun.
export function showKept() {
  for (const entry of all()) showOne(entry);
}
