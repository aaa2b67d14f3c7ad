// Plays scenarios on the TypeScript package, and writes recordings of what it did.
//
//   node record.mjs SCENARIOS RECORDINGS
//
// Both are folders. A scenario is a recording whose `expected` is missing or is replaced; the shapes of
// both are those of the recordings beside this folder. A request for which no reply is scripted gets a
// closing one, which is added to the scenario. Scenarios inside Inngest, with MCP servers or with history
// processors are left out: they need more than the package.

import fs from "node:fs";
import path from "node:path";
import { CLOSING, serve } from "./provider.mjs";
import { World } from "./world.mjs";
import { normalised } from "./normalise.mjs";

const MOST_REQUESTS = 150;
const PATIENCE = 20_000;

const isPlayable = ({ kind, spec }) =>
  (kind ?? "run") === "run" &&
  !spec.mcpServers &&
  !spec.runs.some((run) => run.stepContext) &&
  !JSON.stringify(spec).includes('"processors"');

async function record(vector, provider) {
  const world = new World(vector.spec, provider.base);
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
  return { ...vector, spec: { ...vector.spec, llm }, expected: hidden(normalised(document)) };
}

const [, , from, to] = process.argv;
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
