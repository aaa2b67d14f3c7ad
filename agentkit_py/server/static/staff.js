// The help desk of staff. Everything that comes from the API is shown as text, never as HTML.

import { argumentsUsed, decided, entryOf, meanwhile, questionBox, titleOf } from "./desk-question.js";
import { argumentsOf, duration, learn, linked, make, parsed, place, readable, resultOf, textOf, time, titled, words } from "./desk-words.js";

const at = (path) => new URL(`../${path}`, document.baseURI);
const find = (id) => document.getElementById(id);
const approvals = new Map();
const takeovers = new Map();
const connected = new Set(); // streams that are there
let me = ""; // the id of who is signed in
let open = null; // {id, text, data}

function tell(text, bad = false) {
  find("status").textContent = text;
  find("status").classList.toggle("bad", bad);
}

async function call(path, body) {
  const options = body === undefined ? {} : {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
  };
  const answer = await fetch(at(path), { credentials: "same-origin", ...options }).catch(() => null);
  if (!answer) throw new Error("The server cannot be reached.");
  const data = await answer.json().catch(() => ({}));
  if (answer.status === 401) throw new Error("You are not signed in. Sign in, then load this page again.");
  if (!answer.ok) throw new Error(data.error?.message ?? `The server answered ${answer.status}.`);
  return data;
}

// Does what a button is for; a refusal is shown at the button, where the person looks.
async function act(button, done, work) {
  const where = button.closest("form, details") ?? find("thread");
  where.querySelector(":scope > .refusal")?.remove();
  button.disabled = true;
  try {
    await work();
    tell(done);
    return true;
  } catch (error) {
    where.append(make("p", { className: "bad refusal", role: "alert" }, error.message));
    return false;
  } finally {
    button.disabled = false;
  }
}

const freshId = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (n) => n.toString(16).padStart(2, "0")).join("");

// The queue: a conversation has one entry, whatever it waits for.

const namesOf = (one) => one.people.map((person) => person.name).join(", ");

function stateOf(one) {
  if (one.status === "taken") return one.mine ? (one.people.length > 1 ? `You are on it, with ${namesOf(one)}` : "You are on it") : `With ${namesOf(one)}`;
  return one.status === "asked" ? `Asked for a person: ${one.reason || "no reason given"}` : "Agents answer";
}

const begun = (one) => (one.since ? new Date(one.since).getTime() : Number.MAX_VALUE); // those that nobody waits in come last

function conversations() {
  const found = new Map();
  const of = (id) => found.get(id) ?? found.set(id, { id, asked: [], takeover: null, since: null }).get(id);
  for (const one of approvals.values()) if (one.status === "open" && one.mayAnswer) of(one.threadId).asked.push(one);
  for (const one of takeovers.values()) of(one.threadId).takeover = one;
  for (const one of found.values()) {
    const staffed = one.takeover?.status === "asked" ? one.takeover.askedAt : one.takeover?.waitingSince;
    one.since = [...one.asked.map((asked) => asked.askedAt), staffed].filter(Boolean).sort()[0] ?? null;
    one.userId = one.takeover?.userId ?? one.asked[0]?.userId;
  }
  return [...found.values()].sort((a, b) => begun(a) - begun(b) || a.id.localeCompare(b.id));
}

const SHOWN = {
  all: () => true,
  decide: (one) => one.asked.length > 0,
  mine: (one) => one.takeover?.mine,
  free: (one) => one.takeover?.status !== "taken",
};

const entries = new Map();

// An entry of a list, kept as long as it says the same, so that nothing moves under the pointer.
function entry(list, id, title, lines) {
  const text = JSON.stringify([title, lines]);
  const key = `${list}/${id}`;
  let item = entries.get(key);
  if (item?.known !== text) {
    const button = make("button", { type: "button", "data-thread": id }, make("strong", {}, title),
      ...lines.filter(Boolean).map((line) => make("span", {}, line)));
    button.addEventListener("click", () => show(id));
    item = make("li", {}, button);
    item.known = text;
    entries.set(key, item);
  }
  if (open?.id === id) item.firstChild.setAttribute("aria-current", "true");
  else item.firstChild.removeAttribute("aria-current");
  return item;
}

