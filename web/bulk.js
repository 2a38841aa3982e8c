// One verb over many jobs. Selected jobs, and all that match a filter, are done one by one from here,
// a few at a time, with progress and a way to stop; leaving the page for another one of the
// dashboard does not end it, closing it does. What was done stays done.
import { h } from "./dom.js";
import { get, post, Problem, remove, segment } from "./api.js";
import { count } from "./format.js";
import { redraw, refresh } from "./router.js";
import { button, dialog, notify, notifyError } from "./widgets.js";

const AT_A_TIME = 4;
const PAGE = 200;

const DOING = { cancel: "Cancelling", retry: "Retrying" };
const DONE = { cancel: "cancelled", retry: "to run again" };
const STATES = { cancel: "scheduled,queued,running,retrying,parked", retry: "scheduled,retrying,failed,dead_letter" };

let run = null; // {verb, done, refused, stopped}

/** Asks before; false: better not. */
export async function chooseRun(verb, what) {
  if (run) {
    notify("error", "One of these is under way already.", "Stop it, or wait for its end.");
    return false;
  }
  const [title, text, kind] = verb === "cancel"
    ? ["Cancel jobs", `This ends ${what}. Those that run are stopped.`, "danger"]
    : ["Retry jobs", `This runs ${what} now, if they wait for their time, have failed or are dead.`, "primary"];
  return (await dialog(title, h("p", null, text), [{ label: "Keep them", value: "" }, { label: title, value: "yes", kind }])) === "yes";
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
  redraw();
}

async function carryOut(verb, work) {
  run = { verb, done: 0, refused: 0, stopped: false };
  redraw();
  try {
    await work();
    notify("done", `${count(run.done)} ${DONE[verb]}${run.refused ? `, ${count(run.refused)} refused in their state` : ""}`);
  } catch (error) {
    notifyError(error);
  } finally {
    run = null;
    refresh();
  }
}

export function runOnSome(verb, ids) {
  return carryOut(verb, () => changeAll(verb, ids));
}

/** `filters`: URLSearchParams of the list. Only jobs from which the verb is possible are asked for. */
export function runOnAll(verb, filters) {
  const query = new URLSearchParams(filters);
  if (!query.has("state")) query.set("state", STATES[verb]);
  query.set("limit", PAGE);
  query.set("order", "oldest");
  return carryOut(verb, async () => {
    for (let next = ""; next !== null && !run.stopped; ) {
      if (next) query.set("cursor", next);
      const page = await get(`/jobs?${query}`);
      await changeAll(verb, page.items.map((job) => job.id));
      next = page.next;
    }
  });
}

/** How far it has come; nothing when nothing is under way. */
export function runLine() {
  if (!run) return null;
  return h("p", { class: "notice running" }, h("span", null, `${DOING[run.verb]}: ${count(run.done)} done${run.refused ? `, ${count(run.refused)} refused` : ""}`),
    button("Stop", () => (run.stopped = true)));
}
