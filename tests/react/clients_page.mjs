// The front ends of npm in a browser, as they are: ?kind=vercel&thread=…&user=…
//
// A test drives the page by `window.desk`; what the client shows is in `desk.look()`.

import { HttpAgent } from "@ag-ui/client";
import { useChat } from "@ai-sdk/react";
import { DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses } from "ai";
import { createElement, useEffect, useState } from "react";
import { createRoot } from "react-dom/client";

const given = new URLSearchParams(location.search);
const [kind, thread] = [given.get("kind"), given.get("thread")];
const headers = { "x-user": given.get("user") };
const isCut = (error) => /network|fetch/i.test(String(error));

async function stored() {
  const answer = await fetch(`/api/${kind}/${thread}`, { headers });
  return answer.ok ? answer.json() : { messages: [], interrupts: [] };
}

function Shown({ messages, state }) {
  return createElement("pre", { "data-state": state }, JSON.stringify(messages, null, 1));
}

function Vercel({ initial, transport }) {
  const chat = useChat({
    id: thread,
    messages: initial,
    resume: true,
    transport,
    sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
  });
  const { messages, status, error } = chat;
  const parts = messages.at(-1)?.parts ?? [];
  const asked = parts.filter((part) => part.state === "approval-requested");
  const states = { ready: asked.length ? "asks" : "ready", error: isCut(error) ? "cut" : "failed" };
  const state = states[status] ?? "busy";
  useEffect(() => {
    window.desk = {
      look: () => ({ state, asked: asked.length, problem: String(error), messages }),
      send: (id, text) => void chat.sendMessage({ text }),
      resume: () => void chat.resumeStream(),
      answer: (words) =>
        asked.forEach((part, n) =>
          chat.addToolApprovalResponse({ id: part.approval.id, ...words[n] }),
        ),
    };
  });
  return createElement(Shown, { messages, state });
}

function AgUi({ agent, begins }) {
  const [state, setState] = useState(begins ? "busy" : "asks");
  const [messages, setMessages] = useState(agent.messages);
  useEffect(() => {
    let problem = null;
    const run = (options) => {
      setState("busy");
      agent.runAgent(options).then(
        () => setState(agent.pendingInterrupts.length ? "asks" : "ready"),
        (error) => {
          problem = String(error);
          const asks = agent.pendingInterrupts.length > 0; // it runs no more without answers
          setState(asks ? "asks" : isCut(error) ? "cut" : "failed");
        },
      );
    };
    const heard = agent.subscribe({
      onMessagesChanged: (change) => setMessages([...change.messages]),
    });
    const answered = ({ id }, { approved, reason }) => ({
      interruptId: id,
      status: "resolved",
      payload: { approved, reason },
    });
    window.desk = {
      look: () => ({
        state: document.querySelector("pre").dataset.state,
        asked: agent.pendingInterrupts.length,
        problem,
        messages: agent.messages,
      }),
      send: (id, content) => {
        agent.addMessage({ id, role: "user", content });
        run();
      },
      resume: () => run(),
      answer: (words) =>
        run({ resume: agent.pendingInterrupts.map((one, n) => answered(one, words[n])) }),
    };
    if (begins) run();
    return () => heard.unsubscribe();
  }, [agent, begins]);
  return createElement(Shown, { messages, state });
}

const root = createRoot(document.getElementById("root"));
const { messages, interrupts } = await stored();
if (kind === "vercel") {
  const transport = new DefaultChatTransport({ api: "/api/vercel", headers });
  root.render(createElement(Vercel, { initial: messages, transport }));
} else {
  const url = "/api/ag-ui";
  const agent = new HttpAgent({ url, headers, threadId: thread, initialMessages: messages });
  agent.pendingInterrupts = interrupts;
  const begins = messages.length > 0 && interrupts.length === 0;
  root.render(createElement(AgUi, { agent, begins }));
}
