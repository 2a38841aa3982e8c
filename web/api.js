// Requests to the REST interface, the same that scripts use (docs/http.md). The browser adds the
// session's cookie by itself; no token is ever held here.

/** The server answered that it will not: a problem document (RFC 9457). */
export class Problem extends Error {
  /** @param {number} status @param {{ detail?: string, title?: string, field?: string, expected?: string, hint?: string }} body */
  constructor(status, body) {
    super(body.detail || body.title || `the server answered ${status}`);
    this.name = "Problem";
    this.status = status;
    this.field = body.field;
    this.hint = [body.expected && `expected ${body.expected}`, body.hint].filter(Boolean).join("; ");
  }
}

/** There was no answer at all. */
export class Unreachable extends Error {
  constructor() {
    super("the server does not answer");
    this.name = "Unreachable";
  }
}

function problemOf(response, text) {
  try {
    return new Problem(response.status, JSON.parse(text));
  } catch {
    return new Problem(response.status, {});
  }
}

/** Of a request. `body` is JSON text.
 * @typedef {{ body?: string, headers?: Record<string, string>, signal?: AbortSignal }} Options */

/** Sends a request; gives the text of its answer.
 * @param {string} method @param {string} path @param {Options} [options] */
export async function send(method, path, { body, headers, signal } = {}) {
  let response;
  let text;
  try {
    response = await fetch(`/v1${path}`, {
      method, body, signal, cache: "no-store", credentials: "same-origin", redirect: "error",
      headers: { Accept: "application/json", ...(body !== undefined && { "Content-Type": "application/json" }), ...headers },
    });
    text = await response.text();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Unreachable();
  }
  if (!response.ok) throw problemOf(response, text);
  return text;
}

/** @param {string} method @param {string} path @param {Options} [options] @returns {Promise<any>} */
async function json(method, path, options) {
  const text = await send(method, path, options);
  try {
    return text ? JSON.parse(text) : null;
  } catch {
    throw new Problem(200, { detail: "the answer is not one of Redrive", hint: "does a proxy answer for the server?" });
  }
}

/** @param {string} path @param {Options} [options] */
export const get = (path, options) => json("GET", path, options);
/** @param {string} path @param {unknown} [body] @param {Options} [options] */
export const post = (path, body, options) =>
  json("POST", path, { ...options, body: body === undefined ? undefined : JSON.stringify(body) });
/** @param {string} path @param {Options} [options] */
export const remove = (path, options) => json("DELETE", path, options);

/** A name as a segment of a path. Browsers take "." and ".." for steps, even as %2E, so that things of these two names
 * are not found from here; the command line finds them. */
export const segment = encodeURIComponent;
