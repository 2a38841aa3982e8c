// A new job, from a form. The payload is sent as it was written, so that big integers stay.
import { h } from "../dom.js";
import { get, Problem, segment, send } from "../api.js";
import { badge } from "../states.js";
import { heading, empty, maySubmit, notify } from "../widgets.js";
/** @import { Context, Page, Task } from "../types" */

// Name of the member, label, what it is for, and how it is typed.
/** @type {[string, string, string, Record<string, string>][]} */
const OPTIONS = [
  ["delay", "Delay", "such as 90s or 2h; none: at once", {}],
  ["priority", "Priority", "−100 to 100; higher goes first", { type: "number", min: "-100", max: "100", step: "1" }],
  ["max_attempts", "Attempts", "at most; none: as the task says", { type: "number", min: "1", step: "1" }],
  ["deadline", "Deadline", "such as 1h: ended, if not started by then", {}],
  ["unique_key", "Unique key", "one live job with this key", {}],
  ["user", "User", "whose job it is", {}],
  ["id", "Id", "none: made by the server", {}],
];
const NUMBERS = ["priority", "max_attempts"];
const NAMES = ["task", "queue", "payload", ...OPTIONS.map(([name]) => name)];

// What a repeated request is known by: an answer that was lost must not make a second job.
function newKey() {
  return [...crypto.getRandomValues(new Uint8Array(12))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

function bodyOf(values) {
  const members = NAMES.filter((name) => values[name].trim() !== "").map((name) => {
    const text = values[name].trim();
    const isRaw = name === "payload" || (NUMBERS.includes(name) && /^-?\d+$/.test(text)); // other text is refused as such
    const value = isRaw ? text : JSON.stringify(text);
    return `${JSON.stringify(name)}:${value}`;
  });
  return `{${members.join(",")}}`;
}

// Only to look: what is sent is the text.
function payloadProblem(text) {
  if (text.trim() === "") return null;
  try {
    JSON.parse(text);
    return null;
  } catch (error) {
    return { message: `payload: that is not JSON: ${error.message}`, hint: 'texts are in quotes: "ann"', field: "payload" };
  }
}

function field(name, label, help, control) {
  return h("div", { class: "field" }, h("label", { for: `new-${name}` }, label), control, h("p", { class: "muted small", id: `help-${name}` }, help));
}

/** @param {Context} context @returns {Page} */
export default function submit(context) {
  const values = Object.fromEntries(NAMES.map((name) => [name, context.query.get(name) ?? ""]));
  let key = newKey();
  let problem = null;
  let made = null;
  let isSending = false;

  function change(event) {
    values[event.target.name] = event.target.value;
    key = newKey();
  }

  async function submitForm(event) {
    event.preventDefault();
    if (isSending) return;
    problem = payloadProblem(values.payload);
    made = null;
    if (problem) {
      context.redraw();
      return;
    }
    isSending = true;
    context.redraw();
    try {
      made = JSON.parse(await send("POST", "/jobs", { body: bodyOf(values), headers: { "Idempotency-Key": key } }));
      notify("done", made.existed ? "That job was there already" : "The job is submitted");
      values.id = "";
      key = newKey();
    } catch (error) {
      problem = { message: error.message, hint: error instanceof Problem ? error.hint : "Submitting again is safe: it makes one job.", field: error.field };
    }
    isSending = false;
    context.redraw();
  }

  const typed = (tag, name, more) => h(tag, {
    id: `new-${name}`, name, value: values[name], oninput: change, autocomplete: "off", spellcheck: "false",
    "aria-invalid": problem?.field === name ? "true" : null, "aria-describedby": `help-${name}`, ...more,
  });

  /** @param {{ items: Task[] }} data */
  function render({ items }) {
    if (!maySubmit()) return h("div", { class: "page" }, heading("Submit a job"), empty("This login may not submit jobs.", "Its token lacks the scope enqueue."));
    const queue = items.find((task) => task.task === values.task)?.queue;
    return h("div", { class: "page" }, heading("Submit a job"),
      made && h("p", { class: "notice", role: "status" }, h("span", null, "Submitted: ", h("a", { href: `/ui/jobs/${segment(made.id)}` }, made.id), " ", badge(made.state))),
      h("form", { class: "card form", onsubmit: submitForm },
        h("div", { class: "columns" },
          field("task", "Task", "what the job is", typed("input", "task", { required: true, list: "tasks", oninput: (event) => {
            change(event);
            context.redraw();
          } })),
          field("queue", "Queue", queue ? `none: ${queue}` : "none: as the task says", typed("input", "queue"))),
        h("datalist", { id: "tasks" }, items.map((task) => h("option", { value: task.task }))),
        field("payload", "Payload", "JSON; nothing: no payload", typed("textarea", "payload", { class: "code", rows: "8" })),
        h("details", { open: OPTIONS.some(([name]) => values[name]) }, h("summary", null, "Options"),
          h("div", { class: "fields" }, OPTIONS.map(([name, label, help, more]) => field(name, label, help, typed("input", name, more))))),
        problem && h("div", { class: "problem", role: "alert" }, h("strong", null, problem.message), problem.hint && h("div", null, problem.hint)),
        h("div", { class: "buttons" }, h("button", { class: "primary", disabled: isSending }, isSending ? "Submitting" : "Submit"))));
  }

  return { load: (signal) => get("/tasks", { signal }), render, wants: () => false };
}
