import { useAgent } from "@inngest/use-agent";
import { use, useCallback, useEffect, useRef, useState } from "react";

import { Composer } from "./Composer.jsx";
import { Messages } from "./Messages.jsx";
import { Questions } from "./Questions.jsx";
import { Threads } from "./Threads.jsx";
import { useQuestions } from "./questions.js";
import { putInAddress, storedMessages, threadInAddress } from "./threads.js";

// Read before the hook begins to listen: what is streamed afterwards goes on from it.
const first = threadInAddress();
const stored = first ? storedMessages(first).catch(() => null) : Promise.resolve(null);

export function Desk() {
  const { questions, onEvent, drop } = useQuestions();
  const [problem, setProblem] = useState("");
  const complete = useRef(new Set()); // threads all of whose chunks came here
  const [stopped, setStopped] = useState(null); // the thread that was stopped last
  const opened = useRef(new Set()); // threads that a run may have been going on in
  const agent = useAgent({
    enableThreadValidation: false, // threads are loaded below, with their tool calls
    onEvent: (event) => {
      onEvent(event);
      if (event.event === "run.interrupted") setStopped(event.data.threadId);
      if (event.event === "run.failed") setProblem(event.data.error);
      if (event.event === "stream.ended") ended.current(event.data.threadId);
    },
  });
  const { currentThreadId, replaceThreadMessages, setCurrentThreadId } = agent;

  const show = useCallback(
    (threadId, messages) => {
      complete.current.add(threadId);
      opened.current.add(threadId);
      replaceThreadMessages(threadId, messages);
      setCurrentThreadId(threadId);
    },
    [replaceThreadMessages, setCurrentThreadId],
  );

  const begin = useCallback(() => {
    setCurrentThreadId(agent.createNewThread());
    putInAddress(null);
    setProblem("");
  }, [agent, setCurrentThreadId]);

  const messages = use(stored);
  const begun = useRef(false);
  useEffect(() => {
    if (begun.current) return;
    begun.current = true;
    if (messages === null) begin();
    else show(first, messages);
  }, [begin, messages, show]);

  const open = useCallback(
    async (threadId) => {
      if (complete.current.has(threadId)) setCurrentThreadId(threadId);
      else show(threadId, await storedMessages(threadId));
      putInAddress(threadId);
      setProblem("");
    },
    [setCurrentThreadId, show],
  );

  const ended = useRef();
  ended.current = (threadId) => {
    agent.refreshThreads();
    // Of a run that went on when the thread was opened, the beginning may have been missed.
    if (opened.current.delete(threadId)) {
      storedMessages(threadId).then((found) => replaceThreadMessages(threadId, found));
    }
  };

  const send = async (text) => {
    setProblem("");
    setStopped(null);
    putInAddress(currentThreadId);
    complete.current.add(currentThreadId);
    try {
      await agent.sendMessage(text);
      agent.refreshThreads();
    } catch (error) {
      setProblem(error.message);
    }
  };

  const decide = async (question, approved) => {
    const answer = approved ? agent.approveToolCall : agent.denyToolCall;
    try {
      await answer(question.requestId, approved ? "" : "The customer declined.");
    } catch (error) {
      setProblem(error.message);
    }
    drop((one) => one.requestId === question.requestId);
  };

  const remove = async (threadId) => {
    await agent.deleteThread(threadId);
    if (threadId === currentThreadId) begin();
  };

  // A word that was under way may arrive after the run was stopped; the hook takes it for a reply.
  const writing = agent.status === "submitted" || agent.status === "streaming";
  const busy = writing && stopped !== currentThreadId;
  const asked = questions.filter((question) => question.threadId === currentThreadId);
  return (
    <div className="desk">
      <Threads agent={agent} onNew={begin} onOpen={open} onDelete={remove} />
      <main>
        <header>
          <h1>Support desk</h1>
          <p className="connection" role="status">
            {agent.isConnected ? "Connected" : "Connecting…"}
          </p>
        </header>
        <Messages messages={agent.messages} busy={busy} questions={asked} />
        <Questions questions={asked} onDecide={decide} />
        {problem && (
          <p className="problem" role="alert">
            {problem}
          </p>
        )}
        <Composer busy={busy} onSend={send} onCancel={agent.cancel} />
      </main>
    </div>
  );
}
