import {
  createAgent, createNetwork, createState, createTool, openai,
} from "@inngest/agent-kit";
import { z } from "zod";

interface Basket {
  customer: string;
  items: Record<string, number>;
  paid: boolean;
}

const put = createTool({
  name: "put",
  description: "Put something into the basket.",
  parameters: z.object({ item: z.string(), count: z.number().int().positive() }),
  handler: ({ item, count }, { network }) => {
    const { items } = network.state.data;
    items[item] = (items[item] ?? 0) + count;
    return items;
  },
});

const pay = createTool({
  name: "pay",
  description: "Pay what is in the basket.",
  handler: (_, { network }) => {
    network.state.data.paid = true;
    return "paid";
  },
});

const clerk = createAgent<Basket>({
  name: "clerk",
  system: ({ network }) => `You serve ${network?.state.data.customer}.`,
  tools: [put, pay],
});

const shop = createNetwork<Basket>({
  name: "shop",
  agents: [clerk],
  defaultModel: openai({ model: "gpt-4o" }),
  defaultState: createState<Basket>({ customer: "Ada", items: {}, paid: false }),
  maxIter: 10,
  router: ({ network }) => (network.state.data.paid ? undefined : clerk),
});

export async function main() {
  const run = await shop.run("Two apples, another one, and the bill.");
  return run.state.data;
}
