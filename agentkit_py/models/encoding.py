"""Encoding conversations: the shared base of the request bodies of all wire formats.

Names, texts, arguments, images and files come out of here in a form that every provider accepts.
How a conversation is written as it grows is `agentkit_py.models.writer`.
"""

from __future__ import annotations

import base64
import json
import logging
import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple, TypeAlias, assert_never

from agentkit_py._core.json import JsonValue, as_list, as_object, copied, dumps
from agentkit_py._core.untrusted import get_logger
from agentkit_py._core.urls import ALLOWED_HOSTS, private_address
from agentkit_py.errors import ConfigurationError
from agentkit_py.messages import (
    ContentPart,
    FileContent,
    ImageContent,
    MediaContent,
    Message,
    ReasoningMessage,
    TextContent,
    TextMessage,
    ToolCall,
)
from agentkit_py.models.base import HostedTool, Model, ModelOptions, ModelRequest, ToolSpec
from agentkit_py.models.capabilities import Capabilities
from agentkit_py.models.replies import parse_call

logger: logging.Logger = get_logger("agentkit_py")

EMPTY_TURN = "Continue."
"""The user's turn where chat completions would be asked with no message at all."""

OPENING_TURN = "(The conversation begins here.)"
"""The user's turn where a conversation is empty, and where it begins with an assistant."""

AUTHOR_TURN = "(The last message is from agent {agent}.) Continue."
"""The user's turn between the closing text of an agent and the next reply, of any agent."""

NO_ANSWER = "(No answer followed.)"
"""An assistant's turn between results and a user, for hosts that refuse them in sequence."""

CLOSING_TURN = "Continue."
"""The user's turn after a closing text whose author is not known."""

PREFILL = "Begin each of your replies with exactly this text, and continue from there:\n\n{text}"
"""Ends the system prompt in place of a prefill, for models that refuse to continue a turn."""

CALL_A_TOOL = "Answer by calling one of your tools, not with text."
"""Ends the system prompt where a tool must be called and the model cannot be made to."""

CALL_THE_TOOL = "Answer by calling the tool {name}, not with text."
"""The instruction to call a certain tool."""

MALFORMED_KEY = "malformed_arguments"
"""Under this name a model gets back arguments that were no JSON, where an object is due."""

VALUE_KEY = "value"
"""Under this name arguments that are JSON but no object go back where an object is due."""

Encoded: TypeAlias = dict[str, Any]

_MAX_NAME = 64
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")


class ToolExchange(NamedTuple):
    """A tool call and its result."""

    call: ToolCall
    id: str
    """The call's id, unique within the request."""

    output: str
    """The result as text: strings as they are, all else as JSON, images and files in words."""

    parts: tuple[ContentPart, ...] = ()
    """The result as content parts, if there is an image or a file in it."""

    is_error: bool = False
    """True if the result says that the call failed."""

    agent: str | None = None
    """The agent that called; None: not known."""

    blocks: tuple[JsonValue, ...] = ()
    """The result's items, if there is a block among them that Claude knows in results."""

    @property
    def words_beside(self) -> str:
        """The result's texts, without words for the images and files that are shown with them."""
        return encodable("\n".join(p.text for p in self.parts if isinstance(p, TextContent)))

    @property
    def name(self) -> str:
        """The tool's name; history may hold names that providers refuse."""
        name = self.call.name
        if _NAME.fullmatch(name):
            return name
        cleaned = _NOT_IN_NAMES.sub("_", name)[:_MAX_NAME]
        return cleaned if _NAME.fullmatch(cleaned) else f"_{cleaned}"[:_MAX_NAME]

    @property
    def arguments(self) -> str:
        """The arguments as JSON text, always valid JSON."""
        malformed = self.call.malformed
        return encodable(
            dumps(self.call.arguments if malformed is None else {MALFORMED_KEY: malformed})
        )

    def is_call(self, name: object, arguments: object) -> bool:
        """Return whether a block with this name and these arguments is the same as the call.

        Arguments that are no JSON never do, nor do refused names: no provider takes them back.
        """
        said, call = parse_call("", str(name), arguments), self.call
        readable = said.malformed is None and call.malformed is None
        same_name = said.name == call.name == self.name
        same = said.arguments == call.arguments or said.arguments == wired(call.arguments)
        return readable and same_name and same

    @property
    def input(self) -> dict[str, Any]:
        """The arguments as a new object, for providers that take nothing but objects."""
        text = self.arguments
        given: object = json.loads(text)
        if "\\ud" in text:  # as JSON writes half of a surrogate pair
            given = wired(given)
        found = as_object(given)
        return {VALUE_KEY: given} if found is None else found


