// Charts as SVG. Lines keep their width when a chart is stretched; words are text beside it, so
// that they are not stretched.
import { h, svg } from "./dom.js";
import { clock, compact, span } from "./format.js";
import { label } from "./states.js";
/** @import { Retry, Series, State } from "./types" */

const WIDTH = 600;
const HEIGHT = 140;

/** A round number at or above `value`: 1, 2 or 5 times a power of ten.
 * @param {number} value @returns {number} */
function roundUp(value) {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5].map((n) => n * power).find((n) => n >= value) ?? 10 * power;
}

/** A value that is null leaves a gap; one between two gaps is a short line.
 * @param {(number | null)[]} values @param {number} max */
function linePath(values, max) {
  const step = WIDTH / Math.max(values.length - 1, 1);
  const at = (v, i) => `${(i * step).toFixed(1)} ${(HEIGHT - (v / max) * (HEIGHT - 6)).toFixed(1)}`;
  return values.map((v, i) => (v === null ? "" : values[i - 1] === null || i === 0 ? `M${at(v, i)}h1` : `L${at(v, i)}`)).join("");
}

function columns(times, series, format, moment) {
  const step = WIDTH / Math.max(times.length - 1, 1);
  return times.map((at, i) => svg("rect", { class: "column", x: (i - 0.5) * step, y: 0, width: step, height: HEIGHT },
    svg("title", null, `${moment(at)}  ${series.map((s) => `${s.name} ${format(s.values[i])}`).join("  ")}`)));
}

/** A span of time that is marked.
 * @param {number} first @param {number} last @param {[number, number]} marked */
function shade(first, last, [from, to]) {
  const x = (at) => Math.max(0, Math.min(1, (at - first) / (last - first || 1))) * WIDTH;
  return svg("rect", { class: "shade", x: x(from), y: 0, width: x(to) - x(from), height: HEIGHT });
}

/** Lines over time; the values belong to `times`, in ms. `moment` writes a time, `marked` is a span [from, to].
 * @param {number[]} times @param {Series[]} series @param {(value: number | null) => string} format
 * @param {{ moment?: (ms: number) => string, marked?: [number, number] | null, isFilled?: boolean, kind?: string }} [options] */
export function lines(times, series, format, { moment = clock, marked = null, isFilled = true, kind = "" } = {}) {
  const [first, last] = [times[0], times[times.length - 1]];
  const max = roundUp(Math.max(...series.flatMap((s) => s.values.map((value) => value ?? 0)), 0));
  return h("figure", { class: `chart ${kind}` },
    h("figcaption", null, series.map((s) => h("span", { class: `key ${s.class}` },
      s.name, " ", h("strong", null, s.note ?? format(s.values.at(-1) ?? null))))),
    h("div", { class: "plot" },
      h("span", { class: "max" }, format(max)), h("span", { class: "min" }, "0"),
      svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": `${series.map((s) => s.name).join(", ")} over time` },
        marked && shade(first, last, marked),
        [0.25, 0.5, 0.75].map((y) => svg("line", { class: "grid", x1: 0, x2: WIDTH, y1: HEIGHT * y, y2: HEIGHT * y })),
        series.map((s, i) => [
          isFilled && i === 0 && svg("path", { class: `area ${s.class}`, d: `${linePath(s.values, max)}L${WIDTH} ${HEIGHT}L0 ${HEIGHT}Z` }),
          svg("path", { class: `line ${s.class}`, d: linePath(s.values, max) })]),
        columns(times, series, format, moment))),
    h("div", { class: "axis" }, h("span", null, moment(first)), h("span", null, moment(last))));
}

/** Rows of states over time, in ms.
 * @param {{ name: string, parts: { state: string, from: number, to: number }[] }[]} rows @param {number} from @param {number} to */
