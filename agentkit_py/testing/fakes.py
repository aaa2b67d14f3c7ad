"""Fakes for tests of runs: a model with scripted replies, an embedder, and a log of events."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import fields
from hashlib import blake2b
from typing import Any, Literal, TypeAlias, TypeVar, cast

from agentkit_py._core.awaiting import resolve
from agentkit_py._core.json import dumps
from agentkit_py._core.validation import wrong_word
from agentkit_py.errors import ConfigurationError, ScriptError
from agentkit_py.events.types import Event
from agentkit_py.messages import Message, ReasoningMessage, TextMessage, ToolCallMessage
from agentkit_py.models import anthropic, azure_openai, gemini, grok, openai, openai_responses
from agentkit_py.models.base import Model, RetryPolicy
from agentkit_py.testing.provider import (
    ErrorReply,
    FakeProvider,
    Raw,
    ReceivedRequest,
    Reply,
    check_reply,
)

Provider: TypeAlias = Literal[
    "openai", "openai_responses", "azure_openai", "anthropic", "gemini", "grok"
]

ScriptedReply: TypeAlias = Reply | Message | Sequence[Message]
"""A text, `tool_call(…)`, exact provider JSON (`Raw`), a message, or the messages of a reply."""

ReplyFunction: TypeAlias = Callable[[ReceivedRequest], ScriptedReply | Awaitable[ScriptedReply]]
"""Returns the reply to a request: ``lambda request: request.body["messages"][-1]["content"]``."""

_FACTORIES: dict[Provider, tuple[Callable[..., Model], str]] = {
    "openai": (openai, "gpt-4o"),
    "openai_responses": (openai_responses, "gpt-5"),
    "azure_openai": (azure_openai, "gpt-4o"),
    "anthropic": (anthropic, "claude-sonnet-4-5"),
    "gemini": (gemini, "gemini-2.5-flash"),
    "grok": (grok, "grok-4"),
}


def model_of(provider: Provider, *, url: str | None = None, **options: Any) -> Model:
    """Return a model that speaks this provider's format, tried once: a fake is never down.

    Args:
        provider: Whose wire format is spoken.
        url: Where the provider is, if not at its own address.
        options: For the model's factory, e.g. ``model="gpt-5"`` or ``timeout=1``.
    """
    wrong = wrong_word("provider", provider, tuple(_FACTORIES))
    if wrong:
        raise ConfigurationError(wrong)
    factory, name = _FACTORIES[provider]
    given: dict[str, Any] = {"api_key": "sk-test", "retry": RetryPolicy(attempts=1), **options}
    if provider == "azure_openai":
        given["endpoint"] = url or "https://scripted.openai.azure.com"
    elif url is not None:
        given["base_url"] = url
    return factory(given.pop("model", name), **given)


class ScriptedModel(Model):
    """A model for tests: replies in order, in the wire format of the provider you name.

    Its requests are built and checked like real requests. Requests that the real provider would
    refuse get its 400 (`BadRequestError` in the run), and `rejections` has the broken rules.

    Example:
        ::

            model = ScriptedModel(tool_call("get_weather", {"city": "Paris"}), "It is sunny.")
            agent = Agent(name="weather", system="…", tools=[get_weather], model=model)
            result = await agent.run("Weather in Paris?", max_iter=2)
            model.assert_finished()
    """

    fake: FakeProvider

    def __init__(
        self,
        *replies: ScriptedReply | ReplyFunction,
        provider: Provider = "openai",
        strict: bool = True,
        **options: Any,
    ) -> None:
        """Write the script.

        Args:
            replies: The replies, in order; or a function, sync or async, that gets each request
                and returns its reply.
            provider: Whose wire format is spoken.
            strict: Whether bad requests are refused.
            options: For the model's factory, e.g. ``model="gpt-5"`` or ``timeout=1``.

        Raises:
            ConfigurationError: A reply is none.
        """
        fake = FakeProvider(_source(replies), strict=strict)
        made = model_of(provider, **options)
        for item in fields(Model):
            object.__setattr__(self, item.name, getattr(made, item.name))
        object.__setattr__(self, "transport", fake.transport)
        object.__setattr__(self, "fake", fake)

    @property
    def requests(self) -> list[ReceivedRequest]:
        """Every request, refused ones included."""
        return self.fake.requests

    @property
    def bodies(self) -> list[Any]:
        """The requests' JSON bodies."""
        return [request.body for request in self.fake.requests]

    def reply(self, *replies: ScriptedReply) -> None:
        """Add replies at the end of the script.

        Raises:
            ConfigurationError: A reply is none.
        """
        self.fake.reply(*map(rendered_reply, replies))

    def assert_finished(self) -> None:
        """Check that the script was used up, and no request was refused or left without reply.

        Raises:
            ScriptError: It was otherwise.
        """
        if self.fake.rejections:
            raise ScriptError(f"Requests were refused: {self.fake.rejections}")
        if self.fake.exhausted:
            raise ScriptError("The model was asked more often than the script has replies")
        if self.fake.remaining:
            raise ScriptError(f"{self.fake.remaining} scripted replies were not asked for")

    def assert_saw(self, *texts: str, request: int = -1) -> None:
        """Check that a request holds these texts, in this order.

        Args:
            texts: The texts to find.
            request: Which request, 0 the first, -1 the last.

        Raises:
            ScriptError: A text is missing, or comes before the previous text.
        """
        body = self._body_text(request)
        at = 0
        for text in texts:
            found = body.find(text, at)
            if found < 0:
                where = "after the text before it " if at else ""
                raise ScriptError(
                    f"Request {request} does not hold {text!r} {where}: {body[:2000]}"
                )
            at = found + len(text)

    def assert_not_saw(self, *texts: str, request: int = -1) -> None:
        """Check that a request holds none of these texts.

        Raises:
            ScriptError: It contains a forbidden text.
        """
        body = self._body_text(request)
        for text in texts:
            if text in body:
                raise ScriptError(f"Request {request} holds {text!r}: {body[:2000]}")

    def _body_text(self, request: int) -> str:
        try:
            return dumps(self.bodies[request])
        except IndexError:
            raise ScriptError(
                f"Request {request} does not exist; the model got {len(self.bodies)}"
            ) from None


