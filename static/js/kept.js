// Uploads in pieces that this browser has begun, kept over reloads and restarts until they are done.
const NAME = "vantage-transfers";

export function all() {
  try {
    const kept = JSON.parse(localStorage.getItem(NAME) ?? "[]");
    return Array.isArray(kept) ? kept.filter((entry) => entry?.id && entry.key && Array.isArray(entry.files)) : [];
  } catch {
    return []; // no storage, or another's text in it
  }
}

function put(entries) {
  try {
    localStorage.setItem(NAME, JSON.stringify(entries));
    return true;
  } catch {
    return false;
  }
}

// False where the browser keeps nothing: the upload then does not survive a reload.
export const keep = (entry) => put([...all().filter(({ id }) => id !== entry.id), entry]);

export const forget = (id) => put(all().filter((entry) => entry.id !== id));

// Of this upload, over all tabs of the browser: what lets go of it, or null where another tab is sending it.
export function hold(id) {
  if (!navigator.locks) return Promise.resolve(() => {}); // plain http to another machine: the server keeps order
  return new Promise((resolve) => {
    navigator.locks.request(`${NAME}-${id}`, { ifAvailable: true }, (lock) => {
      if (lock === null) return resolve(null);
      return new Promise((release) => resolve(release));
    });
  });
}

// Resolves when no other tab is sending it any more.
export const freed = (id) => navigator.locks.request(`${NAME}-${id}`, () => {});

// Why these files are not the ones that were begun, or "". The order in which they were chosen does not count.
export function difference(entry, files) {
  const were = (number) => (number === 1 ? "1 file was" : `${number} files were`);
  if (files.length !== entry.files.length) return `${were(entry.files.length)} begun, and ${were(files.length)} chosen.`;
  if (files.length === 1) {
    const name = ({ path }) => path.split("/").pop();
    const [begun, chosen] = [entry.files[0], files[0]];
    if (name(begun) !== name(chosen)) return `${name(begun)} was begun, and this is ${name(chosen)}.`;
    return begun.size === chosen.file.size ? "" : `${name(begun)} had ${begun.size} bytes when it was begun, and this one has ${chosen.file.size}.`;
  }
  const sizes = new Map(files.map(({ path, file }) => [path, file.size]));
  const other = entry.files.find(({ path, size }) => sizes.get(path) !== size);
  if (!other) return "";
  return sizes.has(other.path) ? `${other.path} had ${other.size} bytes when it was begun.` : `${other.path} was begun, and is not among these.`;
}

// The files' bytes as one, in the order in which they were begun.
export function joined(entry, files) {
  if (files.length === 1) return files[0].file;
  const byPath = new Map(files.map(({ path, file }) => [path, file]));
  return new Blob(entry.files.map(({ path }) => byPath.get(path)));
}