export function lanes(rows, from, to) {
  const x = (at) => (Math.max(0, Math.min(1, (at - from) / (to - from || 1))) * WIDTH);
  return h("figure", { class: "lanes" },
    rows.map(({ name, parts }) => h("div", { class: "lane", "data-key": name }, h("span", { class: "name" }, name),
      svg("svg", { viewBox: `0 0 ${WIDTH} 10`, preserveAspectRatio: "none", role: "img",
        "aria-label": `${name}: ${parts.map((part) => `${label(part.state)} from ${clock(Math.max(part.from, from))}`).join(", ")}` },
      parts.map((part) => svg("rect", { class: `s-${part.state}`, x: x(part.from), width: Math.max(x(part.to) - x(part.from), 1.5), height: 10 },
        svg("title", null, `${label(part.state)} from ${clock(part.from)} for ${span(part.to - part.from)}`)))))),
    h("div", { class: "axis" }, h("span", null, clock(from)), h("span", null, clock(to))));
}

/** One bar of parts.
 * @param {{ state: State, n: number }[]} parts */
export function bar(parts) {
  const all = parts.reduce((sum, part) => sum + part.n, 0);
  let at = 0;
  return svg("svg", { class: "bar", viewBox: "0 0 100 1", preserveAspectRatio: "none", role: "img",
    "aria-label": parts.filter((p) => p.n > 0).map((p) => `${label(p.state)} ${p.n}`).join(", ") || "nothing" },
  svg("rect", { class: "ground", width: 100, height: 1 }),
  all > 0 && parts.filter((part) => part.n > 0).map((part) => {
    const width = (part.n / all) * 100;
    const rect = svg("rect", { class: `s-${part.state}`, x: at, width, height: 1 }, svg("title", null, `${label(part.state)} ${compact(part.n)}`));
    at += width;
    return rect;
  }));
}

/** How much of something is used.
 * @param {number} used @param {number} all */
export function gauge(used, all) {
  return svg("svg", { class: "bar gauge", viewBox: "0 0 100 1", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("rect", { class: "ground", width: 100, height: 1 }),
    svg("rect", { class: "used", width: all > 0 ? Math.min(100, (used / all) * 100) : 0, height: 1 }));
}

// Waits grow by powers, so that a line in proportion would show the last one alone: distances are
// square roots.
const far = (ms) => Math.sqrt(Math.max(ms, 0));

const LABEL_GAP = 46; // between the middles of two labels

/** As many of the labels as fit.
 * @param {{ x: number, text: string }[]} points */
function labels(points) {
  let last = -LABEL_GAP;
  return points.filter(({ x }) => {
    if (x - last < LABEL_GAP) return false;
    last = x;
    return true;
  }).map(({ x, text }) => svg("text", { x, y: 30 }, text));
}

/** A policy as a line of attempts. Where jitter leaves the time open, it is drawn as a span.
 * @param {Retry[]} rows */
export function schedule(rows) {
  const width = matchMedia("(max-width: 600px)").matches ? 300 : 560; // as many pixels as there are, or words shrink
  const last = rows.at(-1)?.total_max_ms ?? 0;
  const end = far(last) || 1;
  const x = (ms) => 18 + (far(ms) / end) * (width - 44);
  const middle = (row) => (row.total_min_ms + row.total_max_ms) / 2;
  return svg("svg", { class: "schedule", viewBox: `0 0 ${width} 34`, role: "img",
    "aria-label": `attempts after ${rows.map((row) => span(row.total_max_ms)).join(", ") || "0s, and no retry"}` },
  svg("line", { class: "track", x1: x(0), x2: x(last), y1: 10, y2: 10 }),
  rows.map((row) => svg("line", { class: "jitter", x1: x(row.total_min_ms), x2: x(row.total_max_ms), y1: 10, y2: 10 })),
  svg("circle", { class: "attempt", cx: x(0), cy: 10, r: 4.5 }, svg("title", null, "attempt 1, at once")),
  rows.map((row) => svg("circle", { class: "attempt", cx: x(middle(row)), cy: 10, r: 4.5 },
    svg("title", null, `attempt ${row.n + 1}: ${waits(row.min_ms, row.max_ms)} later, ${waits(row.total_min_ms, row.total_max_ms)} after the first`))),
  labels([{ x: x(0), text: "0" }, ...rows.map((row) => ({ x: x(middle(row)), text: span(middle(row)) }))]));
}

/** "4s", or "0ms – 4s" where jitter decides.
 * @param {number} min @param {number} max */
export function waits(min, max) {
  return min === max ? span(min) : `${span(min)} – ${span(max)}`;
}
