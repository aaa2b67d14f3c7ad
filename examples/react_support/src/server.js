// What the page asks the server itself, beside what the hook does.

import { createDefaultHttpTransport } from "@inngest/use-agent";
import { useCallback, useEffect, useRef, useState } from "react";

export const transport = createDefaultHttpTransport();

export async function call(path, body) {
  const options = { headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  const answer = await fetch(path, body === undefined ? {} : { method: "POST", ...options });
  const data = await answer.json().catch(() => ({}));
  if (answer.ok) return data;
  throw new Error(data.error?.message ?? data.error ?? `The server answered ${answer.status}.`);
}

export async function upload(file) {
  const answer = await fetch("/files", { method: "POST", body: file });
  const data = await answer.json().catch(() => ({}));
  if (answer.ok) return { name: file.name, url: data.url };
  throw new Error(data.error ?? "The file could not be sent.");
}

// Titles of tools, e.g. "Pay back {amount} € for order {order}".
export function useTitles() {
  const [titles, setTitles] = useState({});
  const asked = useRef(new Set());
  const load = useCallback(() => {
    call("/api/agents").then(
      ({ agents }) => setTitles(Object.assign({}, ...agents.map((agent) => agent.tools))),
      () => {}, // calls are then shown by their names
    );
  }, []);
  useEffect(load, [load]);
  return useCallback(
    (name, input) => {
      if (!(name in titles) && !asked.current.has(name)) {
        asked.current.add(name);
        setTimeout(load); // titles of MCP servers' tools are known once a run has used them
      }
      return titled(titles[name], name, input);
    },
    [titles, load],
  );
}

function titled(title, name, input) {
  if (title === undefined) return words(name);
  const filled = title.replace(/\{\{|\}\}|\{(\w+)\}/g, (found, argument) =>
    argument === undefined ? found[0] : String(input?.[argument] ?? "…").slice(0, 80),
  );
  return filled.replace(/… [€$£]/, "…");
}

export function words(name) {
  const text = String(name).replace(/[_-]+/g, " ").trim();
  return text.charAt(0).toUpperCase() + text.slice(1);
}

// Open questions of the user's threads: the stream begins with all of them, so that a reload, and
// another window, show the same.
export function useApprovals() {
  const [approvals, setApprovals] = useState({});
  useEffect(() => {
    const source = new EventSource("/api/approvals/stream");
    source.addEventListener("ready", () => setApprovals({}));
    source.addEventListener("approval", (event) => {
      const one = JSON.parse(event.data);
      setApprovals((before) => ({ ...before, [one.id]: one }));
    });
    return () => source.close();
  }, []);
  const answer = async (id, action, reason = "") => {
    await call(`/api/approvals/${encodeURIComponent(id)}`, { action, reason });
    setApprovals((before) => ({ ...before, [id]: { ...before[id], status: "answered" } }));
  };
  return { approvals: Object.values(approvals).filter((one) => one.status === "open"), answer };
}

// A stored thread as the hook's messages. The hook shows texts only; here are tool calls, too, who
// wrote what, and who of the staff is there.
export async function storedThread(threadId) {
  const found = await call(`/api/threads/${encodeURIComponent(threadId)}`);
  const messages = found.messages.map((one) =>
    one.type === "user" ? userMessage(one) : agentMessage(one),
  );
  // Calls that wait for a person; of a reply that is streamed again, the stream has them.
  const waiting = found.pending.filter((one) => !found.running.includes(one.runId));
  messages.push(...waiting.map(waitingMessage));
  const waits = found.running.length + found.pending.length > 0 || found.staff.state === "taken";
  const last = messages.at(-1); // a question, or calls without an answer: e.g. the server died
  const isSaid = last?.role === "assistant" && last.parts.some((part) => part.type === "text");
  const isUnanswered = last !== undefined && !isSaid && !waits;
  const isRunning = found.running.length > 0;
  return { messages, staff: found.staff, isUnanswered, isRunning, paused: waiting[0]?.runId };
}

function userMessage({ message_id: id, content, createdAt }) {
  const parts = [{ type: "text", id: `text-${id}`, content, status: "complete" }];
  return { id, role: "user", parts, timestamp: new Date(createdAt), status: "sent" };
}

// Why a text ends before its end; "error": it was stopped or broke off.
const CUT = ["error", "length", "content_filter", "refusal", "context_window"];

function agentMessage({ message_id: id, agentName, staff, data, createdAt }) {
  const author = { name: agentName, staff: staff !== undefined };
  const parts = data.output.flatMap((message, index) => {
    if (message.type === "text") {
      const content = textOf(message.content);
      const isCut = CUT.includes(message.stop_reason);
      return [{ type: "text", id: `${id}-${index}`, content, status: "complete", author, isCut }];
    }
    return (message.tools ?? []).map((tool) => ({ ...toolPart(tool, data.toolCalls), author }));
  });
  return { id, role: "assistant", parts, timestamp: new Date(createdAt), status: "sent" };
}

function waitingMessage({ id, agent, askedAt, calls }) {
  const author = { name: agent, staff: false };
  const parts = calls.map(({ partId, toolCallId, toolName, toolInput }) => ({
    ...toolPart({ id: partId ?? toolCallId, name: toolName, input: toolInput }, []),
    author,
  }));
  return { id, role: "assistant", parts, timestamp: new Date(askedAt), status: "sent" };
}

function textOf(content) {
  if (typeof content === "string") return content;
  return (content ?? []).map((part) => part.text ?? "").join("");
}

function toolPart(tool, results) {
  const result = results.find((one) => one.tool.id === tool.id);
  return {
    type: "tool-call",
    toolCallId: tool.id,
    toolName: tool.name,
    input: tool.input,
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
