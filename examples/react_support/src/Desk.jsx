import { useAgent } from "@inngest/use-agent";
import { use, useCallback, useEffect, useRef, useState } from "react";

import { Approvals } from "./Approvals.jsx";
import { Composer } from "./Composer.jsx";
import { Messages } from "./Messages.jsx";
import {
  putInAddress,
  storedThread,
  useApprovals,
  useTitles,
  words,
} from "./server.js";
import { Threads } from "./Threads.jsx";

export function Desk({ me, session, onLost }) {
  const title = useTitles();
  const { approvals, answer } = useApprovals();
  const [problem, setProblem] = useState(null); // {text, again, thread}
  const [stopped, setStopped] = useState(null); // the thread that was stopped last
  const [staff, setStaff] = useState({}); // who of the staff is on which thread
  const [speaker, setSpeaker] = useState(""); // the agent that began last
  const [draft, setDraft] = useState(null);
  const [isListOpen, setListOpen] = useState(false);
  const complete = useRef(new Set()); // threads all of whose chunks came here
  const opened = useRef(new Set()); // threads that a run may have been going on in
  const authors = useRef(new Map()); // who wrote which part
  const byPeople = useRef(new Set()); // messages of the staff, which end no run
  const failedParts = useRef(new Set()); // parts that were taken back
  const cutParts = useRef(new Set()); // texts that were stopped or broke off
  const paused = useRef(new Map()); // messages whose replies wait for a person, by thread
  const shown = useRef([]);
  const agent = useAgent({
    enableThreadValidation: false, // threads are loaded below, with their tool calls
    onEvent: ({ event, data }) => {
      if (event === "part.created") {
        const { agentName: name, byStaff } = data.metadata ?? {};
        if (name) authors.current.set(data.partId, { name, staff: Boolean(byStaff) });
        if (byStaff) byPeople.current.add(data.messageId);
      }
      if (data.runId) setProblem((one) => (one?.thread === data.threadId ? null : one));
      if (event === "run.started" && !data.parentRunId) {
        beginAgain(data.threadId);
        setStopped((one) => (one === data.threadId ? null : one));
      }
      if (event === "part.failed") (data.cut ? cutParts : failedParts).current.add(data.partId);
      if (event === "run.started" && data.scope === "agent") setSpeaker(data.name);
      if (event === "run.interrupted") setStopped(data.threadId);
      if (event === "run.failed") {
        setProblem({ text: "Something went wrong, and the answer is missing.", again: true });
      }
      if (event === "staff.changed") setStaff((all) => ({ ...all, [data.threadId]: data }));
      if (event === "stream.ended" && !byPeople.current.has(data.messageId)) {
        ended.current(data.threadId);
      }
    },
  });
  const { currentThreadId, replaceThreadMessages, setCurrentThreadId } = agent;
  shown.current = agent.messages;

  // A reply that goes on in another process is streamed from its beginning, which was read already.
  const beginAgain = (threadId) => {
    const at = shown.current.findIndex(({ id }) => id === paused.current.get(threadId));
    if (threadId !== currentThreadId || at < 0) return;
    paused.current.delete(threadId);
    const isKept = ({ role, parts }, n) =>
      n <= at || role === "user" || parts.some(({ author }) => author?.staff);
    replaceThreadMessages(threadId, shown.current.filter(isKept));
  };

  const show = useCallback(
    (threadId, found) => {
      complete.current.add(threadId);
      opened.current.add(threadId);
      if (found.paused) paused.current.set(threadId, found.paused);
      replaceThreadMessages(threadId, found.messages);
      if (found.isUnanswered) {
        setProblem({ text: "Your last message has no answer yet.", again: true, thread: threadId });
      }
      setStaff((all) => ({ ...all, [threadId]: found.staff }));
      setCurrentThreadId(threadId);
    },
    [replaceThreadMessages, setCurrentThreadId],
  );

  const begin = useCallback(() => {
    setCurrentThreadId(agent.createNewThread());
    putInAddress(null);
    setProblem(null);
    setListOpen(false);
  }, [agent, setCurrentThreadId]);

  const found = use(session.stored);
  const begun = useRef(false);
  useEffect(() => {
    if (begun.current) return;
    begun.current = true;
    if (found === null) begin();
    else show(session.thread, found);
  }, [begin, found, session, show]);

  const open = async (threadId) => {
    setListOpen(false);
    setProblem(null);
    try {
      if (complete.current.has(threadId)) setCurrentThreadId(threadId);
      else show(threadId, await storedThread(threadId));
      putInAddress(threadId);
    } catch (error) {
      setProblem({ text: `The conversation could not be opened. ${error.message}` });
    }
  };

  const { isConnected } = agent;
  const wasConnected = useRef(false);
  useEffect(() => {
    if (isConnected) {
      wasConnected.current = true;
      return undefined;
    }
    let timer;
    const look = async () => {
      const ready = await fetch("/health/ready").catch(() => ({ ok: false }));
      if (ready.ok) onLost();
      else timer = setTimeout(look, 2000);
    };
    timer = setTimeout(look, wasConnected.current ? 1000 : 5000 + 1000 * session.number);
    return () => clearTimeout(timer);
  }, [isConnected, onLost, session]);

  // Of a run that went on when the thread was opened, the beginning may have been missed; a message
  // that waited for its end is in the thread only now. What a worker takes for running is not in
  // its answer: another one may know better that it has ended.
  const readAgain = useCallback(
    async (threadId, tries = 10) => {
      const { messages, isRunning } = await storedThread(threadId).catch(() => ({ isRunning: true }));
      if (!isRunning) replaceThreadMessages(threadId, messages);
      else if (tries > 0) setTimeout(() => readAgain(threadId, tries - 1), 300);
    },
    [replaceThreadMessages],
  );

  const ended = useRef();
  ended.current = (threadId) => {
    agent.refreshThreads();
    if (opened.current.has(threadId)) readAgain(threadId);
  };

  // A reply that was under way when the thread was read may have ended before the hook listened.
  const isHalf = isConnected && found?.isRunning;
  useEffect(() => {
    if (isHalf) readAgain(session.thread, 0);
  }, [isHalf, session, readAgain]);

  const send = async (text, state) => {
    setProblem(null);
    setStopped(null);
    setSpeaker("");
    putInAddress(currentThreadId);
    complete.current.add(currentThreadId);
    try {
      await agent.sendMessageToThread(currentThreadId, text, { state: state ?? {} });
      agent.refreshThreads();
    } catch (error) {
      setProblem({ text: error.message });
    }
  };

  // The last message once more, in its own place: the server takes the thread back to before it.
  const again = () => {
    const last = agent.messages.findLastIndex((message) => message.role === "user");
    if (last < 0) return;
    const { id, parts } = agent.messages[last];
    replaceThreadMessages(currentThreadId, agent.messages.slice(0, last));
    send(textOf(parts), { mode: "conversation_branching", editFromMessageId: id });
  };

  const edit = (message) => {
    const others = agent.messages.filter((one) => one !== message);
    replaceThreadMessages(currentThreadId, others);
    setDraft({ text: textOf(message.parts) });
    setProblem(null);
  };

  const remove = async (threadId) => {
    try {
      await agent.deleteThread(threadId);
      if (threadId === currentThreadId) begin();
    } catch (error) {
      setProblem({ text: `The conversation could not be deleted. ${error.message}` });
    }
  };

  // A word that was under way may arrive after the run was stopped; the hook takes it for a reply.
  const working = agent.status === "submitted" || agent.status === "streaming";
  const busy = working && stopped !== currentThreadId && problem?.thread !== currentThreadId;
  const asked = approvals.filter((one) => one.threadId === currentThreadId);
  const waits = asked.flatMap((one) => one.calls);
  const who = speaker ? `${words(speaker)} is writing…` : "Writing…";
  const people = staff[currentThreadId] ?? { state: "none", names: [] };
  const isTaken = people.state === "taken";
  let writing = null;
  if (asked.length > 0) {
    const own = asked.some((one) => one.mayAnswer);
    writing = {
      waiting: true,
      text: own ? "Waiting for your decision" : "Waiting for a colleague’s decision",
    };
  } else if (busy && !isTaken) writing = { text: who };
  return (
    <div className="desk">
      <Threads
        {...{ agent, me, isOpen: isListOpen }}
        onNew={begin}
        onOpen={open}
        onDelete={remove}
      />
      <main>
        <header>
          <button
            type="button"
            className="quiet list"
            aria-expanded={isListOpen}
            aria-controls="conversations"
            onClick={() => setListOpen(!isListOpen)}
          >
            Conversations
          </button>
          <h1>Lamps &amp; Light</h1>
          <p className="connection" role="status" data-connected={isConnected || undefined}>
            {isConnected ? "Connected" : wasConnected.current ? "Connecting again…" : "Connecting…"}
          </p>
        </header>
        {people.state !== "none" && (
          <p className="people" role="status">
            {isTaken
              ? `${people.names.join(" and ") || "A colleague"} from our staff is with you.`
              : "We have asked a colleague to join you."}
          </p>
        )}
        <Messages
          messages={agent.messages}
          authors={authors.current}
          failedParts={failedParts.current}
          cutParts={cutParts.current}
          {...{ title, waits, writing }}
          onEdit={edit}
        />
        <Approvals approvals={asked} title={title} onAnswer={answer} />
        {problem && (
          <div className="problem banner" role="alert">
            <p>{problem.text}</p>
            {problem.again && (
              <button type="button" onClick={again}>
                Try again
              </button>
            )}
            <button type="button" className="link" onClick={() => setProblem(null)}>
              Close
            </button>
          </div>
        )}
        {stopped === currentThreadId && !problem && (
          <div className="stopped banner" role="status">
            <p>The answer was stopped.</p>
            <button type="button" onClick={again}>
              Try again
            </button>
          </div>
        )}
        <Composer
          busy={busy && !isTaken && asked.length === 0}
          draft={draft}
          onSend={(text) => send(text)}
          onCancel={agent.cancel}
        />
      </main>
    </div>
  );
}

function textOf(parts) {
  return parts
    .filter((part) => part.type === "text")
    .map((part) => part.content)
    .join("\n");
}
