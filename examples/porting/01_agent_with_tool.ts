import { createAgent, createTool, openai } from "@inngest/agent-kit";
import { z } from "zod";

const shelves: Record<string, number> = { rye: 4, brioche: 0 };

const countLoaves = createTool({
  name: "count_loaves",
  description: "How many loaves of a bread are left.",
  parameters: z.object({ bread: z.string() }),
  handler: ({ bread }) => shelves[bread] ?? 0,
});

const baker = createAgent({
  name: "baker",
  system: "You sell bread. Count before you promise.",
  model: openai({ model: "gpt-4o" }),
  tools: [countLoaves],
});

export async function main() {
  const result = await baker.run("Have you got rye?", { maxIter: 2 });
  return result.output;
}
