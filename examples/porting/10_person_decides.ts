import { createAgent, createNetwork, createTool, openai } from "@inngest/agent-kit";
import { createServer } from "@inngest/agent-kit/server";
import { z } from "zod";

const bought: string[] = [];

const order = createTool({
  name: "order",
  description: "Order flowers; the manager is asked.",
  parameters: z.object({ flowers: z.string() }),
  handler: async ({ flowers }, { step }) => {
    const offer = await step!.run("get offer", async () => `${flowers}: 40`);
    const answer = await step!.waitForEvent("manager", {
      event: "florist/offer.answered",
      if: `async.data.flowers == '${flowers}'`,
      timeout: "4h",
    });
    if (!answer?.data.approved) return `not ordered, ${offer} is too much`;
    await step!.run("buy", async () => bought.push(flowers));
    return `ordered, ${offer}`;
  },
});

const florist = createAgent({
  name: "florist",
  system: "You order flowers and say what came of it.",
  tools: [order],
});

const shop = createNetwork({
  name: "shop",
  agents: [florist],
  defaultModel: openai({ model: "gpt-4o" }),
  router: ({ callCount }) => (callCount < 2 ? florist : undefined),
});

const server = createServer({ appId: "florist", networks: [shop] });

server.listen(3010);
