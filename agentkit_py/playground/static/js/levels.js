// What one call saw: the message list, level by level, with what each level took out or changed.

import { h } from "./dom.js";
import { agentName, count, messageKind, messageText } from "./format.js";

const SIGNS = { kept: "", removed: "−", rewritten: "~", added: "+" };
const WORDS = { kept: "kept", removed: "removed", rewritten: "changed", added: "added" };
const LONG = 320;
const MOST = 300;
const AROUND = 24;

/** The levels of a call; `chosen` is the level that is shown, `choose(level)` picks another. */
export function levels(seen, chosen, choose) {
  const views = viewsOf(seen);
  const view = views.find((one) => one.id === chosen) ?? views.at(-1);
  return h("div.levels",
    h("div.steps", { role: "group", "aria-label": "Levels" }, views.map((one) => h("button.step", {
      type: "button",
      data: { key: `level-${one.id}` },
      "aria-pressed": one === view ? "true" : "false",
      onclick: () => choose(one.id),
    }, h("span.step-level", one.level), h("span.step-name", one.name), h("span.step-figures", one.figures,
      one.cut ? h("span.cut", one.cut) : null)))),
    view.why ? h("p.muted.why-line", view.why) : null,
    messageList(seen, view));
}

/** The rows of a level; of very many only the newest, until one asks for all. */
function messageList(seen, view) {
  const list = h("ul.messages", { "aria-label": `Messages: ${view.name}` });
  const show = (rows) => list.append(...rows.map((row) => messageRow(seen, row)));
  const older = view.rows.slice(0, -MOST);
  if (older.length) {
    const all = h("button", { type: "button", onclick: () => {
      list.replaceChildren();
      show(view.rows);
    } }, `Show ${count(older.length)} older ones`);
    list.append(h("li", all));
  }
  show(view.rows.slice(-MOST));
  return list;
}

function viewsOf(seen) {
  const { figures, messages } = seen;
  const size = (list) => list.reduce((sum, number) => sum + messages[number].tokens, 0);
  const first = {
    id: "thread",
    level: "thread",
    name: "Full history",
    figures: `${seen.history.length} msg · ${count(figures.historyTokens)} tok`,
    why: "The whole thread before any processor, without the system prompt and the new message.",
    rows: seen.history.map((number) => ({ change: "kept", before: number, after: number })),
  };
  const between = seen.levels.map((level, index) => ({
    id: `level-${index}`,
    level: level.level,
    name: level.name === level.level ? "" : level.name,
    figures: `${level.messagesBefore} → ${level.messagesAfter} msg · ${count(level.tokensBefore)} → ${count(level.tokensAfter)} tok`,
    cut: difference(level.tokensAfter - level.tokensBefore),
    why: [level.changed ? level.reason || "changed" : `${level.reason ? `${level.reason}: ` : ""}nothing to change`,
      level.keptBack ? `${level.keptBack} put back: this agent's own calls of this run stay` : ""].filter(Boolean).join(" · "),
    rows: level.rows.map(([change, before, after]) => ({ change, before, after })),
  }));
  const total = figures.historyTokens + size(seen.prompt);
  const last = {
    id: "sent",
    level: "sent",
    name: "What it saw",
    figures: `${seen.sent.length} msg · ${count(figures.sentTokens)} tok`,
    cut: difference(figures.sentTokens - total),
    why: `${count(total)} tokens with everything, ${count(figures.sentTokens)} sent (counted by ${figures.tokenizer}). What is marked − was not sent.${foreign(figures)}`,
    rows: seen.overview,
  };
  return [first, ...between, last];
}

/** Contamination: calls of tools that the agent does not have, which models tend to call then. */
function foreign({ foreignMessages, foreignTokens, sentTokens }) {
  if (!foreignMessages) return " None of it is of tools that are not this agent's.";
  return ` ${foreignMessages} of the messages are of tools that are not this agent's: ${count(foreignTokens)} tokens, ${Math.round((100 * foreignTokens) / Math.max(1, sentTokens))} %.`;
}

function difference(number) {
  if (!number) return "";
  return number < 0 ? `−${count(-number)}` : `+${count(number)}`;
}

function messageRow(seen, row) {
  const message = seen.messages[row.after ?? row.before];
  const before = row.change === "rewritten" ? seen.messages[row.before] : null;
  const shorter = before && message.tokens < before.tokens;
  const word = shorter ? "shortened" : WORDS[row.change];
  return h(`li.message.${row.change}`,
    h("div.message-head",
      h("span.sign", { "aria-hidden": "true" }, SIGNS[row.change]),
      who(message), h("span.kind", messageKind(message)),
      row.change !== "kept" ? h("span.tag", row.by && row.by !== "prompt" ? `${word} by ${row.by}` : word) : null,
      row.by === "prompt" ? h("span.tag.plain", "prompt") : null,
      h("span.tok", before ? `${count(before.tokens)} → ${count(message.tokens)}` : count(message.tokens))),
    before ? changed(messageText(before), messageText(message)) : null,
    body(message),
    before ? h("details.was", h("summary", "as it was"), body(before)) : null);
}

/** The words that went and those that came, with a little of what stands around them. */
function changed(old, now) {
  const most = Math.min(old.length, now.length);
  let start = 0;
  while (start < most && old[start] === now[start]) start += 1;
  let end = 0;
  while (end < most - start && old[old.length - 1 - end] === now[now.length - 1 - end]) end += 1;
  const brief = (text) => (text.length > LONG ? `${text.slice(0, LONG / 2)} … ${text.slice(-LONG / 2)}` : text);
  const gone = old.slice(start, old.length - end);
  const came = now.slice(start, now.length - end);
  return h("p.change", { "aria-label": "What changed" },
    start > AROUND ? "…" : "", old.slice(Math.max(0, start - AROUND), start),
    gone ? h("del", brief(gone)) : null, came ? h("ins", brief(came)) : null,
    end ? old.slice(old.length - end).slice(0, AROUND) : "", end > AROUND ? "…" : "");
}

function who(message) {
  if (message.agent) return agentName(message.agent);
  return h(`span.role`, message.role === "tool_result" ? "tool" : message.role);
}

function body(message) {
  const text = messageText(message);
  const plain = message.type === "text" || message.type === "reasoning" ? "div.body" : "div.body.mono";
  if (text.length <= LONG && text.split("\n").length <= 6) return h(plain, text);
  const brief = text.split("\n").slice(0, 4).join("\n").slice(0, LONG);
  return h("details.long", h("summary", h(`span.${plain.slice(4)}`, `${brief}…`)), h(plain, text));
}
