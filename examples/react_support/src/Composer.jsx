import { useEffect, useRef, useState } from "react";

import { upload } from "./server.js";

let unsent = ""; // outlives a connection that begins again

export function Composer({ busy, draft, onSend, onCancel }) {
  const [text, setText] = useState(unsent);
  const [files, setFiles] = useState([]);
  const [problem, setProblem] = useState("");
  const area = useRef(null);
  unsent = text;
  useEffect(() => {
    if (draft === null) return;
    setText(draft.text);
    area.current?.focus();
  }, [draft]);

  const submit = (event) => {
    event.preventDefault();
    if (busy || !(text.trim() || files.length)) return;
    const links = files.map(({ name, url }) => {
      const label = name.replace(/[[\]\n]/g, " ");
      return `${url.endsWith(".pdf") ? "" : "!"}[${label}](${url})`;
    });
    onSend([text.trim(), ...links].filter(Boolean).join("\n"));
    setText("");
    setFiles([]);
  };
  const attach = async (event) => {
    const chosen = [...event.target.files];
    event.target.value = "";
    setProblem("");
    for (const file of chosen) {
      try {
        const sent = await upload(file);
        setFiles((before) => [...before, sent]);
      } catch (error) {
        setProblem(`${file.name}: ${error.message}`);
      }
    }
  };
  const onKeyDown = (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.nativeEvent.isComposing) submit(event);
  };
  return (
    <form onSubmit={submit}>
      {problem && (
        <p className="problem" role="alert">
          {problem}
        </p>
      )}
      {files.length > 0 && (
        <ul className="chips" aria-label="Files of this message">
          {files.map((file) => (
            <li key={file.url}>
              {file.name}
              <button
                type="button"
                className="link"
                aria-label={`Remove ${file.name}`}
                onClick={() => setFiles((before) => before.filter((one) => one !== file))}
              >
                ×
              </button>
            </li>
          ))}
        </ul>
      )}
      <label htmlFor="message" className="hidden">
        Message
      </label>
      <div className="row">
        <label className="attach" title="Add a picture or a PDF">
          <svg viewBox="0 0 24 24" width="20" height="20" aria-hidden="true">
            <path
              d="M20 11l-8.5 8.5a5 5 0 0 1-7-7L13 4a3.4 3.4 0 0 1 4.8 4.8l-8.2 8.2a1.7 1.7 0 0 1-2.4-2.4L14.5 7.3"
              fill="none"
              stroke="currentColor"
              strokeWidth="1.8"
              strokeLinecap="round"
            />
          </svg>
          <span className="hidden">Add a picture or a PDF</span>
          <input
            type="file"
            className="hidden"
            multiple
            accept="image/png,image/jpeg,image/webp,application/pdf"
            onChange={attach}
          />
        </label>
        <textarea
          id="message"
          ref={area}
          rows={1}
          placeholder="Write a message"
          value={text}
          onChange={(event) => setText(event.target.value)}
          onKeyDown={onKeyDown}
        />
        {busy ? (
          <button type="button" className="deny" onClick={() => onCancel()}>
            Stop
          </button>
        ) : (
          <button type="submit" disabled={!(text.trim() || files.length)}>
            Send
          </button>
        )}
      </div>
    </form>
  );
}
