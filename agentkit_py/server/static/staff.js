// The page of staff. Everything that comes from the API is shown as text, never as HTML.

const at = (path) => new URL(`../${path}`, document.baseURI);
const find = (id) => document.getElementById(id);
const approvals = new Map();
const takeovers = new Map();
const connected = new Set(); // streams that are there
const titles = {}; // of tools, by name: "Refund {amount} EUR"
let open = null; // {id, text, data}

function make(tag, fields = {}, ...children) {
  const { className, ...attributes } = fields;
  const found = document.createElement(tag);
  if (className) found.className = className;
  for (const [name, value] of Object.entries(attributes)) found.setAttribute(name, value);
  found.append(...children);
  return found;
}

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

async function act(button, done, work) {
  if (button) button.disabled = true;
  try {
    await work();
    tell(done);
    return true;
  } catch (error) {
    tell(error.message, true);
    return false;
  } finally {
    if (button) button.disabled = false;
  }
}

// What a call is in people's words.
function titled(name, input) {
  const fill = (found, argument) => (argument === undefined ? found[0] : String(input?.[argument] ?? "…").slice(0, 200));
  return titles[name]?.replace(/\{\{|\}\}|\{(\w+)\}/g, fill) ?? words(name);
}

const learn = (agents) => agents.forEach((agent) => Object.assign(titles, agent.tools));

// The queue.

function time(text) {
  const at = new Date(text);
  const day = { day: "numeric", month: "short", year: "numeric" };
  const isToday = at.toDateString() === new Date().toDateString();
  return at.toLocaleString([], { hour: "numeric", minute: "2-digit", ...(isToday ? {} : day) });
}

const words = (name) => name.charAt(0).toUpperCase() + name.slice(1).replace(/[_-]+/g, " ").trim();
const namesOf = (one) => one.people.map((person) => person.name).join(", ");

function stateOf(one) {
  const waits = one.waitingSince ? `; the customer waits since ${time(one.waitingSince)}` : "";
  if (one.status === "taken") return `${one.mine ? "You are" : "With " + namesOf(one)}${one.mine ? " on it" : ""}${waits}`;
  return `Asked for a person: ${one.reason || "no reason given"}`;
}

function entry(id, title, lines) {
  const button = make("button", { type: "button" }, make("strong", {}, title),
    ...lines.filter(Boolean).map((line) => make("span", {}, line)));
  if (open?.id === id) button.setAttribute("aria-current", "true");
  button.addEventListener("click", () => show(id));
  button.dataset.thread = id;
  return make("li", {}, button);
}

function list(name, items) {
  const before = document.activeElement?.dataset?.thread;
  const inside = find(name).contains(document.activeElement);
  find(name).replaceChildren(...items);
  find(`${name}-none`).hidden = items.length > 0 || !connected.has(name); // else nobody knows
  find(`${name}-count`).textContent = items.length ? `(${items.length})` : "";
  if (inside) [...find(name).querySelectorAll("button")].find((b) => b.dataset.thread === before)?.focus();
}

function showQueue() {
  const asked = [...approvals.values()].filter((one) => one.status === "open" && one.mayAnswer);
  list("approvals", asked.map((one) => entry(one.threadId,
    one.message || one.calls.map((c) => titled(c.toolName, c.toolInput)).join(", ") || "A question",
    [`Asked by ${words(one.agent)}`, one.userId && `Customer: ${one.userId}`, one.expiresAt && `until ${time(one.expiresAt)}`])));
  list("takeovers", [...takeovers.values()].map((one) => entry(one.threadId,
    one.title || one.threadId, [stateOf(one), one.userId && `Customer: ${one.userId}`])));
}