def encodable(text: str) -> str:
    """Return ``text`` without lone surrogates, which UTF-8 has no form for and providers refuse."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def wired(value: Any) -> Any:
    """Return a copy of JSON that goes back as it came, its names and texts `encodable`."""
    if isinstance(value, str):
        return encodable(value)
    fields, items = as_object(value), as_list(value)
    if fields is not None:
        return {encodable(name): wired(one) for name, one in fields.items()}
    return value if items is None else [wired(one) for one in items]


def cache_key(model: Model, request: ModelRequest) -> str:
    """Return the key under which OpenAI and xAI cache a thread's requests; empty: none is sent."""
    wanted = model.prompt_cache and model.takes.cache_key
    return request.cache_key or "" if wanted else ""


def texts(message: TextMessage) -> list[str]:
    """Return the message's texts that hold more than white space; images and files in words."""
    content = message.content
    if isinstance(content, str):
        return [encodable(content)] if content.strip() else []
    pieces = [p.text if isinstance(p, TextContent) else words_for(p) for p in content]
    return [encodable(piece) for piece in pieces if piece.strip()]


def closing_turn(author: str | None) -> str:
    """Return the user's turn between an assistant's closing text and another reply.

    Anthropic and Gemini take a conversation that ends with an assistant for a reply to continue,
    or refuse it. The turn names the last author, for every reader, and stays in its place when the
    conversation continues (see `blocks.turn_mark`): a message keeps its form on the wire for ever.
    """
    return CLOSING_TURN if author is None else AUTHOR_TURN.format(agent=encodable(author))


def ends_with_assistant(request: ModelRequest) -> bool:
    """Return whether the last word of the conversation may be an assistant's."""
    for message in reversed(split_prefill(request)[0]):
        if message.role == "assistant" and not isinstance(message, ReasoningMessage):
            return True  # blanks, too: Gemini's own go back as they came
        if message.role != "system" and not _is_unsent(message):
            return False
    return False


def _is_unsent(message: Message) -> bool:
    """Return whether a message may leave no turn: reasoning, or a text of white space alone."""
    if isinstance(message, ReasoningMessage):
        return True
    return isinstance(message, TextMessage) and not texts(message) and not has_media(message)


def role_message(text: str, added: Iterable[str], removed: Iterable[str]) -> TextMessage:
    """Return a system message between other messages, where another agent begins to speak.

    From there on the ``added`` tools may be called, and the ``removed`` ones may not.
    """
    changes = {"added": sorted(added), "removed": sorted(removed)}
    return TextMessage("system", text, provider_metadata={"role": changes})


def tool_changes(message: Message) -> tuple[Sequence[str], Sequence[str]] | None:
    """Return the tools that a `role_message` adds and removes; None: it is another message."""
    changes = as_object((message.provider_metadata or {}).get("role"))
    if changes is None or message.role != "system":
        return None
    added, removed = (as_list(changes.get(name)) or [] for name in ("added", "removed"))
    return [str(name) for name in added], [str(name) for name in removed]


def split_prefill(request: ModelRequest) -> tuple[Sequence[Message], str]:
    """Return the conversation, and the text with which the agent wants its answer to begin."""
    if request.prefill <= 0:
        return request.messages, ""
    prefill = [
        piece
        for message in request.messages[-request.prefill :]
        if isinstance(message, TextMessage)
        for piece in texts(message)
    ]
    return request.messages[: -request.prefill], "".join(prefill).rstrip()


_USUAL = frozenset({"temperature", "max_tokens", "top_p", "seed"})
"""Parameters that are known without a look at the table of settings."""


def with_settings(kind: str, settings: object, options: ModelOptions) -> ModelOptions:
    """Return the options with typed settings among the default parameters, which come before them.

    Raises:
        ConfigurationError: A setting is not known, or has a wrong value.
    """
    given = options.get("default_parameters")
    if given is not None and not isinstance(given, Mapping):
        return options  # `make_model` refuses it
    if settings is None and _USUAL.issuperset(given or ()):
        return options
    from agentkit_py.models import settings as known  # noqa: PLC0415 - loads pydantic

    known.warn_of_misspelt(kind, given or {})
    if settings is None:
        return options
    return {
        **options,
        "default_parameters": {**known.checked_settings(kind, settings), **(given or {})},
    }


def warn_of_refused(model: Model, taken: Mapping[str, Any]) -> None:
    """Log which of the user's parameters are not sent as they were given.

    Args:
        model: The model, with the parameters as they were given.
        taken: The parameters as they are sent.
    """
    given = model.default_parameters
    changed = sorted(name for name in given if taken.get(name) != given[name])
    if changed:
        logger.warning(
            "%s refuses these settings as they were given, so they are left out or sent in the "
            "form that it takes: %s.",
            model.model,
            ", ".join(f"{name}={given[name]!r:.80}" for name in changed),
        )