def _source(
    replies: Sequence[ScriptedReply | ReplyFunction],
) -> Sequence[Reply] | Callable[[ReceivedRequest], Awaitable[Reply]]:
    functions = [one for one in replies if callable(one)]
    if not functions:
        return [rendered_reply(cast("ScriptedReply", reply)) for reply in replies]
    function = functions[0]
    if len(replies) > 1:
        raise ConfigurationError(
            f"ScriptedModel takes replies, or a single function of the request; got {function!r} "
            f"among {len(replies)}"
        )

    async def ask(request: ReceivedRequest) -> Reply:
        return rendered_reply(await resolve(function(request)))

    return ask


def rendered_reply(reply: ScriptedReply) -> Reply:
    """Return a scripted reply as `FakeProvider` takes it.

    Raises:
        ConfigurationError: It is none.
    """
    found = _rendered(reply)
    if isinstance(found, Raw | ErrorReply):
        return found
    given: object = found
    problem = "a reply is a text, tool_call(…), a message, a list of messages, Raw(…) or error(…)"
    if isinstance(given, str | Mapping):
        try:
            check_reply(found)
        except ValueError as error:
            problem = str(error)
        except (AttributeError, KeyError, TypeError):
            problem = 'its calls are {"name": …, "arguments": {…}}, as tool_call(…) makes them'
        else:
            return found
    raise ConfigurationError(f"ScriptedModel cannot reply with {given!r:.120}: {problem}")


def _rendered(reply: ScriptedReply) -> Reply:
    if isinstance(reply, TextMessage | ToolCallMessage | ReasoningMessage):
        return _of_messages([reply])
    if isinstance(reply, list | tuple):
        return _of_messages(reply)
    return reply  # type: ignore[return-value] - what is left are replies


def _of_messages(messages: Sequence[Message]) -> Reply:
    found: dict[str, Any] = {}
    for message in messages:
        match message:
            case TextMessage():
                found["text"] = found.get("text", "") + message.text
            case ToolCallMessage(tools=tools):
                calls = [{"id": c.id, "name": c.name, "arguments": c.arguments} for c in tools]
                found["tool_calls"] = [*found.get("tool_calls", []), *calls]
            case ReasoningMessage(content=content):
                found["reasoning"] = content
            case _:
                raise ConfigurationError(
                    f"ScriptedModel cannot reply with {message!r:.120}: "
                    "a model says texts, calls and reasoning"
                )
    return found


_WORDS = re.compile(r"\w+")


class HashingEmbedder:
    """Embeds texts by their words: those with words in common are alike.

    Attributes:
        texts: Every text that it was given, in order.
    """

    def __init__(self, dimensions: int = 256) -> None:
        """Choose the length of vectors."""
        self.dimensions = dimensions
        self.texts: list[str] = []

    @property
    def key(self) -> str:
        """The embedder's name, with the length of its vectors."""
        return f"hashing:{self.dimensions}"

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return a vector for each text."""
        self.texts.extend(texts)
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> list[float]:
        vector = [0.0] * self.dimensions
        for word in _WORDS.findall(text.lower()):
            digest = blake2b(word.encode("utf-8", "replace"), digest_size=8).digest()
            place = int.from_bytes(digest[:4], "big") % self.dimensions
            vector[place] += 1.0 if digest[4] & 1 else -1.0
        return vector


E = TypeVar("E")


class EventLog:
    """Records the events of runs: pass it as ``observer=``.

    Attributes:
        events: All events, in order.
    """

    def __init__(self) -> None:
        """Start without events."""
        self.events: list[Event] = []

    def __call__(self, event: Event) -> None:
        """Record ``event``."""
        self.events.append(event)

    def of(self, kind: type[E]) -> list[E]:
        """Return the events of a kind, in order."""
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def story(self) -> list[str]:
        """The events, a line each: ``"RunStarted network support"``."""
        return [
            " ".join(filter(None, (type(one).__name__, getattr(one, "scope", None), one.name)))
            for one in self.events
        ]
