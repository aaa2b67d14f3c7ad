import { createAgent, createNetwork, openai } from "@inngest/agent-kit";

const trains = createAgent({
  name: "trains",
  description: "Knows timetables and fares.",
  system: "You plan journeys by train.",
});

const hotels = createAgent({
  name: "hotels",
  description: "Finds rooms.",
  system: "You find rooms for the night.",
});

const office = createNetwork({
  name: "travel office",
  agents: [trains, hotels],
  defaultModel: openai({ model: "gpt-4o" }),
  maxIter: 10,
});

export async function main() {
  const run = await office.run("From Graz to Linz, with a bed there.");
  return run.state.results.map((result) => result.agentName);
}
