import { createAgent, createNetwork, createTool, openai } from "@inngest/agent-kit";
import { Inngest, referenceFunction } from "inngest";
import { z } from "zod";

const inngest = new Inngest({ id: "shop-ts" });

// Python calls this one by its app and id.
export const price = inngest.createFunction(
  { id: "price" },
  { event: "shop/price.asked" },
  async ({ event }) => ({ bread: event.data.bread, cents: 340 }),
);

const askPython = createTool({
  name: "ask_python",
  description: "Ask the bakery, which is written in Python.",
  parameters: z.object({ question: z.string() }),
  handler: async ({ question }, { step }) => {
    const run = await step!.invoke("bakery", {
      function: referenceFunction({ appId: "bakery-py", functionId: "network-bakery" }),
      data: { input: question },
    });
    return (run as { text: string }).text;
  },
});

const clerk = createAgent({ name: "clerk", system: "You sell bread.", tools: [askPython] });

export const shop = createNetwork({
  name: "shop",
  agents: [clerk],
  defaultModel: openai({ model: "gpt-4o" }),
  router: ({ callCount }) => (callCount < 2 ? clerk : undefined),
});
