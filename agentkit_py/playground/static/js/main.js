// The page: puts the panes together, follows the thread, and listens to the keyboard.

import { h, byId } from "./dom.js";
import { allCalls, apply, changed, newRun, running, shownRun, state, watch } from "./store.js";
import * as api from "./api.js";
import * as call from "./call.js";
import * as chat from "./chat.js";
import * as keys from "./keys.js";
import * as panes from "./panes.js";
import * as tabs from "./tabs.js";
import * as timeline from "./timeline.js";

let source = null;
let boot = null;
// What is opened last counts, whatever answers last.
let opened = 0;
let sending = false;

const actions = {
  pick(run, number, show = false) {
    state.run = run;
    state.call = number;
    if (show || document.body.dataset.inspector !== "call") tabs.show("call");
    changed();
  },
  showRun(run) {
    state.run = run;
    state.call = null;
    tabs.show("run");
    changed();
  },
  step(by) {
    const calls = allCalls();
    if (!calls.length) return;
    const own = (one) => one.run === shownRun()?.id;
    const now = calls.findIndex((one) => own(one) && one.call === state.call);
    const inside = calls.filter(own);
    const begin = (by > 0 ? inside[0] : inside.at(-1)) ?? calls.at(-1);
    const next = now < 0 ? begin : calls[Math.min(Math.max(now + by, 0), calls.length - 1)];
    actions.pick(next.run, next.call);
  },
  edit() {
    if (state.call === null) actions.step(1);
    tabs.show("call");
    call.showView("edit");
  },
  show: (pane) => tabs.show(pane),
  open: (thread) => open(thread),
  fresh: () => open(null),
  propose(text) {
    byId("composer").value = text;
    byId("composer").focus();
  },
  fail: (error) => notice(error.message),
};

function notice(text) {
  byId("notice").textContent = text;
}

async function loadTarget() {
  const target = await api.getTarget();
  state.target = target;
  boot = target.boot;
  const problem = byId("problem");
  problem.hidden = !target.broken;
  if (target.broken) {
    problem.replaceChildren(
      h("h2", `${target.spec} cannot be loaded`), h("p", target.broken.message),
      target.broken.details ? h("pre", { tabindex: "0" }, target.broken.details) : "",
      h("p", "Correct it and save: this page reloads by itself."));
  }
  const name = target.name ?? target.spec;
  byId("title").textContent = name;
  document.title = `${name} – Playground`;
  const agents = target.agents ?? [];
  byId("about").textContent = target.broken ? "" : `${target.kind}, ${agents.length === 1 ? "1 agent" : `${agents.length} agents`}`;
  return !target.broken;
}

async function loadThreads() {
  const found = await api.getThreads();
  state.threads = found.threads;
  changed();
}

/** Show a thread, or an empty new one. */
async function open(thread, { keep = false } = {}) {
  const mine = ++opened;
  source?.close();
  source = null;
  if (!keep) Object.assign(state, { run: null, call: null });
  Object.assign(state, { thread, results: [], questions: [], offset: 0, runs: new Map() });
  call.forget();
  const url = new URL(location.href);
  if (thread) url.searchParams.set("thread", thread);
  else url.searchParams.delete("thread");
  if (url.href !== location.href) history.pushState(null, "", url);
  let after = 0;
  if (thread) {
    const found = await api.getThread(thread);
    if (mine !== opened) return;
    Object.assign(state, { results: found.results, questions: found.questions, offset: found.offset });
    for (const record of found.runs) addRun(record);
    after = found.seq;
  }
  listen(thread, after);
  changed();
}

function addRun(record) {
  const run = newRun(record);
  state.runs.set(run.id, run);
  for (const event of record.events ?? []) apply(run, event);
  if (record.status !== "running") run.status = record.status;
  return run;
}

