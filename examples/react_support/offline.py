"""A scripted model, so that the page can be tried without a key; it knows little."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import httpx

from agentkit_py import openai
from agentkit_py.models import Model
from agentkit_py.testing import FakeProvider, PacedTransport, ReceivedRequest, text, tool_call

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
    results = [json.loads(m["content"]) for m in messages[asked:] if m["role"] == "tool"]
    question: str = messages[asked]["content"]
    if messages[0]["content"].startswith("You are triage"):
        return tool_call("hand_over", {"desk": "orders"})
    return _of_orders(question, results)


def _of_orders(question: str, results: list[dict[str, Any]]) -> Any:
    found = re.search(r"\b[A-Z]\d\b", question)
    if found is None:
        return text(POLICY if "policy" in question else "Hello! Which order is it about?")
    if not results:
        return tool_call("find_order", {"order": found[0]})
    if "error" in results[0]:
        return text(f"I am sorry, I cannot find an order {found[0]}.")
    order = results[0]["data"]
    if "back" not in question:
        return text(
            f"Your order {order['order']}, {order['item']}, was sent on {order['sent']} and should "
            "be with you within three days."
        )
    if len(results) == 1:
        return tool_call("refund", {"order": order["order"], "amount": order["paid"]})
    if "error" in results[1]:
        return text("I am sorry, my colleagues decided against paying this back.")
    return text(f"Done: {order['paid']} euros for {order['item']} are on their way to you.")
