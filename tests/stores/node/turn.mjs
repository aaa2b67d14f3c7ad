// One turn of a TypeScript network on a thread in PostgreSQL. Settings come as JSON on standard input.
// The store makes the statements that the TypeScript repository's own adapter makes, in our words.
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import {
  AgentResult, anthropic, createAgent, createNetwork, createState, createTool, openai,
} from "@inngest/agent-kit";
import pg from "pg";
import { z } from "zod";

const given = JSON.parse(readFileSync(0, "utf-8"));
const pool = new pg.Pool({ connectionString: given.database, max: 1 });
const threads = `"${given.schema}".agentkit_threads`;
const messages = `"${given.schema}".agentkit_messages`;

const history = {
  createThread: async ({ state }) => {
    const values = [state.threadId ?? randomUUID(), state.data.userId ?? null, state.data];
    const { rows } = await pool.query(
      `INSERT INTO ${threads} (thread_id, user_id, metadata) VALUES ($1, $2, $3)
       ON CONFLICT (thread_id) DO UPDATE SET updated_at = NOW() RETURNING thread_id`, values);
    return { threadId: rows[0].thread_id };
  },
  get: async ({ threadId }) => {
    const { rows } = await pool.query(
      `SELECT * FROM ${messages} WHERE thread_id = $1 ORDER BY created_at ASC`, [threadId]);
    return rows.map((row) => row.message_type === "user"
      ? new AgentResult("user", [{ type: "text", role: "user", content: row.content }], [],
        new Date(row.created_at))
      : new AgentResult(row.data.agentName, row.data.output, row.data.toolCalls,
        new Date(row.data.createdAt)));
  },
  appendUserMessage: async ({ threadId, userMessage: said }) => {
    await pool.query(
      `INSERT INTO ${messages}
         (thread_id, message_id, message_type, content, checksum, created_at)
       VALUES ($1, $2, 'user', $3, $4, $5) ON CONFLICT (thread_id, message_id) DO NOTHING`,
      [threadId, said.id, said.content, `user_${said.id}`, said.timestamp]);
  },
  appendResults: async ({ threadId, newResults }) => {
    for (const result of newResults) {
      await pool.query(
        `INSERT INTO ${messages} (thread_id, message_id, message_type, agent_name, data, checksum)
         VALUES ($1, $2, 'agent', $3, $4, $5) ON CONFLICT (thread_id, checksum) DO NOTHING`,
        [threadId, result.id ?? randomUUID(), result.agentName, result.export(), result.checksum]);
    }
  },
};

const lookup = createTool({
  name: "lookup",
  description: "Look an order up",
  parameters: z.object({ order: z.string() }),
  handler: ({ order }) => ({ order, status: "shipped" }),
});
const options = { apiKey: "sk-test", baseUrl: given.baseUrl };
const model = given.provider === "anthropic"
  ? anthropic({ model: "claude-sonnet-4-5", defaultParameters: { max_tokens: 500 }, ...options })
  : openai({ model: "gpt-4o", ...options });
const agent = createAgent({ name: "ts-desk", system: "Answer.", tools: [lookup], model });
const network = createNetwork({
  name: "ts",
  agents: [agent],
  history,
  router: ({ callCount, lastResult }) =>
    callCount === 0 || lastResult?.toolCalls.length ? agent : undefined,
});
const state = createState({ userId: "u1" }, { threadId: given.threadId });
const run = await network.run(given.input, { state });
console.log(JSON.stringify({ threadId: state.threadId, results: run.state.results.length }));
await pool.end();
