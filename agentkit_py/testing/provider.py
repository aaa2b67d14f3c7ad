"""A provider to test against: it answers from a script and refuses what real providers refuse.

```python
with FakeProvider([tool_call("search", {"q": "refund"}), "Done."]) as provider:
    model = openai("gpt-4.1", api_key="sk-test", base_url=provider.base_url("openai"))
    ...
assert not provider.rejections
```

It speaks OpenAI chat completions and Responses, Azure OpenAI, Anthropic Messages, Gemini
generateContent, Grok and the chat of compatible hosts, streamed or not, over HTTP on loopback or as
an httpx transport. A request that the real provider would refuse gets that provider's 400; each
rule of `provider_rules` names its source. Values that the fake does not know get a 400 in its own
words, and `Rejection.unknown` says so.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import cast

from ._provider.endpoints import PREFIXES
from ._provider.handler import RequestHandler
from ._provider.replies import ReplyContent
from ._provider.rules import Rule, provider_rules
from ._provider.transport import FakeTransport, LoopbackServer
from ._provider.types import (
    ErrorReply,
    ProviderName,
    Raw,
    ReceivedRequest,
    Rejection,
    Reply,
    ReplySource,
    Signing,
    error,
    text,
    tool_call,
    tool_calls,
)

__all__ = [
    "ErrorReply",
    "FakeProvider",
    "ProviderName",
    "Raw",
    "ReceivedRequest",
    "Rejection",
    "Reply",
    "Rule",
    "Signing",
    "error",
    "provider_rules",
    "text",
    "tool_call",
    "tool_calls",
]

# Without a listener; the reserved name makes a forgotten start() easy to see.
_NOT_STARTED = "http://fake-provider.invalid"


class FakeProvider:
    """An OpenAI, Azure OpenAI, Anthropic, Gemini and Grok that runs in the test.

    Use it as an httpx transport (`httpx.AsyncClient(transport=provider.transport)`), where any host
    is accepted and the real providers' hosts are recognised, or over HTTP: `with provider:`.

    Attributes:
        transport: The provider as a transport for `httpx.AsyncClient` and `httpx.Client`.
    """

    def __init__(
        self,
        replies: Iterable[Reply] | Callable[[ReceivedRequest], object] = (),
        *,
        strict: bool = True,
        api_keys: Mapping[str, str] | None = None,
        extra_rules: Iterable[str] = (),
        signing: Signing | None = None,
    ) -> None:
        """Prepare the script.

        Args:
            replies: The replies in order, or a callable (sync or async) that gets each accepted
                request and returns its reply. A reply is a text, a dict `{"text", "tool_calls",
                "usage", "reasoning", "finish"}`, a `Raw` or an `ErrorReply`. A list of texts as
                reasoning goes between the parts of the reply: before the text, then each call.
            strict: Whether requests that break a provider's rules are refused. Keys are checked in
                any case.
            api_keys: The right key by provider name; others get a 401. Without it any key will do.
            extra_rules: Ids of rules that are off by default, such as
                `anthropic.tool_blocks_without_tools` (Bedrock has it, Anthropic's own API had it).
            signing: How reasoning that comes back is checked; see `Signing`.
        """
        source = cast("ReplySource", replies) if callable(replies) else None
        script: Iterable[Reply] = () if callable(replies) else _script(replies)
        self._handler = RequestHandler(
            strict=strict,
            api_keys=dict(api_keys or {}),
            queue=deque(script),
            source=source,
            extra_rules=_known_rules(extra_rules),
            signing=signing or Signing(),
        )
        self._server: LoopbackServer | None = None
        self.transport: FakeTransport = FakeTransport(self._handler)

    @property
    def signing(self) -> Signing:
        """The settings for checking reasoning that comes back."""
        return self._handler.signing

    @property
    def requests(self) -> list[ReceivedRequest]:
        """Every request, refused ones included."""
        return self._handler.requests

    @property
    def rejections(self) -> list[Rejection]:
        """The reasons of refusals, in order."""
        return [seen.rejection for seen in self.requests if seen.rejection is not None]

    @property
    def exhausted(self) -> bool:
        """True once a request came for which the script had no reply left."""
        return self._handler.exhausted

    @property
    def remaining(self) -> int:
        """Number of scripted replies that have not been given yet."""
        return len(self._handler.queue)

    @property
    def url(self) -> str:
        """The root URL, `http://127.0.0.1:PORT` once started."""
        return f"http://127.0.0.1:{self._server.port}" if self._server else _NOT_STARTED

    def base_url(self, provider: str) -> str:
        """Return the base URL to give to a model of this provider.

        Args:
            provider: `openai`, `openai_responses`, `azure_openai` (or `azure`), `anthropic`,
                `gemini`, `grok`, or `compatible` (other hosts with OpenAI's chat completions).
        """
        name = "azure_openai" if provider == "azure" else provider
        if name not in PREFIXES:
            raise ValueError(f"Unknown provider {provider!r}; known are {', '.join(PREFIXES)}.")
        return self.url + PREFIXES[name]

    def reply(self, *replies: Reply) -> None:
        """Add replies at the end of the script; they come before a callable's."""
        self._handler.queue.extend(replies)

    def start(self) -> FakeProvider:
        """Serve HTTP on loopback, in a background thread; returns itself."""
        if self._server is None:
            self._server = LoopbackServer(self._handler)
            self._server.start()
        return self

    def stop(self) -> None:
        """Stop serving; the record of requests stays."""
        if self._server is not None:
            self._server.stop()
            self._server = None

    def __enter__(self) -> FakeProvider:
        """Start serving."""
        return self.start()

    def __exit__(self, *_: object) -> None:
        """Stop serving."""
        self.stop()

    async def __aenter__(self) -> FakeProvider:
        """Start serving."""
        return self.start()

    async def __aexit__(self, *_: object) -> None:
        """Stop serving."""
        self.stop()


def _script(replies: Iterable[Reply]) -> Iterable[Reply]:
    if isinstance(replies, str | Mapping):
        raise TypeError("replies is a list of replies; put a single reply in a list.")
    return replies


def check_reply(reply: Reply) -> None:
    """Check a scripted reply.

    Raises:
        ValueError: It has unknown keys, or an unknown finish.
    """
    if isinstance(reply, str | Mapping):
        ReplyContent.of(reply)


def _known_rules(ids: Iterable[str]) -> tuple[str, ...]:
    wanted = tuple(ids)
    known = {rule_id for found in provider_rules() if found.optional for rule_id in found.ids}
    unknown = sorted(set(wanted) - known)
    if unknown:
        raise ValueError(f"No optional rules {unknown}; there are {sorted(known)}.")
    return wanted
