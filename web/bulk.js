// One verb over many jobs. All that match a filter are done by the server, which lists how far each such run
// has come. Selected jobs, a page at the most, are done one by one from here; leaving the page for another
// one of the dashboard does not end that, closing it does. What was done stays done.
import { h } from "./dom.js";
import { post, Problem, remove, segment } from "./api.js";
import { gauge } from "./chart.js";
import { count, now, plural } from "./format.js";
import { redraw, refresh } from "./router.js";
import { act, button, dialog, mayChange, notify, notifyError } from "./widgets.js";
/** @import { BulkRun } from "./types" */

/** @typedef {"cancel" | "retry"} Verb */

const AT_A_TIME = 4;
const SHOWN_MS = 60000; // how long a run is shown after its end
const POLL_MS = 1000;

const DOING = { cancel: "Cancelling", retry: "Retrying" };
const DONE = { cancel: "cancelled", retry: "to run again" };
const ENDED = { finished: "done", stopped: "stopped", failed: "failed" };

// ---- Selected jobs ---------------------------------------------------------------------------------

/** @typedef {{ verb: Verb, done: number, refused: number, stopped: boolean }} Run */

/** @type {Run | null} */
let run = null;

function ask(verb, what) {
  const [title, text, kind] = verb === "cancel"
    ? ["Cancel jobs", `This ends ${what}. Those that run are stopped.`, "danger"]
    : ["Retry jobs", `This runs ${what} now, if they wait for their time, have failed or are dead.`, "primary"];
  return dialog(title, h("p", null, text), [{ label: "Keep them", value: "" }, { label: title, value: "yes", kind }]).then((answer) => answer === "yes");
}

/** Asks before; false: better not.
 * @param {Verb} verb @param {string} what */
export async function chooseRun(verb, what) {
  if (!run) return ask(verb, what);
  notify("error", "One of these is under way already.", "Stop it, or wait for its end.");
  return false;
}

/** One that has moved on meanwhile is refused, which is no reason to stop.
 * @param {Run} started @param {string} id */
async function change(started, id) {
  try {
    await (started.verb === "cancel" ? remove(`/jobs/${segment(id)}`) : post(`/jobs/${segment(id)}/retry`));
    started.done++;
  } catch (error) {
    if (!(error instanceof Problem) || ![404, 409].includes(error.status)) throw error;
    started.refused++;
  }
}

/** @param {Run} started @param {string[]} ids */
async function changeAll(started, ids) {
  const rest = [...ids];
  const take = async () => {
    for (let id = rest.shift(); id !== undefined && !started.stopped; id = rest.shift()) await change(started, id);
  };
  await Promise.all(Array.from({ length: AT_A_TIME }, take));
}

/** @param {Verb} verb @param {string[]} ids */
export async function runOnSome(verb, ids) {
  const started = { verb, done: 0, refused: 0, stopped: false };
  run = started;
  redraw();
  try {
    await changeAll(started, ids);
    notify("done", `${count(started.done)} ${DONE[verb]}${started.refused ? `, ${count(started.refused)} refused in their state` : ""}`);
  } catch (error) {
    notifyError(error);
  } finally {
    run = null;
    refresh();
  }
}

/** How far it has come; nothing when nothing is under way. */
export function runLine() {
  if (!run) return null;
  const started = run;
  return h("p", { class: "notice running" }, h("span", null, `${DOING[run.verb]}: ${count(run.done)} done${run.refused ? `, ${count(run.refused)} refused` : ""}`),
    button("Stop", () => {
      started.stopped = true;
    }));
}

// ---- All that match --------------------------------------------------------------------------------

/** Counts, asks, and has the server do it.
 * @param {Verb} verb @param {URLSearchParams} filters of the list */
export async function runOnAll(verb, filters) {
  const which = filters.size > 0 ? { filter: Object.fromEntries(filters) } : { all: true };
  let asked;
  try {
    asked = await post("/bulk", { verb, ...which, dry_run: true });
  } catch (error) {
    notifyError(error);
    return;
  }
  if (asked.matched === 0) {
    notify("error", "There is no job that this can be done to.", "Running and queued jobs cannot be retried, and those that have ended cannot be cancelled.");
    return;
  }
  if (await ask(verb, `${plural(asked.matched, "job")}${asked.at_least ? " or more" : ""}`))
    act(post("/bulk", { verb, ...which }), (started) => (started.id ? `${DOING[verb]} ${count(started.matched)}${started.at_least ? " or more" : ""}` : "Nothing is left to do"));
}

let poll = null;

/** @param {BulkRun} item */
function runText(item) {
  const of = item.at_least ? "" : ` of ${count(item.matched)}`;
  const refused = item.refused ? `, ${count(item.refused)} refused` : "";
  const word = item.state === "running" ? "" : `, ${ENDED[item.state]}`;
  return `${DOING[item.verb]}: ${count(item.changed)}${of}${refused}${word}${item.error ? `: ${item.error}` : ""}`;
}

/** Runs of the server that are under way or have just ended.
 * @param {BulkRun[]} items */
export function bulkLines(items) {
  const shown = items.filter((item) => DOING[item.verb] && (!item.ended_at || now() - Date.parse(item.ended_at) < SHOWN_MS));
  clearTimeout(poll);
  if (shown.some((item) => item.state === "running")) poll = setTimeout(refresh, POLL_MS);
  return shown.map((item) => h("p", { class: `notice ${item.state === "running" ? "running" : ""}`, "data-key": `run ${item.id}` },
    h("span", null, runText(item), item.state === "running" && gauge(item.changed + item.refused, item.matched)),
    item.state === "running" && mayChange() && button("Stop", () => act(remove(`/bulk/${segment(item.id)}`), "Stopped; what was done stays done"))));
}
