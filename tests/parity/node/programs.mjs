// Programs of the shapes of the TypeScript repository's examples; their twins are in programs.py.
//
//   node programs.mjs NAME < REPLIES
//
// Prints what the program gives, and the requests that it made.

import { AsyncLocalStorage } from "node:async_hooks";
import {
  AgentResult,
  createAgent,
  createNetwork,
  createRoutingAgent,
  createState,
  createTool,
  openai,
} from "@inngest/agent-kit";
import { z } from "zod";
import { CLOSING, serve } from "./provider.mjs";

const model = (base) => openai({ model: "gpt-4o", apiKey: "key-0000", baseUrl: `${base}/v1` });

// A deep-research agent: stages kept in the state, a router that counts results.
async function research(base) {
  const plan = createTool({
    name: "plan",
    description: "Say what to look into.",
    parameters: z.object({ topics: z.array(z.string()) }),
    handler: ({ topics }, { network }) => {
      network.state.data = { ...network.state.data, topics, findings: [] };
      return { success: true, count: topics.length };
    },
  });
  const note = createTool({
    name: "note",
    description: "Keep a finding.",
    parameters: z.object({ finding: z.string() }),
    handler: ({ finding }, { network }) => {
      const { data } = network.state;
      data.findings.push(finding);
      if (data.findings.length >= data.topics.length) data.complete = true;
      return "kept";
    },
  });
  const planner = createAgent({ name: "planner", system: "Plan.", tools: [plan], tool_choice: "plan" });
  const researcher = createAgent({
    name: "researcher",
    system: ({ network }) => {
      const { topics, findings } = network.state.data;
      return `Look into ${topics[findings.length]}.`;
    },
    tools: [note],
    tool_choice: "note",
  });
  const writer = createAgent({ name: "writer", system: "Write the report." });
  const network = createNetwork({
    name: "research",
    agents: [planner, researcher, writer],
    defaultModel: model(base),
    maxIter: 8,
    router: ({ network, lastResult }) => {
      if (network.state.results.length === 0) return planner;
      if (!network.state.data.complete) return researcher;
      if (lastResult.agentName !== "writer") return writer;
      return undefined;
    },
  });
  const state = createState({ query: "tea" });
  const run = await network.run("Research tea.", { state });
  const last = run.state.results[run.state.results.length - 1];
  return {
    data: run.state.data,
    agents: run.state.results.map((result) => result.agentName),
    count: run.state.results.length,
    report: last.output.map((message) => message.content),
  };
}

// An SWE-bench agent: the editor sees its own results only, is enabled by a plan, and says it is done.
async function bench(base) {
  const createPlan = createTool({
    name: "create_plan",
    description: "Describe the edits.",
    parameters: z.object({ thoughts: z.string(), files: z.array(z.string()) }),
    handler: (plan, { network }) => {
      network.state.data.plan = plan;
      return plan;
    },
  });
  const write = createTool({
    name: "write_file",
    description: "Write a file.",
    parameters: z.object({ filename: z.string(), content: z.string() }),
    handler: ({ filename, content }, { network }) => {
      (network.state.data.files ??= {})[filename] = content;
      return `wrote ${filename}`;
    },
  });
  const done = createTool({
    name: "done",
    description: "The files are edited.",
    handler: (_input, { network }) => {
      network.state.data.done = true;
      return "Done editing";
    },
  });
  const planner = createAgent({ name: "Planner", system: "Plan the edits.", tools: [createPlan] });
  const editor = createAgent({
    name: "Editor",
    system: ({ network }) => `Edit by this plan: ${network.state.data.plan.thoughts}`,
    tools: [write, done],
    lifecycle: {
      enabled: ({ network }) => network.state.data.plan !== undefined,
      onStart: ({ agent, prompt, network }) => {
        const history = network.state.results
          .filter((result) => result.agentName === agent.name)
          .map((result) => result.output.concat(result.toolCalls))
          .flat();
        return { prompt, history, stop: false };
      },
    },
  });
  const network = createNetwork({
    name: "code",
    agents: [planner, editor],
    defaultModel: model(base),
    defaultState: createState({ repo: "x/y", done: false }),
    defaultRouter: ({ network }) => {
      if (network.state.data.done) return;
      if (network.state.data.plan === undefined) return planner;
      return editor;
    },
  });
  const run = await network.run("Fix the bug.");
  return {
    data: run.state.data,
    own: network.state.data,
    agents: run.state.results.map((result) => result.agentName),
    calls: run.state.results.flatMap((r) => r.toolCalls.map((c) => [c.tool.name, c.content])),
  };
}

