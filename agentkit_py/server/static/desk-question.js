// Questions to staff: asking, deciding, and what was decided.

import { argumentsOf, isObject, linked, make, time, titled, words } from "./desk-words.js";

// Of longer integers a page loses digits.
const isExact = (value) =>
  typeof value === "number" ? !Number.isInteger(value) || Number.isSafeInteger(value)
    : value === null || typeof value !== "object" || Object.values(value).every(isExact);

function fieldOf(id, name, value) {
  const label = make("label", { for: id }, words(name));
  if (typeof value === "boolean") {
    const box = make("input", { id, type: "checkbox" });
    box.checked = value;
    const line = make("label", { className: "check" }, box, ` ${words(name)}`);
    return { nodes: [line], read: () => box.checked };
  }
  if (typeof value === "number") {
    const input = make("input", { id, inputmode: "decimal", autocomplete: "off" });
    input.value = String(value);
    const read = () => {
      const found = Number(input.value.trim().replace(",", "."));
      if (input.value.trim() === "" || !Number.isFinite(found)) throw new Error(`${words(name)} is not a number: ${input.value}`);
      return found;
    };
    return { nodes: [label, input], read };
  }
  const isText = typeof value === "string";
  const long = !isText || value.length > 60 || value.includes("\n");
  const input = long ? make("textarea", { id, rows: "3", spellcheck: "false" }) : make("input", { id, autocomplete: "off" });
  const before = isText ? value : JSON.stringify(value, null, 1);
  input.value = before;
  const shown = input.value; // the browser may have changed the ends of lines
  const read = () => {
    if (input.value === shown) return value;
    if (isText) return input.value;
    try {
      return JSON.parse(input.value);
    } catch {
      throw new Error(`${words(name)} is not JSON.`);
    }
  };
  return { nodes: [isText ? label : make("label", { for: id }, `${words(name)}, as JSON`), input], read };
}

// The form that changes a call's arguments; `read` gives them, or undefined where nothing is changed.
function changes(question, call) {
  const input = call.toolInput;
  const prefix = `edit-${question.id}-${call.index}`;
  if (!isObject(input) || !Object.keys(input).length) return { nodes: [], read: () => undefined };
  if (!isExact(input)) {
    return { nodes: [make("p", { className: "quiet" }, "Its numbers are too long to be changed here.")], read: () => undefined };
  }
  const fields = Object.entries(input).map(([name, value], n) => [name, fieldOf(`${prefix}-${n}`, name, value)]);
  const read = () => {
    const found = Object.fromEntries(fields.map(([name, field]) => [name, field.read()]));
    return JSON.stringify(found) === JSON.stringify(input) ? undefined : found;
  };
  const summary = make("summary", {}, "Change before approving");
  return { nodes: [make("details", {}, summary, ...fields.flatMap(([, field]) => field.nodes))], read };
}

export function titleOf(question) {
  return question.message || question.calls.map((call) => titled(call.toolName, call.toolInput)).join(", ") || `${words(question.agent)} asks for your decision`;
}

