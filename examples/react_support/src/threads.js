// The hook's own way to the server, and stored threads as its messages.

import { createDefaultHttpTransport } from "@inngest/use-agent";

export const transport = createDefaultHttpTransport();

// The hook shows texts of a stored thread only; here are tool calls and results, too.
export async function storedMessages(threadId) {
  const stored = await transport.fetchHistory({ threadId });
  return stored.map((message) =>
    message.type === "user" ? userMessage(message) : agentMessage(message),
  );
}

function userMessage({ message_id: id, content, createdAt }) {
  const parts = [{ type: "text", id: `text-${id}`, content, status: "complete" }];
  return { id, role: "user", parts, timestamp: new Date(createdAt), status: "sent" };
}

function agentMessage({ message_id: id, data, createdAt }) {
  const parts = data.output.flatMap((message, index) => {
    if (message.type === "text") {
      const content = typeof message.content === "string" ? message.content : "";
      return [{ type: "text", id: `${id}-${index}`, content, status: "complete" }];
    }
    return (message.tools ?? []).map((call) => toolPart(call, data.toolCalls));
  });
  return { id, role: "assistant", parts, timestamp: new Date(createdAt), status: "sent" };
}

function toolPart(call, results) {
  const result = results.find((one) => one.tool.id === call.id);
  return {
    type: "tool-call",
    toolCallId: call.id,
    toolName: call.name,
    input: call.input,
    state: result ? "output-available" : "input-available",
    output: result?.content,
  };
}

// The thread of this page is in its address, so that a reload finds it again.
export function threadInAddress() {
  return new URLSearchParams(window.location.search).get("thread");
}

export function putInAddress(threadId) {
  const query = threadId ? `?thread=${encodeURIComponent(threadId)}` : window.location.pathname;
  window.history.replaceState(null, "", query);
}