// A router that runs an agent itself, reads what it says, and goes on by code.
async function hybrid(base) {
  const classifier = createAgent({ name: "classifier", system: "Say billing or technical." });
  const billing = createAgent({ name: "billing", system: "You do billing." });
  const technical = createAgent({ name: "technical", system: "You do technology." });
  const network = createNetwork({
    name: "desk",
    agents: [billing, technical],
    defaultModel: model(base),
    router: async ({ network, input, callCount, lastResult }) => {
      if (callCount >= 2) return undefined;
      const answer = await classifier.run(input, { network, model: network.defaultModel });
      const word = answer.output[0].content;
      network.state.data.said = [...(network.state.data.said ?? []), [word, lastResult?.agentName ?? null]];
      return word === "billing" ? billing : technical;
    },
  });
  const run = await network.run("My invoice is wrong.");
  return {
    data: run.state.data,
    agents: run.state.results.map((result) => result.agentName),
  };
}

// A routing agent that has a tool of its own, and memory kept by events.
async function memory(base, step) {
  const recall = createTool({
    name: "recall",
    description: "Look memories up.",
    parameters: z.object({ queries: z.array(z.string()) }),
    handler: async ({ queries }, { step }) =>
      step.run("recall", async () => queries.map((query) => `about ${query}`)),
  });
  const remember = createTool({
    name: "remember",
    description: "Keep facts.",
    parameters: z.object({ facts: z.array(z.string()) }),
    handler: async ({ facts }, { step }) => {
      await step.sendEvent("keep facts", { name: "app/memories.create", data: { facts } });
      return `Scheduled ${facts.length} facts.`;
    },
  });
  const finish = createTool({
    name: "finish",
    description: "End the conversation.",
    handler: (_, { network }) => {
      network.state.data.finished = true;
      return "bye";
    },
  });
  const recaller = createAgent({ name: "recaller", system: "Recall.", tools: [recall], tool_choice: "recall" });
  const assistant = createAgent({ name: "assistant", system: "Help.", tools: [remember, finish] });
  const network = createNetwork({
    name: "memory",
    agents: [recaller, assistant],
    defaultModel: model(base),
    maxIter: 5,
    router: ({ network, callCount }) => {
      if (network.state.data.finished) return undefined;
      return callCount === 0 ? recaller : assistant;
    },
  });
  const run = await inside.run({ ctx: { step: step.tools } }, () => network.run("I like tea.", { state: createState({}) }));
  return {
    data: run.state.data,
    agents: run.state.results.map((result) => result.agentName),
    contents: run.state.results.flatMap((r) => r.toolCalls.map((c) => c.content)),
    events: step.events,
  };
}

// A person in the loop: a tool waits for an event, and a routing agent decides who works.
async function person(base, step) {
  const ask = createTool({
    name: "ask_developer",
    description: "Ask a developer.",
    parameters: z.object({ question: z.string() }),
    handler: async ({ question }, { step }) => {
      if (!step) return { error: "This tool requires step context" };
      const answer = await step.waitForEvent("developer.response", {
        event: "app/developer.answered",
        timeout: "4h",
      });
      if (!answer) return { error: "No developer response provided" };
      return { question, answer: answer.data.answer };
    },
  });
  const reply = createTool({
    name: "reply",
    description: "Answer the customer.",
    parameters: z.object({ message: z.string() }),
    handler: ({ message }, { network }) => {
      network.state.kv.set("reply", message);
    },
  });
  const route = createTool({
    name: "route",
    description: "Say who works.",
    parameters: z.object({ agent: z.string() }),
    handler: ({ agent }) => agent,
  });
  const technical = createAgent({ name: "technical", system: "Help.", tools: [ask, reply] });
  const supervisor = createRoutingAgent({
    name: "supervisor",
    description: "Decides",
    system: "You supervise.",
    tools: [route],
    tool_choice: "route",
    lifecycle: {
      onRoute: ({ result, network }) => {
        if (network.state.kv.has("reply")) return;
        return [result.toolCalls[0].content.data];
      },
    },
  });
  const network = createNetwork({
    name: "support",
    agents: [technical],
    defaultModel: model(base),
    router: supervisor,
  });
  const run = await inside.run({ ctx: { step: step.tools } }, () => network.run("It is broken."));
  return {
    reply: run.state.kv.get("reply"),
    agents: run.state.results.map((result) => result.agentName),
    contents: run.state.results.flatMap((r) => r.toolCalls.map((c) => c.content)),
  };
}