function showQueue() {
  const all = conversations();
  const shown = all.filter(SHOWN[find("filter").value]);
  place(find("queue"), shown.map((one) => entry("queue", one.id,
    one.asked.length ? titleOf(one.asked[0]) : one.takeover.title || one.id,
    [one.asked.length ? `To decide${one.asked.length > 1 ? ` (${one.asked.length})` : ""}: asked by ${words(one.asked[0].agent)}` : "",
      one.takeover && stateOf(one.takeover), one.userId && `Customer: ${one.userId}`,
      one.since ? `Waits for ${duration(one.since)}` : "Nobody waits"])));
  for (const [key, item] of entries) if (!item.isConnected) entries.delete(key);
  const known = connected.size === 2;
  find("queue-none").hidden = shown.length > 0 || !known; // else nobody knows
  find("queue-none").textContent = all.length ? "None of these." : "Nobody waits.";
  const waiting = all.filter((one) => one.since).length;
  find("queue-count").textContent = all.length ? `(${all.length})` : "";
  document.title = waiting ? `(${waiting}) Help desk` : "Help desk";
}

// Who is asked: the queue of a person who is no staff is empty for another reason than that of staff.
async function signIn() {
  try {
    const { userId, isStaff } = await call("api/takeovers?limit=1");
    const role = isStaff === false ? ", who may not take over conversations" : "";
    find("who").textContent = `Signed in as ${userId}${role}.`;
    me = userId;
    return null;
  } catch (error) {
    find("who").textContent = "";
    return error.message;
  }
}

function listen(name, path, events) {
  const source = new EventSource(at(path));
  source.addEventListener("ready", () => {
    connected.add(name);
    if (connected.size === 2) tell("Connected.");
    signIn();
    showQueue();
  });
  source.addEventListener("error", async () => {
    connected.delete(name);
    showQueue();
    if (source.readyState === EventSource.CLOSED) setTimeout(() => listen(name, path, events), 5000);
    tell((await signIn()) ?? "The connection is lost; trying again…", true);
    if (connected.size === 2) tell("Connected."); // meanwhile
  });
  for (const [name, take] of Object.entries(events)) {
    source.addEventListener(name, (event) => {
      take(JSON.parse(event.data));
      showQueue();
      if (open) refresh();
    });
  }
}

// One conversation.

function message(one, decisions) {
  const note = one.staff && one.staff.to !== "user";
  const kind = one.type === "user" ? "user" : note ? "note" : one.staff ? "staff" : "agent";
  const who = { user: "Customer", note: `${one.agentName}, ${one.staff?.to === "agents" ? "note for agents" : "internal note"}`, staff: `${one.agentName} (staff)`, agent: words(one.agentName ?? "") }[kind];
  const item = make("li", { className: kind },
    make("p", { className: "who" }, `${who} `, make("time", { datetime: one.createdAt }, time(one.createdAt))));
  if (one.type === "user") item.append(linked(one.content));
  const results = [...(one.data?.toolCalls ?? [])];
  for (const part of one.data?.output ?? []) {
    if (part.type === "text") {
      const object = one.staff ? null : parsed(textOf(part.content));
      item.append(object ? readable(object) : linked(textOf(part.content)));
    }
    for (const tool of part.type === "tool_call" ? part.tools : []) {
      const found = results.findIndex((result) => result.tool.id === tool.id && result.tool.name === tool.name);
      const result = found < 0 ? null : results.splice(found, 1)[0];
      const decision = decisions.get(tool);
      const used = decision ? argumentsUsed(decision.call, decision.question) : tool.input;
      item.append(make("details", {}, make("summary", {}, titled(tool.name, used)), argumentsOf(used),
        make("p", { className: "who" }, "Result"), result ? resultOf(result.content) : make("p", {}, "There is no result yet.")));
      if (decision) item.append(make("div", { className: "decided" }, ...decided(decision.question, me, decision.call.index)));
    }
  }
  return item;
}

