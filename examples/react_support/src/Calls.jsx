import { words } from "./server.js";

// One quiet line for a call; what went in and came out is folded.
export function ToolLine({ part, title, waits }) {
  const done = part.state === "output-available";
  const error = done ? (part.output?.error ?? part.output?.data?.error) : undefined;
  const state = error ? "failed" : done ? "done" : waits ? "waits" : "running";
  return (
    <details className="tool" data-tool={part.toolName} data-state={part.state} data-shown={state}>
      <summary>
        <span className="mark" aria-hidden="true">
          {{ done: "✓", failed: "✕", waits: "…" }[state]}
        </span>
        {title(part.toolName, part.input)}
        <span className="state">{outcome(state, error)}</span>
      </summary>
      <Facts value={part.input} />
      {done && !error && <Facts value={part.output?.data ?? part.output} name="Result" />}
      {error && <p>{error.message}</p>}
    </details>
  );
}

function outcome(state, error) {
  if (state === "waits") return "waits for a decision";
  if (state === "running") return "in progress…";
  if (state === "done") return "done";
  if (error.name === "ApprovalDeniedError") return "declined";
  return error.name === "ApprovalTimeoutError" ? "nobody decided" : "did not work";
}

export function Facts({ value, name = "Value" }) {
  if (value === null || value === undefined || value === "") return null;
  const isPlain = typeof value === "object" && !Array.isArray(value);
  const known = isPlain ? Object.entries(value) : [[name, value]];
  if (known.length === 0) return null;
  return (
    <dl>
      {known.map(([label, one]) => (
        <div key={label}>
          <dt>{words(label)}</dt>
          <dd>{plain(one)}</dd>
        </div>
      ))}
    </dl>
  );
}

function plain(value) {
  if (value === null || value === undefined) return "—";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (Array.isArray(value)) return value.map(plain).join(", ");
  if (typeof value !== "object") return String(value);
  return Object.entries(value)
    .map(([label, one]) => `${words(label)}: ${plain(one)}`)
    .join("; ");
}