def without_sampling(
    parameters: dict[str, Any], takes: Capabilities, effort: object
) -> dict[str, Any]:
    """Return OpenAI's parameters without those of sampling, which models that reason refuse.

    They take them with the effort ``none``, which is the default of some; from GPT-6.2 on, never.
    """
    effort = takes.default_effort if effort is None else effort
    if takes.sampling or (effort == "none" and not takes.checks_prefix):
        return parameters
    refused = ("temperature", "top_p", "logprobs", "top_logprobs")
    return {name: value for name, value in parameters.items() if name not in refused}


def asks_for_call(request: ModelRequest) -> str:
    """Return the words that ask for a call, for models that cannot be made to; may be empty."""
    if not request.tools or request.tool_choice == "auto":
        return ""
    if request.tool_choice == "any":
        return CALL_A_TOOL
    return CALL_THE_TOOL.format(name=named_choice(request))


def openai_choice(
    request: ModelRequest, takes: Capabilities, typed: Callable[[str, Encoded], Encoded]
) -> object:
    """Return OpenAI's ``tool_choice``; ``typed`` makes its objects, which chat completions nest."""
    allowed = request.allowed_tools
    if allowed is not None and not allowed:
        return "none"
    mode = {"auto": "auto", "any": "required"}.get(request.tool_choice)
    if mode is None:
        name = named_choice(request)
        return _chosen(next(s for s in request.tools if s.name == name), typed)
    if allowed is None or not takes.restricts_tools:
        return mode
    tools = [_chosen(spec, typed) for spec in request.tools if spec.name in allowed]
    return typed("allowed_tools", {"mode": mode, "tools": tools}) if tools else mode


def _chosen(spec: ToolSpec, typed: Callable[[str, Encoded], Encoded]) -> Encoded:
    if spec.provider is None:
        return typed("function", {"name": spec.name})
    kind = str(spec.provider.get("type"))
    names = {"custom": ("name",), "mcp": ("server_label",)}.get(kind, ())
    named = {name: spec.provider.get(name) for name in names}
    return typed(kind, named) if named else {"type": kind}


def named_choice(request: ModelRequest) -> str:
    """Return the name of the tool that must be called.

    Raises:
        ConfigurationError: The agent has no such tool.
    """
    names = [spec.name for spec in request.tools]
    if request.tool_choice not in names:
        raise ConfigurationError(
            f"tool_choice={request.tool_choice!r}: agent {request.agent!r} has no such tool, only "
            f"{', '.join(names)}."
        )
    return request.tool_choice


# Images and files. Only users' messages can carry them; in no wire format
# the system or an assistant may.


def has_media(message: TextMessage) -> bool:
    """Return whether the message holds an image or a file."""
    return not isinstance(message.content, str) and any(
        not isinstance(part, TextContent) for part in message.content
    )


def encoded_parts(
    message: TextMessage,
    text: Callable[[str], Encoded],
    media: Callable[[MediaContent], Encoded | None],
) -> list[Encoded]:
    """Return the parts of a user's message with something in them, in their order.

    What ``media`` has no form for is put in words.
    """
    assert not isinstance(message.content, str)
    return _encoded(message.content, text, media)


def result_content(
    one: ToolExchange,
    text: Callable[[str], Encoded],
    media: Callable[[MediaContent], Encoded | None],
) -> str | list[Encoded]:
    """Return a result as a format takes it that has images and files in results.

    That is its text by default; parts that the format cannot express are described in words.
    """
    return (_encoded(one.parts, text, media) if one.parts else "") or one.output


@cache
def warn_of_words(format_name: str) -> None:
    """Say once that images and files in results are sent to a format as words."""
    logger.warning(
        "An image or a file in a tool's result is named in words only: %s takes text alone there. "
        "Claude, OpenAI's Responses and Gemini 3 take images in results.",
        format_name,
    )


def _encoded(
    parts: Sequence[ContentPart],
    text: Callable[[str], Encoded],
    media: Callable[[MediaContent], Encoded | None],
) -> list[Encoded]:
    found: list[Encoded] = []
    for part in parts:
        if not isinstance(part, TextContent):
            found.append((may_be_sent(part) and media(part)) or text(encodable(words_for(part))))
        elif part.text.strip():
            found.append(text(encodable(part.text)))
    return found


