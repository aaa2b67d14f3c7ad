// Figures and messages as people read them.

import { h } from "./dom.js";
import { render as markdown } from "./markdown.js";

export function duration(ms) {
  if (ms === null || ms === undefined) return "…";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60000) return `${(ms / 1000).toFixed(1)} s`;
  return `${Math.floor(ms / 60000)} min ${Math.round((ms % 60000) / 1000)} s`;
}

export const count = (number) => Math.round(number).toLocaleString("en");
export const counted = (number, noun) => `${count(number)} ${noun}${number === 1 ? "" : "s"}`;

export function tokens(usage) {
  if (!usage) return "tokens unknown";
  const cached = usage.cached ? ` (${count(usage.cached)} cached)` : "";
  return `${count(usage.input)}${cached} in, ${count(usage.output)} out`;
}

export function money(cost, currency) {
  if (cost === null || cost === undefined) return "";
  const digits = cost >= 1 ? 2 : cost >= 0.01 ? 4 : 6;
  return `${currency} ${cost.toFixed(digits)}`;
}

export function when(iso) {
  const time = new Date(iso);
  const today = new Date().toDateString() === time.toDateString();
  return today
    ? time.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" })
    : time.toLocaleDateString([], { day: "numeric", month: "short" });
}

/** One of eight colours, always the same one for a name. */
export function hue(name) {
  let sum = 0;
  for (const letter of name ?? "") sum = (sum * 31 + letter.codePointAt(0)) >>> 0;
  return `hue-${sum % 8}`;
}

export const agentName = (name) => h(`span.agent.${hue(name)}`, name ?? "");

export function callText(call) {
  const given = call.input;
  if (typeof given === "string") return `${call.name}(${given})`;
  const parts = Object.entries(given ?? {}).map(([key, value]) => `${key}=${JSON.stringify(value)}`);
  return `${call.name}(${parts.join(", ")})`;
}

const SHORT = 160;

/** What a tool result holds, without its envelope. */
export function resultText(message) {
  const content = message.content;
  if (message.isError) return `${content.error?.name ?? "Error"}: ${content.error?.message ?? ""}`;
  const inside = content && typeof content === "object" && "data" in content ? content.data : content;
  if (typeof inside === "string") return inside;
  const brief = JSON.stringify(inside);
  return brief.length <= SHORT ? brief : JSON.stringify(inside, null, 1);
}

export function messageText(message) {
  if (message.type === "tool_call") return message.calls.map(callText).join("\n");
  if (message.type === "tool_result") return resultText(message);
  const media = message.media?.length ? `\n[${message.media.join(", ")}]` : "";
  return (message.text ?? "") + media;
}

export function messageKind(message) {
  if (message.type === "tool_call") return "calls";
  if (message.type === "tool_result") return message.isError ? `${message.tool} fails` : `${message.tool} gives`;
  if (message.type === "reasoning") return "thinks";
  return "";
}

/** A model's text as people read it: JSON in colours, else Markdown. */
export function rendered(text, kind = "div.text.rendered") {
  if (/^\s*[[{]/.test(text)) {
    try {
      return json(JSON.parse(text), "JSON");
    } catch {
      // It only begins like JSON.
    }
  }
  return h(kind, markdown(text));
}

const PIECES = /("(?:\\.|[^"\\])*")(\s*:)?|\b(true|false|null)\b|-?\b\d[\d.eE+-]*/g;
const LONGEST = 200_000;

/** JSON, indented and coloured; very long ones without colours. */
export function json(value, label) {
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
  const pre = h("pre.json", { tabindex: "0", role: "region", "aria-label": label });
  if (text === undefined) return pre;
  if (text.length > LONGEST) {
    pre.textContent = text;
    return pre;
  }
  let last = 0;
  for (const found of text.matchAll(PIECES)) {
    pre.append(text.slice(last, found.index));
    const kind = found[2] ? "key" : found[1] ? "string" : "atom";
    pre.append(h(`span.j-${kind}`, found[1] ?? found[0]), found[2] ?? "");
    last = found.index + found[0].length;
  }
  pre.append(text.slice(last));
  return pre;
}
