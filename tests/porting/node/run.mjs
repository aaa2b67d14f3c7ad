// Runs a TypeScript program of the porting page: `node run.mjs program.ts stand-in`.
// What `main` returns, and the chunks it published, are written to standard output as JSON.
import { load } from "./program.mjs";

const [program, standIn] = process.argv.slice(2);
const { main, sent } = await load(program, standIn);
const returned = await main();
console.log(JSON.stringify({ returned, sent: sent ?? [] }));
process.exit(0);
