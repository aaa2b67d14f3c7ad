// The run as a timeline: agents, model calls, tools and waits, with what they took.

import { h, fill, byId } from "./dom.js";
import { agentName, count, counted, duration, hue, money, tokens } from "./format.js";
import { graph } from "./graph.js";
import { elapsed, isStored, shownRun, state, waits, wordsOf } from "./store.js";

let actions;
let other = ""; // the run that the shown one is compared with

export function setUp(given) {
  actions = given;
}

export function render() {
  const run = shownRun();
  const pane = byId("pane-run");
  if (!run) {
    fill(pane, h("p.empty", "Send a message to see the run's graph and timeline here."));
    return;
  }
  const titles = ["what", "when", isStored(run) ? "saved" : "took", "tokens in → out"];
  fill(pane, head(run),
    isStored(run) ? h("p.muted", "From the store: a time says when an answer was saved. How long models and tools took was not recorded.") : null,
    graph(run, actions.pick),
    h("div.row.titles", { "aria-hidden": "true" }, titles.map((title) => h("span", title))),
    h("ol.timeline", { "aria-label": "Timeline" }, rows(run)), summary(run), compared(run));
}

/** The shown run beside another of the thread. */
function compared(run) {
  const runs = [...state.runs.values()];
  const others = runs.filter((one) => one !== run);
  if (!others.length) return null;
  const beside = others.find((one) => one.id === other);
  const choose = (event) => {
    other = event.target.value;
    render();
  };
  const title = (one) => `Run ${runs.indexOf(one) + 1}`;
  const both = beside ? [run, beside] : [];
  const line = (name, say) => h("tr", h("th", { scope: "row" }, name), both.map((one) => h("td", say(one))));
  const agents = (one) => [...one.agents.values()].filter((agent) => agent.scope !== "network").map((agent) => agent.name).join(" → ");
  const tools = (one) => [...one.tools.values()].map((tool) => tool.call.name).join(", ");
  const totals = (one) => one.totals ?? sumOf([...one.calls.values()]);
  return h("div.compared",
    h("label", { for: "compare-with" }, "Compare with "),
    h("select", { id: "compare-with", data: { key: "compare-with" }, onchange: choose },
      h("option", { value: "" }, "another run"),
      others.map((one) => h("option", { value: one.id, selected: one === beside }, `${title(one)}: ${one.input.slice(0, 40)}`))),
    beside ? h("table.figures-table",
      h("thead", h("tr", h("td"), both.map((one) => h("th", { scope: "col" }, title(one))))),
      h("tbody",
        line("message", (one) => one.input.slice(0, 200)),
        line("ended", (one) => one.error ?? one.status),
        line("took", (one) => (isStored(one) ? "not known" : duration(elapsed(one)))),
        line("agents", agents),
        line("model calls", (one) => count(one.calls.size)),
        line("tools", (one) => tools(one) || "none"),
        line("tokens", (one) => tokens(totals(one).usage) || "not known"),
        line("cost", (one) => money(totals(one).cost, state.target?.currency) || "not known"),
        line("kept from models", (one) => `${count([...one.calls.values()].reduce((sum, call) => sum + Math.max(0, cutOf(call)), 0))} tokens`))) : null);
}

function head(run) {
  const runs = [...state.runs.values()];
  const place = runs.indexOf(run);
  const go = (index) => () => actions.showRun(runs[index].id);
  return h("div.pane-head",
    h("h2", `Run ${place + 1} of ${runs.length}`),
    h(`span.status.${waits(run) ? "waiting" : run.status}`, wordsOf(run)),
    h("span.grow"),
    h("button", { type: "button", disabled: place <= 0, "aria-label": "Previous run", data: { key: "run-back" }, onclick: go(place - 1) }, "‹"),
    h("button", { type: "button", disabled: place >= runs.length - 1, "aria-label": "Next run", data: { key: "run-on" }, onclick: go(place + 1) }, "›"));
}

function rows(run) {
  const whole = Math.max(elapsed(run), 1);
  const items = [
    ...[...run.agents.values()].map((agent) => ({ at: agent.begin, depth: depthOf(run, agent), agent })),
    ...[...run.calls.values()].map((call) => ({ at: call.begin, depth: depthOf(run, run.agents.get(call.runId)) + 1, call })),
    ...[...run.tools.values()].map((tool) => ({ at: tool.begin, depth: depthOf(run, run.agents.get(tool.runId)) + 1, tool })),
    ...[...run.questions.values()].map((question) => ({ at: question.begin, depth: 2, question })),
    ...run.servers.map((server) => ({ at: server.begin, depth: depthOf(run, run.agents.get(server.runId)) + 1, server })),
    ...run.waits.map((wait) => ({ at: wait.begin, depth: 2, wait })),
  ];
  // Those that began at the same time stay in the order agent, call, tool.
  items.sort((a, b) => a.at - b.at);
  return items.map((item) => rowOf(run, item, whole));
}

function depthOf(run, agent) {
  let depth = 0;
  let parent = agent && run.agents.get(agent.parent);
  while (parent) {
    depth += 1;
    parent = run.agents.get(parent.parent);
  }
  return depth;
}

function rowOf(run, item, whole) {
  if (item.agent) return agentRow(run, item.agent, item.depth, whole);
  if (item.call) return callRow(run, item.call, item.depth, whole);
  if (item.tool) return toolRow(run, item.tool, item.depth, whole);
  if (item.server) return serverRow(run, item.server, item.depth, whole);
  if (item.wait) return row("wait", item.depth, [h("span.tool-name", "sleep"), h("span.why", item.wait.step)], item.wait, run, whole);
  return questionRow(run, item.question, item.depth, whole);
}

