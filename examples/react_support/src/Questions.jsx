export function Questions({ questions, onDecide }) {
  return questions.map((question) => (
    <section
      key={question.requestId}
      className="question"
      role="region"
      aria-label="Approval needed"
    >
      <h2>May {question.agentName} do this?</h2>
      <ul>
        {question.toolCalls.map((call) => (
          <li key={call.partId}>
            <code>
              {call.toolName}({JSON.stringify(call.toolInput)})
            </code>
          </li>
        ))}
      </ul>
      <div className="decision">
        <button type="button" onClick={() => onDecide(question, true)}>
          Approve
        </button>
        <button type="button" className="deny" onClick={() => onDecide(question, false)}>
          Deny
        </button>
      </div>
    </section>
  ));
}
