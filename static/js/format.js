// Numbers as the server writes them.
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

export function bytes(value) {
  let unit = 0;
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${UNITS[unit]}`;
}

export function count(value) {
  return String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

export function duration(seconds) {
  if (seconds < 60) return `${Math.max(1, Math.round(seconds))} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.round(seconds % 60)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

// Three significant digits, a real minus sign, 0 for what is only rounding.
export function number(value, digits = 3) {
  if (value === null || value === undefined) return "–";
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "\u2212∞";
  if (Math.abs(value) < 1e-12) return "0";
  const size = Math.abs(value);
  let text;
  if (size < 1e-4 || size >= 1e6) text = value.toExponential(digits - 1).replace(/\.?0+e/, "e").replace("e+", "e");
  else if (size >= 100) text = String(Math.round(value));
  else text = String(Number(value.toPrecision(digits)));
  return text.replace(/-/g, "\u2212");
}

export function signed(value, digits = 3) {
  const text = number(value, digits);
  return value > 0 && text !== "0" ? `+${text}` : text;
}
