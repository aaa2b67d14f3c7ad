import {
  createAgent, createNetwork, createState, createTool, openai, type UserMessage,
} from "@inngest/agent-kit";
import { Inngest } from "inngest";
import { z } from "zod";

interface Ticket {
  ticket: string;
  refunded: number;
}

const paid: number[] = [];

const refund = createTool({
  name: "refund",
  description: "Pay money back; a person is asked.",
  parameters: z.object({ amount: z.number() }),
  handler: async ({ amount }, { network, step }) => {
    const { data } = network.state;
    const answer = await step!.waitForEvent("person", {
      event: "desk/refund.answered",
      if: `async.data.ticket == '${data.ticket}'`,
      timeout: "1d",
    });
    if (!answer?.data.approved) return "a person said no";
    await step!.run("pay", async () => paid.push(amount));
    data.refunded = amount;
    return "paid";
  },
});

const billing = createAgent<Ticket>({
  name: "billing",
  system: ({ network }) => `You answer ticket ${network?.state.data.ticket}.`,
  tools: [refund],
});

const desk = createNetwork<Ticket>({
  name: "desk",
  agents: [billing],
  defaultModel: openai({ model: "gpt-4o" }),
  router: ({ callCount }) => (callCount < 2 ? billing : undefined),
});

const inngest = new Inngest({ id: "support" });

export const answerTicket = inngest.createFunction(
  { id: "answer-ticket" },
  { event: "desk/ticket.opened" },
  async ({ event }) => {
    const { ticket, history, userMessage } = event.data;
    const state = createState<Ticket>({ ticket, refunded: 0 }, { messages: history });
    const run = await desk.run(userMessage as UserMessage, { state });
    return { ticket: run.state.data, results: run.state.results };
  },
);
