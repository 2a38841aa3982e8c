// Building and updating the page. Text becomes text nodes and nothing is ever parsed as HTML, so that
// a payload, an error or a name cannot become markup.

/** @import { Child } from "./types" */

const SVG = "http://www.w3.org/2000/svg";

// Attributes that belong to the page on the screen and not to what is drawn.
const LOCAL = new Set(["open", "data-current"]);

function setProperty(node, name, value) {
  if (name.startsWith("on")) {
    listen(node, name.slice(2), value);
  } else if (name === "value" || name === "checked" || name === "indeterminate") {
    node[name] = value;
    if (name === "value") node.setAttribute("value", value);
  } else if (value === true) {
    node.setAttribute(name, "");
  } else if (value !== false && value !== null && value !== undefined) {
    node.setAttribute(name, value);
  }
}

// One listener for each kind of event, which calls the handler of the last drawing.
function listen(node, type, handler) {
  if (!node.handlers) node.handlers = {};
  if (!(type in node.handlers)) node.addEventListener(type, (event) => node.handlers[type]?.(event));
  node.handlers[type] = handler;
}

function append(node, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return node;
}

function build(node, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) setProperty(node, name, value);
  return append(node, children);
}

/** An HTML element: h("a", {href, class, onclick}, "text", otherElement, …).
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag @param {Record<string, any> | null} properties @param {Child[]} children
 * @returns {HTMLElementTagNameMap[Tag]} */
export function h(tag, properties, ...children) {
  return build(document.createElement(tag), properties, children);
}

/** An SVG element.
 * @template {keyof SVGElementTagNameMap} Tag
 * @param {Tag} tag @param {Record<string, any> | null} properties @param {Child[]} children
 * @returns {SVGElementTagNameMap[Tag]} */
export function svg(tag, properties, ...children) {
  return build(document.createElementNS(SVG, tag), properties, children);
}

function keyOf(node) {
  return node.nodeType === Node.ELEMENT_NODE ? node.getAttribute("data-key") : null;
}

function sameKind(a, b) {
  return a.nodeType === b.nodeType && a.nodeName === b.nodeName && keyOf(a) === keyOf(b);
}

function patchAttributes(old, fresh) {
  for (const { name, value } of [...fresh.attributes])
    if (!LOCAL.has(name) && old.getAttribute(name) !== value) old.setAttribute(name, value);
  for (const { name } of [...old.attributes])
    if (!LOCAL.has(name) && !fresh.hasAttribute(name)) old.removeAttribute(name);
}

// A field that the user is typing in is left alone.
function patchInput(old, fresh) {
  if (!("checked" in old || "value" in old) || old === document.activeElement) return;
  if ("checked" in old) {
    old.checked = fresh.checked;
    old.indeterminate = fresh.indeterminate;
  }
  if (old.type !== "checkbox" && "value" in fresh && old.value !== fresh.value) old.value = fresh.value;
}

function patchChildren(old, fresh) {
  const keyed = new Map();
  for (const child of old.childNodes) if (keyOf(child) !== null) keyed.set(keyOf(child), child);
  let place = old.firstChild;
  for (const wanted of [...fresh.childNodes]) {
    const key = keyOf(wanted);
    let found = key !== null ? keyed.get(key) : place && keyOf(place) === null ? place : null;
    if (found && !sameKind(found, wanted)) found = null;
    if (!found) {
      old.insertBefore(wanted, place);
      continue;
    }
    if (found === place) place = place.nextSibling;
    else old.insertBefore(found, place);
    patch(found, wanted);
  }
  while (place) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
}

/** Makes `old` look like `fresh`, which is used up. Focus, selection and what is unfolded stay. */
export function patch(old, fresh) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  for (const [type, handler] of Object.entries(fresh.handlers ?? {})) listen(old, type, handler);
  for (const type of Object.keys(old.handlers ?? {})) if (!fresh.handlers?.[type]) old.handlers[type] = null;
  patchAttributes(old, fresh);
  patchChildren(old, fresh);
  patchInput(old, fresh);
}

/** Puts `fresh` into a container in place of what is there, changing as little as possible.
 * @param {Element} container @param {Element} fresh */
export function show(container, fresh) {
  const old = container.firstChild;
  if (old && !old.nextSibling && sameKind(old, fresh)) patch(old, fresh);
  else container.replaceChildren(fresh);
}
