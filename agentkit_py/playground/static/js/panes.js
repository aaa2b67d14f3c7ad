// Threads, state and set-up: the panes that only list what is known.

import { h, fill, byId } from "./dom.js";
import { agentName, json, when } from "./format.js";
import { shownRun, state } from "./store.js";

let actions;

export function setUp(given) {
  actions = given;
}

export function renderThreads() {
  const list = byId("threads");
  const known = state.threads.some((one) => one.id === state.thread);
  const threads = known || !state.thread ? state.threads : [{ id: state.thread, title: "This thread" }, ...state.threads];
  fill(list, threads.map((thread) => h("li", h("button.thread", {
    type: "button",
    data: { key: `thread-${thread.id}` },
    "aria-current": thread.id === state.thread ? "true" : undefined,
    title: thread.id,
    onclick: () => actions.open(thread.id),
  }, h("span.thread-title", thread.title || thread.id), thread.updatedAt ? h("span.when", when(thread.updatedAt)) : null))),
  threads.length ? null : h("li.muted", "None yet."));
}

export function renderState() {
  const run = shownRun();
  const pane = byId("pane-state");
  if (!run) {
    fill(pane, h("p.empty", "The run's state is shown here, and which tool changed it."));
    return;
  }
  const last = run.changes.at(-1)?.after ?? run.initial;
  fill(pane,
    h("div.pane-head", h("h2", "State")),
    h("h3", "Changes"),
    run.changes.length
      ? h("ol.changes", run.changes.map((change) => changeItem(run, change)))
      : h("p.muted", "No tool or hook changed it."),
    h("h3", run.status === "running" ? "Now" : "At the end"),
    last ? json(last, "State") : h("p.muted", "There is no state yet, or it is not JSON."),
    run.initial && run.changes.length ? h("details", h("summary", "At the beginning"), json(run.initial, "State at the beginning")) : null);
}

function changeItem(run, change) {
  const tool = run.tools.get(change.tool);
  const by = tool ? [agentName(tool.agent), " ", h("code", tool.call.name)] : h("code", change.step);
  return h("li.change", h("div.who", by), h("ul", differences(change.before, change.after)));
}

function differences(before, after) {
  const keys = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  const text = (value) => (value === undefined ? "—" : JSON.stringify(value));
  return keys.filter((key) => text(before[key]) !== text(after[key])).map((key) =>
    h("li", h("code", key), ": ", h("del", text(before[key])), " → ", h("ins", text(after[key]))));
}

export function renderSetup() {
  const target = state.target;
  const pane = byId("pane-network");
  if (!target || target.broken) {
    fill(pane);
    return;
  }
  const chain = (title, list) => h("p", h("span.muted", `${title}: `), list.length
    ? list.map((one) => `${one.name}${one.reason ? ` (${one.reason})` : ""}`).join(" → ")
    : "none");
  fill(pane,
    h("div.pane-head", h("h2", target.name), h("span.muted", target.kind)),
    target.description ? h("p", target.description) : null,
    h("p", h("span.muted", "Threads: "), target.history ?? "not kept"),
    chain("History processors", target.levels.history),
    target.kind === "network" ? chain("Network processors", target.levels.network) : null,
    target.agents.map((agent) => h("section.agent-card",
      h("h3", agentName(agent.name), h("span.muted", agent.model ? ` ${agent.model}` : " model chosen at run time")),
      agent.description ? h("p", agent.description) : null,
      chain("Processors", agent.processors),
      agent.tools.length ? h("details", { data: { key: `tools-${agent.name}` } },
        h("summary", agent.tools.length === 1 ? "1 tool" : `${agent.tools.length} tools`),
        h("ul.plain", agent.tools.map((tool) => h("li", h("code", tool.name), ` ${tool.description}`)))) : null,
      agent.servers ? h("p.muted", `${agent.servers} MCP servers; their tools are known in a run only`) : null,
      h("details", { data: { key: `system-${agent.name}` } }, h("summary", "System prompt"),
        agent.system === null ? h("p.muted", "Made by a function; each call shows its result.") : h("pre", agent.system)))));
}
