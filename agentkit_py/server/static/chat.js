// The chat page for customers: replies while they are written, decisions, staff, reconnects.

import { render } from "./markdown.js";

const settings = JSON.parse(document.getElementById("settings").textContent);
const find = (id) => document.getElementById(id);
const [log, working, notice, people, form, text, send, stop] = "log working notice people form text send stop"
  .split(" ")
  .map(find);
const inner = new Set(settings.innerAgents);
const KEY = "agentkit-chat-thread";
const CUT = new Set(["error", "length", "content_filter", "refusal", "context_window"]);
const NEAR = 120; // pixels from the end at which the log follows new messages
const PAUSES = [1000, 2000, 5000, 10000]; // milliseconds before the connection is tried again
const framed = window.parent !== window;

document.documentElement.style.setProperty("--color", settings.color);
document.documentElement.style.setProperty("--on-color", settings.textColor);

// The conversation

const linked = new URL(location).searchParams.get("thread"); // a conversation that a link names
let threadId = "";
let parts = new Map(); // texts that are being written, by part
let cards = new Map(); // questions that wait for a person, by id
const resolved = new Set(); // ids of questions that are decided
let stored = new Set(); // ids of the messages that load() showed
const unsent = new Map(); // messages that load() has not found in the thread yet, by id
let oldest = 0; // position of the oldest message shown
let titles = {};
let isNew = true; // nothing was said in it yet

function remembered() {
  try {
    return localStorage.getItem(KEY) || null;
  } catch {
    return null; // the browser keeps nothing for frames
  }
}

/** Show a conversation. A new one is remembered, and asked for, once something was said in it. */
function begin(id = null) {
  isNew = id === null;
  threadId = id ?? crypto.randomUUID();
  remember(isNew ? "" : threadId);
  clear();
}

function remember(id) {
  try {
    localStorage.setItem(KEY, id);
  } catch {
    // the conversation ends with the page
  }
}

function clear() {
  log.replaceChildren();
  [parts, cards, stored] = [new Map(), new Map(), new Set()];
}

// The server

let token = null;
let tokenArrived = () => {};

function headers() {
  return token ? { Authorization: `Bearer ${token}` } : {};
}

async function call(path, body) {
  const options = body ? { method: "POST", body: JSON.stringify(body) } : {};
  const answer = await fetch(settings.api + path, { ...options, headers: headers() }).catch(() => null);
  if (answer === null) return { status: 0, problem: "We cannot be reached at the moment." };
  const data = await answer.json().catch(() => null);
  if (answer.ok && data) return { status: answer.status, data };
  if (answer.status === 401) return { status: 401, problem: "Please sign in to chat with us." };
  const problem = data?.error?.message ?? "Something went wrong. Please try again.";
  return { status: answer.status, problem, code: data?.error?.code };
}

/** Ask the page around for a sign-in token; without an answer within a second there is none. */
async function signIn() {
  if (!framed || !settings.sites.length) return;
  const arrived = new Promise((resolve) => (tokenArrived = resolve));
  notifySite("sign-in");
  await Promise.race([arrived, pause(1000)]);
}

/** Send an event to the page around this frame: the widget. */
function notifySite(type) {
  if (framed) window.parent.postMessage({ agentkit: type }, "*"); // it holds nothing that others may not know
}

window.addEventListener("message", (event) => {
  const known = event.source === window.parent && settings.sites.includes(event.origin);
  if (!known || typeof event.data?.agentkitToken !== "string") return;
  token = event.data.agentkitToken;
  tokenArrived();
});

const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

// What is shown

function element(name, kind, ...children) {
  const made = document.createElement(name);
  made.className = kind;
  made.append(...children);
  return made;
}

function button(words, act, kind = "") {
  const made = element("button", kind, words);
  made.type = "button";
  made.onclick = act;
  return made;
}

function add(node, { first = false } = {}) {
  const isNear = log.scrollHeight - log.scrollTop - log.clientHeight < NEAR;
  if (first) log.prepend(node);
  else log.append(node);
  if (isNear && !first) log.scrollTop = log.scrollHeight;
  return node;
}

