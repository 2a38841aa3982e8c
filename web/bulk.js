// One verb over many jobs. All that match a filter are done by the server, which lists how far each such run
// has come. Selected jobs, a page at the most, are done one by one from here; leaving the page for another
// one of the dashboard does not end that, closing it does. What was done stays done.
import { h } from "./dom.js";
import { post, Problem, remove, segment } from "./api.js";
import { gauge } from "./chart.js";
import { count, now, plural } from "./format.js";
import { redraw, refresh } from "./router.js";
import { act, button, dialog, mayChange, notify, notifyError } from "./widgets.js";

const AT_A_TIME = 4;
const SHOWN_MS = 60000; // how long a run is shown after its end
const POLL_MS = 1000;

const DOING = { cancel: "Cancelling", retry: "Retrying" };
const DONE = { cancel: "cancelled", retry: "to run again" };
const ENDED = { finished: "done", stopped: "stopped", failed: "failed" };

// ---- Selected jobs ---------------------------------------------------------------------------------

let run = null; // {verb, done, refused, stopped}

function ask(verb, what) {
  const [title, text, kind] = verb === "cancel"
    ? ["Cancel jobs", `This ends ${what}. Those that run are stopped.`, "danger"]
    : ["Retry jobs", `This runs ${what} now, if they wait for their time, have failed or are dead.`, "primary"];
  return dialog(title, h("p", null, text), [{ label: "Keep them", value: "" }, { label: title, value: "yes", kind }]).then((answer) => answer === "yes");
}

/** Asks before; false: better not. */
export async function chooseRun(verb, what) {
  if (!run) return ask(verb, what);
  notify("error", "One of these is under way already.", "Stop it, or wait for its end.");
  return false;
}

// One that has moved on meanwhile is refused, which is no reason to stop.
async function change(verb, id) {
  try {
    await (verb === "cancel" ? remove(`/jobs/${segment(id)}`) : post(`/jobs/${segment(id)}/retry`));
    run.done++;
  } catch (error) {
    if (!(error instanceof Problem) || ![404, 409].includes(error.status)) throw error;
    run.refused++;
  }
}

async function changeAll(verb, ids) {
  const rest = [...ids];
  const take = async () => {
    for (let id = rest.shift(); id !== undefined && !run.stopped; id = rest.shift()) await change(verb, id);
  };
  await Promise.all(Array.from({ length: AT_A_TIME }, take));
}

export async function runOnSome(verb, ids) {
  run = { verb, done: 0, refused: 0, stopped: false };
  redraw();
  try {
    await changeAll(verb, ids);
    notify("done", `${count(run.done)} ${DONE[verb]}${run.refused ? `, ${count(run.refused)} refused in their state` : ""}`);
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
  return h("p", { class: "notice running" }, h("span", null, `${DOING[run.verb]}: ${count(run.done)} done${run.refused ? `, ${count(run.refused)} refused` : ""}`),
    button("Stop", () => (run.stopped = true)));
}

// ---- All that match --------------------------------------------------------------------------------

/** Counts, asks, and has the server do it. `filters`: URLSearchParams of the list. */
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

function runText(item) {
  const of = item.at_least ? "" : ` of ${count(item.matched)}`;
  const refused = item.refused ? `, ${count(item.refused)} refused` : "";
  const word = item.state === "running" ? "" : `, ${ENDED[item.state]}`;
  return `${DOING[item.verb]}: ${count(item.changed)}${of}${refused}${word}${item.error ? `: ${item.error}` : ""}`;
}

/** Runs of the server that are under way or have just ended. */
export function bulkLines(items) {
  const shown = items.filter((item) => DOING[item.verb] && (!item.ended_at || now() - Date.parse(item.ended_at) < SHOWN_MS));
  clearTimeout(poll);
  if (shown.some((item) => item.state === "running")) poll = setTimeout(refresh, POLL_MS);
  return shown.map((item) => h("p", { class: `notice ${item.state === "running" ? "running" : ""}`, "data-key": `run ${item.id}` },
    h("span", null, runText(item), item.state === "running" && gauge(item.changed + item.refused, item.matched)),
    item.state === "running" && mayChange() && button("Stop", () => act(remove(`/bulk/${segment(item.id)}`), "Stopped; what was done stays done"))));
}
