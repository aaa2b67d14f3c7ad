import {
  AgentResult, createAgent, createNetwork, createState, openai,
  type HistoryConfig,
} from "@inngest/agent-kit";
import { randomUUID } from "node:crypto";

interface Guest {
  name?: string;
}

const threads = new Map<string, AgentResult[]>();

const history: HistoryConfig<Guest> = {
  createThread: async ({ state }) => {
    const threadId = state.threadId ?? randomUUID();
    if (!threads.has(threadId)) threads.set(threadId, []);
    return { threadId };
  },
  get: async ({ threadId }) => [...threads.get(threadId!)!],
  appendUserMessage: async ({ threadId, userMessage }) => {
    const { content, timestamp } = userMessage;
    const said = { type: "text", role: "user", content } as const;
    threads.get(threadId!)!.push(new AgentResult("user", [said], [], timestamp));
  },
  appendResults: async ({ threadId, newResults }) => {
    threads.get(threadId!)!.push(...newResults);
  },
};

const host = createAgent<Guest>({ name: "host", system: "You remember guests." });

const inn = createNetwork<Guest>({
  name: "inn",
  agents: [host],
  defaultModel: openai({ model: "gpt-4o" }),
  router: ({ callCount }) => (callCount === 0 ? host : undefined),
  history,
});

export async function main() {
  const first = await inn.run("I am Ada.", { state: createState<Guest>({}) });
  const { threadId } = first.state;
  await inn.run("Who am I?", { state: createState<Guest>({}, { threadId }) });
  return threads.get(threadId!)!.map((result) => result.agentName);
}
