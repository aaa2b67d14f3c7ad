import { useChat } from "@ai-sdk/react";
import { DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses } from "ai";

const transport = new DefaultChatTransport({ api: "/api/vercel" });

export function Chat({ id, messages: initial }) {
  const { messages, sendMessage, addToolApprovalResponse } = useChat({
    id,
    messages: initial, // of GET /api/vercel/ID
    resume: true,
    transport,
    sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
  });
  const answer = (part, approved) => addToolApprovalResponse({ id: part.approval.id, approved });
  const stop = () => fetch("/api/chat/cancel", { method: "POST", body: JSON.stringify({ threadId: id }) });
  return (
    <form action={(form) => sendMessage({ text: form.get("text") })}>
      {messages.map(({ id, role, parts }) => parts.map((part, n) => (
        <p key={`${id}-${n}`}>
          {role}: {part.text ?? part.type}
          {part.state === "approval-requested" && <button type="button" onClick={() => answer(part, true)}>Allow</button>}
        </p>
      )))}
      <input name="text" /> <button>Send</button> <button type="button" onClick={stop}>Stop</button>
    </form>
  );
}
