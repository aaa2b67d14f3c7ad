"""A scripted model, so that the page can be tried without a key; it knows little."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import httpx

from agentkit_py import openai
from agentkit_py.models import Model
from agentkit_py.testing import (
    FakeProvider,
    PacedTransport,
    ReceivedRequest,
    error,
    text,
    tool_call,
)

POLICY = (
    "You may send everything back within thirty days, whatever the reason. Put it into its box, or "
    "into any other, and bring it to a post office; the label is in your account. As soon as the "
    "parcel is with us we look at what is in it, and pay the money back the way it came. That "
    "takes three days at most, and a week before Christmas. Lamps that were wired up are no "
    "trouble; bulbs that were broken on the way are replaced, so please send us a picture. What "
    "you paid for the postage is yours again, too, if all of an order comes back."
)


def offline_model(pause: float = 0.03) -> Model:
    """Return a model that answers in this process.

    There are ``pause`` seconds between two words; who asks it to wait gets 20 words and no more.
    """

    def seconds(request: httpx.Request, word: int) -> float:
        messages: list[dict[str, Any]] = json.loads(request.content)["messages"]
        asked = next(m["content"] for m in reversed(messages) if m["role"] == "user")
        return 3600 if "wait" in asked and word > 20 else pause

    fake = FakeProvider(_answer)
    model = openai("offline", api_key="sk-offline")
    return replace(model, transport=PacedTransport(fake.transport, seconds))


def _answer(request: ReceivedRequest) -> Any:
    messages: list[dict[str, Any]] = request.body["messages"]
    asked = max(n for n, message in enumerate(messages) if message["role"] == "user")
    results = [_parsed(m["content"]) for m in messages[asked:] if m["role"] == "tool"]
    question: str = messages[asked]["content"]
    if "fail" in question:
        return error(400, "The scripted model fails when it is asked to.")
    if messages[0]["content"].startswith("You are triage"):
        return _of_triage(question)
    return _of_orders(question, results)


def _parsed(content: str) -> Any:
    return json.loads(content) if content.startswith("{") else content


def _of_triage(question: str) -> Any:
    if "person" not in question:
        return tool_call("hand_over", {"desk": "orders"})
    reason = {"reason": "The customer wants to talk to a person."}
    words = "I have asked a colleague to join us. You can go on writing meanwhile."
    return {"text": words, "tool_calls": [{"name": "ask_person", "arguments": reason}]}


def _of_orders(question: str, results: list[dict[str, Any]]) -> Any:
    found = re.search(r"\b[A-Z]\d\b", question)
    if found is None:
        if "/files/" in question:
            return text("Thank you for the picture. Which order is it about?")
        return text(POLICY if "policy" in question else "Hello! Which order is it about?")
    if not results:
        return tool_call("find_order", {"order": found[0]})
    if "error" in results[0]:
        return text(f"I am sorry, I cannot find an order {found[0]}.")
    order = results[0]["data"]
    action = _action(question, order)
    if action is None:
        return text(_described(order))
    if len(results) == 1:
        return tool_call(*action)
    if "error" in results[1]:
        return text("I am sorry, this was decided against.")
    if action[0] == "cancel_order":
        return text(f"Order {order['order']} is cancelled.")
    return text(f"Done: **{order['paid']} €** for {order['item']} are on their way to you.")


def _action(question: str, order: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
    if "cancel" in question:
        return "cancel_order", {"order": order["order"]}
    if "back" in question:
        return "refund", {"order": order["order"], "amount": order["paid"]}
    return None


def _described(order: dict[str, Any]) -> str:
    picture = order["item"].rpartition(" ")[2]
    return (
        f"Your order **{order['order']}** is under way:\n\n"
        f"- {order['item']}, {order['paid']} €\n- sent on {order['sent']}\n\n"
        f"![{order['item']}](/pictures/{picture}.svg)\n\n"
        "It should be with you within three days."
    )
