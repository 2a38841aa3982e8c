// The parts of a job's page: its attempts, what is ahead, its texts.
import { h } from "./dom.js";
import { waits } from "./chart.js";
import { bytes, span, stamp } from "./format.js";
import { indent } from "./json.js";
import { badge, label, shape } from "./states.js";
import { button, notify, when } from "./widgets.js";
/** @import { Attempt, Child, HeldBy, JobError, Retry, Schedule, WholeJob } from "./types" */

const SHOWN = 100000; // characters of a text, unless more is asked for

// ---- Texts ---------------------------------------------------------------------------------------

const PIECE = 4000; // characters

/** A browser takes minutes to lay out a megabyte in one line, so that long texts are shown in pieces,
 * which end with a line where they can.
 * @param {string} text */
function pieces(text) {
  const out = [];
  for (let at = 0; at < text.length; ) {
    let end = Math.min(at + PIECE, text.length);
    const line = text.lastIndexOf("\n", end - 1);
    if (end < text.length && line > at) end = line + 1;
    // The line ends with its piece anyway.
    out.push(h("div", { class: "piece" }, text.slice(at, text[end - 1] === "\n" ? end - 1 : end)));
    at = end;
  }
  return out;
}

const unfolded = new Set(); // names of texts that are shown whole

function copyButton(text) {
  if (!navigator.clipboard) return null; // only over TLS, or on this machine
  return button("Copy", () => navigator.clipboard.writeText(text).then(() => notify("done", "Copied"), () => notify("error", "The browser does not let it be copied.")), { kind: "plain" });
}

/** JSON as it was sent, with a line for each value; anything else as it is.
 * @param {string} name @param {string | null} text @param {() => void} redraw */
export function textBlock(name, text, redraw) {
  if (text === null || text === undefined || text === "") return null;
  const isWhole = text.length <= SHOWN || unfolded.has(name);
  const shown = text.length <= SHOWN * 3 ? indent(text) : text;
  return h("section", { class: "card", "data-key": name },
    h("div", { class: "heading" }, h("h2", null, name, " ", h("span", { class: "muted" }, bytes(new Blob([text]).size))), copyButton(text)),
    h("pre", { class: "code", tabindex: "0" }, pieces(isWhole ? shown : `${shown.slice(0, SHOWN)}…`)),
    !isWhole && button("Show all of it", () => {
      unfolded.add(name);
      redraw();
    }));
}

// ---- Attempts ------------------------------------------------------------------------------------

/** @param {JobError | null | undefined} error */
function errorBlock(error) {
  if (!error) return null;
  const hasTrace = error.stacktrace && error.stacktrace.trim() !== (error.message ?? "").trim();
  return h("div", { class: "failure" },
    h("p", null, h("span", { class: "class" }, error.class), error.type && [" ", h("code", null, error.type)], error.code ? ` code ${error.code}` : ""),
    error.message && h("pre", { class: "message" }, error.message),
    hasTrace && h("details", null, h("summary", null, "Stack trace"), h("pre", { class: "code", tabindex: "0" }, error.stacktrace)));
}

/** @param {Attempt} attempt */
function took(attempt) {
  if (!attempt.started_at) return "";
  const end = attempt.ended_at ? Date.parse(attempt.ended_at) : null;
  return end === null ? "runs" : `took ${span(end - Date.parse(attempt.started_at))}`;
}

/** @param {Attempt} attempt */
function afterwards(attempt) {
  if (attempt.outcome !== "retrying") return null;
  return h("p", { class: "muted small" }, `waits ${span((attempt.delay ?? 0) * 1000)}`, attempt.why ? ` (${attempt.why})` : "", " until ", stamp(attempt.process_after));
}

