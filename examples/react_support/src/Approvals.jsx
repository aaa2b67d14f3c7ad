import { useState } from "react";

import { words } from "./server.js";
import { Facts } from "./Calls.jsx";

const time = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });

export function Approvals({ approvals, title, onAnswer }) {
  return approvals.map((one) => (
    <Approval key={one.id} one={one} title={title} onAnswer={onAnswer} />
  ));
}

function Approval({ one, title, onAnswer }) {
  const [sending, setSending] = useState(false);
  const [problem, setProblem] = useState("");
  const decide = async (action) => {
    setSending(true);
    setProblem("");
    try {
      await onAnswer(one.id, action, action === "deny" ? "The customer declined." : "");
    } catch (error) {
      setProblem(error.message);
      setSending(false);
    }
  };
  const own = one.mayAnswer;
  return (
    <section className="approval" aria-label={own ? "Approval needed" : "Decision of a colleague"}>
      <h2>{own ? "Shall we do this?" : "A colleague decides this"}</h2>
      <ul>
        {one.calls.map((call) => (
          <li key={call.toolCallId ?? call.index}>
            <strong>{one.message || title(call.toolName, call.toolInput)}</strong>
            <details>
              <summary>Details</summary>
              <Facts value={call.toolInput} />
            </details>
          </li>
        ))}
      </ul>
      <p className="note">
        {own
          ? `${words(one.agent)} goes on when you have decided.`
          : "You may leave; the answer will be here when you come back."}
        {one.expiresAt && ` Open until ${time.format(new Date(one.expiresAt))}.`}
      </p>
      {own && (
        <div className="row">
          <button type="button" disabled={sending} onClick={() => decide("approve")}>
            Approve
          </button>
          <button
            type="button"
            className="deny"
            disabled={sending}
            onClick={() => decide("deny")}
          >
            Decline
          </button>
        </div>
      )}
      {problem && (
        <p className="problem" role="alert">
          {problem}
        </p>
      )}
    </section>
  );
}