function bubble(kind, author, words) {
  const made = element("div", `message ${kind}`);
  if (author) made.append(element("p", "who", author));
  const content = element("div", "content");
  made.append(content);
  if (kind === "you") content.textContent = words;
  else content.replaceChildren(...render(words));
  return made;
}

const NOT_WHOLE = "This answer ends before its end.";
const cutNote = () => element("p", "quiet", NOT_WHOLE);

function showProblem(words, ...actions) {
  notice.replaceChildren(...(words ? [words, " ", ...actions] : []));
}

const LOADING = "Loading the conversation…";
const STATES = {
  working: "Writing",
  queued: "Your message waits for its turn.",
  waiting: "Waiting for a decision.",
};

function showState(state, words = STATES[state] ?? "") {
  const isBusy = state === "working";
  working.replaceChildren(...(words ? [element("span", isBusy ? "dots" : "", words)] : []));
  stop.hidden = !isBusy;
  log.setAttribute("aria-busy", String(isBusy));
}

/** The conversation is there, or cannot be had: end the word of its loading, and no other. */
function loaded() {
  if (working.textContent === LOADING) showState("");
}

function showPeople({ state, names }) {
  const isThere = state === "taken" && names.length > 0;
  people.textContent = isThere ? `You are talking to ${names.join(" and ")}` : "A colleague will join";
  people.hidden = !isThere && state !== "asked";
}

function greet() {
  if (log.childElementCount) return;
  if (settings.greeting) add(bubble("", "", settings.greeting));
  if (!settings.suggestions.length) return;
  const choices = settings.suggestions.map((words) => button(words, () => say(words), "plain"));
  add(element("div", "suggestions", ...choices));
}

/** Fill an argument into each pair of braces of a tool's title. */
function titled(title, input) {
  return title.replace(/\{\{|\}\}|\{(\w+)\}/g, (found, name) => (name ? String(input?.[name] ?? "…") : found[0]));
}

function spoken(name) {
  const words = String(name).replace(/[_-]+/g, " ").trim();
  return words.charAt(0).toUpperCase() + words.slice(1);
}

// Decisions

function ask({ id, calls, message, mayAnswer }) {
  if (cards.has(id)) return moveToEnd(cards.get(id));
  const card = element("div", "question");
  card.setAttribute("role", "group");
  card.setAttribute("aria-label", "Your decision");
  if (!mayAnswer) {
    card.append(element("p", "", "A colleague looks at this first. You will find the answer here."));
  } else {
    if (message) card.append(element("p", "", message));
    for (const one of calls) card.append(...described(one));
    const problem = element("p", "failed");
    problem.setAttribute("role", "alert");
    const decide = (action) => async () => {
      const choices = [...card.querySelectorAll("button")];
      for (const choice of choices) choice.disabled = true;
      const { problem: words, status } = await call(`approvals/${encodeURIComponent(id)}`, { action });
      if (words) {
        problem.textContent = status === 409 ? "This is decided already." : words;
        for (const choice of choices) choice.disabled = status === 409;
      }
    };
    card.append(
      element("div", "suggestions", button("Yes, go ahead", decide("approve")), button("No", decide("deny"), "plain")),
      problem,
    );
  }
  cards.set(id, card);
  return add(card);
}

/** Keep a question below what was written after it, with the focus where it was. */
function moveToEnd(card) {
  if (card === log.lastElementChild) return;
  const focused = card.contains(document.activeElement) ? document.activeElement : null;
  add(card);
  focused?.focus();
}

/** Return a call in the customer's words: its title, or its name and arguments as a list. */
function described({ toolName, toolInput }) {
  if (titles[toolName]) return [element("p", "", titled(titles[toolName], toolInput))];
  const list = element("dl", "");
  for (const [name, value] of Object.entries(toolInput ?? {})) {
    const shown = typeof value === "object" ? JSON.stringify(value) : String(value);
    list.append(element("dt", "", spoken(name)), element("dd", "", shown));
  }
  return [element("p", "", `${spoken(toolName)}?`), list];
}

async function question(id) {
  const { data } = await call(`threads/${encodeURIComponent(threadId)}`); // it says who may answer
  const found = data?.pending.find((one) => one.id === id);
  if (!found || resolved.has(id)) return; // it was decided meanwhile
  ask(found);
  showState("waiting");
}

