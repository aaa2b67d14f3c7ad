// A scenario's agents, networks, tools, hooks and stores as objects of the TypeScript package.

import { AsyncLocalStorage } from "node:async_hooks";
import * as kit from "@inngest/agent-kit";
import { models as adapters } from "@inngest/ai";
import { z } from "zod";
import { handlerOf } from "./handlers.mjs";
import {
  copied,
  errorOf,
  inStyle,
  madeResult,
  resultRecord,
  shortResult,
  stateRecord,
} from "./values.mjs";

const PROVIDERS = {
  openai: kit.openai,
  anthropic: kit.anthropic,
  gemini: kit.gemini,
  grok: kit.grok,
  "azure-openai": adapters.azureOpenai,
  deepseek: adapters.deepseek,
};
const JUST_NOW = 60_000;

// Where the SDK keeps what a function's code runs in: the package asks it for the step tools.
const inside = new AsyncLocalStorage();
globalThis[Symbol.for("inngest:als")] = Promise.resolve(inside);

export class World {
  run = 0;
  requests = [];
  events = [];
  historyLog = [];
  callbackLog = [];
  order = [];
  warnings = [];
  stepLog = [];
  #made = new Map();

  constructor(spec, { base, take, server }) {
    this.spec = JSON.parse(JSON.stringify(spec).replaceAll("{{BASE}}", base));
    this.take = take; // the next scripted reply
    this.server = server; // the program of the MCP servers
  }

  // ------------------------------------------------------------------ notes

  note(what) {
    this.order.push(what);
  }

  called(what, kind, facts) {
    this.note(what);
    this.callbackLog.push({ run: this.run, kind, ...facts });
  }

  warned(said) {
    const plain = (value) =>
      value instanceof Error ? { $error: { name: value.name, message: value.message } } : copied(value);
    this.warnings.push(said.map(plain));
  }

  #once(kind, id, make) {
    const key = `${kind}:${id}`;
    if (!this.#made.has(key)) this.#made.set(key, make(this.spec[`${kind}s`][id]));
    return this.#made.get(key);
  }

  // ------------------------------------------------------------------ objects

  model(id) {
    return this.#once("model", id, ({ provider, options }) => PROVIDERS[provider](copied(options)));
  }

