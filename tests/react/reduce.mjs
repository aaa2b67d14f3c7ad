// Feeds the hook's own reducer: node reduce.mjs FOLDER < rows of chunks > what the hook would show.
//
// The package exports its hook and not its reducer, so its file is read as it was installed, and
// loaded with one more line.

import { readFileSync, unlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const folder = join(process.argv[2], "node_modules", "@inngest", "use-agent", "dist");
const source = readFileSync(join(folder, "index.js"), "utf8");
const copy = join(folder, `opened-${process.pid}.mjs`);
writeFileSync(copy, `${source}\nexport { mapToNetworkEvent, reduceStreamingState };\n`);
let hook;
try {
  hook = await import(pathToFileURL(copy).href);
} finally {
  unlinkSync(copy);
}

function shown(chunks) {
  let state = { threads: {}, currentThreadId: "", lastProcessedIndex: 0, isConnected: true };
  const seen = new Set();
  for (const chunk of chunks) {
    // As realtime delivers it; the hook drops what it had, by these facts.
    const event = hook.mapToNetworkEvent({ data: chunk });
    if (!event) continue;
    const { threadId, messageId, partId } = event.data;
    const key = [threadId, messageId, partId, event.event, event.sequenceNumber, event.id].join();
    if (seen.has(key)) continue;
    seen.add(key);
    state = hook.reduceStreamingState(
      state,
      { type: "REALTIME_MESSAGES_RECEIVED", messages: [event] },
      false,
    );
  }
  return state.threads;
}

const rows = JSON.parse(readFileSync(0, "utf8"));
process.stdout.write(JSON.stringify(rows.map(shown)));