const callsOf = (message) => (message.data?.output ?? []).flatMap((part) => (part.type === "tool_call" ? part.tools : []));

// Which question a call was asked about: by its id within the same run, in the order of asking,
// since providers repeat ids.
function decisionsIn(messages, questions) {
  const asked = questions.flatMap((question) => question.calls.map((call) => ({ question, call })));
  const found = new Map();
  let run = null;
  for (const one of messages) {
    if (one.type === "user") run = one.message_id;
    for (const tool of callsOf(one)) {
      const fits = ({ question, call }) => call.toolCallId === tool.id && call.toolName === tool.name && (!run || !question.runId || question.runId === run);
      const n = asked.findIndex(fits);
      if (n >= 0) found.set(tool, asked.splice(n, 1)[0]);
    }
  }
  return found;
}

// The boxes of open questions; a box whose question another has closed says so.
function renderQuestions(questions) {
  const boxes = new Map([...find("questions").children].map((box) => [box.dataset.id, box]));
  const known = new Map(questions.map((one) => [one.id, one]));
  for (const one of questions) {
    const box = boxes.get(one.id);
    if (one.status === "open" && !box) {
      const made = questionBox(one, (body) => decide(one, body));
      made.dataset.id = one.id;
      find("questions").append(made);
    }
  }
  for (const [id, box] of boxes) {
    const one = known.get(id);
    if (one?.status === "open" || box.classList.contains("closed") || sending.has(id)) continue;
    if (!one || decidedHere.has(id)) {
      box.remove();
      continue;
    }
    const inside = box.contains(document.activeElement);
    const said = meanwhile(one, me, () => {
      said.remove();
      find("thread").focus();
    });
    said.dataset.id = id;
    box.replaceWith(said);
    if (inside) said.focus();
  }
}

const sending = new Set(); // questions whose answer is on its way
const decidedHere = new Set();

async function decide(question, body) {
  sending.add(question.id);
  try {
    await call(`api/approvals/${encodeURIComponent(question.id)}`, body);
    decidedHere.add(question.id);
    approvals.delete(question.id);
    tell(body.action === "approve" ? "Approved." : "Denied.");
  } finally {
    sending.delete(question.id);
    if (open) open.text = open.brief = ""; // its box has to be drawn again
    showQueue();
    await refresh();
  }
  follow();
}

function render(data) {
  learn(data.agents);
  const one = data.takeover;
  find("thread-title").textContent = data.thread.title;
  find("thread-about").textContent = [one.userId && `Customer: ${one.userId}`, `Conversation ${one.threadId}`,
    stateOf(one), one.waitingSince && `the customer waits for ${duration(one.waitingSince)}`].filter(Boolean).join(" · ");
  find("thread-body").hidden = false;
  renderQuestions(data.questions);
  const decisions = decisionsIn(data.messages, data.questions);
  const alone = data.questions.filter((asked) => !asked.calls.length && asked.status !== "open");
  const lines = [
    ...data.messages.map((one) => ({ at: one.createdAt, key: [one, callsOf(one).map((tool) => decisions.get(tool)?.question)], make: () => message(one, decisions) })),
    ...alone.map((asked) => ({ at: asked.askedAt, key: asked, make: () => entryOf(asked, me) })),
  ];
  if (alone.length) lines.sort((a, b) => new Date(a.at) - new Date(b.at)); // stable: the order of the thread stays
  const shownNow = new Map([...find("log").children].map((item) => [item.known, item])); // with what is unfolded in it
  place(find("log"), lines.map((line) => {
    const text = JSON.stringify(line.key);
    const item = shownNow.get(text) ?? line.make();
    shownNow.delete(text);
    item.known = text;
    return item;
  }));
  find("failed").textContent = data.reply?.error ?? "";
  find("join").hidden = one.mine;
  find("decline").hidden = one.status !== "asked";
  find("say").hidden = find("hand-back").hidden = !one.mine;
  find("matrix").href = `matrix/?thread=${encodeURIComponent(one.threadId)}`;
  const agents = data.agents.map(({ network, agent }) => JSON.stringify({ network, agent }));
  if (find("agent").dataset.known !== agents.join()) {
    find("agent").dataset.known = agents.join();
    find("agent").replaceChildren(...data.agents.map((a, n) => make("option", { value: agents[n] }, a.agent)));
  }
}

