import {
  createAgent, createNetwork, createRoutingAgent, createTool, openai,
} from "@inngest/agent-kit";
import { z } from "zod";

const poet = createAgent({ name: "poet", system: "You write verse." });
const critic = createAgent({ name: "critic", system: "You judge verse." });

const assign = createTool({
  name: "assign",
  description: "Give the desk to someone, or to nobody.",
  parameters: z.object({ to: z.enum(["poet", "critic", "nobody"]) }),
  handler: ({ to }) => to,
});

const editor = createRoutingAgent({
  name: "editor",
  description: "Decides who works next",
  system: "You lead a magazine. A poem is judged once, then printed.",
  tools: [assign],
  tool_choice: "assign",
  lifecycle: {
    onRoute: ({ result }) => {
      const { data: to } = result.toolCalls[0].content as { data: string };
      return to === "nobody" ? undefined : [to];
    },
  },
});

const magazine = createNetwork({
  name: "magazine",
  agents: [poet, critic],
  router: editor,
  defaultModel: openai({ model: "gpt-4o" }),
});

export async function main() {
  const run = await magazine.run("Two lines about rain.");
  return run.state.results.map((result) => result.agentName);
}
