import {
  createAgent, createNetwork, openai, type AgentMessageChunk,
} from "@inngest/agent-kit";

const sent: AgentMessageChunk[] = [];

const teller = createAgent({ name: "teller", system: "You tell short stories." });

const fireside = createNetwork({
  name: "fireside",
  agents: [teller],
  defaultModel: openai({ model: "gpt-4o" }),
  router: ({ callCount }) => (callCount === 0 ? teller : undefined),
});

export async function main() {
  await fireside.run("A story about a fox.", {
    streaming: {
      publish: async (chunk) => {
        sent.push(chunk);
      },
    },
  });
  return sent
    .filter((chunk) => chunk.event === "text.delta")
    .map((chunk) => chunk.data.delta)
    .join("");
}