// The box of an open question. `decide(body)` sends the decision, and throws a refusal.
export function questionBox(question, decide) {
  const box = make("section", { className: "question", "aria-label": `Decision: ${titleOf(question)}` });
  box.append(make("h3", {}, question.message || `${words(question.agent)} asks for your decision`));
  const asked = [`Asked by ${words(question.agent)}, ${time(question.askedAt)}`, question.expiresAt && `answer until ${time(question.expiresAt)}`];
  box.append(make("p", { className: "quiet" }, asked.filter(Boolean).join("; ")));
  const several = question.calls.length > 1;
  const calls = question.calls.map((call) => {
    const form = changes(question, call);
    const wanted = make("input", { type: "checkbox" });
    wanted.checked = true;
    box.append(make("h4", {}, titled(call.toolName, call.toolInput)), argumentsOf(call.toolInput), ...form.nodes);
    if (several) box.append(make("label", { className: "check" }, wanted, " Approve this call"));
    return { call, read: form.read, wanted };
  });
  if (!question.mayAnswer) {
    box.append(make("p", { className: "quiet" }, "Somebody else has to decide this."));
    return box;
  }
  const reason = make("input", { id: `reason-${question.id}`, maxlength: "2000", autocomplete: "off" });
  box.append(make("label", { for: reason.id }, "Reason, which the agent reads"), reason);
  const toUser = make("input", { id: `to-user-${question.id}`, maxlength: "2000", autocomplete: "off" });
  box.append(make("label", { for: toUser.id }, "Words to the customer"), toUser);
  const refusal = make("p", { className: "bad refusal", role: "alert" });
  const buttons = [["approve", "Approve", "main"], ["deny", "Deny", ""]].map(([action, text, className]) => {
    const button = make("button", { type: "button", className }, text);
    button.addEventListener("click", async () => {
      refusal.textContent = "";
      for (const one of buttons) one.disabled = true;
      try {
        const notes = { reason: reason.value, toUser: toUser.value };
        const single = action === "deny" ? [] : calls.map(({ call, read, wanted }) => {
          if (!wanted.checked) return { index: call.index, action: "deny", ...notes };
          const changed = read();
          return changed && { index: call.index, action, ...notes, arguments: changed };
        }).filter(Boolean);
        await decide({ action, ...notes, calls: single });
      } catch (error) {
        refusal.textContent = error.message;
      } finally {
        for (const one of buttons) one.disabled = false;
      }
    });
    return button;
  });
  box.append(make("div", { className: "row" }, ...buttons), refusal);
  return box;
}

// What was decided about a call (or about a question without calls); null: nothing yet.
function decisionOn(question, index) {
  return question.decisions[index] ?? (question.approved === null ? null : { approved: question.approved, reason: question.reason, toUser: question.toUser });
}

// The arguments that a call was really made with.
export function argumentsUsed(call, question) {
  const changed = question && decisionOn(question, call.index);
  return changed?.approved && changed.arguments ? changed.arguments : call.toolInput;
}

export function outcome(question, me, index = 0) {
  if (question.status === "expired") return "Nobody answered in time.";
  if (question.status === "stopped") return "The run that asked was stopped.";
  const decision = decisionOn(question, index);
  if (!decision) return "Waits for a decision.";
  const id = decision.by ?? question.answeredBy;
  const by = id ? ` by ${id === me ? `${id} (you)` : id}` : "";
  const at = question.answeredAt ? `, ${time(question.answeredAt)}` : "";
  const isChanged = decision.approved && decision.arguments;
  return `${decision.approved ? (isChanged ? "Approved with changes" : "Approved") : "Denied"}${by}${at}.`;
}

// Lines about the decision on a call: who, what was changed, why, and the words to the customer.
export function decided(question, me, index = 0) {
  const found = [make("p", { className: "decision" }, outcome(question, me, index))];
  const decision = decisionOn(question, index);
  const call = question.calls[index];
  if (decision?.approved && decision.arguments && call) found.push(argumentsOf(decision.arguments, call.toolInput));
  if (decision?.reason) found.push(make("p", {}, `Reason: ${decision.reason}`));
  if (decision?.toUser) found.push(make("p", {}, `To the customer: ${decision.toUser}`));
  return found;
}

// A question that was open on the page and was closed by another, said where its box was.
export function meanwhile(question, me, dismiss) {
  const box = make("section", { className: "question closed", role: "status", tabindex: "-1" });
  box.append(make("h3", {}, titleOf(question)));
  const lines = question.calls.length ? question.calls.flatMap((call) => decided(question, me, call.index)) : decided(question, me);
  const who = question.status === "answered" ? "A colleague answered this meanwhile." : "This is closed.";
  box.append(make("p", {}, make("strong", {}, who)), ...lines);
  const button = make("button", { type: "button" }, "Dismiss");
  button.addEventListener("click", dismiss);
  box.append(button);
  return box;
}

// An entry of the conversation for a question without calls.
export function entryOf(question, me) {
  return make("li", { className: "note" }, make("p", { className: "who" }, `${words(question.agent)} asked staff `,
    make("time", { datetime: question.askedAt }, time(question.askedAt))), linked(titleOf(question)), ...decided(question, me));
}
