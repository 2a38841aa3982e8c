// The keyboard. Keys act on the page; while the user types in a field only Escape does.
import { h } from "./dom.js";
import { go, refresh } from "./router.js";
import { ROUTES } from "./routes.js";
import { dialog } from "./widgets.js";

let waitsForPage = false;
let pageTimer;

function rows() {
  return [...document.querySelectorAll("#page tbody tr[data-key]")];
}

function move(step) {
  const all = rows();
  if (all.length === 0) return;
  const at = all.findIndex((row) => row.hasAttribute("data-current"));
  all[at]?.removeAttribute("data-current");
  const next = all[Math.min(Math.max(at < 0 ? (step > 0 ? 0 : all.length - 1) : at + step, 0), all.length - 1)];
  next.setAttribute("data-current", "");
  next.scrollIntoView({ block: "nearest" });
}

/** @param {string} selector @returns {HTMLElement | null} */
function inCurrent(selector) {
  return document.querySelector(`#page tr[data-current] ${selector}`);
}

/** @type {[string, string, () => void][]} */
const KEYS = [
  ["/", "search for jobs", () => document.getElementById("search")?.focus()],
  ["j", "next row", () => move(1)],
  ["k", "previous row", () => move(-1)],
  ["Enter", "open the row", () => inCurrent("a")?.click()],
  ["x", "select the row", () => inCurrent("input[type=checkbox]")?.click()],
  ["r", "load again", () => refresh()],
  ["?", "show the keys", () => help()],
];

function help() {
  if (document.querySelector("dialog[open]")) return;
  const row = (key, text) => h("div", null, h("dt", null, key.split(" ").map((k) => h("kbd", null, k))), h("dd", null, text));
  dialog("Keys", h("dl", { class: "keys" },
    KEYS.map(([key, text]) => row(key, text)),
    ROUTES.filter((route) => route.key).map((route) => row(`g ${route.key}`, `go to ${route.title}`))),
  [{ label: "Close", value: "" }]);
}

function onKey(event) {
  const target = event.target;
  const isField = /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) && target.type !== "checkbox";
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (isField) {
    if (event.key === "Escape") target.blur();
    return;
  }
  if (waitsForPage) {
    waitsForPage = false;
    clearTimeout(pageTimer); // else it would end the wait of the next g
    const route = ROUTES.find((r) => r.key === event.key);
    if (route) go(`/ui/${route.path}`);
    return;
  }
  if (event.key === "g") {
    waitsForPage = true;
    pageTimer = setTimeout(() => (waitsForPage = false), 1500);
    return;
  }
  // A button or link that has the focus takes Enter itself.
  if (event.key === "Enter" && /^(A|BUTTON|SUMMARY)$/.test(target.tagName)) return;
  const found = KEYS.find(([key]) => key === event.key);
  if (!found) return;
  event.preventDefault();
  found[2]();
}

export function startKeys() {
  document.addEventListener("keydown", onKey);
}

export { help as showKeys };
