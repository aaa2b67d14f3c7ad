// The conversation: what is stored, then this process's runs as they happen.

import { h, byId, keeping } from "./dom.js";
import { agentName, callText, resultText, duration, tokens, money, rendered } from "./format.js";
import { handedTo, isInner, isStored, state, shownRun, waits, wordsOf } from "./store.js";
import * as api from "./api.js";

const sections = new Map();
// What was typed on cards: they are drawn again with every event of their run.
const reasons = new Map();
let actions;
let shown = null;

export function setUp(given) {
  actions = given;
}

export function render() {
  const log = byId("chat");
  const below = log.scrollHeight - log.scrollTop - log.clientHeight < 60;
  if (shown !== state.thread) {
    sections.clear();
    log.replaceChildren();
    shown = state.thread;
  }
  keeping(log, () => place(log, parts()));
  if (below) log.scrollTop = log.scrollHeight;
}

/** Put the sections into the log; those that have not changed stay the elements they are. */
function place(log, wanted) {
  wanted.forEach(({ key, version, make }, index) => {
    let section = sections.get(key);
    if (!section || section.version !== version) {
      const element = make();
      section?.element.replaceWith(element);
      section = { element, version };
      sections.set(key, section);
    }
    if (log.children[index] !== section.element) log.insertBefore(section.element, log.children[index] ?? null);
  });
  while (log.children.length > wanted.length) log.lastChild.remove();
}

/** Stored results that no run of this process holds, and the runs, in their order. */
function parts() {
  const runs = [...state.runs.values()];
  const found = [];
  let place = state.offset;
  if (place) found.push({ key: "older", version: place, make: () => h("p.note", `${place} older results are not shown.`) });
  const stored = (end) => {
    const results = state.results.slice(place - state.offset, Math.max(0, end - state.offset));
    if (results.length) {
      const key = `stored-${place}`;
      found.push({ key, version: results.length, make: () => storedSection(results) });
    }
    place = Math.max(place, end);
  };
  for (const run of runs) {
    if (run.first !== null) stored(run.first);
    const version = `${run.version}${run.id === shownRun()?.id}${state.call}`;
    found.push({ key: run.id, version, make: () => runSection(run) });
    if (run.last !== null) place = Math.max(place, run.last);
  }
  if (!runs.length || runs.at(-1).last !== null) stored(state.offset + state.results.length);
  const shown = new Set(runs.flatMap((run) => [...run.questions.keys()]));
  const others = state.questions.filter((question) => !shown.has(question.requestId));
  if (others.length) {
    const key = `questions-${others.map((question) => question.requestId)}`;
    found.push({ key, version: key, make: () => h("div.turn", { role: "group", "aria-label": "Open questions" }, others.map((question) => card(null, question))) });
  }
  if (!found.length) return [{ key: "empty", version: state.target?.name ?? "", make: empty }];
  const next = runs.at(-1)?.status === "running" ? undefined : proposed();
  if (next) found.push({ key: "next", version: next, make: () => h("div.examples", example(next)) });
  return found;
}

/** The example that comes next: they are one conversation. */
function proposed() {
  return state.offset ? undefined : state.target?.examples?.[state.results.filter((result) => result.user).length];
}

function example(text) {
  return h("button.example", { type: "button", data: { key: "example" }, onclick: () => actions.propose(text) },
    h("span.muted", "Try: "), text);
}

function empty() {
  const names = (state.target?.agents ?? []).map((agent) => agent.name);
  return h("div.empty",
    h("p", "No messages yet."),
    h("p.muted", "Write a message, then pick a model call to see what the agent saw."),
    names.length ? h("p.muted", `Agents: ${names.join(", ")}`) : null,
    proposed() ? h("div.examples", example(proposed())) : null);
}

function storedSection(results) {
  return h("div.turn", { role: "group", "aria-label": "Earlier messages" }, results.flatMap((result, index) =>
    result.messages.map((message) => result.user
      ? userMessage(message.text)
      : storedMessage(result, message, index))));
}

function storedMessage(result, message, index) {
  if (message.type === "tool_result") return null;
  if (message.type === "tool_call") {
    return message.calls.map((call) => {
      const answer = result.messages.find((one) => one.type === "tool_result" && one.callId === call.id);
      return toolLine(call, { result: answer }, `stored-${index}-${call.id}`, result.agent, true);
    });
  }
  return agentMessage(result.agent, message);
}

function userMessage(text) {
  return h("div.said.user", h("div.who", "You"), h("div.text", text));
}

function agentMessage(agent, message, pick) {
  if (message.type === "reasoning") {
    return h("details.reasoning", h("summary", "Reasoning"), h("div.text", message.text));
  }
  return h("div.said", h("div.who", agentName(agent), pick), rendered(message.text),
    message.cut ? h("div.note", `This reply is not whole: ${CUT[message.cut] ?? message.cut}.`) : null);
}

const CUT = { error: "it was stopped or broke off", length: "it reached the limit of tokens" };

