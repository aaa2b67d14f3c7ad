import {
  createAgent, openai, type Message, type TextMessage,
} from "@inngest/agent-kit";

const seen: string[] = [];

const masked = (message: Message): Message =>
  message.type === "text" && typeof message.content === "string"
    ? { ...message, content: message.content.replaceAll("4711", "****") }
    : message;

const doorman = createAgent({
  name: "doorman",
  system: "You know when the house is open.",
  model: openai({ model: "gpt-4o" }),
  lifecycle: {
    onStart: ({ prompt, history }) => {
      const today: TextMessage = {
        type: "text",
        role: "system",
        content: "Today is a holiday.",
      };
      const [system, ...rest] = prompt;
      return { prompt: [system, today, ...rest], history: history ?? [], stop: false };
    },
    onResponse: ({ result }) => {
      result.output = result.output.map(masked);
      return result;
    },
    onFinish: ({ agent, result }) => {
      seen.push(`${agent.name}: ${result.output.length}`);
      return result;
    },
  },
});

export async function main() {
  const result = await doorman.run("What is the code of the door?");
  return [result.output, seen];
}