def may_be_sent(part: MediaContent) -> bool:
    """Return False for a URL of a private network: a stranger could read it through the model."""
    known = part.url is None or _STORED.fullmatch(part.url) is not None
    reason = None if known else private_address(part.url or "")
    if reason is not None:
        logger.warning(
            "The URL of an image or file is not sent for the model to fetch, its words are: %s. "
            "Private hosts that may be read go into %s.",
            reason,
            ALLOWED_HOSTS,
        )
    return reason is None


_STORED = re.compile(r"(?P<provider>openai|anthropic|gemini):(?P<id>(?:files/)?[\w-]+)", re.ASCII)


def stored_file(part: MediaContent, provider: str) -> str | None:
    """Return the id of a file that the provider stores, from a URL like ``openai:file-abc``.

    None: the URL is an address, or names another provider's file, which is warned of once.
    """
    found = _STORED.fullmatch(part.url or "")
    if found is None:
        return None
    if found["provider"] == provider:
        return found["id"]
    warn_of_stored(found["provider"], provider)
    return None


def is_stored(part: MediaContent) -> bool:
    """Return whether the part names a file that a provider stores."""
    return _STORED.fullmatch(part.url or "") is not None


@cache
def warn_of_stored(owner: str, asked: str) -> None:
    """Say once that a file by its id is sent as words, as the request's format has none there."""
    logger.warning(
        "A file that %s stores is named in words only, as %s cannot read it there; send its "
        "content (data=…) or an address (url=…) instead.",
        owner,
        asked,
    )


@cache
def warn_of_text_alone(host: str) -> None:
    """Say once that a host takes no media, so that images and files are sent as words."""
    logger.warning(
        "%s takes text alone: an image or a file of a message is named in words only. Send its "
        "text, or use a model of another host.",
        host,
    )


def words_for(part: MediaContent) -> str:
    """Return words for an image or file, where the format or the role has none."""
    where = f" at {part.url}" if part.url else ""
    match part:
        case ImageContent():
            return f"[image{where}]"
        case FileContent():
            return f"[file{f' {part.name}' if part.name else ''}{where}]"
        case _:
            assert_never(part)


def media_type(part: MediaContent) -> str:
    """Return the type of a part's bytes as providers write it: ``image/jpg`` is ``image/jpeg``."""
    kind = (part.media_type or "").partition(";")[0].strip().lower()
    return "image/jpeg" if kind == "image/jpg" else kind


def data_url(part: MediaContent) -> str:
    """Return the part's URL, or its bytes as a data URL."""
    return part.url or f"data:{media_type(part)};base64,{part.data}"


def text_in_file(part: MediaContent) -> str | None:
    """Return the text in a text file's bytes; None: it is none."""
    if part.data is None or not media_type(part).startswith("text/"):
        return None
    try:
        return base64.b64decode(part.data, validate=True).decode()
    except ValueError:
        return None


def is_link_or(part: MediaContent, kinds: Container[str]) -> bool:
    """Return whether the part is a link, or bytes of any of these media types."""
    return part.data is None or media_type(part) in kinds


_NAMED: Mapping[str, Mapping[str, Encoded]] = {
    "anthropic": {
        "web_search": {"type": "web_search_20250305", "name": "web_search"},
        "code_execution": {"type": "code_execution_20250825", "name": "code_execution"},
        "tool_search": {
            "type": "tool_search_tool_regex_20251119",
            "name": "tool_search_tool_regex",
        },
    },
    "openai-responses": {
        "web_search": {"type": "web_search"},
        "code_execution": {"type": "code_interpreter", "container": {"type": "auto"}},
        "image_generation": {"type": "image_generation"},
        "tool_search": {"type": "tool_search"},
    },
    "gemini": {
        "web_search": {"googleSearch": {}},
        "code_execution": {"codeExecution": {}},
    },
}


def hosted_tools(model: Model, request: ModelRequest, key: str) -> list[Encoded]:
    """Return the hosted tools of a request as its format writes them.

    Raises:
        ConfigurationError: The format has no such tool, or none at all.
    """
    return [_tool(model, key, one) for one in request.hosted]


def _tool(model: Model, key: str, one: HostedTool) -> Encoded:
    known = _NAMED.get(key)
    if known is None:
        raise ConfigurationError(
            f"hosted_tools={one!r:.80}: {model.provider} model {model.model!r} speaks a format "
            "without hosted tools. Use openai_responses, anthropic or gemini."
        )
    if not isinstance(one, str):
        return dict(copied(dict(one)))
    if one not in known:
        raise ConfigurationError(
            f"hosted_tools={one!r}: {model.provider} has no tool of this name that needs no "
            f"settings, only {', '.join(known)}. Pass the provider's own JSON as a dict."
        )
    return dict(copied(known[one]))
