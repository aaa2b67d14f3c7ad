// Plays scenarios on the TypeScript package, and writes recordings of what it did.
//
//   node record.mjs SCENARIOS RECORDINGS [MCP_SERVER]
//   node --import ./shim.mjs record.mjs …
//
// Both are folders. A scenario is a recording whose `expected` is missing or is replaced; the shapes of
// both are those of the recordings beside this folder. A request for which no reply is scripted gets a
// closing one, which is added to the scenario. MCP_SERVER is the Python program that plays the servers;
// scenarios of the area `mcp-shimmed` are recorded with the shim and no others. Scenarios with history
// processors are left out: the released package has none.

import fs from "node:fs";
import path from "node:path";
import { CLOSING, serve } from "./provider.mjs";
import { errorRecord, World } from "./world.mjs";
import { normalised } from "./normalise.mjs";
import { z } from "zod";

const MOST_REQUESTS = 150;
const PATIENCE = 20_000;

const shimmed = globalThis.mcpShim === true;
const isPlayable = ({ kind, area, spec }) =>
  (kind ?? "run") === "run" &&
  (area === "mcp-shimmed") === shimmed &&
  !JSON.stringify(spec).includes('"processors"');

async function record(vector, provider) {
  const { base, take } = provider;
  const spec = withSchemas(vector.spec);
  const world = new World(spec, { base, take, server });
  provider.begin(world, MOST_REQUESTS);
  console.warn = (...said) => world.warned(said);
  let timer;
  const late = new Promise((_, fail) => {
    timer = setTimeout(() => fail(new Error("the scenario does not end")), PATIENCE);
  });
  const document = await Promise.race([world.play(), late]).finally(() => clearTimeout(timer));
  if (provider.exceeded) throw new Error(`more than ${MOST_REQUESTS} requests`);
  document.unusedReplies = provider.waiting.length;
  const hidden = (value) => JSON.parse(JSON.stringify(value).replaceAll(provider.base, "{{BASE}}"));
  const llm = hidden([...provider.used, ...provider.waiting]);
  return { ...vector, spec: { ...spec, llm }, expected: hidden(normalised(document)) };
}

/** The scenario with the JSON Schemas of its tools' zod types, in the dialects of the recordings. */
function withSchemas(spec) {
  const targets = { "draft-7": {}, "draft-2020-12": {}, "openapi-3.0(io=input)": { io: "input" } };
  const made = JSON.parse(JSON.stringify(spec));
  for (const { parameters } of Object.values(made.tools ?? {})) {
    if (!parameters) continue;
    const type = new Function("z", `return ${parameters.zod}`)(z);
    parameters.jsonSchema = {};
    for (const [name, options] of Object.entries(targets)) {
      const target = name.replace(/\(.*/, "");
      try {
        parameters.jsonSchema[name] = z.toJSONSchema(type, { target, ...options });
      } catch (error) {
        parameters.jsonSchema[name] = { $error: errorRecord(error) };
      }
    }
  }
  return made;
}

const [, , from, to, server] = process.argv;
fs.mkdirSync(to, { recursive: true });
console.log = () => {};
const provider = await serve(CLOSING);
let recorded = 0;
for (const name of fs.readdirSync(from).filter((file) => file.endsWith(".json")).sort()) {
  const vector = JSON.parse(fs.readFileSync(path.join(from, name), "utf8"));
  if (!vector.spec || !isPlayable(vector)) continue;
  try {
    const made = await record(vector, provider);
    fs.writeFileSync(path.join(to, name), `${JSON.stringify(made, null, 1)}\n`);
    recorded += 1;
  } catch (error) {
    process.stderr.write(`${name}: ${error.stack}\n`);
  }
}
process.stderr.write(`${recorded} recorded\n`);
process.exit(0);