// Events of the stream

function draw(part) {
  if (part.isDrawn) return;
  part.isDrawn = true;
  requestAnimationFrame(() => {
    part.isDrawn = false;
    const isNear = log.scrollHeight - log.scrollTop - log.clientHeight < NEAR;
    part.content.replaceChildren(...render(part.words), ...(part.isCut ? [cutNote()] : []));
    if (isNear) log.scrollTop = log.scrollHeight;
  });
}

const on = {
  "run.started": ({ scope }) => {
    looks += 1;
    if (scope === "network") showState("working");
  },
  "part.created": ({ type, partId, messageId, metadata }) => {
    if (stored.has(messageId)) return; // load() was quicker than the stream
    const { agentName, byStaff, toolName } = metadata;
    if (type === "text" && (byStaff || !inner.has(agentName))) {
      const node = bubble(byStaff ? "staff" : "", byStaff ? agentName : "", "");
      parts.set(partId, { node, content: node.querySelector(".content"), words: "", isCut: false });
      notifySite("message");
    }
    if (type === "tool-call" && titles[toolName]) showState("working", titled(titles[toolName], {}));
  },
  "text.delta": ({ partId, delta }) => write(partId, (words) => words + delta),
  "part.completed": ({ partId, finalContent }) => {
    if (typeof finalContent === "string") write(partId, () => finalContent);
  },
  "part.failed": ({ partId, cut }) => {
    const part = parts.get(partId);
    if (!part) return;
    if (!cut) part.node.remove();
    part.isCut = true;
    draw(part);
  },
  "metadata.updated": ({ type, metadata }) =>
    type === "tool_progress" && metadata?.text && showState("working", metadata.text),
  "hitl.requested": ({ requestId }) => question(requestId),
  "hitl.resolved": ({ requestId }) => {
    cards.get(requestId)?.remove();
    cards.delete(requestId);
    resolved.add(requestId);
    showState("working");
  },
  "reply.status": ({ status }) => showState(status),
  "staff.changed": (data) => showPeople(data),
  "run.failed": ({ scope, error }) => {
    if (scope !== "network") return;
    add(element("p", "failed", error));
    showState("");
  },
};

function write(partId, change) {
  const part = parts.get(partId);
  if (!part) return;
  part.words = change(part.words);
  if (!part.node.isConnected && part.words) add(part.node);
  draw(part);
}

async function received(name, data) {
  if (name === "ready" || name === "reset") return load(); // something may be lost
  if (name !== "message") return;
  const chunk = JSON.parse(data);
  if (chunk.data?.threadId !== threadId) return;
  if (chunk.event !== "stream.ended") return on[chunk.event]?.(chunk.data);
  await load(); // the thread as it is stored
  settle();
}

let looks = 0;

/** Look again while the server counts a run as under way whose stream has just ended. */
async function settle() {
  const own = ++looks;
  for (let tries = 0; tries < 20; tries += 1) {
    await pause(300);
    if (own !== looks || stop.hidden) return;
    const { data } = await call(`threads/${encodeURIComponent(threadId)}?limit=20`);
    if (own === looks && data) showState(data.reply?.status);
  }
}

/** Read server-sent events; fetch can send a token, which EventSource cannot. */
async function read(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + value).replace(/\r\n?/g, "\n").split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      let name = "message";
      const data = [];
      for (const line of block.split("\n")) {
        if (line.startsWith("event:")) name = line.slice(6).trim();
        if (line.startsWith("data:")) data.push(line.slice(5).replace(/^ /, ""));
      }
      if (data.length || name !== "message") await received(name, data.join("\n"));
    }
  }
}

async function listen() {
  for (let tries = 0; ; tries += 1) {
    const answer = await fetch(`${settings.api}stream`, { headers: headers() }).catch(() => null);
    if (answer?.ok) {
      tries = -1;
      showProblem("");
      await read(answer.body).catch(() => {});
    }
    if (!answer?.ok) loaded();
    if (answer?.status === 401) await signIn();
    const problem = { 401: "Please sign in to chat with us.", 429: "This chat is open in too many windows." };
    if (!answer?.ok) showProblem(problem[answer?.status] ?? "The connection is lost. We are trying again.");
    await pause(PAUSES[Math.min(Math.max(tries, 0), PAUSES.length - 1)]);
  }
}

