import { useState } from "react";

export function Composer({ busy, onSend, onCancel }) {
  const [text, setText] = useState("");
  const submit = (event) => {
    event.preventDefault();
    if (busy || !text.trim()) return;
    onSend(text.trim());
    setText("");
  };
  const onKeyDown = (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.nativeEvent.isComposing) submit(event);
  };
  return (
    <form onSubmit={submit}>
      <label htmlFor="message">Message</label>
      <textarea
        id="message"
        rows={2}
        value={text}
        onChange={(event) => setText(event.target.value)}
        onKeyDown={onKeyDown}
      />
      {busy ? (
        <button type="button" className="deny" onClick={() => onCancel()}>
          Stop
        </button>
      ) : (
        <button type="submit" disabled={!text.trim()}>
          Send
        </button>
      )}
    </form>
  );
}
