// SHA-256 as hex digits: the browser's own where it may be used (https and localhost), else this one.
const START = [];
let K = [];

// The first bits of the fractions of the first primes' roots.
function constants() {
  const part = (x) => ((x - Math.floor(x)) * 4294967296) | 0;
  for (let n = 2; K.length < 64; n += 1) {
    let prime = true;
    for (let d = 2; d * d <= n; d += 1) if (n % d === 0) prime = false;
    if (!prime) continue;
    if (START.length < 8) START.push(part(Math.sqrt(n)));
    K.push(part(Math.cbrt(n)));
  }
  K = Int32Array.from(K);
}

// The bytes, a one bit, zeros, and the number of bits, in whole blocks of 64 bytes.
function padded(data) {
  const blocks = new Uint8Array(((data.length + 72) >> 6) << 6);
  blocks.set(data);
  blocks[data.length] = 128;
  const view = new DataView(blocks.buffer);
  view.setUint32(blocks.length - 8, Math.floor(data.length / 536870912));
  view.setUint32(blocks.length - 4, data.length << 3);
  return view;
}

function schedule(view, start, w) {
  for (let i = 0; i < 16; i += 1) w[i] = view.getInt32(start + 4 * i);
  for (let i = 16; i < 64; i += 1) {
    const a = w[i - 15];
    const b = w[i - 2];
    const s0 = ((a >>> 7) | (a << 25)) ^ ((a >>> 18) | (a << 14)) ^ (a >>> 3);
    const s1 = ((b >>> 17) | (b << 15)) ^ ((b >>> 19) | (b << 13)) ^ (b >>> 10);
    w[i] = (w[i - 16] + s0 + w[i - 7] + s1) | 0;
  }
}

function compress(state, w) {
  let [a, b, c, d, e, f, g, h] = state;
  for (let i = 0; i < 64; i += 1) {
    const s1 = ((e >>> 6) | (e << 26)) ^ ((e >>> 11) | (e << 21)) ^ ((e >>> 25) | (e << 7));
    const t1 = (h + s1 + ((e & f) ^ (~e & g)) + K[i] + w[i]) | 0;
    const s0 = ((a >>> 2) | (a << 30)) ^ ((a >>> 13) | (a << 19)) ^ ((a >>> 22) | (a << 10));
    const t2 = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    h = g;
    g = f;
    f = e;
    e = (d + t1) | 0;
    d = c;
    c = b;
    b = a;
    a = (t1 + t2) | 0;
  }
  [a, b, c, d, e, f, g, h].forEach((value, i) => (state[i] = (state[i] + value) | 0));
}

// Of a Uint8Array.
export function sha256(data) {
  if (!K.length) constants();
  const view = padded(data);
  const state = Int32Array.from(START);
  const w = new Int32Array(64);
  for (let start = 0; start < view.byteLength; start += 64) {
    schedule(view, start, w);
    compress(state, w);
  }
  return [...state].map((value) => (value >>> 0).toString(16).padStart(8, "0")).join("");
}

export async function digest(blob) {
  const data = await blob.arrayBuffer();
  if (!globalThis.crypto?.subtle) return sha256(new Uint8Array(data));
  const found = new Uint8Array(await crypto.subtle.digest("SHA-256", data));
  return [...found].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
