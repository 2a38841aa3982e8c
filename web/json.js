// JSON as text. JSON.parse would round the integers of a payload that JavaScript cannot hold, and
// order its keys anew; so payloads are cut out of the answer, and shown and edited as they are.

/** The end of the string that begins at `at`, behind its quote.
 * @param {string} text @param {number} at */
function stringEnd(text, at) {
  for (let i = at + 1; i < text.length; i++) {
    if (text[i] === "\\") i++;
    else if (text[i] === '"') return i + 1;
  }
  return text.length;
}

/** @param {string} text @param {number} at */
function skipSpace(text, at) {
  while (at < text.length && " \n\r\t".includes(text[at])) at++;
  return at;
}

/** The end of the value that begins at `at`.
 * @param {string} text @param {number} at */
function valueEnd(text, at) {
  let depth = 0;
  for (let i = at; i < text.length; ) {
    const c = text[i];
    if (c === '"') {
      i = stringEnd(text, i);
    } else if (c === "{" || c === "[") {
      depth++;
      i++;
      continue;
    } else if (c === "}" || c === "]") {
      if (depth === 0) return i;
      depth--;
      i++;
    } else if (depth === 0 && (c === "," || " \n\r\t".includes(c))) {
      return i;
    } else {
      i++;
      if (depth === 0 && i < text.length && !',}] \n\r\t"{['.includes(text[i])) continue;
    }
    if (depth === 0) return i;
  }
  return text.length;
}

/** The text of one member of the object that `text` is; null: there is none, or it is null.
 * @param {string} text @param {string} name */
export function memberText(text, name) {
  let at = skipSpace(text, 0) + 1;
  while (at < text.length) {
    at = skipSpace(text, at);
    if (text[at] !== '"') return null;
    const end = stringEnd(text, at);
    const key = JSON.parse(text.slice(at, end));
    const from = skipSpace(text, skipSpace(text, end) + 1);
    const to = valueEnd(text, from);
    if (key === name) {
      const value = text.slice(from, to);
      return value === "null" ? null : value;
    }
    at = skipSpace(text, to) + 1;
  }
  return null;
}

/** Valid JSON with a line for each value, and every value as it was written.
 * @param {string} text */
export function indent(text) {
  let out = "";
  let depth = 0;
  const newline = () => `\n${"  ".repeat(depth)}`;
  for (let i = 0; i < text.length; ) {
    const c = text[i];
    if (c === '"') {
      const end = stringEnd(text, i);
      out += text.slice(i, end);
      i = end;
      continue;
    }
    i++;
    if (" \n\r\t".includes(c)) continue;
    if (c === "{" || c === "[") {
      const next = skipSpace(text, i);
      if (text[next] === "}" || text[next] === "]") {
        out += c + text[next];
        i = next + 1;
        continue;
      }
      depth++;
      out += c + newline();
    } else if (c === "}" || c === "]") {
      depth--;
      out += newline() + c;
    } else if (c === ",") {
      out += c + newline();
    } else {
      out += c === ":" ? ": " : c;
    }
  }
  return out;
}
