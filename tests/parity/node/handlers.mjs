// The handlers of a scenario's tools: small programs in JSON, as functions.

import { copied, errorOf } from "./values.mjs";

// What the engine throws, without a stack: that holds paths of the machine.
const NO_LIST = {
  name: "TypeError",
  message: "(data[key] ??= []).push is not a function",
  stack: "",
};

/** The handler of a tool, which notes each call. */
export function handlerOf(spec, world) {
  const log = (input, context) =>
    world.called(`tool:${spec.name}`, "tool", {
      tool: spec.name,
      ...(input === undefined ? { inputIsUndefined: true } : { input: copied(input) }),
      agent: context.agent?.name,
      network: context.network?.name,
      hasStep: context.step !== undefined,
      stateData: copied(context.network?.state?.data),
    });
  const { handler } = spec;
  if (handler.sync || handler.op === "throwSync")
    return (input, context) => {
      log(input, context);
      return atOnce(handler, input, context);
    };
  return async (input, context) => {
    log(input, context);
    return performed(handler, input, context, world);
  };
}

async function performed(handler, input, context, world) {
  if (handler.op === "delay") {
    await new Promise((ready) => setTimeout(ready, handler.ms));
    world.note(`delay-done:${handler.ms}`);
    return handler.value;
  }
  if (handler.op === "stepRun" && context.step !== undefined)
    return context.step.run(handler.id, async () => copied(handler.value));
  if (handler.op !== "seq") return atOnce(handler, input, context);
  let outcome;
  for (const step of handler.ops) outcome = await performed(step, input, context, world);
  return outcome;
}

const valueOf = ({ fromInput, value }, input) => {
  if (fromInput === undefined) return copied(value);
  return fromInput === true ? input : input[fromInput];
};

function atOnce(handler, input, context) {
  const { network, agent, step } = context;
  const { key, value } = handler;
  const { data, kv } = network.state;
  switch (handler.op) {
    case "return":
    case "stepRun":
      return copied(value);
    case "returnUndefined":
      return undefined;
    case "echo":
      return { received: input };
    case "throw":
    case "throwSync":
      throw errorOf(handler.error);
    case "throwValue":
      throw copied(value);
    case "setState":
      data[key] = valueOf(handler, input);
      return handler.returns;
    case "appendState":
      data[key] ??= [];
      if (!Array.isArray(data[key])) throw errorOf(NO_LIST);
      data[key].push(valueOf(handler, input));
      return handler.returns;
    case "incState":
      data[key] = (data[key] ?? 0) + (handler.by ?? 1);
      return data[key];
    case "getState":
      return data[key];
    case "kvSet":
      kv.set(key, value);
      return "kv set";
    case "kvGet":
      return kv.get(key);
    case "schedule":
      network.schedule(handler.agent);
      return `scheduled ${handler.agent}`;
    case "networkInfo":
      return {
        name: network.name,
        agents: [...network.agents.keys()],
        resultCount: network.state.results.length,
        messages: network.state.messages.length,
        agent: agent.name,
      };
    case "hasStep":
      return step !== undefined;
    default:
      throw new Error(`no such operation: ${handler.op}`);
  }
}
