import {
  AgentResult, createAgent, createNetwork, createState, openai,
  type AgentMessageChunk, type HistoryConfig,
} from "@inngest/agent-kit";
import { randomUUID } from "node:crypto";
import pg from "pg";

interface Guest {
  userId?: string;
}

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL, max: 1 });
const sent: AgentMessageChunk[] = [];

async function append(threadId: string, id: string, author: string, data: object) {
  await pool.query(
    `INSERT INTO chat_rows (thread_id, id, author, data) VALUES ($1, $2, $3, $4)
     ON CONFLICT (thread_id, id) DO NOTHING`,
    [threadId, id, author, data],
  );
}

const history: HistoryConfig<Guest> = {
  createThread: async ({ state }) => {
    const threadId = state.threadId ?? randomUUID();
    await pool.query(
      `INSERT INTO chat_threads (id, user_id) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING`,
      [threadId, state.data.userId ?? null],
    );
    return { threadId };
  },
  get: async ({ threadId }) => {
    const { rows } = await pool.query(
      "SELECT data FROM chat_rows WHERE thread_id = $1 ORDER BY position", [threadId]);
    return rows.map(({ data }) => new AgentResult(
      data.agentName, data.output, data.toolCalls, new Date(data.createdAt)));
  },
  appendUserMessage: async ({ threadId, userMessage }) => {
    const said = { type: "text", role: "user", content: userMessage.content } as const;
    const result = new AgentResult("user", [said], [], userMessage.timestamp);
    await append(threadId!, userMessage.id, "user", result.export());
  },
  appendResults: async ({ threadId, newResults }) => {
    for (const result of newResults) {
      await append(threadId!, result.id ?? randomUUID(), result.agentName, result.export());
    }
  },
};

const guide = createAgent<Guest>({ name: "guide", system: "You know the town." });

const office = createNetwork<Guest>({
  name: "office",
  agents: [guide],
  defaultModel: openai({ model: "gpt-4o" }),
  router: ({ callCount }) => (callCount === 0 ? guide : undefined),
  history,
});

export async function main() {
  await pool.query(`CREATE TABLE IF NOT EXISTS chat_threads (id text PRIMARY KEY, user_id text)`);
  await pool.query(`CREATE TABLE IF NOT EXISTS chat_rows (
    position bigserial PRIMARY KEY, thread_id text, id text, author text, data jsonb,
    UNIQUE (thread_id, id))`);
  const threadId = process.env.THREAD ?? "guest-1";
  for (const input of ["I am Ada.", "Who am I?"]) {
    const state = createState<Guest>({ userId: "ada" }, { threadId });
    await office.run(input, {
      state,
      streaming: { publish: async (chunk) => { sent.push(chunk); } },
    });
  }
  await pool.end();
  return sent.map((chunk) => chunk.event);
}
