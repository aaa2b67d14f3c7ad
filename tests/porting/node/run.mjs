// Runs a TypeScript program of the porting page: `node run.mjs program.ts stand-in`.
// Requests to OpenAI go to the stand-in. What `main` returns, and the chunks it published, are
// written to standard output as JSON.
import { readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { transform } from "esbuild";

const [program, standIn] = process.argv.slice(2);
process.env.OPENAI_API_KEY = "sk-test";
const send = globalThis.fetch;
globalThis.fetch = (url, options) =>
  send(String(url).replace("https://api.openai.com/v1", standIn), options);

// The program keeps its chunks in `sent`, where it has any.
const source = readFileSync(program, "utf-8");
const given = /\bconst sent\b/.test(source) ? `${source}\nexport { sent };` : source;
const { code } = await transform(given, { loader: "ts", format: "esm" });
const made = program.replace(/\.ts$/, ".mjs");
writeFileSync(made, code);
const { main, sent } = await import(pathToFileURL(made));
const returned = await main();
console.log(JSON.stringify({ returned, sent: sent ?? [] }));
process.exit(0);
