import {
  createAgent, createNetwork, getDefaultRoutingAgent, openai,
} from "@inngest/agent-kit";

const greeter = createAgent({
  name: "greeter",
  description: "Says hello.",
  system: "You greet the guest in one sentence.",
});

const guide = createAgent({
  name: "guide",
  description: "Knows every picture in the house.",
  system: "You explain pictures.",
});

const museum = createNetwork({
  name: "museum",
  agents: [greeter, guide],
  defaultModel: openai({ model: "gpt-4o" }),
  router: ({ callCount }) => {
    if (callCount === 0) return greeter;
    if (callCount >= 4) return undefined;
    return getDefaultRoutingAgent();
  },
});

export async function main() {
  const run = await museum.run("Who painted the blue horse?");
  return run.state.results.map((result) => result.agentName);
}