function listen(thread, after) {
  source = api.follow(thread ?? "", after, {
    onHello(now) {
      connected(true);
      if (boot && now !== boot) restarted().catch(actions.fail);
    },
    onEvent(event) {
      if (state.thread !== thread) return;
      const run = state.runs.get(event.run) ?? addRun({ id: event.run, input: "", status: "running", first: state.offset + state.results.length, last: null });
      apply(run, event);
      if (event.kind === "end") finished(run, thread).catch(actions.fail);
      changed();
    },
    onLost: () => connected(false),
  });
}

/** Another process answers: the code has changed. */
async function restarted() {
  if (!(await loadTarget())) {
    changed();
    return;
  }
  await loadThreads();
  await open(state.thread, { keep: true });
  notice("The code has changed; the page uses it now.");
}

async function finished(run, thread) {
  await loadThreads();
  if (!thread || state.thread !== thread) return;
  const found = await api.getNews(thread, state.offset + state.results.length);
  if (state.thread !== thread) return;
  // Several runs may have ended, and asked for the same; places say what is where.
  const known = found.offset - state.offset;
  if (known >= 0 && known <= state.results.length) state.results = [...state.results.slice(0, known), ...found.results];
  else Object.assign(state, { results: found.results, offset: found.offset });
  state.questions = found.questions;
  const record = found.runs.find((one) => one.id === run.id);
  if (record) Object.assign(run, { first: record.first, last: record.last });
  run.version += 1;
  changed();
}

function connected(now) {
  state.connected = now;
  const label = byId("connection");
  label.textContent = now ? "" : "Connecting…";
  label.classList.toggle("lost", !now);
}

async function send(event) {
  event?.preventDefault();
  const box = byId("composer");
  const text = box.value.trim();
  if (!text || sending || state.target?.broken) return;
  if (running()) {
    notice("This thread has a run in progress; wait for its end, or cancel it.");
    return;
  }
  notice("");
  box.value = "";
  sending = true;
  changed();
  try {
    await begun;
    const run = await api.start(text, state.thread);
    Object.assign(state, { run: null, call: null });
    if (run.thread !== state.thread) await open(run.thread);
    loadThreads().catch(actions.fail);
  } catch (error) {
    box.value = text;
    notice(error.message);
  }
  sending = false;
  changed();
}

function controls() {
  const run = running();
  byId("cancel").hidden = !run;
  byId("send").hidden = Boolean(run);
  byId("matrix").hidden = !state.thread || Boolean(run);
  byId("matrix").href = `/matrix/?thread=${encodeURIComponent(state.thread ?? "")}`;
  byId("send").disabled = sending || Boolean(state.target?.broken);
}

function render() {
  controls();
  const drawn = { threads: panes.renderThreads, chat: chat.render, run: timeline.render, call: call.render, state: panes.renderState, network: panes.renderSetup };
  for (const [name, draw] of Object.entries(drawn)) {
    if (!byId(`pane-${name}`).hidden) draw();
  }
}

async function begin() {
  for (const part of [chat, timeline, call, panes]) part.setUp(actions);
  tabs.setUp(changed);
  keys.setUp(actions, send);
  watch(render);
  byId("form").addEventListener("submit", send);
  byId("new-thread").addEventListener("click", () => {
    open(null);
    byId("composer").focus();
  });
  byId("cancel").addEventListener("click", () => {
    const run = running();
    if (run) api.cancel(run.id).catch(actions.fail);
  });
  addEventListener("popstate", () => open(wanted()).catch(actions.fail));
  setInterval(() => running() && changed(), 500);
  if (await loadTarget()) {
    await loadThreads();
    await open(wanted()).catch(actions.fail);
  } else {
    state.thread = wanted();
    listen(state.thread, 0);
    changed();
  }
}

const wanted = () => new URLSearchParams(location.search).get("thread");

// A message that is sent before the page has begun waits for it.
const begun = begin().catch((error) => {
  const problem = byId("problem");
  problem.hidden = false;
  problem.replaceChildren(h("h2", "The playground could not start"), h("p", error.message));
});
