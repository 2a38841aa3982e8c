// The states of a job and of a breaker: each has a colour (style.css) and a shape, so that users
// need not distinguish colours.
import { h, svg } from "./dom.js";
/** @import { Child, State } from "./types" */

/** @type {State[]} */
export const STATES = ["scheduled", "queued", "running", "retrying", "parked", "completed", "failed", "dead_letter", "cancelled", "waiting"];
export const LIVE = ["scheduled", "queued", "running", "retrying", "parked", "waiting"];
export const RETRIABLE = ["scheduled", "retrying", "failed", "dead_letter"];
export const ENDED = ["completed", "failed", "dead_letter", "cancelled"];

/** @type {Record<string, string>} */
const LABELS = { dead_letter: "dead letter", half_open: "half open", forced_open: "forced open" };

/** On a field of 12 × 12; whether it is filled.
 * @type {Record<string, [string, boolean]>} */
const SHAPES = {
  scheduled: ["M6 1.5a4.5 4.5 0 1 0 0 9a4.5 4.5 0 1 0 0-9M6 3.5V6l2 1.5", false],
  queued: ["M2 2.5h8M2 6h8M2 9.5h8", false],
  running: ["M3 1.5v9l7.5-4.5z", true],
  retrying: ["M9.9 4.4A4.3 4.3 0 1 0 10.3 7M10.4 1.6v3h-3", false],
  parked: ["M3 2h2v8H3zM7 2h2v8H7z", true],
  waiting: ["M2 6a1.6 1.6 0 1 0 3.2 0a1.6 1.6 0 1 0-3.2 0M5.2 6h5.3M8.4 3.9L10.5 6L8.4 8.1", false],
  completed: ["M1.8 6.4l2.9 2.9l5.6-6.3", false],
  failed: ["M2.5 2.5l7 7M9.5 2.5l-7 7", false],
  dead_letter: ["M6 .8L11.2 6L6 11.2L.8 6z", true],
  cancelled: ["M6 1.5a4.5 4.5 0 1 0 0 9a4.5 4.5 0 1 0 0-9M2.9 9.1l6.2-6.2", false],
  closed: ["M1 6h10", false],
  open: ["M1 6h3M8 6h3M4 6l4-4", false],
  half_open: ["M1 6h3M8 6h3M4 6l4-2", false],
  forced_open: ["M1 6h3M8 6h3M4 6l4-4M9 9l2 2M11 9l-2 2", false],
  disabled: ["M2.5 6h7", false],
};

/** @param {string} state of a job or of a breaker */
export function label(state) {
  return LABELS[state] ?? state;
}

/** @param {string} state */
export function shape(state) {
  const [path, isFilled] = SHAPES[state] ?? SHAPES.disabled;
  return svg("svg", { class: "shape", viewBox: "0 0 12 12", "aria-hidden": "true" },
    svg("path", { d: path, class: isFilled ? "filled" : "line" }));
}

/** The state in words with its shape.
 * @param {string} state @param {Child} [more] */
export function badge(state, more) {
  return h("span", { class: `badge s-${state}` }, shape(state), label(state), more && h("span", { class: "more" }, more));
}
