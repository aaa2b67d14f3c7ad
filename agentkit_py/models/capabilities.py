"""Tables of the features of hosts and models: change them when a provider's rules change.

A host's row describes its server, for all models; a family's rows list the version from which
its models support a feature. A version that is newer than all rows counts as the newest row.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from ipaddress import ip_address
from typing import Any, Literal, TypeAlias

from agentkit_py._core.untrusted import get_logger

logger: logging.Logger = get_logger("agentkit_py")

IMAGE_TYPES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
"""The kinds of images that OpenAI and Anthropic read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A provider's API: its protocol, and the features of requests to it."""

    provider: str
    """The name of the provider in errors, traces and messages' opaque data."""

    base_url: str = ""
    """The root of its API; empty: each user has their own."""

    key_variable: str
    """The environment variable that holds the API key where none was given."""

    key_header: str = "authorization"
    """The header of the key; in ``authorization`` it is a bearer token."""

    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """Sent with each request."""

    strict_schemas: bool = True
    """It takes strict schemas of tools; of answers, see `Capabilities.structured_output`."""

    grok_schemas: bool = False
    """It takes the JSON Schemas that xAI documents: see `grok_schema`."""

    empty_messages: bool = True
    """It takes messages without text."""

    tool_description: int | None = None
    """The length of a tool's description at the most; longer ones are cut."""

    text_alone: bool = False
    """It takes no images, sound or files, whatever the model."""

    image_types: frozenset[str] = IMAGE_TYPES
    pdf_files: bool = True
    media_links: bool = True
    """It fetches images and files from addresses."""

    key_required: bool = True
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Capabilities that hold for every model there."""


OPENAI = Host(
    provider="openai", base_url="https://api.openai.com/v1", key_variable="OPENAI_API_KEY"
)
OPENAI_RESPONSES = replace(OPENAI, provider="openai-responses")
AZURE_OPENAI = Host(
    provider="azure-openai",
    key_variable="AZURE_OPENAI_API_KEY",
    key_header="api-key",
    tool_description=1024,
)
# "Each message must have at least one content element"; "jpg/jpeg or png".
# Source: https://docs.x.ai/docs/guides/image-understanding
GROK = Host(
    provider="grok",
    base_url="https://api.x.ai/v1",
    key_variable="XAI_API_KEY",
    strict_schemas=False,
    grok_schemas=True,
    empty_messages=False,
    image_types=frozenset({"image/jpeg", "image/png"}),
    pdf_files=False,
)
ANTHROPIC = Host(
    provider="anthropic",
    base_url="https://api.anthropic.com/v1",
    key_variable="ANTHROPIC_API_KEY",
    key_header="x-api-key",
    headers={"anthropic-version": "2023-06-01"},
)
# The key has a header of its own: URLs end up in logs.
GEMINI = Host(
    provider="gemini",
    base_url="https://generativelanguage.googleapis.com/v1beta",
    key_variable="GEMINI_API_KEY",
    key_header="x-goog-api-key",
)


ChatTools: TypeAlias = Literal["taken", "without_effort", "not_reasoning", "refused"]
"""Chat completions' tools: always, without an effort, only with the effort none, or never."""

