// Conversations of the packages from npm with a server, as rough as the world is:
// node clients.mjs FOLDER KIND URL SEEDS EVENTS > [{seed, client, thread, counts}]
//
// Each conversation has its own seed. Connections break at any byte, pages are loaded again,
// questions are answered either way, and replies are stopped. What the client shows in the end is
// printed beside what the thread holds. It goes on until each of these has happened EVENTS times.

import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { pause, random } from "./chance.mjs";

const [folder, kind, url, seeds, events] = process.argv.slice(2);
const require = createRequire(join(folder, "package.json"));
const load = (name) => import(pathToFileURL(require.resolve(name)).href);
console.error = () => {};
// @ag-ui/client cancels a body that has failed, and lets that fail unseen; browsers go on then.
process.on("unhandledRejection", (error) => {
  if (error?.message !== "network error") throw error;
});
console.warn = (...words) => process.stderr.write(`${words.join(" ")}\n`);

// A thread: its newest page, and all those before it.
async function get(path, headers) {
  const answer = await fetch(`${url}${path}`, { headers });
  if (!answer.ok) return { messages: [], interrupts: [] };
  const found = await answer.json();
  for (let page = found; page.hasMore; found.messages.unshift(...page.messages)) {
    page = await (await fetch(`${url}${path}?before=${page.position}`, { headers })).json();
  }
  return found;
}

function world(seed) {
  const chance = random(seed);
  const headers = { "x-user": `user-${seed}` };
  const counts = { cuts: 0, reloads: 0, answers: 0, stops: 0 };
  const calm = { on: false };
  async function rough(address, init) {
    const answer = await fetch(address, { ...init, headers: { ...init?.headers, ...headers } });
    if (calm.on || !answer.ok || !answer.body || chance() > 0.5) return answer;
    let left = Math.floor(chance() * 2500);
    const reader = answer.body.getReader();
    const body = new ReadableStream({
      async pull(to) {
        const { done, value } = await reader.read();
        if (done) return to.close();
        if (value.length <= left) {
          left -= value.length;
          return to.enqueue(value);
        }
        to.enqueue(value.slice(0, left));
        counts.cuts += 1;
        await reader.cancel();
        await pause(0);
        to.error(new TypeError("network error"));
      },
    });
    return new Response(body, { status: answer.status, headers: answer.headers });
  }
  async function maybeStop(thread) {
    if (calm.on || chance() > 0.25) return;
    await pause(chance() * 30);
    const body = JSON.stringify({ threadId: thread });
    const stopped = await fetch(`${url}/api/chat/cancel`, {
      method: "POST",
      body,
      headers: { ...headers, "content-type": "application/json" },
    });
    if (stopped.ok) counts.stops += 1;
  }
  return { chance, counts, calm, rough, maybeStop, read: (path) => get(path, headers) };
}

const TURNS = 3;
const MOST_TURNS = 80;
const TRIES = 40;

function goesOn(turn, counts) {
  const few = Object.values(counts).some((count) => count < Number(events));
  return turn < TURNS || (few && turn < MOST_TURNS);
}

async function vercel(seed) {
  const { Chat } = await load("@ai-sdk/react");
  const { DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses } =
    await load("ai");
  const { chance, counts, calm, rough, maybeStop, read } = world(seed);
  const id = `${kind}-${seed}`;
  const open = (messages) =>
    new Chat({
      id,
      messages,
      transport: new DefaultChatTransport({ api: `${url}/api/vercel`, fetch: rough }),
      sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
    });
  const reload = async () => {
    counts.reloads += 1;
    const next = open((await read(`/api/vercel/${id}`)).messages);
    await next.resumeStream();
    return next;
  };
  let chat = open([]);
  for (let turn = 0; goesOn(turn, counts); turn += 1) {
    calm.on = false;
    const stopping = maybeStop(id);
    await chat.sendMessage({ text: `${seed} ${turn}` });
    for (let n = 0; n < TRIES; n += 1) {
      calm.on = n > TRIES / 2;
      const asked = (chat.lastMessage?.parts ?? []).filter((p) => p.state === "approval-requested");
      if (chat.status === "error") await chat.resumeStream();
      else if (!calm.on && chance() < 0.2) chat = await reload();
      else if (asked.length > 0) {
        counts.answers += asked.length;
        for (const part of asked) {
          const approved = chance() < 0.7;
          const reason = chance() < 0.3 ? "because" : undefined;
          await chat.addToolApprovalResponse({ id: part.approval.id, approved, reason });
        }
        while (chat.status === "submitted" || chat.status === "streaming") await pause(2);
        await pause(2);
        while (chat.status === "submitted" || chat.status === "streaming") await pause(2);
      } else break;
      if (chat.status === "error" && !/network/.test(chat.error?.message)) {
        if (!/terminated|fetch/.test(chat.error?.message)) break;
      }
    }
    await stopping;
  }
  const thread = await read(`/api/vercel/${id}`);
  return { seed, client: chat.messages, thread: thread.messages, counts };
}

async function agUi(seed) {
  const { HttpAgent } = await load("@ag-ui/client");
  const { chance, counts, calm, rough, maybeStop, read } = world(seed);
  const threadId = `${kind}-${seed}`;
  const open = (initialMessages) =>
    new HttpAgent({ url: `${url}/api/ag-ui`, threadId, initialMessages, fetch: rough });
  const run = async (agent, options) => {
    try {
      await agent.runAgent(options);
      return "done";
    } catch (error) {
      if (/network/.test(String(error))) return "cut";
      if (!/HTTP 409|could not answer/.test(String(error))) console.warn(String(error));
      return "failed";
    }
  };
  const reload = async () => {
    counts.reloads += 1;
    const found = await read(`/api/ag-ui/${threadId}`);
    const next = open(found.messages);
    next.pendingInterrupts = found.interrupts;
    return next;
  };
  let agent = open([]);
  for (let turn = 0; goesOn(turn, counts); turn += 1) {
    calm.on = false;
    const stopping = maybeStop(threadId);
    agent.addMessage({ id: `${threadId}-${turn}`, role: "user", content: `${seed} ${turn}` });
    let outcome = await run(agent);
    for (let n = 0; n < TRIES; n += 1) {
      calm.on = n > TRIES / 2;
      if (!calm.on && chance() < 0.2) {
        agent = await reload();
        outcome = agent.pendingInterrupts.length > 0 ? "done" : await run(agent);
      } else if (agent.pendingInterrupts.length > 0) {
        counts.answers += agent.pendingInterrupts.length;
        const resume = agent.pendingInterrupts.map((one) => ({
          interruptId: one.id,
          status: chance() < 0.8 ? "resolved" : "cancelled",
          payload: { approved: chance() < 0.8, reason: "because" },
        }));
        outcome = await run(agent, { resume }); // the first answer counts, if it is cut
      } else if (outcome === "cut") outcome = await run(agent);
      else break;
    }
    await stopping;
    if (agent.pendingInterrupts.length > 0) agent.pendingInterrupts = [];
  }
  const thread = await read(`/api/ag-ui/${threadId}`);
  return { seed, client: agent.messages, thread: thread.messages, counts };
}

const converse = { vercel, "ag-ui": agUi }[kind];
const found = [];
const wanted = JSON.parse(seeds);
for (let n = 0; n < wanted.length; n += 8) {
  found.push(...(await Promise.all(wanted.slice(n, n + 8).map(converse))));
}
process.stdout.write(JSON.stringify(found));