// Who is asked: the queue of a person who is no staff is empty for another reason than that of staff.
async function signIn() {
  try {
    const { userId, isStaff } = await call("api/takeovers?limit=1");
    const role = isStaff === false ? ", who may not take over conversations" : "";
    find("who").textContent = `Signed in as ${userId}${role}.`;
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

function argumentsOf(input) {
  const isPlain = input !== null && typeof input === "object" && !Array.isArray(input);
  const known = isPlain ? Object.entries(input) : [["value", input]];
  return make("dl", {}, ...known.flatMap(([name, value]) => [
    make("dt", {}, name), make("dd", {}, typeof value === "string" ? value : JSON.stringify(value)),
  ]));
}

function question(one) {
  const box = make("section", { className: "question", "aria-label": `Decision: ${one.message || one.agent}` });
  box.append(make("h3", {}, one.message || `${words(one.agent)} asks for your decision`));
  const edits = [];
  for (const asked of one.calls) {
    const field = `edit-${one.id}-${asked.index}`;
    const area = make("textarea", { id: field, rows: "3", spellcheck: "false" });
    area.value = JSON.stringify(asked.toolInput, null, 1);
    edits.push({ asked, area, before: area.value });
    box.append(make("p", { className: "who" }, titled(asked.toolName, asked.toolInput)), argumentsOf(asked.toolInput),
      make("details", {}, make("summary", {}, "Change before approving"),
        make("label", { for: field }, `Arguments of ${asked.toolName}, as JSON`), area));
  }
  const reason = make("input", { id: `reason-${one.id}`, maxlength: "2000" });
  box.append(make("label", { for: `reason-${one.id}` }, "Reason, which the agent reads"), reason);
  const toUser = make("input", { id: `to-user-${one.id}`, maxlength: "2000" });
  box.append(make("label", { for: `to-user-${one.id}` }, "Words to the customer"), toUser);
  const answer = (action) => async (event) => {
    const done = await act(event.currentTarget, action === "approve" ? "Approved." : "Denied.", async () => {
      const calls = edits.filter((e) => e.area.value !== e.before).map((e) => {
        let changed;
        try { changed = JSON.parse(e.area.value); } catch { throw new Error(`The arguments of ${e.asked.toolName} are not JSON.`); }
        return { index: e.asked.index, action, reason: reason.value, toUser: toUser.value, arguments: changed };
      });
      await call(`api/approvals/${encodeURIComponent(one.id)}`,
        { action, reason: reason.value, toUser: toUser.value, calls: action === "approve" ? calls : [] });
      approvals.delete(one.id);
      showQueue();
    });
    await refresh();
    if (done) follow();
  };
  const approve = make("button", { type: "button", className: "main" }, "Approve");
  const deny = make("button", { type: "button" }, "Deny");
  approve.addEventListener("click", answer("approve"));
  deny.addEventListener("click", answer("deny"));
  box.append(make("div", { className: "row" }, approve, deny));
  return box;
}

function textOf(content) {
  if (typeof content === "string") return content;
  return (content ?? []).map((part) => part.text ?? `[${part.type}]`).join("");
}

// A text with its links to this site, e.g. files that a customer sent, and what is bold.
function linked(text) {
  const found = make("p", { className: "text" });
  let end = 0;
  for (const one of text.matchAll(/!?\[([^\]\n]{0,200})\]\((\/[\w.-]+(?:\/[\w.-]+)*)\)|\*\*([^*\n]{1,200})\*\*/g)) {
    const [all, label, href, bold] = one;
    const shown = bold
      ? make("strong", {}, bold)
      : make("a", { href, target: "_blank", rel: "noopener noreferrer" }, label || href);
    found.append(text.slice(end, one.index), shown);
    end = one.index + all.length;
  }
  found.append(text.slice(end));
  return found;
}

function message(one) {
  const note = one.staff?.to === "agents";
  const kind = one.type === "user" ? "user" : note ? "note" : one.staff ? "staff" : "agent";
  const who = { user: "Customer", note: `${one.agentName}, note for agents`, staff: `${one.agentName} (staff)`, agent: words(one.agentName ?? "") }[kind];
  const item = make("li", { className: kind },
    make("p", { className: "who" }, `${who} `, make("time", { datetime: one.createdAt }, time(one.createdAt))));
  if (one.type === "user") item.append(linked(one.content));
  const results = [...(one.data?.toolCalls ?? [])];
  for (const part of one.data?.output ?? []) {
    if (part.type === "text") item.append(linked(textOf(part.content)));
    for (const tool of part.type === "tool_call" ? part.tools : []) {
      const found = results.findIndex((result) => result.tool.name === tool.name);
      const result = found < 0 ? null : results.splice(found, 1)[0];
      item.append(make("details", {}, make("summary", {}, titled(tool.name, tool.input)), argumentsOf(tool.input),
        make("pre", {}, result ? JSON.stringify(result.content, null, 1) : "no result yet")));
    }
  }
  return item;
}

function render(data) {
  learn(data.agents);
  const one = data.takeover;
  find("thread-title").textContent = data.thread.title;
  find("thread-about").textContent = [one.userId && `Customer: ${one.userId}`, `Conversation ${one.threadId}`,
    one.status ? stateOf(one) : "Agents answer"].filter(Boolean).join(" · ");
  find("thread-body").hidden = false;
  const shown = new Set([...find("questions").children].map((box) => box.dataset.id));
  const wanted = data.pending.filter((asked) => asked.mayAnswer);
  for (const box of [...find("questions").children]) {
    if (!wanted.some((asked) => asked.id === box.dataset.id)) box.remove();
  }
  for (const asked of wanted) {
    if (shown.has(asked.id)) continue;
    const box = question(asked);
    box.dataset.id = asked.id;
    find("questions").append(box);
  }
  const shownNow = [...find("log").children]; // what has not changed stays, with what is unfolded in it
  find("log").replaceChildren(...data.messages.map((one, n) => {
    const text = JSON.stringify(one);
    const item = shownNow[n]?.known === text ? shownNow[n] : message(one);
    item.known = text;
    return item;
  }));
  find("failed").textContent = data.reply?.error ?? "";
  find("join").hidden = one.mine;
  find("decline").hidden = one.status !== "asked";
  find("say").hidden = find("hand-back").hidden = !one.mine;
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
    const data = await call(`api/takeovers/${encodeURIComponent(mine.id)}`);
    const text = JSON.stringify(data);
    if (open !== mine || text === mine.text) return;
    Object.assign(mine, { text, data });
    render(data);
    if (following) follow();
  } catch (error) {
    if (open === mine) tell(error.message, true);
  }
}