/** @param {Attempt} attempt */
function attemptItem(attempt) {
  const name = attempt.number === null ? (attempt.started_at ? "Start taken back" : "Never ran") : `Attempt ${attempt.number}`;
  return h("li", { class: `s-${attempt.outcome}`, "data-key": `${attempt.epoch}/${attempt.number}/${attempt.started_at ?? attempt.ended_at}` },
    h("span", { class: "dot" }, shape(attempt.outcome)),
    h("div", null,
      h("p", { class: "line" }, h("strong", null, name), " ", badge(attempt.outcome),
        h("span", { class: "muted" }, [took(attempt), attempt.worker && `on ${attempt.worker}`].filter(Boolean).join(" ")),
        h("span", { class: "at" }, when(attempt.started_at ?? attempt.ended_at))),
      errorBlock(attempt.error), afterwards(attempt)));
}

/** The attempts so far; those before a redrive under a heading of their own.
 * @param {WholeJob} job */
export function timeline(job) {
  const rows = [];
  let epoch = 0;
  for (const attempt of job.history) {
    if (attempt.epoch !== epoch) rows.push(h("li", { class: "redriven", "data-key": `epoch ${attempt.epoch}` }, "redriven"));
    epoch = attempt.epoch;
    rows.push(attemptItem(attempt));
  }
  if (job.state === "running" && !job.history.some((a) => !a.ended_at && a.epoch === job.epoch))
    rows.push(attemptItem({ epoch: job.epoch, number: job.attempts, outcome: "running", started_at: job.started_at, worker: job.worker }));
  return rows;
}

// ---- What is ahead -------------------------------------------------------------------------------

/** @param {HeldBy} held @returns {Child} */
function heldText(held) {
  const what = held.kind === "limit" ? `limit ${held.key}`
    : held.kind === "budget" ? `retry budget of ${held.key}, which has no room`
      : `breaker ${held.key}, which is ${label(held.state)}`;
  return ["held by the ", what, held.may_go_at && [", may go ", when(held.may_go_at)]];
}

/** @param {string} state @param {Child[]} children */
function aheadItem(state, ...children) {
  return h("li", { class: `ahead s-${state}` }, h("span", { class: "dot" }, shape(state)), h("div", null, h("p", { class: "line" }, children)));
}

/** What will happen next, and if that fails, after it; `rows` are the retries of the task's policy.
 * @param {WholeJob} job @param {Schedule} plan @param {Retry[]} rows */
export function ahead(job, plan, rows) {
  if (!["scheduled", "queued", "retrying", "parked", "running", "waiting"].includes(job.state)) return [];
  const items = [];
  const next = job.state === "running" ? job.attempts : job.attempts + 1;
  if (job.state === "parked") {
    items.push(aheadItem("parked", job.held_by ? heldText(job.held_by) : "parked"));
    items.push(aheadItem("queued", h("strong", null, `Attempt ${next}`), " when it is let go"));
  }
  if (job.state === "waiting")
    items.push(aheadItem("waiting", h("strong", null, `Attempt ${next}`), ` when ${job.open_parents === 1 ? "the job" : `the ${job.open_parents} jobs`} that it waits for ${job.open_parents === 1 ? "has" : "have"} ended`));
  if (job.state === "queued") items.push(aheadItem("queued", h("strong", null, `Attempt ${next}`), " as soon as a worker takes it"));
  if (job.state === "retrying" || job.state === "scheduled")
    items.push(aheadItem(job.state, h("strong", null, `Attempt ${next}`), " ", when(job.process_after), h("span", { class: "muted" }, stamp(job.process_after))));
  // A job with a policy of its own goes by that, which is not drawn here.
  const later = job.retry || !rows ? [] : rows.filter((row) => row.n >= next && row.n < job.max_attempts);
  for (const row of later.slice(0, 8))
    items.push(aheadItem("scheduled", h("strong", null, `Attempt ${row.n + 1}`), h("span", { class: "muted" }, `if that fails, ${waits(row.min_ms, row.max_ms)} later`)));
  if (later.length > 8) items.push(aheadItem("scheduled", h("span", { class: "muted" }, `and ${later.length - 8} more`)));
  if (plan && !job.retry) items.push(aheadItem(plan.then, h("span", { class: "muted" }, "if all fail: ", label(plan.then))));
  return items;
}