  tool(id) {
    return this.#once("tool", id, (spec) => {
      const made = { name: spec.name, handler: handlerOf(spec, this) };
      if ("description" in spec) made.description = spec.description;
      if (spec.parameters) made.parameters = new Function("z", `return ${spec.parameters.zod}`)(z);
      if ("strict" in spec) made.strict = spec.strict;
      return spec.factory === "plain" ? made : kit.createTool(made);
    });
  }

  mcpServer(id) {
    return this.#once("mcpServer", id, ({ name, transport }) => {
      const [program, ...given] = transport.args;
      const ours = program?.includes("mcp-server")
        ? { command: "python3", args: [this.server, ...given] }
        : {};
      return { name, transport: { ...copied(transport), ...ours } };
    });
  }

  state(id) {
    return this.#once("state", id, ({ data, messages, results, threadId }) =>
      kit.createState(copied(data), {
        messages: copied(messages),
        results: results?.map(madeResult),
        threadId,
      }),
    );
  }

  history(id) {
    return this.#once("historie", id, (spec) => {
      const hooks = ["createThread", "get", "appendUserMessage", "appendResults"];
      const given = hooks.filter((hook) => hook in spec);
      return Object.fromEntries(given.map((hook) => [hook, this.#historyHook(id, hook, spec[hook])]));
    });
  }

  #historyHook(id, hook, spec) {
    let calls = 0;
    return inStyle(spec, (context) => {
      this.note(`history:${id}.${hook}`);
      this.historyLog.push({ run: this.run, adapter: id, hook, ctx: historyFacts(context) });
      Object.assign(context.state.data, copied(spec.setState ?? {}));
      const { sequence } = spec;
      const number = calls++;
      if (spec.throw) throw errorOf(spec.throw);
      const standard = { createThread: { threadId: "thread-created" }, get: [] }[hook];
      const found = "return" in spec ? spec.return : standard;
      const value = sequence ? sequence[Math.min(number, sequence.length - 1)] : found;
      if (value === null) return undefined;
      if (hook === "createThread") return copied(value);
      return hook === "get" ? value.map(madeResult) : undefined;
    });
  }

  agent(id) {
    return this.#once("agent", id, (spec) => {
      const made = { name: spec.name, system: this.#system(spec.system, spec.name) };
      if ("description" in spec) made.description = spec.description;
      if ("assistant" in spec) made.assistant = spec.assistant;
      if (spec.tools) made.tools = spec.tools.map((tool) => this.tool(tool));
      if ("toolChoice" in spec) made.tool_choice = spec.toolChoice;
      if (spec.model) made.model = this.model(spec.model);
      if (spec.lifecycle) made.lifecycle = this.#lifecycle(spec.lifecycle, spec.name);
      if (spec.history) made.history = this.history(spec.history);
      if (spec.mcpServers) made.mcpServers = spec.mcpServers.map((each) => this.mcpServer(each));
      const agent =
        spec.type === "routing" ? kit.createRoutingAgent(made) : kit.createAgent(made);
      return spec.withModel ? agent.withModel(this.model(spec.withModel)) : agent;
    });
  }

  network(id) {
    return this.#once("network", id, (spec) => {
      const made = { name: spec.name, agents: spec.agents.map((agent) => this.agent(agent)) };
      if (spec.defaultModel) made.defaultModel = this.model(spec.defaultModel);
      if ("maxIter" in spec) made.maxIter = spec.maxIter;
      if (spec.defaultState) made.defaultState = this.state(spec.defaultState);
      if (spec.router) made.router = this.router(spec.router);
      if (spec.defaultRouter) made.defaultRouter = this.router(spec.defaultRouter);
      if (spec.history) made.history = this.history(spec.history);
      return kit.createNetwork(made);
    });
  }

  // ------------------------------------------------------------------ hooks

  #system(spec, agent) {
    if (typeof spec === "string") return spec;
    const { template, throw: error, async: asynchronous } = spec.fn;
    return inStyle({ sync: !asynchronous }, (context) => {
      const { network } = context;
      const argKeys = Object.keys(context).sort();
      const facts = { agent, argKeys, hasNetwork: !!network, network: network?.name };
      this.called(`system:${agent}`, "system", facts);
      if (error) throw errorOf(error);
      const fields = {
        "network.name": network.name,
        agentNames: [...network.agents.keys()].join(","),
        resultCount: network.state.results.length,
      };
      return template.replace(/\{([\w.]+)\}/g, (_, name) =>
        String(name.startsWith("data.") ? network.state.data[name.slice(5)] : fields[name]),
      );
    });
  }

  #lifecycle(spec, agent) {
    const made = {};
    if (spec.enabled) made.enabled = this.#enabled(spec.enabled, agent);
    if (spec.onStart) made.onStart = this.#onStart(spec.onStart, agent);
    for (const hook of ["onResponse", "onFinish"])
      if (spec[hook]) made[hook] = this.#onResult(hook, spec[hook], agent);
    if (spec.onRoute) made.onRoute = this.#onRoute(spec.onRoute, agent);
    return made;
  }

  #enabled(spec, agent) {
    return inStyle(spec, ({ network }) => {
      const facts = { agent, network: network?.name, stateData: copied(network?.state?.data) };
      this.called(`enabled:${agent}`, "enabled", facts);
      if (spec.throw) throw errorOf(spec.throw);
      return "stateKey" in spec ? !!network.state.data[spec.stateKey] : spec.const;
    });
  }

  #onStart(spec, name) {
    let calls = 0;
    return inStyle(spec, (context) => {
      const { agent, network, input, prompt, history } = context;
      this.called(`onStart:${name}`, "onStart", {
        argKeys: Object.keys(context).sort(),
        agent: agent.name,
        network: network?.name,
        input,
        prompt: copied(prompt),
        history: copied(history),
      });
      const number = calls++;
      if (spec.throw) throw errorOf(spec.throw);
      const made = { prompt: [...prompt], history: [...(history ?? [])] };
      for (const { op, messages } of spec.ops ?? []) {
        const target = op.endsWith("Prompt") ? "prompt" : "history";
        const added = copied(messages);
        if (op.startsWith("append")) made[target].push(...added);
        else if (op.startsWith("prepend")) made[target].unshift(...added);
        else made[target] = added;
      }
      return { ...made, stop: !!spec.stop || spec.stopOnCall === number };
    });
  }

  #onResult(hook, spec, name) {
    return inStyle(spec, (context) => {
      this.called(`${hook}:${name}`, hook, resultFacts(context));
      if (spec.throw) throw errorOf(spec.throw);
      return (spec.ops ?? []).reduce(changedResult, context.result);
    });
  }

  #onRoute(spec, name) {
    return (context) => {
      this.called(`onRoute:${name}`, "onRoute", resultFacts(context));
      if (spec.throw) throw errorOf(spec.throw);
      const { output, toolCalls } = context.result;
      const text = output.find((message) => message.type === "text")?.content ?? "DONE";
      const named = { firstToolData: toolCalls[0]?.content?.data, firstToolInput: toolCalls[0]?.tool?.input?.name };
      if (spec.kind === "const") return spec.agents ?? undefined;
      if (spec.kind === "firstText") return text === "DONE" ? undefined : [text];
      return typeof named[spec.kind] === "string" ? [named[spec.kind]] : undefined;
    };
  }

  router(spec) {
    if (spec.kind === "agent") return this.agent(spec.ref);
    return inStyle(spec, (context) => {
      this.called("router:fn", "router", routerFacts(context));
      const rule = spec.rules.find((each) => holds(each.when ?? {}, context));
      for (const step of rule?.do ?? []) this.#do(step, context.network);
      const chosen = rule?.return ?? undefined;
      return Array.isArray(chosen) ? chosen.map((id) => this.agent(id)) : chosen && this.agent(chosen);
    });
  }

  #do(step, network) {
    if (step.op === "setState") network.state.data[step.key] = copied(step.value);
    else if (step.op === "addAgent") network.addAgent(this.agent(step.agent));
    else if (step.op === "schedule") network.schedule(step.agent);
    else throw errorOf(step.error);
  }

  // ------------------------------------------------------------------ runs

  async play() {
    const runs = [];
    for (const [number, run] of this.spec.runs.entries()) {
      this.run = number;
      this.note(`run:${number}`);
      const play = () => this.#played(run);
      runs.push(await (run.stepContext ? inside.run({ ctx: { step: this.#steps() } }, play) : play()));
    }
    const { requests, events, historyLog, callbackLog, stepLog, order, warnings } = this;
    const counts = { unusedReplies: 0, exhaustedReplies: 0 };
    return { requests, runs, events, historyLog, callbackLog, stepLog, order, warnings, ...counts };
  }

  /** Step tools as in the first execution of a function: nothing is remembered yet. */
  #steps() {
    const asked = (op, id, facts) => this.stepLog.push({ run: this.run, op, id, ...facts });
    return {
      run: async (id, code) => {
        this.note(`step.run:${id}`);
        asked("run", id);
        return code();
      },
      ai: {
        infer: async (id, { model, body }) => {
          this.note(`step.ai.infer:${id}`);
          asked("ai.infer", id, { modelFormat: model.format, body: copied(body) });
          return copied(this.take(model.format).json);
        },
      },
    };
  }

  async #played({ target, input: given, options: wanted }) {
    const record = { target, error: null };
    const input = typeof given === "string" ? given : copied(given);
    try {
      const options = this.#options(wanted ?? {});
      if (target.agent) record.result = resultRecord(await this.agent(target.agent).run(input, options));
      else record.networkRun = runRecord(await this.network(target.network).run(input, options), options);
    } catch (error) {
      record.error = errorRecord(error);
    }
    const made = target.agent && this.#made.get(`agent:${target.agent}`);
    if (this.spec.agents[target.agent]?.mcpServers) record.agentTools = [...made.tools.values()].map(toolRecord);
    if (this.#made.has(`network:${target.network}`))
      record.networkOwnState = stateRecord(this.network(target.network).state);
    const states = Object.keys(this.spec.states ?? {}).filter((id) => this.#made.has(`state:${id}`));
    if (states.length)
      record.statesAfter = Object.fromEntries(states.map((id) => [id, stateRecord(this.state(id))]));
    return typeof given === "string" ? record : { ...record, inputAfter: copied(input) };
  }

  #options({ state, model, network, router, defaultRouter, streaming, ...others }) {
    const made = others;
    if (typeof state === "string") made.state = this.state(state);
    else if (state) {
      made.state = copied(state.plain);
      for (const key of ["results", "_results"])
        if (made.state[key]) made.state[key] = made.state[key].map(madeResult);
    }
    if (model) made.model = this.model(model);
    if (network) made.network = this.network(network);
    if (router) made.router = this.router(router);
    if (defaultRouter) made.defaultRouter = this.router(defaultRouter);
    if (streaming) made.streaming = this.#streaming(streaming);
    return made;
  }

  #streaming({ publish: fails, ...others }) {
    let chunks = 0;
    const publish = async (chunk) => {
      const { event, data, timestamp, sequenceNumber, id } = chunk;
      const timestampType = Number.isInteger(timestamp) ? "int-ms" : typeof timestamp;
      this.note(`event:${event}`);
      this.events.push({
        run: this.run,
        event,
        data: copied(data),
        sequenceNumber,
        id,
        timestampType,
        chunkKeys: Object.keys(chunk),
      });
      const number = chunks++;
      if (fails === "throwString") throw "publish string failure";
      if (fails === "throw") throw new Error("publish failed");
      if (fails?.throwOnIndex === number) throw new Error(`publish failed at ${number}`);
      if (fails?.throwOnEvent === event) throw new Error(`publish failed on ${event}`);
    };
    return { ...others, publish };
  }
}

function historyFacts(context) {
  const { state, network, userMessage, newResults } = context;
  const facts = { keys: Object.keys(context).sort(), input: context.input };
  Object.assign(facts, {
    threadId: context.threadId,
    userMessage: undefined,
    newResults: undefined,
    stateThreadId: state.threadId,
    stateData: copied(state.data),
    stateResultCount: state.results.length,
    stateMessageCount: state.messages.length,
    networkName: network?.name,
    networkAgents: [...(network?.agents?.keys() ?? [])],
    hasStep: context.step !== undefined,
  });
  if (userMessage) {
    const { id, content, role, timestamp } = userMessage;
    facts.userMessage = { id, content: copied(content), role, timestamp: timeRecord(timestamp) };
  }
  if (newResults) facts.newResults = newResults.map(resultRecord);
  return facts;
}

function timeRecord(time) {
  if (!(time instanceof Date)) return copied(time);
  if (Number.isNaN(time.getTime())) return "Invalid Date";
  return Math.abs(Date.now() - time) < JUST_NOW ? "<now>" : time.toISOString();
}

const resultFacts = (context) => ({
  argKeys: Object.keys(context).sort(),
  agent: context.agent.name,
  network: context.network?.name,
  result: resultRecord(context.result),
});

function changedResult(result, op) {
  const { output } = result;
  const last = output.map((message) => message.type).lastIndexOf("text");
  const changes = {
    setOutput: () => copied(op.messages),
    appendOutput: () => [...output, ...copied(op.messages)],
    dropToolCalls: () => output.filter((message) => message.type !== "tool_call"),
    replaceLastText: () => output.map((m, i) => (i === last ? { ...m, content: op.text } : m)),
  };
  if (op.op === "newResult") return madeResult(op);
  result.output = changes[op.op]();
  return result;
}

const routerFacts = (context) => ({
  argKeys: Object.keys(context).sort(),
  input: context.input,
  userMessage: copied(context.userMessage),
  network: context.network.name,
  stack: context.stack.map((agent) => agent.name),
  callCount: context.callCount,
  lastResult: context.lastResult && shortResult(context.lastResult),
  stateData: copied(context.network.state.data),
  resultCount: context.network.state.results.length,
});

function holds(when, { callCount, lastResult, network }) {
  const called = (lastResult?.toolCalls ?? []).map((message) => message.tool.name);
  const tests = {
    callCount: (value) => callCount === value,
    callCountLt: (value) => callCount < value,
    stateTruthy: (key) => !!network.state.data[key],
    stateFalsy: (key) => !network.state.data[key],
    lastResultAgent: (name) => lastResult?.agentName === name,
    lastToolCalled: (name) => called.includes(name),
  };
  return Object.entries(when).every(([test, value]) => tests[test](value));
}

const toolRecord = ({ name, description, parameters, mcp }) => ({
  name,
  ...(description ? { description } : {}),
  hasParameters: parameters !== undefined,
  ...(mcp ? { mcpTool: copied(mcp.tool) } : {}),
});

const runRecord = (run, { state }) => ({
  name: run.name,
  class: run.constructor.name,
  counter: run._counter,
  remainingStack: [...run._stack],
  state: stateRecord(run.state),
  stateIsPassedState: state instanceof kit.State ? run.state === state : undefined,
});

export function errorRecord(error) {
  if (!(error instanceof Error)) return { class: typeof error, name: "", message: String(error) };
  const { constructor, name, message, cause } = error;
  const record = { class: constructor.name, name, message };
  return cause === undefined ? record : { ...record, cause: errorRecord(cause) };
}
