// A call with another prompt or other processors: what it would see, and what the model says then.

import { h } from "./dom.js";
import { count, duration, json, money, tokens, messageKind, messageText } from "./format.js";
import { levels } from "./levels.js";
import { state } from "./store.js";
import * as api from "./api.js";

// What was typed stays when one looks at something else meanwhile.
const drafts = new Map();

export function editor(run, found) {
  if (!found.editable) return h("p.error", found.problem);
  const key = `${run}/${found.call}`;
  if (!drafts.has(key)) drafts.set(key, draftOf(found));
  const draft = drafts.get(key);
  const outcome = h("div.outcome", { "aria-live": "polite" });
  const redraw = () => outcome.replaceChildren(...[outcomeOf(run, found, draft, redraw)].flat().filter(Boolean));
  redraw();
  const act = (ask) => async (event) => {
    event.preventDefault();
    draft.busy = ask === api.again ? "Asking the model…" : "Looking…";
    draft.problem = null;
    redraw();
    try {
      draft.result = await ask(run, found.call, editOf(found, draft));
      draft.asked = ask === api.again;
    } catch (error) {
      draft.result = null;
      draft.problem = error.message;
    }
    draft.busy = null;
    redraw();
    outcome.scrollIntoView({ block: "nearest" });
  };
  return h("form.edit", { onsubmit: act(api.look) },
    h("p.muted", "Neither way changes the thread, and no tool is called."),
    area("System prompt", draft, "system", 7),
    area("What the user said", draft, "input", 3),
    found.processors.length ? h("fieldset", h("legend", "Processors"), found.processors.map((one) => processor(one, draft))) : null,
    h("div.edit-row",
      h("button", { type: "submit", data: { key: "look" } }, "What would it see?"),
      h("button.primary", { type: "button", data: { key: "again" }, onclick: act(api.again) }, "Run again"),
      h("button.link", { type: "button", onclick: () => {
        drafts.delete(key);
        document.querySelector('[data-key="view-edit"]')?.click();
      } }, "Undo changes")),
    outcome);
}

function draftOf(found) {
  return {
    system: found.system,
    input: found.input,
    off: new Set(),
    settings: new Map(),
    level: "sent",
    result: null,
    problem: null,
    busy: null,
  };
}

function area(name, draft, field, rows) {
  const id = `edit-${field}`;
  return h("div.field", h("label", { for: id }, name), h("textarea", {
    id,
    rows,
    spellcheck: false,
    value: draft[field],
    data: { key: id },
    oninput: (event) => { draft[field] = event.target.value; },
  }));
}

function processor(one, draft) {
  const id = `edit-on-${one.number}`;
  const toggle = (event) => draft.off[event.target.checked ? "delete" : "add"](one.number);
  const settings = Object.entries(one.settings);
  return h("div.processor",
    h("label.processor-name", { for: id },
      h("input", { type: "checkbox", id, checked: !draft.off.has(one.number), data: { key: id }, onchange: toggle }),
      h("span.step-level", one.level), " ", one.name),
    one.reason ? h("span.muted", one.reason) : null,
    settings.length ? h("div.settings", settings.map(([name, value]) => setting(one, name, value, draft))) : null,
    one.fixed.length ? h("p.muted.small", `Not editable here: ${one.fixed.join(", ")}`) : null);
}

function setting(one, name, value, draft) {
  const id = `edit-${one.number}-${name}`;
  const changed = draft.settings.get(id);
  const common = { id, data: { key: id } };
  const set = (typed) => draft.settings.set(id, { number: one.number, name, typed });
  const input = typeof value === "boolean"
    ? h("input", { ...common, type: "checkbox", checked: changed?.typed ?? value, onchange: (event) => set(event.target.checked) })
    : h("input", { ...common, type: "text", spellcheck: false, value: changed?.typed ?? JSON.stringify(value), oninput: (event) => set(event.target.value) });
  return h("div.setting", h("label", { for: id }, name), input);
}

/** What is otherwise, as the server takes it. */
function editOf(found, draft) {
  const processors = {};
  const of = (number) => (processors[number] ??= { off: false, settings: {} });
  for (const number of draft.off) of(number).off = true;
  for (const { number, name, typed } of draft.settings.values()) of(number).settings[name] = valueOf(name, typed);
  const edit = { processors };
  if (draft.system !== found.system) edit.system = draft.system;
  if (draft.input !== found.input) edit.input = draft.input;
  return edit;
}

function valueOf(name, typed) {
  if (typeof typed === "boolean") return typed;
  try {
    return JSON.parse(typed);
  } catch {
    throw new Error(`${name}: write JSON, such as 4000, true, null, "text" or ["a", "b"].`);
  }
}

function outcomeOf(run, found, draft, redraw) {
  if (draft.busy) return h("p.muted", draft.busy);
  if (draft.problem) return h("p.error", draft.problem);
  const result = draft.result;
  if (!result) return null;
  const before = found.seen.figures.sentTokens;
  const after = result.seen.figures.sentTokens;
  return [
    h("h3", draft.asked ? "Run again" : "What it would see"),
    h("p", `${count(before)} → ${count(after)} tokens sent, ${found.seen.sent.length} → ${result.seen.sent.length} messages`,
      result.ms === undefined ? "" : ` · ${[duration(result.ms), tokens(result.usage), money(result.cost, state.target?.currency)].filter(Boolean).join(" · ")}`),
    result.stop ? h("p.error", "on_start would end the turn without asking the model.") : null,
    draft.asked ? compare(run, found, result) : null,
    levels(result.seen, draft.level, (level) => {
      draft.level = level;
      redraw();
    }),
    h("details", h("summary", "Request"), json(result.request, "Edited request")),
    draft.asked ? h("details", h("summary", "Reply"), json(result.reply, "New reply")) : null,
  ];
}

function compare(run, found, result) {
  const first = state.runs.get(run)?.calls.get(found.call)?.messages ?? [];
  const side = (title, messages) => h("div.side", h("h4", title), messages.map((message) =>
    h("div.body", messageKind(message) ? `${messageKind(message)} ${messageText(message)}` : messageText(message))));
  return h("div.compare", side("In the run", first), side("Now", result.messages));
}
