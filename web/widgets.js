// The parts that pages are made of.
import { h, show } from "./dom.js";
import { Problem } from "./api.js";
import { relative, stamp } from "./format.js";
import { refresh } from "./router.js";
/** @import { Child, Column } from "./types" */

// ---- What may be done ---------------------------------------------------------------------------

let scopes = new Set();

export function setScopes(names) {
  scopes = new Set(names);
}

/** Whether buttons that change things are shown. The server decides in any case. */
export function mayChange() {
  return scopes.has("admin");
}

/** Whether jobs can be submitted from here. */
export function maySubmit() {
  return scopes.has("enqueue");
}

// ---- Notices ------------------------------------------------------------------------------------

const notices = [];
let noticeNumber = 0;

function drawNotices() {
  const box = document.getElementById("notices");
  if (!box) return;
  show(box, h("div", null, notices.map((notice) =>
    h("div", { class: `notice ${notice.kind}`, "data-key": notice.number, role: notice.kind === "error" ? "alert" : "status" },
      h("div", null, h("strong", null, notice.text), notice.hint && h("div", { class: "muted" }, notice.hint)),
      h("button", { class: "plain", "aria-label": "Dismiss", onclick: () => dismiss(notice.number) }, "×")))));
}

function dismiss(number) {
  const at = notices.findIndex((notice) => notice.number === number);
  if (at >= 0) notices.splice(at, 1);
  drawNotices();
}

/** "done" goes by itself; "error" stays until it is dismissed. The same text is shown once. */
export function notify(kind, text, hint = "") {
  if (notices.some((notice) => notice.text === text && notice.kind === kind)) return;
  const number = ++noticeNumber;
  notices.push({ kind, text, hint, number });
  if (notices.length > 5) notices.shift();
  drawNotices();
  if (kind === "done") setTimeout(() => dismiss(number), 4000);
}

export function notifyError(error) {
  notify("error", error.message || String(error), error instanceof Problem ? error.hint : "");
}

// ---- Dialogs ------------------------------------------------------------------------------------

/** Shows a dialog; gives the value of the button that closed it, "" if none did.
 * @param {string} title @param {Child} body @param {{ label: string, value: string, kind?: string }[]} buttons @returns {Promise<string>} */
export function dialog(title, body, buttons) {
  return new Promise((resolve) => {
    const box = h("dialog", { class: "dialog", "aria-label": title },
      h("form", { method: "dialog" },
        h("h2", null, title), h("div", { class: "body" }, body),
        h("div", { class: "buttons" }, buttons.map(({ label, value, kind }) => value === ""
          ? h("button", { type: "button", onclick: () => box.close("") }, label)
          : h("button", { value, class: kind ?? "" }, label)))));
    box.addEventListener("close", () => {
      resolve(box.returnValue);
      box.remove();
    });
    document.body.append(box);
    box.showModal();
  });
}

/** Asks before something that cannot be undone.
 * @param {string} title @param {string} text */
export async function confirmed(title, text, label = title) {
  const answer = await dialog(title, h("p", null, text),
    [{ label: "Keep it", value: "" }, { label, value: "yes", kind: "danger" }]);
  return answer === "yes";
}

/** Does something on the server, shows the result, and loads the page again; gives undefined when it failed.
 * @template Result
 * @param {Promise<Result>} promise @param {string | ((result: Result) => string) | null} text */
export async function act(promise, text) {
  try {
    const result = await promise;
    if (text) notify("done", typeof text === "function" ? text(result) : text);
    return result;
  } catch (error) {
    notifyError(error);
    return undefined;
  } finally {
    refresh();
  }
}

// ---- Small things -------------------------------------------------------------------------------

/** @param {string} label @param {() => void} onclick @param {{ kind?: string, disabled?: boolean, title?: string }} [options] */
export function button(label, onclick, { kind = "", disabled = false, title } = {}) {
  return h("button", { type: "button", class: kind, disabled, title, onclick }, label);
}

/** A time as people say it, with the whole of it on hover.
 * @param {string | null | undefined} text */
export function when(text) {
  return text ? h("time", { datetime: text, title: stamp(text) }, relative(text)) : h("span", { class: "muted" }, "–");
}

/** @param {string} text @param {string} [hint] */
export function empty(text, hint) {
  return h("div", { class: "empty" }, h("p", null, text), hint && h("p", { class: "muted" }, hint));
}

/** @param {Child} title @param {Child[]} actions */
export function heading(title, ...actions) {
  return h("div", { class: "heading" }, h("h1", null, title), h("div", { class: "actions" }, actions));
}

/** Names with values, as a list of definitions; those without a value are left out.
 * @param {[string, Child][]} rows */
export function facts(rows) {
  return h("dl", { class: "facts" }, rows.filter(([, value]) => value !== null && value !== undefined && value !== "")
    .map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value))));
}

const upperFirst = (text) => text.slice(0, 1).toUpperCase() + text.slice(1);

/** Rows as a table; on narrow screens they become cards in which each cell says what it is.
 * @template Row
 * @param {Column<Row>[]} columns @param {Row[]} rows
 * @param {{ key?: (row: Row) => string, rowClass?: (row: Row) => string, label?: string }} [options] */
export function table(columns, rows, { key, rowClass, label } = {}) {
  return h("div", { class: "scroll" }, h("table", { "aria-label": label },
    h("thead", null, h("tr", null, columns.map((c) => h("th", { class: c.class, scope: "col" }, c.title === "" ? h("span", { class: "unseen" }, "Actions") : c.title)))),
    h("tbody", null, rows.map((row) =>
      h("tr", { "data-key": key?.(row), class: rowClass?.(row) }, columns.map((c) =>
        h("td", { class: c.isShown?.(row) ? `${c.class} shown` : c.class, "data-label": typeof c.title === "string" ? upperFirst(c.title) : null }, c.cell(row))))))));
}

/** A link to the jobs that a set of filters gives.
 * @param {Record<string, string>} filters @param {Child} text */
export function jobsLink(filters, text, options = {}) {
  return h("a", { ...options, href: `/ui/jobs?${new URLSearchParams(filters)}` }, text);
}

/** The first line of a text, cut so that a table stays readable.
 * @param {string | null | undefined} text */
export function firstLine(text, max = 160) {
  const line = (text ?? "").split("\n", 1)[0];
  return line.length > max ? `${line.slice(0, max)}…` : line;
}
