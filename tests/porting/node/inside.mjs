// Runs an Inngest function of a TypeScript program as Inngest's server does:
// `node inside.mjs program.ts stand-in target event answers`, the last two as JSON.
// `target` is the exported function, or a network, which is run in a function of its own. `answers`
// holds the data of events that are waited for, by the event's name, and what invoked functions
// return, by id. The output, the operations, and `paid` are written to standard output as JSON.
import { load } from "./program.mjs";
import { serve } from "inngest/edge";

process.env.INNGEST_DEV = "1";
const [program, standIn, target, event, given] = process.argv.slice(2);
const answers = JSON.parse(given);
const made = await load(program, standIn);
const trigger = { name: "test/asked", data: JSON.parse(event), id: "e1", ts: 1 };
const isNetwork = typeof made[target].run === "function";
const run = async ({ event }) => (await made[target].run(event.data.input)).state.results;
const asked = isNetwork
  ? made.inngest.createFunction({ id: "test" }, { event: "test/asked" }, run)
  : made[target];
const handle = serve({ client: made.inngest, functions: [asked] });
const steps = {};
const operations = [];

async function request(stepId) {
  const url = `http://localhost/api/inngest?fnId=${asked.id(made.inngest.id)}&stepId=${stepId}`;
  const stack = Object.keys(steps);
  const ctx = { run_id: "r1", attempt: 0, stack: { stack, current: stack.length } };
  const body = JSON.stringify({ event: trigger, events: [trigger], steps, ctx, version: 1 });
  const headers = { "content-type": "application/json", host: "localhost" };
  const response = await handle(new Request(url, { method: "POST", headers, body }));
  return { status: response.status, body: JSON.parse(await response.text()) };
}

/** What the server remembers of an operation. */
async function outcome({ op, opts, data, name, displayName, id }) {
  if (op === "StepPlanned") {
    const { body } = await request(id);
    return { data: body[0].data };
  }
  if (op === "StepRun" || op === "Step") return { data };
  operations.push({ op, name: displayName, opts });
  if (op === "WaitForEvent") return { data: { name, data: answers[name] } };
  if (op === "InvokeFunction") return { data: answers[opts.function_id] };
  if (op !== "AIGateway") throw new Error(`an operation that is not known: ${op}`);
  const headers = { "content-type": "application/json", authorization: `Bearer ${opts.auth_key}` };
  const init = { method: "POST", headers, body: JSON.stringify(opts.body) };
  return { data: await (await fetch(opts.url, init)).json() };
}

for (let requests = 0; requests < 40; requests += 1) {
  const { status, body } = await request("step");
  if (status !== 206) {
    if (status !== 200) throw new Error(JSON.stringify(body));
    console.log(JSON.stringify({ returned: body, operations, paid: made.paid ?? [] }));
    process.exit(0);
  }
  for (const operation of body) steps[operation.id] = await outcome(operation);
}
throw new Error("the function does not end");
