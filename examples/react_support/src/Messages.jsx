import { useEffect, useRef } from "react";

import { Markdown } from "./Markdown.jsx";
import { words } from "./server.js";
import { ToolLine } from "./Calls.jsx";

const clock = new Intl.DateTimeFormat(undefined, { timeStyle: "short" });
const day = new Intl.DateTimeFormat(undefined, { dateStyle: "full" });

export function Avatar({ name, staff = false }) {
  const hue = ([...name].reduce((sum, letter) => sum + letter.codePointAt(0), 0) * 67) % 360;
  return (
    <span className={staff ? "avatar staff" : "avatar"} style={{ "--hue": hue }} aria-hidden="true">
      {words(name).charAt(0)}
    </span>
  );
}

export function Messages({ messages, authors, failedParts, cutParts, title, waits, writing, onEdit }) {
  const end = useRef(null);
  const turns = turnsOf(messages, authors, failedParts);
  const toEnd = () => end.current?.scrollIntoView({ block: "nearest" });
  const size = JSON.stringify(turns.at(-1) ?? null).length;
  useEffect(() => {
    toEnd();
  }, [turns.length, size, waits.length, writing]);
  return (
    <section
      className="messages"
      role="log"
      aria-label="Messages"
      aria-busy={Boolean(writing)}
      tabIndex={0}
      onLoad={toEnd} // a picture has come, and has moved the end
    >
      {turns.length === 0 && (
        <div className="empty">
          <h2>How can we help?</h2>
          <p>Ask about an order, e.g. “Where is my order A1?”, send one back, or ask for a person.</p>
        </div>
      )}
      {turns.map((turn, index) => (
        <Turn
          key={turn.key}
          turn={turn}
          before={turns[index - 1]}
          title={title}
          waits={waits}
          cutParts={cutParts}
          onEdit={onEdit}
        />
      ))}
      {writing && (
        <p className="writing" data-waiting={writing.waiting || undefined}>
          <span className="dots" aria-hidden="true" />
          {writing.text}
        </p>
      )}
      <div ref={end} />
    </section>
  );
}

// The hook makes one message of a whole run; here each agent, or person, has a turn of their own.
function turnsOf(messages, authors, failedParts) {
  const turns = [];
  for (const message of messages) {
    const parts = message.parts.filter(
      (part) => isVisible(part) && !failedParts.has(part.id ?? part.toolCallId),
    );
    for (const part of parts) {
      const author =
        message.role === "user"
          ? null
          : (part.author ?? authors.get(part.id ?? part.toolCallId) ?? { name: "support" });
      const last = turns.at(-1);
      const goesOn = author !== null && last?.author?.name === author.name && last.run !== null;
      if (goesOn || last?.key === message.id) last.parts.push(part);
      else {
        const key = turns.some((turn) => turn.key === message.id)
          ? `${message.id}-${part.id ?? part.toolCallId}`
          : message.id;
        turns.push({ key, author, message, parts: [part] });
      }
    }
  }
  return turns;
}

function isVisible(part) {
  return part.type === "tool-call" || (part.type === "text" && part.content !== "");
}

function Turn({ turn, before, title, waits, cutParts, onEdit }) {
  const { author, message } = turn;
  const name = author === null ? "You" : words(author.name);
  const time = new Date(message.timestamp);
  const newDay = !before || day.format(new Date(before.message.timestamp)) !== day.format(time);
  const from = before?.author;
  const handedOver = author && from && from.name !== author.name;
  return (
    <>
      {newDay && <p className="divider">{day.format(time)}</p>}
      {handedOver && (
        <p className="divider">
          {author.staff ? `${name} from our staff has joined` : `${name} takes over`}
        </p>
      )}
      <article
        className={author === null ? "user" : author.staff ? "agent staff" : "agent"}
        data-status={message.status}
      >
        {author !== null && <Avatar name={author.name} staff={author.staff} />}
        <div className="bubble">
          <h2>
            {name}
            {author?.staff && <small> Staff</small>}
            <time dateTime={time.toISOString()}>{clock.format(time)}</time>
          </h2>
          {turn.parts.map((part) => (
            <Part
              key={part.id ?? part.toolCallId}
              isCut={part.isCut || cutParts.has(part.id)}
              {...{ part, author, title, waits }}
            />
          ))}
          {message.status === "failed" && (
            <p className="problem">
              Not sent.{" "}
              <button type="button" className="link" onClick={() => onEdit(message)}>
                Change it and send it again
              </button>
            </p>
          )}
        </div>
      </article>
    </>
  );
}

function Part({ part, author, title, waits, isCut }) {
  if (part.type === "tool-call") {
    return <ToolLine part={part} title={title} waits={waits.some((call) => isOf(call, part))} />;
  }
  if (author !== null) {
    return (
      <>
        <Markdown text={part.content} />
        {isCut && <small>This answer is not whole.</small>}
      </>
    );
  }
  return <OwnText text={part.content} />;
}

const FILE = /!?\[([^\]\n]*)\]\((\/files\/[\w.-]+)\)/g;

// What users write stays as they wrote it, but for the files that they sent with it.
function OwnText({ text }) {
  const files = [...text.matchAll(FILE)];
  return (
    <>
      <p className="text own">{text.replace(FILE, "").trim()}</p>
      {files.map(([found, name, url]) => (
        <a key={url} className="file" href={url} target="_blank" rel="noopener noreferrer">
          {found.startsWith("!") ? <img src={url} alt={name} /> : name}
        </a>
      ))}
    </>
  );
}

// A call in question names its part; where another process asked, it is known by what it says.
function isOf(call, part) {
  if (call.partId) return call.partId === part.toolCallId;
  const isSame = JSON.stringify(call.toolInput) === JSON.stringify(part.input);
  return call.toolName === part.toolName && isSame && part.output === undefined;
}