// The conversation as it is stored

async function load() {
  const asked = threadId;
  if (isNew) {
    loaded();
    return greet();
  }
  const { status, data, problem } = await call(`threads/${encodeURIComponent(asked)}`);
  if (asked !== threadId) return;
  loaded();
  if (status === 404) {
    const isUsed = linked === asked || unsent.size || log.querySelector(".you");
    if (!isUsed) begin(); // the id that the browser remembers may be another user's
    return greet(); // nothing was said yet
  }
  showProblem(problem ?? "");
  if (!data) return;
  clear();
  for (const message of data.messages) show(message).forEach((node) => add(node));
  oldest = data.messages[0]?.position ?? 0;
  if (data.hasMore) add(earlier(), { first: true });
  for (const message of data.messages) unsent.delete(message.message_id);
  for (const { node, failure } of unsent.values()) for (const one of failure ? [node, failure] : [node]) add(one);
  data.pending.forEach(ask);
  if (data.reply?.error) add(element("p", "failed", data.reply.error));
  showState(data.reply?.status);
  showPeople(data.staff);
  log.scrollTop = log.scrollHeight;
  greet();
}

function show(message) {
  stored.add(message.message_id);
  if (message.type === "user") return [bubble("you", "", message.content)];
  const { staff, agentName } = message;
  if (!staff && inner.has(agentName)) return [];
  return message.data.output
    .filter((part) => part.type === "text" && part.content)
    .map((part) => {
      const made = bubble(staff ? "staff" : "", staff ? agentName : "", part.content);
      if (CUT.has(part.stop_reason)) made.append(cutNote());
      return made;
    });
}

function earlier() {
  const more = button(
    "Earlier messages",
    async () => {
      more.disabled = true;
      const { data, problem } = await call(`threads/${encodeURIComponent(threadId)}?before=${oldest}`);
      showProblem(problem ?? "");
      more.disabled = false;
      if (!data) return;
      const height = log.scrollHeight;
      more.remove();
      oldest = data.messages[0]?.position ?? 0;
      log.prepend(...data.messages.flatMap(show));
      if (data.hasMore) add(more, { first: true });
      log.scrollTop += log.scrollHeight - height;
    },
    "plain",
  );
  return more;
}

// Sending

async function deliver(message) {
  unsent.set(message.id, message);
  message.failure?.remove();
  message.failure = null;
  const userMessage = { id: message.id, role: "user", content: message.words };
  const { data, problem } = await call("chat", { threadId: message.threadId, userMessage });
  if (data) return; // load() finds it among the messages of the thread
  showState("");
  message.failure = element("p", "failed", `Not sent. ${problem} `, button("Send again", () => deliver(message), "plain"));
  add(message.failure);
}

function say(words) {
  isNew = false;
  remember(threadId);
  log.querySelector(".suggestions:last-child")?.remove();
  const node = bubble("you", "", words);
  add(node);
  log.scrollTop = log.scrollHeight;
  if (stop.hidden) showState("working");
  deliver({ id: crypto.randomUUID(), threadId, words, node });
  text.focus();
}

function grow() {
  text.style.height = "auto";
  text.style.height = `${text.scrollHeight + 2}px`;
}

form.onsubmit = (event) => {
  event.preventDefault();
  const words = text.value.trim();
  if (!words) return;
  form.reset();
  grow();
  say(words);
};
text.oninput = grow;
text.onkeydown = (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  form.requestSubmit();
};
document.addEventListener("keydown", (event) => event.key === "Escape" && notifySite("close"));
stop.onclick = async () => {
  stop.disabled = true;
  const { problem } = await call("chat/cancel", { threadId });
  showProblem(problem ?? "");
  stop.disabled = false;
  text.focus();
};
find("new").onclick = () => {
  unsent.clear();
  begin();
  showState("");
  showPeople({ state: "none", names: [] });
  greet();
  text.focus();
};

showState("", LOADING);
await signIn();
begin(linked ?? remembered());
const { data: known } = await call("agents");
for (const agent of known?.agents ?? []) titles = { ...titles, ...agent.tools };
listen();
