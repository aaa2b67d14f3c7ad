"""The demo's script: the customer's questions, and a scripted model that answers them.

The scripted model is a function of the request, as a model is: it knows only its input. Its
answers are made of the tool results in the request, so it cannot use content that a processor
hides.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from agentkit_py.testing import ReceivedRequest, text, tool_call, tool_calls
from agentkit_py.testing.provider import Reply

CUSTOMER = "Nora"

QUESTIONS = (
    (
        "Hi, this is Nora Lindqvist, nora.lindqvist@example.com. I think I was charged twice for "
        "our night train from Hamburg to Stockholm. Could you have a look?"
    ),
    (
        "That was quick, thank you! Could we take the train one night later instead? If that one "
        "is full, the night after is fine too, as long as we still catch our ferry."
    ),
    "Perfect. Is there a fee for that change, and is my refund on its way?",
    "One last thing: my mother uses a wheelchair. Could a person make sure that there is a ramp?",
)

LATER = "Nora again, on my phone now. What was my booking number, and when does the train leave?"
"""The question in the second process."""


@dataclass(frozen=True, slots=True)
class AnsweredCall:
    """One tool call in a request, with its result."""

    name: str
    arguments: Mapping[str, Any]
    result: Any
    """The tool's data; None for an error."""

    error: str = ""


@dataclass(slots=True)
class RequestView:
    """The contents of a request."""

    agent: str = ""
    question: str = ""
    calls: list[AnsweredCall] = field(default_factory=list[AnsweredCall])
    """All tool calls, oldest first."""

    first: int = 0
    """Index of the first call for the current question."""

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> RequestView:
        """Read an OpenAI request."""
        view, asked = cls(), dict[str, dict[str, Any]]()
        for message in body["messages"]:
            match message["role"]:
                case "system":
                    found = re.match(r"You are (\w+)", message["content"])
                    view.agent = found[1] if found else ""
                case "user":
                    view.question, view.first = message["content"], len(view.calls)
                case "tool":
                    view.calls.append(_call(asked[message["tool_call_id"]], message["content"]))
                case _:
                    asked |= {
                        call["id"]: call["function"] for call in message.get("tool_calls", ())
                    }
        return view

    def now(self, name: str) -> list[AnsweredCall]:
        """Return the calls of a tool for the current question."""
        return [call for call in self.calls[self.first :] if call.name == name]

    def latest(self, name: str) -> Any:
        """Return the data of a tool's newest successful call, also from earlier questions."""
        return next(
            (c.result for c in reversed(self.calls) if c.name == name and not c.error), None
        )

    def says(self, *words: str) -> bool:
        """Return whether the question contains any of these words."""
        return re.search(rf"\b({'|'.join(words)})", self.question, re.IGNORECASE) is not None


def _call(function: Mapping[str, Any], content: str) -> AnsweredCall:
    result = json.loads(content)
    arguments = json.loads(function["arguments"])
    if "error" in result:
        return AnsweredCall(function["name"], arguments, None, result["error"]["message"])
    return AnsweredCall(function["name"], arguments, result["data"])


def scripted_model(request: ReceivedRequest) -> Reply:
    """Return the reply to a request."""
    view = RequestView.of(request.body)
    return _ANSWERS[view.agent](view)


def _triage(view: RequestView) -> Reply:
    customer = _customer_id(view)
    if customer is None:
        email = re.search(r"[\w.+-]+@[\w-]+\.[\w.]+\w", view.question)
        failed = [call.error for call in view.now("find_customer")]
        if failed:
            return text(f"I am sorry: {failed[-1]} Did you book with another one?")
        if email is None:
            return text("Welcome to Wayfarer Lane! Which e-mail address did you book with?")
        return tool_call("find_customer", {"email": email[0]})
    desk = "bookings"
    if view.says("person", "human", "colleague", "wheelchair"):
        desk = "handoff"
    elif view.says("charge", "invoice", "refund", "paid", "fee", "money"):
        desk = "billing"
    reason = f"The customer asks: {view.question}"
    return tool_call("hand_over", {"desk": desk, "customer_id": customer, "reason": reason})


def _customer_id(view: RequestView) -> str | None:
    """Find the customer in triage's calls."""
    known = view.latest("find_customer")
    if known is not None:
        return known["id"]
    handed = [call for call in view.calls if call.name == "hand_over" and not call.error]
    return handed[-1].arguments["customer_id"] if handed else None


def _billing(view: RequestView) -> Reply:
    if view.says("twice", "double"):
        return _double_charge(view)
    before = view.latest("refund_payment")
    if not view.now("list_invoices"):
        calls: list[tuple[str, Mapping[str, Any]]] = [("list_invoices", {})]
        paid = [call.arguments for call in view.calls if call.name == "list_payments"]
        if before is not None and paid:
            calls.append(("list_payments", paid[-1]))
        return tool_calls(*calls)
    invoices = view.latest("list_invoices")
    open_ones = [i for i in invoices if i["paid"] != i["amount"]]
    lines = [f"{i['amount']} for “{i['purpose']}” (invoice {i['invoice']})" for i in open_ones]
    answer = f"Still to pay: {'; '.join(lines)}." if lines else "All your invoices are paid."
    payments: list[dict[str, Any]] = view.latest("list_payments") or []
    refunded = [payment for payment in payments if payment["refund"]]
    if refunded:
        payment = refunded[-1]
        answer += (
            f" And yes, your refund {payment['refund']} of {payment['amount']} is on its way; "
            "banks take up to three days."
        )
    return text(answer)


