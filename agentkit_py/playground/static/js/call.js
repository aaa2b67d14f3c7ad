// One model call: what it saw, the exact request and reply, and the place to edit it.

import { h, fill, byId } from "./dom.js";
import { agentName, duration, json, money, tokens, messageText, messageKind, rendered } from "./format.js";
import { levels } from "./levels.js";
import { editor } from "./edit.js";
import { allCalls, isStored, shownRun, state } from "./store.js";
import * as api from "./api.js";

const VIEWS = [["saw", "What it saw"], ["request", "Request"], ["reply", "Reply"], ["edit", "Edit and run again"]];
const details = new Map();
let actions;
let view = "saw";
let level = "sent";
let drawn = "";

export function setUp(given) {
  actions = given;
}

export function forget() {
  details.clear();
  drawn = "";
}

export function showView(name) {
  view = name;
  drawn = "";
  render();
}

export function render() {
  const run = shownRun();
  const call = run?.calls.get(state.call);
  const pane = byId("pane-call");
  if (!call) {
    drawn = "";
    fill(pane, h("p.empty", allCalls().length
      ? "Pick a model call under Run, or press j."
      : "The model calls of your next message are shown here."));
    return;
  }
  const key = `${run.id}/${call.call}`;
  const known = details.get(key);
  // What was asked for before the reply came is asked for again after it.
  if (!known || (known.open && call.end !== null)) load(run.id, call);
  const now = `${key}/${view}/${level}/${call.end}/${call.error}/${Boolean(details.get(key)?.found)}/${details.get(key)?.problem}`;
  if (now === drawn) return;
  drawn = now;
  fill(pane, head(run, call), isStored(run) ? null : switcher(), content(run, call, details.get(key)));
}

async function load(run, call) {
  const entry = { open: call.end === null, found: details.get(`${run}/${call.call}`)?.found ?? null, problem: null };
  details.set(`${run}/${call.call}`, entry);
  try {
    entry.found = await api.getCall(run, call.call, state.thread);
  } catch (error) {
    entry.problem = error.message;
  }
  drawn = "";
  render();
}

function head(run, call) {
  const calls = allCalls();
  const place = calls.findIndex((one) => one.run === run.id && one.call === call.call);
  const go = (step) => () => actions.pick(calls[place + step].run, calls[place + step].call);
  const took = isStored(run) ? "" : call.end === null ? "…" : duration(call.end - call.begin);
  const facts = [call.model, took, tokens(call.usage), money(call.cost, state.target?.currency), call.finish];
  return h("div.pane-head.call-head",
    h("h2", `Call ${call.call}`), call.agent ? agentName(call.agent) : h("span.muted", "made by a processor"),
    h("span.grow"),
    h("button", { type: "button", disabled: place <= 0, "aria-label": "Previous call", title: "Previous call (k)", data: { key: "call-back" }, onclick: go(-1) }, "‹"),
    h("button", { type: "button", disabled: place >= calls.length - 1, "aria-label": "Next call", title: "Next call (j)", data: { key: "call-on" }, onclick: go(1) }, "›"),
    h("p.facts", facts.filter(Boolean).join(" · ")),
    call.agent && call.end !== null && !call.error && !isStored(run) ? h("button", { type: "button", data: { key: "save-case" }, onclick: () => saveCase(run, call) }, "Save as evaluation case") : null);
}

/** One line of a file that `read_cases` reads, as a download. */
async function saveCase(run, call) {
  try {
    const found = await api.getCase(run.id, call.call);
    const url = URL.createObjectURL(new Blob([`${JSON.stringify(found)}\n`], { type: "application/jsonl" }));
    h("a", { href: url, download: `case-${call.call}.jsonl` }).click();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  } catch (error) {
    actions.fail(error);
  }
}

function switcher() {
  return h("div.switcher", { role: "group", "aria-label": "Parts of the call" }, VIEWS.map(([id, name]) => h("button", {
    type: "button",
    data: { key: `view-${id}` },
    "aria-pressed": view === id ? "true" : "false",
    onclick: () => showView(id),
  }, name)));
}

function content(run, call, entry) {
  if (entry?.problem) return h("p.error", entry.problem);
  const found = entry?.found;
  if (!found) return h("p.muted", "Loading…");
  if (found.stored) return storedView(found);
  if (view === "request") return requestView(found);
  if (view === "reply") return replyView(found);
  if (!found.seen) return h("p.muted", "A processor made this call; see the request and the reply.");
  if (view === "edit") return editor(run.id, found);
  return levelsOf(found);
}

const levelsOf = (found) => levels(found.seen, level, (chosen) => {
  level = chosen;
  render();
});

/** A call of an earlier run: the store has no request, but the thread as it was before it. */
function storedView(found) {
  if (!found.seen) return h("p.muted", "This network has no such agent any more, so what it saw cannot be shown.");
  return h("div", h("p.muted", `The request was not recorded. ${found.stored}`), levelsOf(found));
}

function requestView(found) {
  const sentence = found.streamed ? "As it was sent, with streaming." : "As it was sent.";
  return h("div", note(`${sentence} Headers, and with them keys, are not shown.`, found.request),
    found.request ? json(found.request, "Request") : h("p.muted", "Not sent yet."));
}

function replyView(found) {
  if (found.error) return h("p.error", found.error);
  if (!found.reply) return h("p.muted", "No reply yet.");
  return h("div", found.finishDetails && h("p.facts", `It ended with ${found.finish}: ${JSON.stringify(found.finishDetails)}`), note(found.streamed ? "Put together from the stream." : "As it was received.", found.reply), json(found.reply, "Reply"));
}

function note(sentence, value) {
  const copy = () => navigator.clipboard?.writeText(JSON.stringify(value, null, 2));
  return h("div.note-row", h("p.muted", sentence), h("button", { type: "button", data: { key: "copy" }, onclick: copy }, "Copy"));
}

export function replyList(messages) {
  return h("ul.messages", messages.map((message) => h("li.message.kept",
    h("div.message-head", h("span.kind", messageKind(message) || "says")),
    message.type === "text" ? rendered(messageText(message), "div.body.rendered") : h("div.body.mono", messageText(message)))));
}
