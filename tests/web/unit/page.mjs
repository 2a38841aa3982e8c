// As much of a browser as the dashboard's modules need to be loaded and to build elements: a tree that can be read. What
// needs more is tested in Chromium (tests/web).

class Tree {
  constructor(tag) {
    this.tag = tag;
    this.attributes = {};
    this.children = [];
  }

  setAttribute(name, value) {
    this.attributes[name] = String(value);
  }

  removeAttribute(name) {
    delete this.attributes[name];
  }

  addEventListener() {}

  append(child) {
    this.children.push(child);
  }

  replaceChildren(...children) {
    this.children = children;
  }

  get firstChild() {
    return null; // so that what is shown is replaced, and not patched
  }

  get textContent() {
    return this.children.map((child) => child.textContent).join("");
  }

  /** All elements of this tag below this one. */
  all(tag) {
    return this.children.flatMap((child) => [...(child.tag === tag ? [child] : []), ...(child.all?.(tag) ?? [])]);
  }
}

class Text extends Tree {
  constructor(text) {
    super("#text");
    this.text = text;
  }

  get textContent() {
    return this.text;
  }
}

globalThis.Node = Tree;
globalThis.window = { addEventListener() {}, scrollTo() {} };
globalThis.document = {
  hidden: false,
  addEventListener() {},
  createElement: (tag) => new Tree(tag),
  createElementNS: (_, tag) => new Tree(tag),
  createTextNode: (text) => new Text(text),
};
globalThis.matchMedia = () => ({ matches: false });

/** The element that a page is shown in. */
export const newContainer = () => new Tree("main");
