const STATES = {
  "input-streaming": "asking…",
  "input-available": "running…",
  executing: "running…",
  "output-available": "done",
};

export function ToolCall({ part, waits }) {
  const done = part.state === "output-available";
  const error = done ? (part.output?.error ?? part.output?.data?.error) : undefined;
  const state = waits && !done ? "waits for you" : STATES[part.state];
  return (
    <details className="tool" data-tool={part.toolName} data-state={part.state} open>
      <summary>
        <code>{part.toolName}</code> {error ? "failed" : state}
      </summary>
      <dl>
        <dt>Input</dt>
        <dd>
          <code>{text(part.input)}</code>
        </dd>
        {done && (
          <>
            <dt>Output</dt>
            <dd>
              <code>{error ? error.message : text(part.output?.data ?? part.output)}</code>
            </dd>
          </>
        )}
      </dl>
    </details>
  );
}

function text(value) {
  return typeof value === "string" ? value : JSON.stringify(value);
}
