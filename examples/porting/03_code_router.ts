import {
  createAgent, createNetwork, createState, createTool, openai,
} from "@inngest/agent-kit";
import { z } from "zod";

interface Recipe {
  draft?: string;
  tasted: boolean;
}

const writeDown = createTool({
  name: "write_down",
  description: "Keep a recipe.",
  parameters: z.object({ recipe: z.string() }),
  handler: ({ recipe }, { network }) => {
    network.state.data.draft = recipe;
    return "kept";
  },
});

const taste = createTool({
  name: "taste",
  description: "Say that the recipe is good.",
  handler: (_, { network }) => {
    network.state.data.tasted = true;
    return "noted";
  },
});

const cook = createAgent<Recipe>({
  name: "cook",
  system: "You write recipes and keep them.",
  tools: [writeDown],
});

const taster = createAgent<Recipe>({
  name: "taster",
  system: ({ network }) => `You taste: ${network?.state.data.draft}`,
  tools: [taste],
});

const kitchen = createNetwork<Recipe>({
  name: "kitchen",
  agents: [cook, taster],
  defaultModel: openai({ model: "gpt-4o" }),
  router: ({ network }) => {
    if (!network.state.data.draft) return cook;
    if (!network.state.data.tasted) return taster;
    return undefined;
  },
});

export async function main() {
  const state = createState<Recipe>({ tasted: false });
  const run = await kitchen.run("Soup, please.", { state });
  return run.state.data;
}
