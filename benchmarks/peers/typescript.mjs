// The original in TypeScript, for comparison: speaks what worker.py speaks.
// `node --expose-gc typescript.mjs FOLDER`, where FOLDER has node_modules.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const folder = process.argv[2];
const require = createRequire(join(folder, "index.js"));
const kit = pathToFileURL(join(folder, "node_modules/@inngest/agent-kit/dist/index.js")).href;
const { createAgent, createNetwork, createTool, openai } = await import(kit);
const { z } = await import(pathToFileURL(require.resolve("zod")).href);

const QUESTION = "Where is my parcel 17?";
const ANSWER = "It arrives tomorrow.";
const SYSTEM =
  "You are a helpful support agent. Answer briefly, and only from what the tools say.";
const AT_ONCE = 1000;
const counts = { asked: 0, called: 0 };
let script = { calls: 0, milliseconds: 0 };

// Its models send requests with `fetch`, which has no other door: this answers at once.
globalThis.fetch = async () => {
  if (script.milliseconds) await new Promise((done) => setTimeout(done, script.milliseconds));
  const step = counts.asked++ % (script.calls + 1);
  const call = {
    id: `call_${step}`,
    type: "function",
    function: { name: "track", arguments: JSON.stringify({ parcel: step, detailed: false }) },
  };
  const message =
    step < script.calls
      ? { role: "assistant", content: null, tool_calls: [call] }
      : { role: "assistant", content: ANSWER };
  const reply = {
    id: "chatcmpl-1",
    object: "chat.completion",
    created: 1760000000,
    model: "gpt-4o-2024-08-06",
    choices: [{ index: 0, message, finish_reason: message.tool_calls ? "tool_calls" : "stop" }],
    usage: { prompt_tokens: 120, completion_tokens: 12, total_tokens: 132 },
  };
  const text = JSON.stringify(reply);
  return { ok: true, status: 200, text: async () => text, json: async () => JSON.parse(text) };
};

const parameters = z.object({ parcel: z.number(), detailed: z.boolean().default(false) });
const track = createTool({
  name: "track",
  description: "Look up where a parcel is.",
  parameters,
  handler: async ({ parcel }) => {
    counts.called++;
    return { parcel, status: "on its way" };
  },
});

const model = openai({ model: "gpt-4o", apiKey: "x" });
const agent = (tools, name = "support") => createAgent({ name, system: SYSTEM, tools, model });

const textOf = (result) => result.output.at(-1).content;

function runs(calls) {
  const one = agent(calls ? [track] : []);
  return {
    script: { calls, milliseconds: 0 },
    asked: calls + 1,
    called: calls,
    do: async () => textOf(await one.run(QUESTION, { maxIter: calls + 1 })),
  };
}

const works = {
  import: () => ({ imports: true }),
  create: () => ({ sync: () => agent([track]) }),
  first_run: () => ({
    script: { calls: 0, milliseconds: 0 },
    asked: 1,
    called: 0,
    do: async () => textOf(await agent([track]).run(QUESTION)),
  }),
  memory: () => ({ memory: true }),
  text: () => runs(0),
  tool1_async: () => runs(1),
  tool10_async: () => runs(10),
  text_wire: () => runs(0),
  tool1_wire: () => runs(1),
  tool10_wire: () => runs(10),
  two_agents: () => {
    const agents = [agent([], "first"), agent([], "second")];
    const network = createNetwork({
      name: "pair",
      agents,
      router: ({ callCount }) => agents[callCount],
    });
    return {
      script: { calls: 0, milliseconds: 0 },
      asked: 2,
      called: 0,
      do: async () => textOf((await network.run(QUESTION)).state.results.at(-1)),
    };
  },
  concurrent: () => {
    const one = agent([]);
    return {
      script: { calls: 0, milliseconds: 50 },
      asked: AT_ONCE,
      called: 0,
      do: async () => {
        const found = await Promise.all(Array.from({ length: AT_ONCE }, () => one.run(QUESTION)));
        return found.every((result) => textOf(result) === ANSWER) ? ANSWER : "";
      },
    };
  },
};

