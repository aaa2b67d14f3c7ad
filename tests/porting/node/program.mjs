// Loads a TypeScript program of the porting page; its requests to OpenAI go to the stand-in.
import { readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { transform } from "esbuild";

// What programs keep to themselves and a test asks for.
const OF_INTEREST = ["sent", "inngest", "paid"];

export async function load(program, standIn) {
  process.env.OPENAI_API_KEY = "sk-test";
  const send = globalThis.fetch;
  globalThis.fetch = (url, options) =>
    send(String(url).replace("https://api.openai.com/v1", standIn), options);
  const source = readFileSync(program, "utf-8");
  const names = OF_INTEREST.filter((name) => new RegExp(`^const ${name}\\b`, "m").test(source));
  const given = `${source}\nexport { ${names.join(", ")} };`;
  const { code } = await transform(given, { loader: "ts", format: "esm" });
  const made = program.replace(/\.ts$/, ".mjs");
  writeFileSync(made, code);
  return import(pathToFileURL(made));
}
