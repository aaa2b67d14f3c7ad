// Values of tools and models in people's words. Text is only ever set as text, never as HTML.

export function make(tag, fields = {}, ...children) {
  const { className, ...attributes } = fields;
  const found = document.createElement(tag);
  if (className) found.className = className;
  for (const [name, value] of Object.entries(attributes)) found.setAttribute(name, value);
  found.append(...children);
  return found;
}

const titles = {}; // of tools, by name: "Refund {amount} EUR"

export const learn = (agents) => agents.forEach((agent) => Object.assign(titles, agent.tools));

export function words(name) {
  const spaced = name.replace(/([a-z])([A-Z])/g, "$1 $2").replace(/[_-]+/g, " ").trim();
  return spaced.charAt(0).toUpperCase() + spaced.slice(1);
}

// What a call is in people's words.
export function titled(name, input) {
  const fill = (found, argument) => (argument === undefined ? found[0] : String(input?.[argument] ?? "…").slice(0, 200));
  return titles[name]?.replace(/\{\{|\}\}|\{(\w+)\}/g, fill) ?? words(name);
}

export function time(text) {
  const at = new Date(text);
  const day = { day: "numeric", month: "short", year: "numeric" };
  const isToday = at.toDateString() === new Date().toDateString();
  return at.toLocaleString([], { hour: "numeric", minute: "2-digit", ...(isToday ? {} : day) });
}

export function duration(since) {
  const minutes = Math.max(0, Math.floor((Date.now() - new Date(since)) / 60000));
  if (minutes < 1) return "less than a minute";
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} days`;
}

export const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

function plain(value) {
  if (value === null || value === undefined || value === "") return "–";
  if (typeof value === "boolean") return value ? "yes" : "no";
  return String(value);
}

// A value as a readable list; `before` holds what a person has changed in it.
export function readable(value, before, depth = 0) {
  if (depth > 5) return make("span", {}, JSON.stringify(value));
  if (isObject(value)) {
    const entries = Object.entries(value);
    if (!entries.length) return make("span", {}, "–");
    return make("dl", {}, ...entries.flatMap(([name, part]) => {
      const shown = make("dd", {}, readable(part, undefined, depth + 1));
      if (isObject(before) && JSON.stringify(before[name]) !== JSON.stringify(part)) {
        shown.append(", changed from ", readable(before[name], undefined, depth + 1));
        shown.className = "changed";
      }
      return [make("dt", {}, words(name)), shown];
    }));
  }
  if (Array.isArray(value) && value.some((one) => one !== null && typeof one === "object")) {
    return make("ol", {}, ...value.map((one) => make("li", {}, readable(one, undefined, depth + 1))));
  }
  return make("span", {}, Array.isArray(value) ? value.map(plain).join(", ") || "–" : plain(value));
}

export function argumentsOf(input, before) {
  return readable(isObject(input) ? input : { value: input }, before);
}

// The object or list that a text is, if it is JSON; a number or a sentence stays a text.
export function parsed(text) {
  if (typeof text !== "string" || !/^\s*[[{]/.test(text)) return null;
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

// What a tool gave: the object behind its envelope, or its error.
export function resultOf(content) {
  if (isObject(content) && "error" in content) return make("p", { className: "bad" }, `Failed: ${content.error?.message ?? plain(content.error)}`);
  const data = isObject(content) && "data" in content ? content.data : content;
  return readable(parsed(data) ?? data);
}

export function textOf(content) {
  if (typeof content === "string") return content;
  return (content ?? []).map((part) => part.text ?? `[${part.type}]`).join("");
}

// A text with its links to this site, e.g. files that a customer sent, and what is bold.
export function linked(text) {
  const found = make("p", { className: "text" });
  let end = 0;
  for (const one of text.matchAll(/!?\[([^\]\n]{0,200})\]\((\/[\w.-]+(?:\/[\w.-]+)*)\)|\*\*([^*\n]{1,200})\*\*/g)) {
    const [all, label, href, bold] = one;
    const shown = bold
      ? make("strong", {}, bold)
      : make("a", { href, target: "_blank", rel: "noopener noreferrer" }, label || href);
    found.append(text.slice(end, one.index), shown);
    end = one.index + all.length;
  }
  found.append(text.slice(end));
  return found;
}

// Puts items into a list; nothing moves, and the focus stays, where nothing has changed.
export function place(list, items) {
  const now = [...list.children];
  if (now.length === items.length && items.every((item, n) => item === now[n])) return;
  const focused = document.activeElement;
  const key = list.contains(focused) ? focused.dataset.thread : undefined;
  list.replaceChildren(...items);
  if (key !== undefined) [...list.querySelectorAll("button")].find((b) => b.dataset.thread === key)?.focus();
}