const version = (name) =>
  JSON.parse(readFileSync(join(folder, "node_modules", name, "package.json"), "utf8")).version;

let open = null;
let done = 0;

function imported() {
  const code = `const t = process.hrtime.bigint(), c = process.cpuUsage();
    await import(${JSON.stringify(kit)});
    const u = process.cpuUsage(c);
    console.log(Number(process.hrtime.bigint() - t) / 1e9, (u.user + u.system) / 1e6);`;
  const [value, cpu] = execFileSync(process.execPath, ["--input-type=module", "-e", code], {
    encoding: "utf8",
  })
    .trim()
    .split(" ")
    .map(Number);
  return { value, cpu };
}

function retained(count) {
  agent([track]);
  global.gc();
  const kept = new Array(count);
  const start = process.memoryUsage().heapUsed;
  for (let i = 0; i < count; i++) kept[i] = agent([track]);
  global.gc();
  const value = (process.memoryUsage().heapUsed - start) / count;
  if (new Set(kept).size !== count) throw new Error("not all made");
  return { value, cpu: null };
}

async function sample(count) {
  if (open.imports) return imported();
  if (open.memory) return retained(count);
  script = open.script ?? script;
  global.gc();
  // As measuring.py: the first is not timed.
  let last = open.sync ? open.sync() : await open.do();
  const cpu = process.cpuUsage();
  const start = process.hrtime.bigint();
  if (open.sync) for (let i = 0; i < count; i++) last = open.sync();
  else for (let i = 0; i < count; i++) last = await open.do();
  const wall = Number(process.hrtime.bigint() - start) / 1e9;
  const used = process.cpuUsage(cpu);
  done += count + 1;
  if (open.do && last !== ANSWER) throw new Error(`the answer is ${last}`);
  return { value: wall / count, cpu: (used.user + used.system) / 1e6 / count };
}

function check() {
  if (!open?.do) return;
  const { asked, called } = counts;
  if (asked !== done * open.asked) throw new Error(`${asked} requests in ${done} runs`);
  if (called !== done * open.called) throw new Error(`${called} tool calls in ${done} runs`);
}

const commands = {
  hello: () => ({
    runtime: `Node ${process.versions.node}`,
    versions: { "@inngest/agent-kit": version("@inngest/agent-kit"), inngest: version("inngest") },
    notes: [
      "In Node, so not one of the Python peers. `fetch` is replaced in the process, as its models" +
        " have no other door: all its rows make the request's body and read the reply.",
      "Memory is V8's heap.",
    ],
    absent: {
      tool1_sync: "JavaScript has no threads for tools",
      tool10_sync: "JavaScript has no threads for tools",
      thread: "it brings no store",
    },
    works: Object.keys(works),
  }),
  open: async ({ work, count, effort }) => {
    open = works[work]();
    done = 0;
    Object.assign(counts, { asked: 0, called: 0 });
    const first = await sample(1);
    check();
    if (count !== null) return { count };
    if (first.value > 10 * effort.seconds) return { count: 1 };
    // As measuring.py: by CPU time, until a round is long enough to tell.
    let [many, once] = [1, first.cpu || first.value];
    while (many * once < effort.seconds / 4 && many < 20000) {
      many = Math.min(4 * many, 20000);
      const found = await sample(many);
      once = found.cpu || found.value;
    }
    return { count: Math.max(1, Math.min(20000, Math.round(effort.seconds / once))) };
  },
  sample: ({ count }) => sample(count),
  close: () => {
    check();
    open = null;
    return {};
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const { do: name, ...given } = JSON.parse(line);
  let answer;
  try {
    answer = await commands[name](given);
  } catch (error) {
    console.error(error);
    open = null;
    answer = { error: String(error).slice(0, 300) };
  }
  process.stdout.write(JSON.stringify(answer) + "\n");
}
