// What the page knows. Runs are built from their events, one at a time, as the server told them.

import { perFrame } from "./dom.js";

export const state = {
  target: null,
  threads: [],
  thread: null,
  results: [],
  questions: [],
  offset: 0,
  runs: new Map(),
  run: null,
  call: null,
  connected: true,
};

const watchers = [];

/** f is called, once per frame at the most, after something has changed. */
export function watch(f) {
  watchers.push(f);
}

export const changed = perFrame(() => watchers.forEach((f) => f()));

export function newRun(record) {
  return {
    id: record.id,
    input: record.input,
    status: record.status,
    first: record.first,
    last: record.last,
    seq: 0,
    version: 0,
    now: 0,
    heard: performance.now(),
    agents: new Map(),
    calls: new Map(),
    tools: new Map(),
    questions: new Map(),
    marks: [],
    waits: [],
    servers: [],
    items: [],
    live: new Map(),
    initial: null,
    changes: [],
    final: null,
    totals: null,
    error: null,
  };
}

/** Milliseconds since the run began. */
export function elapsed(run) {
  return run.status === "running" ? run.now + (performance.now() - run.heard) : run.now;
}

/** Whether a run waits for a person, and so works on nothing. */
export function waits(run) {
  const asked = [...run.questions.values()].some((question) => !question.resolution);
  return asked && (run.status === "running" || run.status === "waiting");
}

/** Whether a run is made from the entries of the store: nothing recorded it here. */
export const isStored = (run) => run.status === "stored";

/** The run's state in words. */
export const wordsOf = (run) => (waits(run) ? "waiting for a person" : isStored(run) ? "earlier run" : run.status);

/** The agent that a call hands over to; undefined: it is another tool. */
export function handedTo(call) {
  return (state.target?.agents ?? []).map((agent) => agent.handoffs[call.name]).find(Boolean);
}

export function apply(run, event) {
  if (event.seq <= run.seq) return;
  run.seq = event.seq;
  run.version += 1;
  run.now = Math.max(run.now, event.at);
  run.heard = performance.now();
  STEPS[event.kind]?.(run, event);
}

const STEPS = {
  run(run, event) {
    run.input = event.input;
  },
  started(run, event) {
    run.agents.set(event.runId, { ...event, begin: event.at, end: null, stop: null, error: null });
  },
  completed: (run, event) => ended(run, event, { stop: event.stopReason }),
  failed: (run, event) => ended(run, event, { error: event.error }),
  interrupted: (run, event) => ended(run, event, { stop: "cancelled" }),
  routed(run, event) {
    run.marks.push({ at: event.at, agents: event.agents });
  },
  activity(run, event) {
    run.items.push({ type: "activity", ...event });
  },
  "call.started"(run, event) {
    const known = run.calls.get(event.call);
    run.calls.set(event.call, { ...known, ...event, begin: known?.begin ?? event.at, end: null });
  },
  "call.ended"(run, event) {
    const call = run.calls.get(event.call);
    if (call) Object.assign(call, { end: event.at, usage: event.usage, cost: event.cost, finish: event.finish, error: event.error });
  },
  delta(run, event) {
    const parts = run.live.get(event.runId) ?? { agent: event.name, parts: [] };
    run.live.set(event.runId, parts);
    const part = (parts.parts[event.index] ??= { kind: event.part, tool: event.tool, text: "" });
    part.text += event.text;
  },
  "taken.back"(run, event) {
    run.live.delete(event.runId);
  },
  "tool.progressed"(run, event) {
    const tool = run.tools.get(event.tool);
    if (tool) tool.progress = event;
  },
  replied(run, event) {
    run.live.delete(event.runId);
    for (const message of event.messages) run.items.push({ type: "message", agent: event.name, runId: event.runId, message, call: event.call });
    const call = run.calls.get(event.call);
    if (call) call.messages = event.messages;
  },
  "tool.started"(run, event) {
    const tool = { key: event.tool, runId: event.runId, agent: event.name, call: event.call, begin: event.at, end: null };
    run.tools.set(event.tool, tool);
    run.items.push({ type: "tool", tool });
  },
  "tool.began"(run, event) {
    const tool = run.tools.get(event.tool);
    if (tool) tool.begin = event.at;
  },
  "tool.ended"(run, event) {
    const tool = run.tools.get(event.tool);
    if (tool) tool.end = event.at;
  },
  "tool.finished"(run, event) {
    const tool = run.tools.get(event.tool);
    if (tool) Object.assign(tool, { result: event.result, traceback: event.traceback, end: tool.end ?? event.at });
  },
  state(run, event) {
    run.initial = event.data;
  },
  "state.changed"(run, event) {
    run.changes.push(event);
  },
  "wait.began"(run, event) {
    run.waits.push({ step: event.step, begin: event.at, end: null });
  },
  "wait.ended"(run, event) {
    const wait = run.waits.find((one) => one.step === event.step && one.end === null);
    if (wait) wait.end = event.at;
  },
  "listing.began"(run, event) {
    run.servers.push({ ...event, begin: event.at, end: null });
  },
  "listing.ended"(run, event) {
    const server = run.servers.find((one) => one.server === event.server && one.runId === event.runId && one.end === null);
    if (server) Object.assign(server, { end: event.at, tools: event.tools, error: event.error });
  },
  asked(run, event) {
    const question = { ...event.request, begin: event.at, end: null, resolution: null };
    run.questions.set(question.requestId, question);
    run.items.push({ type: "question", question });
  },
  decided(run, event) {
    const question = run.questions.get(event.request);
    if (question) Object.assign(question, { end: event.at, resolution: event.resolution, reason: event.reason });
  },
  end(run, event) {
    run.status = event.status;
    run.now = event.at;
    run.error = event.error;
    run.final = event.state;
    run.totals = { usage: event.usage, cost: event.cost };
    if (event.status !== "completed") keepCut(run);
    run.live.clear();
    for (const agent of run.agents.values()) agent.end ??= event.at;
    for (const tool of run.tools.values()) tool.end ??= event.at;
    for (const wait of [...run.waits, ...run.servers]) wait.end ??= event.at;
  },
};

/** Of replies that were stopped or broke off the texts stay, as they do in the thread. */
function keepCut(run) {
  for (const [runId, { agent, parts }] of run.live) {
    for (const part of parts) {
      if (part?.kind !== "TextDelta" || !part.text.trim()) continue;
      const message = { type: "text", role: "assistant", text: part.text, cut: "error" };
      run.items.push({ type: "message", agent, runId, message });
    }
  }
}

function ended(run, event, facts) {
  const agent = run.agents.get(event.runId);
  if (agent) Object.assign(agent, { end: event.at }, facts);
}

/** Whether an agent's texts are no part of the conversation: it works for another, or it routes. */
export function isInner(run, runId) {
  const agent = run.agents.get(runId);
  return Boolean(agent?.routing) || run.agents.get(agent?.parent)?.scope === "agent";
}

/** The run that the page shows: the one that was picked, else the last one. */
export function shownRun() {
  return state.runs.get(state.run) ?? [...state.runs.values()].at(-1) ?? null;
}

/** All model calls of the thread's runs, in order: what j and k go through. */
export function allCalls() {
  return [...state.runs.values()].flatMap((run) => [...run.calls.keys()].map((call) => ({ run: run.id, call })));
}

export function running() {
  return [...state.runs.values()].find((run) => run.status === "running") ?? null;
}