def _double_charge(view: RequestView) -> Reply:
    if not view.now("list_invoices"):
        return tool_call("list_invoices")
    suspects = [i for i in view.latest("list_invoices") if _euros(i["paid"]) > _euros(i["amount"])]
    if not suspects:
        return text("I checked all your invoices: each was paid exactly once.")
    invoice = suspects[0]
    if not view.now("list_payments"):
        return tool_call("list_payments", {"invoice_id": invoice["invoice"]})
    payments = [p for p in view.latest("list_payments") if p["refund"] is None]
    if not view.now("refund_payment"):
        return tool_call("refund_payment", {"payment_id": payments[-1]["payment"]})
    refund = view.latest("refund_payment")
    dates = sorted({_day(p["paid_on"]) for p in payments})
    return text(
        f"You are right, and I am sorry: invoice {invoice['invoice']} of {invoice['amount']} was "
        f"paid twice on {' and '.join(dates)}. I have refunded the second payment; your "
        f"reference is {refund['refund']}."
    )


def _euros(amount: str) -> float:
    return float(amount.removeprefix("€"))


def _bookings(view: RequestView) -> Reply:
    if view.says("booking number", "my booking"):
        changed = view.latest("change_booking")
        if changed is not None:
            return text(
                f"Welcome back! Your booking number is {changed['booking']}. The "
                f"{changed['line'].lower()} to {changed['destination']} leaves "
                f"{changed['origin']} on {_moment(changed['leaves'])}."
            )
    if view.says("later", "earlier", "instead"):
        return _change(view)
    number = re.search(r"WL-\d+", view.question)
    if view.says("cancel") and number:
        done = view.now("cancel_booking")
        if not done:
            return tool_call("cancel_booking", {"booking": number[0]})
        return text(done[-1].error or f"Your booking {number[0]} is cancelled.")
    if not view.now("find_bookings"):
        return tool_call("find_bookings")
    return text(f"You have booked: {_list(view.latest('find_bookings'))}.")


def _change(view: RequestView) -> Reply:
    if not view.now("find_bookings"):
        # The train is known from the first question, so both can be looked up at once.
        trip = {"origin": "Hamburg", "destination": "Stockholm"}
        days = {"first_day": "2030-09-13", "last_day": "2030-09-20"}
        return tool_calls(("find_bookings", {}), ("find_departures", {**trip, **days}))
    train, *others = view.latest("find_bookings")
    attempts = view.now("change_booking")
    left = view.latest("find_departures")[len(attempts) :]
    if not attempts or (attempts[-1].error and left):
        arguments = {"booking": train["booking"], "departure": left[0]["departure"]}
        return tool_call("change_booking", arguments)
    if attempts[-1].error:
        return text(f"I am sorry, there is no berth left for you: {attempts[-1].error}")
    done = attempts[-1].result
    missed = f"I tried the next night first: {attempts[0].error} So I" if attempts[0].error else "I"
    answer = (
        f"{missed} moved {done['booking']} to {_moment(done['leaves'])}; you arrive in "
        f"{done['destination']} on {_moment(done['arrives'])}."
    )
    if others:
        gap = datetime.fromisoformat(others[0]["leaves"]) - datetime.fromisoformat(done["arrives"])
        hours = gap / timedelta(hours=1)
        answer += (
            f" Your {others[0]['line'].lower()} {others[0]['booking']} leaves "
            f"{hours:.0f} hours later, so you will catch it."
        )
    return text(answer)


def _handoff(view: RequestView) -> Reply:
    done = view.now("create_ticket")
    if not done:
        details = f"In the customer's words: {view.question}"
        subject = "Ramp for a wheelchair" if view.says("ramp", "wheelchair") else "Other request"
        ticket = {"subject": subject, "details": details, "priority": "high"}
        return tool_call("create_ticket", ticket)
    ticket = done[-1].result
    return text(
        f"Of course. I have left ticket {ticket['ticket']} with {ticket['priority']} priority for "
        f"our colleagues at the station desk. One of them will write to you within "
        f"{ticket['answer_within']}. Have a wonderful journey!"
    )


_ANSWERS: dict[str, Callable[[RequestView], Reply]] = {
    "triage": _triage,
    "billing": _billing,
    "bookings": _bookings,
    "handoff": _handoff,
}


def _list(bookings: list[dict[str, Any]]) -> str:
    return "; ".join(
        f"{b['booking']}, {b['line'].lower()} {b['origin']} to {b['destination']}, "
        f"{_moment(b['leaves'])}{' (cancelled)' if b['status'] == 'cancelled' else ''}"
        for b in bookings
    )


def _day(written: str) -> str:
    day = datetime.fromisoformat(written)
    return f"{day.day} {day:%B}"


def _moment(written: str) -> str:
    time = datetime.fromisoformat(written)
    return f"{time:%A} {_day(written)} at {time:%H:%M}"