ALL_THINKING = frozenset({"enabled", "disabled", "adaptive", "between_tools"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """Facts about a model that decide over requests; the defaults are for unknown models."""

    parallel_tool_calls: bool = True
    """OpenAI: takes the parameter of this name."""

    chat_tools: ChatTools = "taken"
    """OpenAI: whether chat completions take tools; the Responses API always does."""

    reasoning_items: bool = False
    """OpenAI's Responses: reasons, gives its reasoning encrypted and takes it back."""

    prefill: bool = False
    """Anthropic: continues an assistant's turn at the end."""

    signed_calls: bool = False
    """Gemini: refuses function calls without a thought signature."""

    forced_choice: bool = True
    """Can be made to call a tool; else the request asks for it in words."""

    thinking_types: frozenset[str] = ALL_THINKING
    """Anthropic: the values of ``thinking.type`` that it takes."""

    sampling: bool = True
    """Takes ``temperature``, ``top_p`` and ``top_k``."""

    default_effort: str | None = None
    """OpenAI: the effort of a request that names none; None: it reasons."""

    system_inside: bool = False
    """Takes system messages between the others, as instructions from there on."""

    restricts_tools: bool = False
    """Takes a restriction of the offered tools that leaves the request's beginning as it is:
    OpenAI's ``allowed_tools``, Claude's ``tool_addition`` and ``tool_removal``."""

    structured_output: bool = False
    """Answers in JSON of a given schema."""

    structured_with_tools: bool = True
    """Does so with function tools, too."""

    checks_prefix: bool = False
    """Signs its reasoning over everything before it, and checks that when it comes back."""

    cache_minimum: int = 0
    """Anthropic: tokens that a beginning must have to be kept where it is marked; 0: takes no
    marks."""

    compaction: bool = False
    """Sums up a conversation that has grown too long, if the request asks for it."""

    cache_key: bool = False
    """Takes ``prompt_cache_key``, which leads a thread's requests to the server that has them."""

    reasoning_fields: tuple[str, ...] = ()
    """Chat completions: the members of an assistant's message that take its reasoning back.

    ``"content"`` means Mistral's thinking chunks inside the content, ``"given"`` for the
    member in which the host gave it.
    """

    reasoning_required: bool = False
    """Chat completions: refuses tool calls without the reasoning field, which may be empty."""

    call_id_length: int | None = None
    """Ids of calls have exactly so many letters and digits (Mistral); None: see `encoding`."""

    strict_turns: bool = False
    """Chat completions: refuses an assistant at the end, and a user after results (Mistral)."""

    in_blocks: bool = False
    """Anthropic: gets a single text as a block, the form that signatures cover; others only where
    they sign or are asked to think."""


Version: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Family:
    """Models of a family: `pattern` finds its name and version; no version means the newest."""

    pattern: re.Pattern[str]
    since: Mapping[Version, Capabilities]
    """Rows by the first version that they hold for, in rising order."""

    def capabilities(self, found: re.Match[str]) -> Capabilities:
        version = tuple(int(part) for part in found.groups() if part is not None)
        fitting = [row for first, row in self.since.items() if not version or first <= version]
        return fitting[-1] if fitting else Capabilities()


# Claude, by tier. Sources: platform.claude.com/docs, pages preserved-thinking, thinking, errors,
# define-tools, mid-conversation-system-messages, prompt-caching (read October and November 2026).
_CLAUDE_2 = Capabilities(prefill=True, thinking_types=frozenset({"enabled", "disabled"}))
_CLAUDE = replace(_CLAUDE_2, cache_minimum=1024)
_CLAUDE_3 = replace(_CLAUDE, cache_minimum=2048)  # the Haikus; the others 1024
_CLAUDE_4_6 = Capabilities(
    thinking_types=frozenset({"enabled", "disabled", "adaptive"}),
    in_blocks=True,
    structured_output=True,
    compaction=True,
    cache_minimum=1024,
)
_CLAUDE_4_7 = Capabilities(
    thinking_types=frozenset({"adaptive", "disabled"}),
    in_blocks=True,
    sampling=False,
    cache_minimum=2048,
    structured_output=True,
    compaction=True,
)
_OPUS_4_8 = replace(_CLAUDE_4_7, system_inside=True, restricts_tools=True, cache_minimum=1024)
_OPUS_5 = replace(_OPUS_4_8, cache_minimum=512)
_SONNET_5 = replace(_CLAUDE_4_7, cache_minimum=1024)
_HAIKU_5_5 = replace(_OPUS_5, checks_prefix=True)
_FABLE_5 = replace(_OPUS_5, thinking_types=frozenset({"adaptive"}))
_CLAUDE_NEWEST = replace(_FABLE_5, forced_choice=False, checks_prefix=True)
_SONNET_5_5 = replace(_CLAUDE_NEWEST, thinking_types=frozenset({"adaptive", "between_tools"}))
_VERSION = r"(?:-(\d{1,2})(?!\d)(?:[-.](\d{1,2})(?!\d))?)?"
_CLAUDE_4_5 = replace(_CLAUDE, structured_output=True, in_blocks=True)
_OLD = {(0,): _CLAUDE, (4, 5): replace(_CLAUDE_4_5, cache_minimum=4096)}

# OpenAI. Sources: developers.openai.com, guides latest-model, reasoning, preserved-reasoning.
_O_SERIES = Capabilities(
    parallel_tool_calls=False,
    reasoning_items=True,
    sampling=False,
    structured_output=True,
    cache_key=True,
)
_GPT_5 = Capabilities(
    reasoning_items=True,
    sampling=False,
    structured_output=True,
    system_inside=True,
    restricts_tools=True,
    compaction=True,
    cache_key=True,
)
# "gpt-5.1 defaults to none" (the API's ReasoningEffort); so do 5.2 and 5.4, and not their Pro and
# Codex models. Of 5.5 and later the default is not known to be none.
_GPT_5_1 = replace(_GPT_5, default_effort="none")
_GPT_5_6 = replace(_GPT_5, chat_tools="not_reasoning")
_GPT_6_1 = replace(_GPT_5, chat_tools="refused")
_GPT_6_2 = replace(_GPT_6_1, checks_prefix=True)

_THINKS_IN_CHAT = Capabilities(reasoning_fields=("reasoning_content",), reasoning_required=True)

# A family's name is a separate word of the model's: o3, o4-mini, openai/o1, my-o3-finetune; not
# gpt-4o.
_FAMILIES = (
    # The o-series answers "Unsupported parameter: 'parallel_tool_calls'".
    _Family(re.compile(r"(?<![a-z0-9])o([1-9])(?![a-z0-9])"), {(1,): _O_SERIES}),
    _Family(
        re.compile(r"(?<![a-z0-9])gpt-(6)(?:\.(\d{1,2}))?-astra"),
        {(6,): _GPT_6_1, (6, 2): _GPT_6_2},
    ),
    # gpt-4o since its version of August 2024; guides/structured-outputs.
    _Family(
        re.compile(r"(?<![a-z0-9])gpt-(?:4o|4\.1|4\.5)(?!-2024-05|.*-(?:audio|realtime))"),
        {(0,): Capabilities(structured_output=True, cache_key=True)},
    ),
    _Family(
        re.compile(r"(?<![a-z0-9])gpt-(5)(?:\.(\d{1,2}))?-(?:pro|codex)"),
        {(5,): _GPT_5, (5, 4): replace(_GPT_5, chat_tools="without_effort"), (5, 6): _GPT_5_6},
    ),
    # gpt-5-chat does not reason.
    _Family(
        re.compile(r"(?<![a-z0-9])gpt-(\d{1,2})(?!\d)(?:\.(\d{1,2}))?(?!.*-chat)"),
        {
            (5,): _GPT_5,
            (5, 1): _GPT_5_1,
            (5, 4): replace(_GPT_5_1, chat_tools="without_effort"),
            (5, 5): replace(_GPT_5, chat_tools="without_effort"),
            (5, 6): _GPT_5_6,
            (6, 1): _GPT_6_1,
            (6, 2): _GPT_6_2,
        },
    ),
    # us.anthropic.claude-opus-4-6-v1, claude-sonnet-4-20250514
    _Family(
        re.compile(rf"claude-opus{_VERSION}"),
        {
            **_OLD,
            (4, 6): replace(_CLAUDE_4_6, cache_minimum=4096),
            (4, 7): _CLAUDE_4_7,
            (4, 8): _OPUS_4_8,
            (5,): _OPUS_5,
            (5, 1): _CLAUDE_NEWEST,
        },
    ),
    _Family(
        re.compile(rf"claude-sonnet{_VERSION}"),
        {
            (0,): _CLAUDE,
            (4, 5): _CLAUDE_4_5,
            (4, 6): _CLAUDE_4_6,
            (5,): _SONNET_5,
            (5, 1): _SONNET_5_5,
        },
    ),
    _Family(
        re.compile(rf"claude-haiku{_VERSION}"),
        {**_OLD, (4, 6): _CLAUDE_4_6, (5,): _HAIKU_5_5},
    ),
    _Family(
        re.compile(rf"claude-(?:fable|mythos){_VERSION}"),
        {(5,): _FABLE_5, (5, 1): _CLAUDE_NEWEST},
    ),
    _Family(re.compile(r"claude(?:-instant)?-v[12]"), {(0,): _CLAUDE_2}),  # as Bedrock names them
    # claude-3-5-haiku-latest, claude-2.1, claude-instant-1.2; a tier that is not known yet
    _Family(
        re.compile(rf"claude(?:-instant|-[a-z]+(?=-\d))?{_VERSION}"),
        {(0,): _CLAUDE_2, (3,): _CLAUDE_3, (5,): _CLAUDE_NEWEST},
    ),
    # Chat completions take the key in their body, too: github.com/genkit-ai/genkit/pull/6036.
    # xAI gives encrypted reasoning in every answer of its Responses API (docs.x.ai, reasoning).
    # Structured outputs are for all models since grok-2-1212 (docs.x.ai, structured-outputs).
    _Family(
        re.compile(r"grok-(\d+)"),
        {
            (2,): Capabilities(structured_output=True, cache_key=True),
            (4,): Capabilities(
                reasoning_items=True, system_inside=True, structured_output=True, cache_key=True
            ),
        },
    ),
    # gemini-flash-latest is an alias of the newest model.
    _Family(
        re.compile(r"gemini-(?:(\d+)|.*-latest$)"),
        {
            # ai.google.dev, structured-output: together with tools since Gemini 3.
            (2,): Capabilities(structured_output=True, structured_with_tools=False),
            (3,): Capabilities(signed_calls=True, structured_output=True),
        },
    ),
    # Whatever host they are asked at: "reasoning_content is missing in assistant tool call message"
    # (huggingface/responses.js#54), "must be passed back" (api-docs.deepseek.com).
    _Family(re.compile(r"kimi-k(\d+)"), {(2,): _THINKS_IN_CHAT}),
    _Family(re.compile(r"deepseek-v(\d+)"), {(4,): _THINKS_IN_CHAT}),
    _Family(
        re.compile(r"minimax-m(\d+)"), {(2,): Capabilities(reasoning_fields=("reasoning_details",))}
    ),
)

GIVEN = "given"
_NO_REASONING: dict[str, Any] = {"reasoning_fields": (), "reasoning_required": False}
_DEEPSEEK: dict[str, Any] = {"reasoning_fields": ("reasoning_content",), "reasoning_required": True}
_MINIMAX: dict[str, Any] = {"reasoning_fields": ("reasoning_details",)}


def _compatible(
    name: str,
    base_url: str,
    *,
    key: str = "",
    key_required: bool = True,
    text_alone: bool = False,
    **facts: Any,
) -> Host:
    """Return a row; strict schemas of tools are OpenAI's own.

    Those of answers go by the model's name; ``structured_output=False`` if the host has none.
    """
    variable = key or f"{name.upper()}_API_KEY"
    return Host(
        provider=name,
        base_url=base_url,
        key_variable=variable,
        key_required=key_required,
        strict_schemas=False,
        text_alone=text_alone,
        facts=facts,
    )


COMPATIBLE: Mapping[str, Host] = {
    host.provider: host
    for host in (
        _compatible(
            "openrouter",
            "https://openrouter.ai/api/v1",
            reasoning_fields=("reasoning_details",),
            reasoning_required=False,
        ),
        # "property 'reasoning_content' is unsupported"
        _compatible("groq", "https://api.groq.com/openai/v1", **_NO_REASONING),
        _compatible(
            "mistral",
            "https://api.mistral.ai/v1",
            reasoning_fields=("content",),
            call_id_length=9,
            strict_turns=True,
        ),
        # "unknown variant `image_url`, expected `text`": seven recorded refusals of 2026
        _compatible("deepseek", "https://api.deepseek.com", text_alone=True, **_DEEPSEEK),
        _compatible("moonshot", "https://api.moonshot.ai/v1", **_DEEPSEEK),
        _compatible("minimax", "https://api.minimax.io/v1", **_MINIMAX),
        _compatible("together", "https://api.together.xyz/v1"),
        _compatible("fireworks", "https://api.fireworks.ai/inference/v1"),
        _compatible("cerebras", "https://api.cerebras.ai/v1", **_NO_REASONING),
        _compatible("huggingface", "https://router.huggingface.co/v1", key="HF_TOKEN"),
        _compatible("ollama", "http://localhost:11434/v1", key_required=False),
        # It takes the member that it gives: `reasoning`, `reasoning_content` before November 2025.
        # Both together are "duplicate field" to some models' servers (NVIDIA-NeMo/Gym#2177).
        _compatible(
            "vllm", "http://localhost:8000/v1", key_required=False, reasoning_fields=(GIVEN,)
        ),
        _compatible("litellm", "http://localhost:4000/v1", key_required=False),
    )
}
"""Hosts of OpenAI's chat completions, by the name before a model's; see `model_named`."""


@lru_cache(maxsize=256)
def host_of_url(base_url: str) -> str:
    """Return the host of a URL with its port, in lower case."""
    return base_url.partition("://")[2].partition("/")[0].lower()


_LITELLM = ":4000"
"""Its usual port. It hands reasoning on to hosts that refuse it (BerriAI/litellm#30835)."""


def _is_own_server(host: str) -> bool:
    """Return whether a host is in a private network, where inference servers run.

    vLLM, SGLang, llama.cpp and Ollama read the member in which they return reasoning; LM Studio
    ignores it. The behaviour of few public hosts is known, and Groq refuses its own member.
    """
    name = host.rpartition("@")[2]
    name = name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0]
    try:
        return ip_address(name).is_private and not host.endswith(_LITELLM)
    except ValueError:
        inside = "." not in name or name.endswith((".localhost", ".local", ".internal"))
        return bool(name) and inside and not host.endswith(_LITELLM)


_HOST_FACTS: Mapping[str, Mapping[str, Any]] = {
    **{host_of_url(host.base_url): host.facts for host in COMPATIBLE.values() if host.key_required},
    "api.moonshot.cn": _DEEPSEEK,
    "api.minimaxi.com": _MINIMAX,
    # xAI and OpenAI have no such field.
    "api.openai.com": _NO_REASONING,
    "api.x.ai": _NO_REASONING,
}
"""Capabilities of hosts that hold for every model, by host name."""


_MAKERS = ("api.anthropic.com", "api.openai.com", "openai.azure.com", "api.x.ai")
"""Hosts whose models are known to take system messages and changes of tools inside conversations,
and keys of caches; gateways and clouds may not let them through."""


_COMPACTING = ("api.anthropic.com", "api.openai.com")
"""Hosts that are known to sum up conversations in the request that needs it. xAI does so by a
request of its own (docs.x.ai, context-compaction); of Azure and the clouds it is not known."""


# On Bedrock structured outputs are there for Claude 4.5 and 4.6 only, and caching is missing before
# 3.7 and Haiku 3.5. On Vertex an organization has to allow structured outputs of Claude first.
# Sources: platform.claude.com, structured-outputs (read on 24 November 2026);
# docs.aws.amazon.com/bedrock, prompt-caching;
# docs.cloud.google.com/vertex-ai/generative-ai/docs/partner-models/claude/structured_outputs.
_BEDROCK = re.compile(r"bedrock-runtime\.")
_VERTEX = re.compile(r"(?:[a-z0-9-]+-)?aiplatform\.(?:[a-z]+\.rep\.)?googleapis\.com")
_CLOUD_FACTS: Sequence[tuple[re.Pattern[str], re.Pattern[str], Mapping[str, Any]]] = (
    (_BEDROCK, re.compile(r"claude-(?:3-(?!7|5-haiku)|2|instant)"), {"cache_minimum": 0}),
    (_BEDROCK, re.compile(r"claude-(?![a-z]+-4-[56](?!\d))"), {"structured_output": False}),
    (_VERTEX, re.compile("claude"), {"structured_output": False}),
)
"""Capabilities of models in clouds, by host and name."""


def _in_cloud(host: str, name: str) -> Mapping[str, Any]:
    for cloud, models, facts in _CLOUD_FACTS:
        if cloud.match(host) and models.search(name):
            return facts
    return {}


@lru_cache(maxsize=256)
def capabilities_of(model: str, base_url: str = "") -> Capabilities:
    """Return the capabilities of the model of this name.

    Args:
        model: The provider's name of it.
        base_url: The root of the API: hosts have rules of their own.
    """
    found, host = _capabilities_by_name(model.lower()), host_of_url(base_url)
    if host and not host.endswith(_MAKERS):
        found = replace(found, system_inside=False, restricts_tools=False, cache_key=False)
    if host and host not in _COMPACTING:
        found = replace(found, compaction=False)
    facts = _HOST_FACTS.get(host) or _in_cloud(host, model.lower())
    if not found.reasoning_fields and _is_own_server(host):
        facts = {"reasoning_fields": (GIVEN,)}
    return replace(found, **facts) if facts else found


def _capabilities_by_name(name: str) -> Capabilities:
    for family in _FAMILIES:
        found = family.pattern.search(name)
        if found is not None:
            return family.capabilities(found)
    return Capabilities()


# Source: platform.claude.com/docs/en/build-with-claude/preserved-thinking (November 2026). Models
# that check nothing can read none of those that do.
_UNREAD: tuple[tuple[str, str], ...] = (
    ("(?:fable|mythos)-5-2", "$^"),
    ("(?:fable|mythos)-5-1", "(?:fable|mythos)-5-2|(?:sonnet|haiku)-5-5"),
    ("opus-5-5", "fable|mythos"),
    ("sonnet-5-5", "fable|mythos|opus-5"),
    ("haiku-5-5", "fable|mythos|opus-5|sonnet-5-5"),
    ("", "(?:fable|mythos)-5-[12]|(?:opus|sonnet|haiku)-5-5"),
)
"""Names of Claude models, and of those whose thinking they leave out in silence."""


def reads_thinking(model: str, made_by: str) -> bool:
    """Return whether a Claude model can read the thinking of another model."""
    if model == made_by:
        return True
    unread = next(names for asked, names in _UNREAD if re.search(asked, model))
    return re.search(unread, made_by) is None


CONTEXT_WINDOWS: Mapping[str, int] = {
    # OpenAI
    "gpt-5": 400_000,
    "gpt-5.6": 1_050_000,
    "gpt-6": 1_050_000,
    "gpt-5-chat": 128_000,
    "gpt-4.1": 1_047_576,
    "gpt-4o": 128_000,
    "chatgpt-4o": 128_000,
    "gpt-4-turbo": 128_000,
    "gpt-4-1106": 128_000,
    "gpt-4-0125": 128_000,
    "gpt-4-32k": 32_768,
    "gpt-4": 8_192,
    "gpt-3.5-turbo": 16_385,
    "gpt-3.5-turbo-instruct": 4_096,
    "gpt-oss": 131_072,
    "o1": 200_000,
    "o1-mini": 128_000,
    "o1-preview": 128_000,
    "o3": 200_000,
    "o4-mini": 200_000,
    # Anthropic
    "claude-3": 200_000,
    "claude-opus-4": 200_000,
    "claude-sonnet-4": 200_000,
    "claude-haiku-4": 200_000,
    "claude-2": 200_000,
    "claude-opus-5": 1_000_000,
    "claude-sonnet-5": 1_000_000,
    "claude-haiku-5": 1_000_000,
    "claude-fable-5": 1_000_000,
    "claude-mythos-5": 1_000_000,
    "claude-2.0": 100_000,
    "claude-instant": 100_000,
    # Google
    "gemini-1.5-pro": 2_097_152,
    "gemini-1.5-flash": 1_048_576,
    "gemini-2": 1_048_576,
    "gemini-3": 1_048_576,
    "gemini-4": 1_048_576,
    "gemini-1.0": 32_760,
    # xAI
    "grok-2": 131_072,
    "grok-2-vision": 32_768,
    "grok-3": 131_072,
    "grok-4": 256_000,
    "grok-4.3": 1_000_000,
    "grok-4.5": 500_000,
    "grok-4-fast": 2_000_000,
    "grok-4-1-fast": 2_000_000,
    "grok-code-fast": 256_000,
    # Others that speak OpenAI's format
    "deepseek": 128_000,
    "mistral-large": 128_000,
    "llama-3.1": 131_072,
    "llama-3.3": 131_072,
    "qwen3": 131_072,
}
"""Tokens by the beginning of a model's name; the longest beginning that fits counts.

The providers' pages of models, read in November 2026.
"""

_NEWEST: Mapping[str, int] = {
    "claude": 1_000_000,
    "gemini": 1_048_576,
    "gpt-": 1_050_000,
    "grok-": 500_000,
}
"""The window of a family's newest model, for models that are newer than the table."""


def window_of(model: str, overrides: Mapping[str, int] | None = None) -> int | None:
    """Return the context window of a model in tokens; None: not known.

    Args:
        model: The provider's name of it; the part before the last ``/`` is ignored.
        overrides: Windows by the beginning of a model's name, before those of the table.
    """
    name = model.rpartition("/")[2].lower()
    own = None if overrides is None else _window_in(overrides, name)
    return _known_window(name) if own is None else own


def _window_in(table: Mapping[str, int], name: str) -> int | None:
    fitting = [prefix for prefix in table if name.startswith(prefix.lower())]
    return table[max(fitting, key=len)] if fitting else None


@lru_cache(maxsize=256)
def _known_window(name: str) -> int | None:
    window = _window_in(CONTEXT_WINDOWS, name)
    if window is not None:
        return window
    newest = _window_in(_NEWEST, name)
    if newest is not None:
        logger.warning(
            "The context window of %r is not known: %d tokens are assumed, as of the newest model "
            "of its family. Set it with context_window=….",
            name,
            newest,
        )
    return newest
