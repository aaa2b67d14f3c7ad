import { useEffect, useRef } from "react";

import { ToolCall } from "./ToolCall.jsx";

export function Messages({ messages, busy, questions }) {
  const end = useRef(null);
  const waiting = questions.flatMap((question) => question.toolCalls.map((call) => call.partId));
  const shown = messages.filter((message) => message.parts.some(isVisible));
  const size = JSON.stringify(shown.at(-1) ?? null).length;
  useEffect(() => {
    end.current?.scrollIntoView({ block: "nearest" });
  }, [shown.length, size, waiting.length]);
  return (
    <section className="messages" role="log" aria-label="Messages" aria-busy={busy} tabIndex={0}>
      {shown.length === 0 && (
        <p className="empty">Ask about an order, e.g. “Where is my order A1?”</p>
      )}
      {shown.map((message) => (
        <article key={message.id} className={message.role} data-status={message.status}>
          <h2>{message.role === "user" ? "You" : "Support"}</h2>
          {message.parts.filter(isVisible).map((part) => (
            <Part
              key={part.id ?? part.toolCallId}
              part={part}
              waits={waiting.includes(part.toolCallId)}
            />
          ))}
          {message.status === "failed" && <p className="note">Not sent.</p>}
        </article>
      ))}
      {busy && (
        <p className="note">{waiting.length ? "Waiting for your decision…" : "Writing…"}</p>
      )}
      <div ref={end} />
    </section>
  );
}

function isVisible(part) {
  return part.type === "tool-call" || (part.type === "text" && part.content !== "");
}

function Part({ part, waits }) {
  if (part.type === "tool-call") return <ToolCall part={part} waits={waits} />;
  return (
    <p className="text" data-status={part.status}>
      {part.content}
    </p>
  );
}
