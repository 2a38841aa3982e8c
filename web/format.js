// Times, spans and numbers for people. Ages go by the server's clock: that of the machine with the
// browser may differ.

let offset = 0;

/** Called with a time that the server has just sent.
 * @param {string} text */
export function setServerTime(text) {
  const at = Date.parse(text);
  if (!Number.isNaN(at)) offset = at - Date.now();
}

export function now() {
  return Date.now() + offset;
}

/** @type {[string, number][]} */
const UNITS = [
  ["d", 86400000],
  ["h", 3600000],
  ["m", 60000],
  ["s", 1000],
];

/** 1530 → "1.5s", 90000 → "1m 30s": the two largest units.
 * @param {number | null | undefined} ms */
export function span(ms) {
  if (ms === null || ms === undefined || Number.isNaN(ms)) return "–";
  const size = Math.abs(ms);
  if (Math.round(size) < 1000) return `${Math.round(size)}ms`;
  if (size < 10000) return `${Number((size / 1000).toFixed(1))}s`;
  let rest = Math.round(size / 1000) * 1000;
  const parts = [];
  for (const [name, unit] of UNITS) {
    if (parts.length === 2) break;
    const n = Math.floor(rest / unit);
    rest -= n * unit;
    if (n > 0) parts.push(`${n}${name}`);
    else if (parts.length > 0) break;
  }
  return parts.join(" ");
}

/** How long ago, in one unit, for tables: "4m".
 * @param {number} ms */
export function age(ms) {
  const size = Math.abs(ms);
  for (const [name, unit] of UNITS) if (size >= unit) return `${Math.floor(size / unit)}${name}`;
  return "0s";
}

/** "in 4m" or "4m ago".
 * @param {string | null | undefined} text */
export function relative(text) {
  if (!text) return "–";
  const ms = Date.parse(text) - now();
  if (Number.isNaN(ms)) return text;
  if (Math.abs(ms) < 1000) return "now";
  return ms > 0 ? `in ${span(ms)}` : `${age(ms)} ago`;
}

const STAMP = new Intl.DateTimeFormat(undefined, {
  year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit",
  hourCycle: "h23",
});

/** The local time, whole. A text that is no time stays as it is: the browser would fail, and with it the page.
 * @param {string | null | undefined} text */
export function stamp(text) {
  if (!text) return "–";
  return Number.isNaN(Date.parse(text)) ? text : STAMP.format(new Date(text));
}

const CLOCK = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });

/** @param {number} ms */
export function clock(ms) {
  return Number.isNaN(ms) ? "–" : CLOCK.format(new Date(ms));
}

const COUNT = new Intl.NumberFormat("en");
const COMPACT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

/** 1234567 → "1,234,567".
 * @param {number | null | undefined} n */
export function count(n) {
  return COUNT.format(n ?? 0);
}

/** 1234567 → "1.2M", where there is little space.
 * @param {number} n */
export function compact(n) {
  return Math.abs(n) < 10000 ? count(n) : COMPACT.format(n);
}

/** What is not 0 does not look like 0.
 * @param {number} n */
const atLeastTenth = (n) => (n > 0 && n < 0.05 ? "< 0.1" : String(Number(n.toFixed(1))));

/** @param {number | null | undefined} perSecond */
export function rate(perSecond) {
  if (!perSecond) return "0/s";
  if (perSecond < 0.1) return `${atLeastTenth(perSecond * 60)}/min`;
  const tenths = perSecond.toFixed(1);
  return Number(tenths) < 10 ? `${tenths}/s` : `${compact(Math.round(perSecond))}/s`;
}

/** @param {number | null | undefined} share */
export function percent(share) {
  if (share === null || share === undefined) return "–";
  if (share > 0.99 && share < 1) return `${Math.min(Number((share * 100).toFixed(2)), 99.99)} %`; // not all of it
  return `${atLeastTenth(share * 100)} %`;
}

/** @param {number} n */
export function bytes(n) {
  if (n < 1024) return plural(n, "byte");
  const kib = (n / 1024).toFixed(1);
  return Number(kib) < 1024 ? `${kib} KiB` : `${(n / 1048576).toFixed(1)} MiB`;
}

/** @param {number} n @param {string} one */
export function plural(n, one, many = `${one}s`) {
  return `${count(n)} ${n === 1 ? one : many}`;
}