function runSection(run) {
  const label = wordsOf(run) === "running" ? "A run in progress" : isStored(run) ? "An earlier run" : `A run, ${wordsOf(run)}`;
  return h("div.turn", { role: "group", "aria-label": label, data: { run: run.id } },
    run.input ? userMessage(run.input) : null,
    run.items.map((item) => itemOf(run, item)),
    [...run.live.values()].map(live),
    footer(run));
}

function itemOf(run, item) {
  if (item.type === "message") {
    if (item.message.type === "tool_call" || item.message.type === "tool_result") return null;
    const said = agentMessage(item.agent, item.message, callLink(run, item.call));
    said.classList.toggle("inner", isInner(run, item.runId));
    return said;
  }
  if (item.type === "tool") {
    return toolLine(item.tool.call, item.tool, `${run.id}-${item.tool.key}`, run.agents.get(item.tool.runId)?.name, isStored(run));
  }
  if (item.type === "question") return card(run, item.question);
  return item.stage === "started" ? h("div.note", `${item.name}: ${item.activity} begins`) : null;
}

function callLink(run, call) {
  if (!call) return null;
  const current = state.call === call && shownRun()?.id === run.id;
  return h("button.link", {
    type: "button",
    data: { key: `chat-${run.id}-${call}` },
    "aria-pressed": current ? "true" : "false",
    onclick: () => actions.pick(run.id, call, true),
  }, `call ${call}: what it saw`);
}

function toolLine(call, tool, key, agent, stored = false) {
  const result = tool.result;
  const open = stored ? ["·", "no result"] : ["…", "running"];
  const target = handedTo(call);
  const [sign, status] = !result ? open : result.isError ? ["✗", "failed"] : ["✓", "done"];
  return h(`details.tool${target ? ".handover" : ""}${result?.isError ? ".bad" : ""}`,
    { data: { key: `tool-${key}` } },
    h("summary", h("span.sign", { "aria-hidden": "true" }, sign), h("span.hidden", status),
      agent ? agentName(agent) : null, h("span.name", target ? ["hands over to ", agentName(target)] : call.name), result || !tool.progress ? null : progressOf(tool.progress),
      h("span.args", callText(call).slice(call.name.length))),
    h("pre", JSON.stringify(call.input, null, 2)),
    result ? h("pre.result", resultText(result)) : null,
    tool.traceback ? h("pre.result", tool.traceback) : null);
}

/** What a tool reports while it runs. */
function progressOf({ text, fraction, data }) {
  return h("span.progress",
    fraction === undefined ? null : h("progress", { max: "1", value: fraction, "aria-label": "Progress" }),
    text ? h("span", text) : null,
    data === undefined ? null : h("span.args", JSON.stringify(data)));
}

function live(reply) {
  const parts = reply.parts.filter(Boolean).map((part) => {
    if (part.kind === "ToolCallDelta") return h("div.tool-live", `${part.tool}(${part.text}`);
    if (part.kind === "ReasoningDelta") return h("div.reasoning-live", part.text);
    return rendered(part.text, "div.text.rendered.writing");
  });
  return h("div.said", h("div.who", agentName(reply.agent)), parts);
}

function footer(run) {
  if (run.status === "running" && waits(run)) return h("div.foot.waits", wordsOf(run));
  if (run.status === "running") return h("div.foot", h("span.dots", { "aria-hidden": "true" }), "running");
  const facts = [wordsOf(run), isStored(run) ? "" : duration(run.now), tokens(run.totals?.usage), money(run.totals?.cost, state.target?.currency)];
  return [
    run.error ? h("div.error", run.error) : null,
    h("div.foot", h("button.link", { type: "button", onclick: () => actions.showRun(run.id) },
      facts.filter(Boolean).join(" · "))),
  ];
}

function card(run, question) {
  const calls = question.toolCalls ?? [];
  const title = calls.length ? "wants to call" : "asks";
  const key = `why-${question.requestId}`;
  const keep = (event) => reasons.set(key, event.target.value);
  const why = h("input", { type: "text", value: reasons.get(key) ?? "", data: { key }, oninput: keep, placeholder: calls.length ? "Reason (for a refusal)" : "Answer", "aria-label": calls.length ? "Reason" : "Answer" });
  const decide = (approved) => {
    const reason = why.value.trim();
    const words = calls.length || !reason ? {} : { answer: reason };
    api.decide(question.requestId, { approved, reason, ...words }, state.thread).catch(actions.fail);
  };
  return h("div.card", { role: "group", "aria-label": "Approval" },
    h("div.who", agentName(question.agentName), h("span.muted", title)),
    calls.map((call) => h("pre", callText({ name: call.toolName, input: call.toolInput }))),
    question.metadata?.reason ? h("p", question.metadata.reason) : null,
    question.resolution
      ? h(`p.decided.${question.resolution}`, `${question.resolution}${question.reason ? `: ${question.reason}` : ""}`)
      : h("div.card-row", why,
          h("button.primary", { type: "button", data: { key: `approve-${question.requestId}` }, onclick: () => decide(true) }, "Approve"),
          h("button", { type: "button", data: { key: `deny-${question.requestId}` }, onclick: () => decide(false) }, "Deny")));
}