// After a decision its buttons are gone: the focus goes to the end of the conversation, and stays there
// while what comes of the decision is added.
let following = false;

function follow() {
  following = true;
  const last = find("log").lastElementChild ?? find("thread");
  last.tabIndex = -1;
  last.focus();
  last.scrollIntoView({ block: "nearest" });
}

for (const name of ["pointerdown", "keydown"]) addEventListener(name, () => (following = false));

async function refresh() {
  const mine = open;
  if (!mine) return;
  try {
    const path = `api/takeovers/${encodeURIComponent(mine.id)}`;
    if (mine.data) { // closed questions, of which there may be many, are asked for after a change only
      const brief = JSON.stringify(await call(`${path}?closed=false`));
      if (open !== mine || brief === mine.brief) return;
      mine.brief = brief;
    }
    const data = await call(path);
    const text = JSON.stringify(data);
    if (open !== mine || text === mine.text) return;
    const isFirst = !mine.data;
    Object.assign(mine, { text, data });
    render(data);
    if (isFirst) showEarlier(mine, data.takeover.userId);
    if (following) follow();
  } catch (error) {
    if (open === mine) tell(error.message, true);
  }
}

const foundLines = ({ thread, takeover, text }) => [text && `“${text}”`, takeover.userId && `Customer: ${takeover.userId}`,
  takeover.status && stateOf(takeover), `${thread.messageCount} entries, last changed ${time(thread.lastMessageAt)}`];

async function showEarlier(mine, userId) {
  find("earlier").hidden = true;
  if (!userId) return;
  const query = new URLSearchParams({ userId, limit: 11 });
  const data = await call(`api/staff/threads?${query}`).catch(() => null);
  if (!data || open !== mine) return;
  const others = data.threads.filter(({ thread }) => thread.id !== mine.id).slice(0, 10);
  place(find("earlier-list"), others.map((one) => entry("earlier", one.thread.id, one.thread.title, foundLines({ ...one, takeover: { ...one.takeover, userId: null } }))));
  find("earlier-none").hidden = others.length > 0;
  find("earlier").hidden = false;
}

async function show(id) {
  open = { id };
  for (const list of ["questions", "log", "explained", "earlier-list"]) find(list).replaceChildren();
  for (const one of document.querySelectorAll("#thread .refusal")) one.remove();
  find("explained-summary").textContent = "";
  find("earlier").hidden = find("thread-body").hidden = true;
  find("thread-title").textContent = "Opening…";
  find("thread-about").textContent = "";
  find("back").hidden = false;
  for (const field of ["say-text", "note", "internal-text"]) find(field).value = "";
  document.body.classList.add("reads");
  following = false;
  history.replaceState(null, "", `#${encodeURIComponent(id)}`);
  showQueue();
  await refresh();
  if (open.id === id && !open.data) {
    find("thread-title").textContent = "It cannot be opened";
    find("thread-about").textContent = `There is no conversation ${id}, or it is not yours to read.`;
  }
  find("thread").focus();
}

function leave() {
  document.body.classList.remove("reads");
  const entry = [...find("queue").querySelectorAll("button")].find((one) => one.dataset.thread === open?.id);
  (entry ?? find("filter")).focus();
}

function on(form, done, work) {
  find(form).addEventListener("submit", async (event) => {
    event.preventDefault();
    if (await act(event.submitter ?? find(form).querySelector("button"), done, work)) await refresh();
  });
}

