import { HttpAgent } from "@ag-ui/client";

const [, , host = "http://127.0.0.1:8000"] = process.argv;
const agent = new HttpAgent({ url: `${host}/api/ag-ui`, threadId: crypto.randomUUID() });

agent.addMessage({ id: crypto.randomUUID(), role: "user", content: "Refund order A1" });
await agent.runAgent();
const resume = agent.pendingInterrupts.map(({ id, message }) => {
  console.log(message);
  return { interruptId: id, status: "resolved", payload: { approved: true } };
});
await agent.runAgent({ resume });
console.log(agent.messages.at(-1).content);