function bar(run, span, kind, whole) {
  const end = span.end ?? elapsed(run);
  const style = {
    left: `${(100 * span.begin) / whole}%`,
    width: `${Math.max(0.6, (100 * (end - span.begin)) / whole)}%`,
  };
  return h("span.track", { "aria-hidden": "true" }, h(`span.bar.${kind}${span.end === null ? ".open" : ""}`, { style }));
}

function row(kind, depth, label, span, run, whole, figures, extra) {
  const took = span.end === null ? elapsed(run) - span.begin : span.end - span.begin;
  return h(`li.row.${kind}`, { style: { "--depth": depth } },
    h("div.label", { style: { paddingLeft: `${depth * 14}px` } }, label),
    bar(run, span, kind, whole),
    h("span.took", isStored(run) ? `+${duration(span.end ?? span.begin)}` : duration(took)),
    h("span.figures", figures ?? ""),
    extra);
}

function agentRow(run, agent, depth, whole) {
  const kind = agent.scope === "network" ? "network" : "agent-run";
  const name = agent.scope === "network" ? h("span.net", agent.name) : agentName(agent.name);
  const note = agent.error ?? (agent.stop && agent.stop !== "done" ? `stopped: ${agent.stop}` : agent.routing ? "routing" : "");
  return row(kind, depth, [name, note ? h(`span.why${agent.error ? ".bad" : ""}`, note) : null], agent, run, whole);
}

function callRow(run, call, depth, whole) {
  const current = state.call === call.call;
  const cut = cutOf(call);
  const cost = money(call.cost, state.target?.currency);
  const figures = [call.usage ? `${count(call.usage.input)} → ${count(call.usage.output)}` : "", cost ? h("span.cost", cost) : null];
  const label = h("button.pick", {
    type: "button",
    data: { key: `call-${run.id}-${call.call}` },
    "aria-current": current ? "true" : undefined,
    onclick: () => actions.pick(run.id, call.call, true),
  }, `call ${call.call}`, h("span.model", call.model),
  cut > 0 ? h("span.cut", { title: "Tokens that processors removed" }, `−${count(cut)}`) : null);
  return row(`call${current ? ".current" : ""}`, depth, [label, call.error ? h("span.why.bad", call.error) : null], call, run, whole, figures);
}

/** Tokens of history that were not sent. */
function cutOf(call) {
  return call.report ? call.report.historyTokens + call.report.promptTokens - call.report.sentTokens : 0;
}

function toolRow(run, tool, depth, whole) {
  const bad = tool.result?.isError;
  const changes = run.changes.filter((change) => change.tool === tool.key).length;
  const label = [h(`span.tool-name${bad ? ".bad" : ""}`, tool.call.name),
    bad ? h("span.why.bad", "failed") : null,
    changes ? h("button.link", { type: "button", data: { key: `state-${tool.key}` }, onclick: () => actions.show("state") }, "state") : null];
  return row(`tool-run${bad ? ".failed" : ""}`, depth, label, tool, run, whole);
}

/** What a server took to connect and to list its tools. */
function serverRow(run, server, depth, whole) {
  const note = server.error ?? (server.end === null ? "connecting" : `${count(server.tools)} ${server.tools === 1 ? "tool" : "tools"}`);
  const label = [h("span.tool-name", `MCP server ${server.server}`), h(`span.why${server.error ? ".bad" : ""}`, note)];
  return row("wait", depth, label, server, run, whole);
}

function questionRow(run, question, depth, whole) {
  const label = [h("span.tool-name", "a person decides"), h("span.why", question.resolution ?? "waiting")];
  return row("wait", depth, label, question, run, whole);
}

function summary(run) {
  const currency = state.target?.currency;
  const calls = [...run.calls.values()];
  const totals = run.totals ?? sumOf(calls);
  const unpriced = [...new Set(calls.map((call) => call.model))].filter((name) => name && !state.target?.priced?.includes(name));
  const unknown = unpriced.length ? `cost unknown: no price for ${unpriced.join(", ")} (--prices)` : "";
  const cost = money(totals.cost, currency) || unknown;
  const byAgent = new Map();
  for (const call of calls) {
    const name = call.agent ?? "processors";
    const known = byAgent.get(name) ?? { calls: 0, input: 0, output: 0 };
    known.calls += 1;
    known.input += call.usage?.input ?? 0;
    known.output += call.usage?.output ?? 0;
    byAgent.set(name, known);
  }
  return h("div.summary",
    h("p", `${isStored(run) ? "" : `${duration(elapsed(run))} · `}${counted(calls.length, "model call")} · ${counted(run.tools.size, "tool call")} · ${tokens(totals.usage)}`),
    calls.length && cost ? h("p.muted", cost) : null,
    calls.some((call) => cutOf(call) > 0) ? h("p.muted", h("span.cut", "−"), " tokens that processors kept from the model (an estimate before the call; tokens in → out are the provider's).") : null,
    byAgent.size > 1 ? h("table.figures-table",
      h("thead", h("tr", ["agent", "calls", "tokens in", "tokens out"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", [...byAgent].map(([name, sum]) => h("tr",
        h("th", { scope: "row" }, h(`span.agent.${hue(name)}`, name)),
        [sum.calls, sum.input, sum.output].map((number) => h("td", count(number))))))) : null,
    run.error ? h("p.error", run.error) : null);
}

function sumOf(calls) {
  const known = calls.filter((call) => call.usage);
  if (!known.length) return { usage: null, cost: null };
  const add = (name) => known.reduce((sum, call) => sum + call.usage[name], 0);
  const costs = calls.filter((call) => call.end !== null && !call.error).map((call) => call.cost);
  const cost = costs.length && !costs.includes(null) ? costs.reduce((sum, one) => sum + one, 0) : null;
  return { usage: { input: add("input"), output: add("output"), cached: add("cached") }, cost };
}