// A chat that streams, with an adapter over the rows of a database; two turns on one thread.
async function chat(base) {
  const threads = new Map();
  const rows = [];
  const history = {
    createThread: async ({ state }) => {
      const threadId = state.threadId ?? `thread-${threads.size + 1}`;
      threads.set(threadId, { user: state.data.userId });
      return { threadId };
    },
    get: async ({ threadId }) =>
      rows
        .filter((row) => row.thread === threadId && row.kind === "agent")
        .map((row) => new AgentResult(row.agent, row.output, row.calls, new Date(row.at))),
    appendUserMessage: async ({ threadId, userMessage }) => {
      rows.push({ thread: threadId, kind: "user", content: userMessage.content, id: userMessage.id });
    },
    appendResults: async ({ threadId, newResults }) => {
      for (const { agentName, output, toolCalls, createdAt } of newResults)
        rows.push({
          thread: threadId,
          kind: "agent",
          agent: agentName,
          output,
          calls: toolCalls,
          at: createdAt.toISOString(),
        });
    },
  };
  const agent = createAgent({ name: "chat", description: "Talks", system: "Talk." });
  const network = createNetwork({
    name: "chats",
    agents: [agent],
    defaultModel: model(base),
    history,
    router: ({ callCount }) => (callCount === 0 ? agent : undefined),
  });
  const chunks = [];
  const turn = async (id, content, threadId) => {
    const message = { id, role: "user", content };
    const state = createState({ userId: "u1" }, threadId ? { threadId } : {});
    const publish = async ({ event, data }) => {
      chunks.push([event, data.threadId ?? null, data.delta ?? null]);
    };
    return network.run(message, { state, streaming: { publish } });
  };
  const first = await turn("m1", "My name is Ada.");
  const second = await turn("m2", "Who am I?", first.state.threadId);
  return {
    threads: [...threads.entries()],
    rows: rows.map(({ at, ...row }) => row),
    chunks,
    results: second.state.results.length,
  };
}

// A coding agent in a sandbox: tools tell the model what failed, and a hook sees when the task is done.
async function coder(base) {
  const sandboxes = [];
  const sandboxOf = (network) => {
    if (!network.state.kv.has("sandbox")) {
      sandboxes.push({});
      network.state.kv.set("sandbox", sandboxes.length - 1);
    }
    return sandboxes[network.state.kv.get("sandbox")];
  };
  const terminal = createTool({
    name: "terminal",
    description: "Run a command.",
    parameters: z.object({ command: z.string() }),
    handler: async ({ command }, { network }) => {
      try {
        const sandbox = sandboxOf(network);
        const [program, name] = command.split(" ");
        if (program !== "cat") throw new Error(`no such command: ${program}`);
        return sandbox[name];
      } catch (error) {
        return `Command failed: ${error.message}`;
      }
    },
  });
  const write = createTool({
    name: "writeFiles",
    description: "Write files.",
    parameters: z.object({ files: z.array(z.object({ path: z.string(), content: z.string() })) }),
    handler: async ({ files }, { network }) => {
      for (const { path, content } of files) sandboxOf(network)[path] = content;
      return `Written: ${files.map((file) => file.path).join(", ")}`;
    },
  });
  const read = createTool({
    name: "readFiles",
    description: "Read files.",
    parameters: z.object({ files: z.array(z.string()) }),
    handler: async ({ files }, { network }) =>
      JSON.stringify(files.map((path) => ({ path, content: sandboxOf(network)[path] ?? null }))),
  });
  const agent = createAgent({
    name: "Coding Agent",
    description: "Writes programs",
    system: "Do the task; at its end say what you did in <task_summary>.",
    tools: [terminal, write, read],
    lifecycle: {
      onResponse: async ({ result, network }) => {
        const last = result.output.findLast((message) => message.type === "text" && message.role === "assistant");
        if (last?.content.includes("<task_summary>")) network.state.kv.set("summary", last.content);
        return result;
      },
    },
  });
  const network = createNetwork({
    name: "coding",
    agents: [agent],
    defaultModel: model(base),
    maxIter: 15,
    defaultRouter: ({ network, callCount }) => {
      network.state.kv.set("calls", callCount);
      return network.state.kv.has("summary") ? undefined : agent;
    },
  });
  const run = await network.run("Write a program that greets.");
  return {
    kv: run.state.kv.all(),
    sandboxes,
    agents: run.state.results.map((result) => result.agentName),
    contents: run.state.results.flatMap((r) => r.toolCalls.map((c) => c.content)),
  };
}

const inside = new AsyncLocalStorage();
globalThis[Symbol.for("inngest:als")] = Promise.resolve(inside);

const programs = { research, bench, hybrid, memory, person, chat, coder };
const given = JSON.parse(await new Response(process.stdin).text());
const provider = await serve(CLOSING);
const world = { spec: { llm: given.replies }, run: 0, requests: [], note() {} };
provider.begin(world, 50);
const events = [];
const asked = [];
const step = {
  events,
  tools: {
    run: async (_id, code) => code(),
    sendEvent: async (_id, event) => {
      events.push(event);
      return { ids: ["1"] };
    },
    waitForEvent: async () => given.event ?? null,
    ai: {
      infer: async (_id, { body }) => {
        asked.push(structuredClone(body));
        return structuredClone(provider.take("chat").json);
      },
    },
  },
};
const outcome = await programs[process.argv[2]](provider.base, step);
const requests = [...world.requests.map((request) => request.body), ...asked];
process.stdout.write(JSON.stringify({ outcome, requests }));
process.exit(0);
