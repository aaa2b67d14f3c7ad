// Building and replacing parts of the page. Text is only ever set as text, never as HTML.

// Those that an attribute would not set, or not at once.
const PROPERTIES = new Set(["checked", "disabled", "open", "value"]);

/** An element: h("li.kept", {title: "…", onclick: f}, child, "text", [more]). */
export function h(selector, ...rest) {
  const [tag, ...classes] = selector.split(".");
  const element = document.createElement(tag || "div");
  if (classes.length) element.className = classes.join(" ");
  const hasProps = rest[0] && Object.getPrototypeOf(rest[0]) === Object.prototype;
  if (hasProps) setAll(element, rest.shift());
  append(element, rest);
  return element;
}

/** An element of a drawing: svg("line", {x1: 0}, children). */
export function svg(name, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  append(element, children);
  return element;
}

function setAll(element, props) {
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "data") Object.assign(element.dataset, value);
    else if (name === "style") Object.assign(element.style, value);
    else if (PROPERTIES.has(name)) element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
}

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    element.append(child);
  }
}

/** Put children in place of what is there. */
export function fill(container, ...children) {
  keeping(container, () => {
    container.replaceChildren();
    append(container, children);
  });
}

/** Change what is in a container; focus, open details and scrolling stay where data-key says so. */
export function keeping(container, change) {
  const active = document.activeElement;
  const key = container.contains(active) ? active.dataset.key : undefined;
  const open = new Map();
  for (const one of container.querySelectorAll("details[data-key]")) open.set(one.dataset.key, one.open);
  const top = container.scrollTop;
  change();
  for (const one of container.querySelectorAll("details[data-key]")) {
    if (open.has(one.dataset.key)) one.open = open.get(one.dataset.key);
  }
  container.scrollTop = top;
  if (key && !container.contains(document.activeElement)) {
    container.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus({ preventScroll: true });
  }
}

export const byId = (id) => document.getElementById(id);

/** Calls f once per frame at the most. */
export function perFrame(f) {
  let waiting = false;
  return () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      f();
    });
  };
}
