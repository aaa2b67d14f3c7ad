// Conversations of the useAgent hook as npm has it, in React, with a document but no browser:
// node --experimental-websocket use_agent.mjs URL SEEDS > [{seed, client, thread, counts}]
//
// Connections break, pages are loaded again, questions are answered, replies are stopped. What the
// hook shows in the end is printed beside what the thread holds.

import { AsyncLocalStorage } from "node:async_hooks";
import { isDeepStrictEqual } from "node:util";
import { Window } from "happy-dom";
import { pause, random } from "./chance.mjs";

const [url, seeds] = process.argv.slice(2);
const window = new Window({ url });
const { document, navigator, sessionStorage } = window;
Object.assign(globalThis, { window, document, navigator, sessionStorage });
console.log = console.warn = console.error = () => {};

const users = new AsyncLocalStorage();
const [nativeFetch, NativeSocket] = [fetch, WebSocket];
const fetchAs = (user) => async (path, init) => {
  const options = { ...init, headers: { ...init?.headers, "x-user": user } };
  for (let tries = 0; ; tries += 1) {
    try {
      return await nativeFetch(new URL(path, url), options);
    } catch (error) {
      // The server closes connections that were idle; browsers read again, too.
      if (tries > 2 || (options.method ?? "GET") !== "GET") throw error;
    }
  }
};
globalThis.fetch = (path, init) => fetchAs(users.getStore())(path, init);
const sockets = new Map(); // those that each user's page has made, the newest one last
globalThis.WebSocket = class extends NativeSocket {
  constructor(address) {
    super(address);
    const [body] = new URL(address).searchParams.get("token").split(".");
    const [user] = JSON.parse(Buffer.from(body, "base64url"));
    sockets.set(user, [...(sockets.get(user) ?? []), this]);
  }
};

const { createElement } = await import("react");
const { createRoot } = await import("react-dom/client");
const { AgentProvider, createDefaultHttpTransport, useAgent } = await import("@inngest/use-agent");
const { QueryClient } = await import("@tanstack/react-query");
const { call, storedThread } = await import("./server.js"); // the example's

async function until(what) {
  while (!(await what())) await pause(5);
}

// What a page shows of messages, part by part.
function shown(messages) {
  const one = (role, { type, content, toolName, input, output }) => {
    if (type === "text") return content ? [[role, content]] : [];
    if (type !== "tool-call") return [];
    return [[toolName, input, output?.data === undefined ? { data: output ?? {} } : output]];
  };
  return messages.flatMap(({ role, parts }) => parts.flatMap((part) => one(role, part)));
}

async function converse(seed) {
  const chance = random(seed);
  const user = `user-${seed}`;
  const thread = `hook-${seed}`;
  const counts = { cuts: 0, reloads: 0, answers: 0, stops: 0 };
  const stored = () => call(`/api/threads/${thread}`).catch(() => null);
  let [root, hook, opened] = [null, null, false];
  let isComing = false; // a reply that was under way when the thread was read

  function Page() {
    hook = useAgent({
      enableThreadValidation: false,
      onEvent: ({ event, data }) => {
        if (event !== "stream.ended" || data.threadId !== thread) return;
        isComing = false;
        if (!opened) return;
        // As the page does: its beginning may have been missed.
        users.run(user, () =>
          storedThread(thread).then(({ messages }) => hook?.replaceThreadMessages(thread, messages)),
        );
      },
    });
    return null;
  }

  async function open() {
    const known = await storedThread(thread).catch(() => null);
    root?.unmount();
    // A page that goes takes its connections along; the hook leaves those open that had just begun.
    for (const socket of sockets.get(user) ?? []) socket.close();
    sockets.delete(user);
    root = createRoot(document.createElement("div"));
    const transport = createDefaultHttpTransport({ fetch: fetchAs(user) });
    const queryClient = new QueryClient({ defaultOptions: { queries: { retry: false } } });
    const page = createElement(Page);
    hook = null;
    root.render(
      createElement(AgentProvider, { userId: user, transport, queryClient, debug: false }, page),
    );
    await until(() => hook);
    opened = known !== null;
    isComing = known?.isRunning ?? false;
    if (known !== null) hook.replaceThreadMessages(thread, known.messages);
    hook.setCurrentThreadId(thread);
    await until(() => hook.isConnected && hook.currentThreadId === thread);
    if (known?.isRunning && (await stored())?.running.length === 0) {
      isComing = false;
      hook.replaceThreadMessages(thread, (await storedThread(thread)).messages);
    }
  }

  await open();
  for (const turn of [0, 1, 3]) {
    let stops = chance() < 0.25;
    let stopped = false;
    await hook.sendMessageToThread(thread, `${seed} ${turn}`).catch(() => {});
    for (;;) {
      await pause(chance() * 20);
      const kind = chance();
      if (kind < 0.2) {
        counts.cuts += 1;
        sockets.get(user).at(-1).close();
        await pause(5);
        await until(() => hook.isConnected);
      } else if (kind < 0.3) {
        counts.reloads += 1;
        await open();
      } else if (kind < 0.5 && stops) {
        counts.stops += 1;
        [stops, stopped] = [false, true];
        await hook.cancel();
      }
      const found = await stored();
      if (found === null) continue;
      for (const { id } of found.pending) {
        counts.answers += 1;
        const action = chance() < 0.7 ? "approve" : "deny";
        await call("/api/approve-tool", { toolCallId: id, threadId: thread, action }).catch(() => {});
      }
      const isOver = found.pending.length + found.running.length === 0;
      if (isOver && !isComing && (stopped || hook.status === "ready")) break;
    }
    if (stopped) await open(); // of a stopped reply the hook has more than the thread
  }
  const stays = shown((await storedThread(thread)).messages);
  // A busy machine brings the last chunks late: wait as long as they come.
  for (let quiet = 0; quiet < 1500 && !isDeepStrictEqual(shown(hook.messages), stays); quiet += 1) {
    const { messages } = hook;
    await pause(20);
    if (hook.messages !== messages) quiet = 0;
  }
  const found = { seed, client: shown(hook.messages), thread: stays, counts };
  root.unmount();
  for (const socket of sockets.get(user)) socket.close();
  return found;
}

const found = [];
const wanted = JSON.parse(seeds);
for (let n = 0; n < wanted.length; n += 8) {
  const some = wanted.slice(n, n + 8);
  found.push(...(await Promise.all(some.map((seed) => users.run(`user-${seed}`, converse, seed)))));
}
process.stdout.write(JSON.stringify(found), () => process.exit(0));
