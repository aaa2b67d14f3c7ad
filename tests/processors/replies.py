"""Models that answer in this process, and what they were asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

from agentkit_py import openai
from agentkit_py.errors import ProviderUnavailableError
from agentkit_py.models import Model, RetryPolicy

Answer: TypeAlias = Callable[[dict[str, Any]], str]


class Answers:
    """Answers requests, and remembers them.

    Attributes:
        bodies: The requests' JSON bodies, in order.
        begun: Set when the first request is there.
        held: Whoever asks waits until this is set, if there is one.
    """

    def __init__(self, answer: str | Answer = "Yes.") -> None:
        self.bodies: list[dict[str, Any]] = []
        self.answer: str | Answer = answer
        self.begun = asyncio.Event()
        self.held: asyncio.Event | None = None

    async def __call__(self, body: dict[str, Any]) -> object:
        self.bodies.append(body)
        self.begun.set()
        if self.held is not None:
            await self.held.wait()
        text = self.answer if isinstance(self.answer, str) else self.answer(body)
        message = {"role": "assistant", "content": text}
        usage = {"prompt_tokens": 10, "completion_tokens": 5}
        return {"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage}

    @property
    def model(self) -> Model:
        """The model that is answered so."""
        made = openai("gpt-4o", api_key="sk-test", retry=RetryPolicy(attempts=1))
        return replace(made, answers=self)

    @property
    def asked(self) -> int:
        """The number of requests."""
        return len(self.bodies)

    def texts(self, request: int = -1) -> list[str]:
        """The texts of one request's messages."""
        return [message["content"] for message in self.bodies[request]["messages"]]


def down(_body: dict[str, Any]) -> str:
    """A model that cannot be had."""
    raise ProviderUnavailableError("overloaded", provider="openai", model="gpt-4o", status=503)
