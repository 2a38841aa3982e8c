// Asks for a token, and exchanges it for the session's cookie. The token is in the field and in one
// request, and nowhere else.
import { h } from "../dom.js";
import { post } from "../api.js";
/** @import { Session } from "../types" */

const tokenField = () => /** @type {HTMLInputElement} */ (document.getElementById("token"));

function form(submit, problem) {
  return h("main", { class: "login" },
    h("form", { onsubmit: submit },
      h("img", { src: "/ui/icon.svg", alt: "", width: "44", height: "44" }),
      h("h1", null, "Redrive"),
      h("label", { for: "token" }, "Token"),
      h("input", { id: "token", name: "token", type: "password", autocomplete: "current-password", required: true, autofocus: true }),
      problem && h("p", { class: "problem", role: "alert" }, problem),
      h("button", { class: "primary" }, "Log in"),
      h("p", { class: "muted" }, "One of the configuration's tokens that has the scope read. It stays in this browser for twelve hours, where scripts cannot see it.")));
}

/** Draws the form into `root`; calls `done` with the session.
 * @param {HTMLElement} root @param {(session: Session) => void} done */
export function login(root, done, problem = "") {
  async function submit(event) {
    event.preventDefault();
    const token = tokenField().value.trim();
    if (/[^\x21-\x7e]/.test(token)) {
      login(root, done, "A token has no spaces and only plain characters.");
      return;
    }
    try {
      done(await post("/session", undefined, { headers: { Authorization: `Bearer ${token}` } }));
    } catch (error) {
      login(root, done, error.message);
    }
  }
  root.replaceChildren(form(submit, problem));
  document.title = "Log in · Redrive";
  tokenField().focus();
}
