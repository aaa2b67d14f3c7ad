// Values of the package as plain JSON, and the other way round.

import { AgentResult } from "@inngest/agent-kit";

const STORED = "2024-01-02T03:04:05.000Z";
const ERRORS = { TypeError, RangeError, SyntaxError, ReferenceError, EvalError, URIError };

/** A copy that later changes do not reach; undefined members stay, for they are recorded. */
export function copied(value) {
  if (typeof value === "number" && !Number.isFinite(value)) return { $number: String(value) };
  if (value === null || typeof value !== "object") return value;
  if (value instanceof Date)
    return { $date: Number.isNaN(value.getTime()) ? "Invalid Date" : value.toISOString() };
  if (Array.isArray(value)) return value.map(copied);
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, copied(item)]));
}

/** The error that a scenario describes, with its fixed stack. */
export function errorOf({ name, message, stack, props, cause }) {
  const Kind = ERRORS[name] ?? Error;
  const error = new Kind(message, cause ? { cause: errorOf(cause) } : undefined);
  if (error.name !== name) Object.defineProperty(error, "name", { value: name });
  if (stack !== undefined) error.stack = stack;
  return Object.assign(error, props);
}

/** The function as sync or async code, as the scenario has it. */
export const inStyle = (spec, call) => (spec.sync ? call : async (...given) => call(...given));

export const madeResult = (r) =>
  new AgentResult(
    r.agentName,
    copied(r.output),
    copied(r.toolCalls ?? []),
    new Date(r.createdAt ?? STORED),
    copied(r.prompt),
    copied(r.history),
    r.raw,
    r.id,
  );

export const shortResult = ({ agentName, output, toolCalls }) => ({
  agentName,
  output: copied(output),
  toolCalls: copied(toolCalls),
});

export const resultRecord = (result) => ({
  id: result.id,
  ...shortResult(result),
  prompt: copied(result.prompt),
  history: copied(result.history),
  raw: result.raw,
});

export const stateRecord = ({ data, kv, messages, results, threadId }) => ({
  threadId,
  data: copied(data),
  kv: copied(kv.all()),
  messages: copied(messages),
  results: results.map(resultRecord),
});
