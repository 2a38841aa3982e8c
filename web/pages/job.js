// One job: what it is, what has happened to it, what will, and what can be done about it.
import { h } from "../dom.js";
import { get, post, remove, segment, send } from "../api.js";
import { setServerTime } from "../format.js";
import { ahead, textBlock, timeline } from "../job-view.js";
import { indent, memberText } from "../json.js";
import { badge } from "../states.js";
import { act, button, confirmed, dialog, facts, heading, jobsLink, mayChange, notify, when } from "../widgets.js";
import { spansOf } from "./tasks.js";
/** @import { Context, Edge, Page, Schedule, WholeJob } from "../types" */

const letter = (id) => `/retry/dead-letters/by-id/${segment(id)}`;

// ---- Actions -------------------------------------------------------------------------------------

/** @param {WholeJob} job */
async function cancel(job) {
  const text = job.state === "running" ? "Its run is stopped, and the job ends as cancelled." : "The job ends as cancelled and does not run.";
  if (await confirmed("Cancel the job", text)) act(remove(`/jobs/${segment(job.id)}`), "The job is cancelled");
}

/** @param {WholeJob} job */
function runNow(job) {
  act(post(`/jobs/${segment(job.id)}/retry`), "The job is queued");
}

/** @param {WholeJob} job @param {Context} context */
async function removeLetter(job, context) {
  if (!(await confirmed("Remove the dead letter", "The job is gone for good, with its payload and its history."))) return;
  if ((await act(remove(letter(job.id)).then(() => true), "The dead letter is removed")) === true) context.go("/ui/dead");
}

/** @param {WholeJob} job @param {string} text */
async function editPayload(job, text) {
  const field = h("textarea", { class: "code", rows: "18", spellcheck: "false", "aria-label": "Payload" });
  field.value = text;
  const answer = await dialog("Edit the payload", field, [
    { label: "Leave it", value: "" }, { label: "Save", value: "save" }, { label: "Save and redrive", value: "redrive", kind: "primary" }]);
  if (answer === "") return;
  try {
    JSON.parse(field.value); // only to look: the text is sent as it was written
  } catch (error) {
    notify("error", `That is not JSON: ${error.message}`);
    editPayload(job, field.value);
    return;
  }
  const saved = await act(send("PATCH", letter(job.id), { body: `{"payload":${field.value}}` }), answer === "save" ? "The payload is changed" : null);
  if (saved !== undefined && answer === "redrive") act(post(`${letter(job.id)}/retry`), "The job is queued with its new payload");
}

/** @param {WholeJob} job @param {string | null} payload @param {Context} context */
function actions(job, payload, context) {
  if (!mayChange()) return [];
  const cancelButton = button("Cancel", () => cancel(job));
  switch (job.state) {
    case "scheduled":
    case "retrying": return [button("Run now", () => runNow(job), { kind: "primary" }), cancelButton];
    case "queued":
    case "parked":
    case "waiting":
    case "running": return [cancelButton];
    case "failed": return [button("Redrive", () => runNow(job), { kind: "primary" })];
    case "dead_letter": return [
      button("Redrive", () => runNow(job), { kind: "primary" }),
      button("Edit", () => editPayload(job, payload === null ? "" : indent(payload))),
      button("Remove", () => removeLetter(job, context))];
    default: return [];
  }
}

// ---- Drawing -------------------------------------------------------------------------------------

/** @param {WholeJob} job */
function factsOf(job) {
  return facts([
    ["Task", jobsLink({ task: job.task }, job.task)],
    ["Queue", jobsLink({ queue: job.queue }, job.queue)],
    ["Attempts", `${job.attempts} of ${job.max_attempts}`],
    ["Submitted", when(job.created_at)],
    ["Due", job.finished_at ? null : job.process_after && when(job.process_after)],
    ["Started", job.started_at && when(job.started_at)],
    ["Ended", job.finished_at && when(job.finished_at)],
    ["Why", job.reason?.replaceAll("_", " ")],
    ["Worker", job.state === "running" ? job.worker : null],
    ["Priority", job.priority || null],
    ["User", job.user && jobsLink({ user: job.user }, job.user)],
    ["Project", job.project],
    ["Service", job.service],
    ["Unique key", job.unique_key],
    ["Deadline", job.deadline && when(job.deadline)],
    ["Redrives", job.epoch || null],
    ["Damaged", job.damaged ? "what is stored of it is not as it was written" : null],
  ]);
}

/** Jobs that it waits for, or that wait for it.
 * @param {string} title @param {Edge[] | undefined} items */
function edges(title, items, total = 0) {
  if (!items?.length) return null;
  return h("section", { class: "card", "data-key": title }, h("h2", null, title),
    h("ul", { class: "edges" }, items.map((edge) => h("li", null,
      edge.id === null ? "a job that was removed" : [h("a", { class: "id", href: `/ui/jobs/${segment(edge.id)}` }, edge.id), " ", badge(edge.state)],
      h("span", { class: "muted" }, ` on ${edge.on}, ${edge.outcome}`)))),
    total > items.length && h("p", { class: "muted" }, `${total - items.length} more`));
}

/** @param {Context} context @returns {Page} */
export default function job(context) {
  const { id } = context.params;

  async function load(signal) {
    const text = await send("GET", `/jobs/${segment(id)}`, { signal });
    const found = JSON.parse(text);
    const task = await get(`/tasks/${segment(found.task)}`, { signal });
    if (task.at) setServerTime(task.at);
    return { job: found, plan: task.schedule, payload: memberText(text, "payload"), result: memberText(text, "result") };
  }

  /** @param {{ job: WholeJob, plan: Schedule, payload: string | null, result: string | null }} data */
  function render({ job: found, plan, payload, result }) {
    const next = ahead(found, plan, spansOf(plan.retries));
    return h("div", { class: "page job" },
      heading([h("span", { class: "id" }, found.id), " ", badge(found.state)], actions(found, payload, context)),
      h("section", { class: "card" }, factsOf(found)),
      h("div", { class: "columns uneven" },
        h("section", { class: "card" }, h("h2", null, "What has happened"),
          h("ol", { class: "timeline" },
            h("li", { class: "s-queued" }, h("span", { class: "dot" }), h("div", null, h("p", { class: "line" }, h("strong", null, "Submitted"), h("span", { class: "at" }, when(found.created_at))))),
            timeline(found)),
          next.length > 0 && [h("h2", null, "What is ahead"), h("ol", { class: "timeline" }, next)]),
        h("div", { class: "stack" },
          edges("Waits for", found.after, found.parents),
          edges("Followed by", found.followers, found.children),
          textBlock("Payload", payload, context.redraw) ?? h("section", { class: "card", "data-key": "Payload" }, h("h2", null, "Payload"), h("p", { class: "muted" }, "none")),
          textBlock("Result", result, context.redraw),
          found.retry && textBlock("Policy of its own", JSON.stringify(found.retry), context.redraw))));
  }

  return { load, render };
}