async function show(id) {
  open = { id };
  find("questions").replaceChildren();
  find("log").replaceChildren();
  find("explained").replaceChildren();
  find("explained-summary").textContent = "";
  find("thread-body").hidden = true;
  find("thread-title").textContent = "Opening…";
  find("thread-about").textContent = "";
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

function on(form, done, work) {
  find(form).addEventListener("submit", async (event) => {
    event.preventDefault();
    if (await act(event.submitter, done, work)) await refresh();
  });
}

const here = (what) => `api/takeovers/${encodeURIComponent(open.id)}/${what}`;

on("join", "You have taken over.", async () => {
  await call(here("join"), { name: find("join-name").value, stop: find("join-stop").checked });
});
let saying = null; // a retry must not say it twice
on("say", "Sent.", async () => {
  const text = find("say-text").value;
  if (saying?.text !== text) saying = { text, id: Array.from(crypto.getRandomValues(new Uint8Array(16)), (n) => n.toString(16).padStart(2, "0")).join("") };
  await call(here("say"), { text, messageId: saying.id });
  saying = null;
  find("say-text").value = "";
  find("say-text").focus();
});
on("hand-back", "Agents answer again.", async () => {
  await call(here("hand-back"), { note: find("note").value });
  find("note").value = "";
});
find("decline").addEventListener("click", async (event) => {
  if (await act(event.currentTarget, "Declined.", () => call(here("hand-back"), {}))) await refresh();
});
find("open").addEventListener("submit", (event) => {
  event.preventDefault();
  show(find("open-id").value.trim());
});
find("explain").addEventListener("click", async (event) => {
  const chosen = JSON.parse(find("agent").value);
  await act(event.currentTarget, "This is what the agent would be sent.", async () => {
    const network = chosen.network === null ? "" : `&network=${encodeURIComponent(chosen.network)}`;
    const data = await call(`${here("explain")}?agent=${encodeURIComponent(chosen.agent)}${network}`);
    find("explained-summary").textContent = data.summary;
    find("explained").replaceChildren(...data.messages.map((one) => make("li", {},
      make("p", { className: "who" }, [one.role, one.type === "text" ? "" : one.type].filter(Boolean).join(" · ")),
      make("pre", {}, one.type === "text" ? textOf(one.content) : JSON.stringify(one.tools ?? one.content, null, 1)))));
  });
});

call("api/agents").then(({ agents }) => { learn(agents); showQueue(); }, () => {}); // else calls have their names
listen("approvals", "api/approvals/stream", { approval: (one) => approvals.set(one.id, one) });
listen("takeovers", "api/takeovers/stream", {
  takeover: (one) => takeovers.set(one.threadId, one),
  left: (one) => takeovers.delete(one.threadId),
});
setInterval(refresh, 3000);
if (location.hash.length > 1) show(decodeURIComponent(location.hash.slice(1)));