const here = (what) => `api/takeovers/${encodeURIComponent(open.id)}/${what}`;

on("join", "You have taken over.", async () => {
  await call(here("join"), { name: find("join-name").value, stop: find("join-stop").checked });
});
const said = {}; // what was sent last, by form: a retry must not say it twice
function idOf(form, text) {
  const key = `${open.id} ${text}`;
  if (said[form]?.key !== key) said[form] = { key, id: freshId() };
  return said[form].id;
}
on("say", "Sent.", async () => {
  const text = find("say-text").value;
  await call(here("say"), { text, messageId: idOf("say", text) });
  delete said.say;
  find("say-text").value = "";
  find("say-text").focus();
});
on("internal", "Noted.", async () => {
  const text = find("internal-text").value;
  const to = find("internal-agents").checked ? "agents" : "staff";
  await call(here("note"), { text, to, name: find("join-name").value || null, messageId: idOf("internal", `${to} ${text}`) });
  delete said.internal;
  find("internal-agents").checked = false;
  find("internal-text").value = "";
});
on("hand-back", "Agents answer again.", async () => {
  await call(here("hand-back"), { note: find("note").value });
  find("note").value = "";
});
find("decline").addEventListener("click", async (event) => {
  if (await act(event.currentTarget, "Declined.", () => call(here("hand-back"), {}))) await refresh();
});
on("search", "Searched.", async () => {
  find("found-none").textContent = "";
  const data = await call(`api/staff/threads?${new URLSearchParams({ words: find("words").value })}`);
  place(find("found"), data.threads.map((one) => entry("found", one.thread.id, one.thread.title, foundLines(one))));
  const count = data.threads.length;
  const none = data.hasMore ? "There are too many to look at: use other words." : "Nothing was found.";
  find("found-none").textContent = count ? `${count}${data.hasMore ? " or more" : ""} found.` : none;
});
find("explain").addEventListener("click", async (event) => {
  const chosen = JSON.parse(find("agent").value);
  await act(event.currentTarget, "This is what the agent would be sent.", async () => {
    const network = chosen.network === null ? "" : `&network=${encodeURIComponent(chosen.network)}`;
    const data = await call(`${here("explain")}?agent=${encodeURIComponent(chosen.agent)}${network}`);
    find("explained-summary").textContent = data.summary;
    find("explained").replaceChildren(...data.messages.map((one) => make("li", {},
      make("p", { className: "who" }, [one.role, one.type === "text" ? "" : words(one.type)].filter(Boolean).join(" · ")),
      one.type === "text" ? linked(textOf(one.content)) : readable(one.tools ?? one.content))));
  });
});
find("filter").addEventListener("change", showQueue);
find("back").addEventListener("click", leave);
addEventListener("keydown", (event) => {
  const button = event.target.closest?.(".queue button");
  if (event.key === "Escape" && find("thread").contains(event.target)) leave();
  if (!button || !["ArrowDown", "ArrowUp"].includes(event.key)) return;
  const item = button.parentElement;
  const next = event.key === "ArrowDown" ? item.nextElementSibling : item.previousElementSibling;
  if (next) event.preventDefault();
  next?.firstChild.focus();
});

addEventListener("hashchange", () => {
  const id = decodeURIComponent(location.hash.slice(1));
  if (id && id !== "thread" && id !== open?.id) show(id);
});

call("api/agents").then(({ agents }) => { learn(agents); showQueue(); }, () => {}); // else calls have their names
listen("approvals", "api/approvals/stream", { approval: (one) => approvals.set(one.id, one) });
listen("takeovers", "api/takeovers/stream", {
  takeover: (one) => takeovers.set(one.threadId, one),
  left: (one) => takeovers.delete(one.threadId),
});
setInterval(refresh, 3000);
setInterval(showQueue, 30000); // how long each waits
if (location.hash.length > 1) show(decodeURIComponent(location.hash.slice(1)));
