"""Edited calls: changes to a call's prompt and processors, and the call made again."""

from __future__ import annotations

import inspect
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

from pydantic import BaseModel, ConfigDict, Field

from agentkit_py._core.json import dumps
from agentkit_py._engine.instrumentation import CallEdit, Chains, ModelCall
from agentkit_py.budgets import Prices
from agentkit_py.errors import ConfigurationError
from agentkit_py.models.http_errors import hide_keys
from agentkit_py.playground.levels import levels_json, message_json
from agentkit_py.playground.recorder import (
    Recorder,
    RecordingRuntime,
    as_json,
    finish_json,
    request_text,
    usage_json,
)
from agentkit_py.processors.apply import as_processor
from agentkit_py.processors.base import HistoryProcessor, Level
from agentkit_py.processors.settings import ConfiguredProcessor


class ProcessorEdit(BaseModel):
    """Changes to a processor."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    off: bool = False
    settings: dict[str, Any] = Field(default_factory=dict[str, Any])


class Edit(BaseModel):
    """Changes to a call."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    system: str | None = Field(default=None, max_length=1_000_000)
    input: str | None = Field(default=None, max_length=1_000_000)
    processors: dict[int, ProcessorEdit] = Field(default_factory=dict[int, ProcessorEdit])
    """Edits by the processor's number in the order in which processors run."""


@dataclass(frozen=True, slots=True)
class ProcessorSettings:
    """The constructor's arguments of a processor, as far as it keeps them."""

    shown: dict[str, Any] = field(default_factory=dict[str, Any])
    """Arguments that are JSON, and so can be edited."""

    others: dict[str, Any] = field(default_factory=dict[str, Any])
    """Other arguments, which stay."""

    missing: Sequence[str] = ()
    """Arguments that it does not keep: made again without them, it might do something else."""


def settings_of(processor: HistoryProcessor) -> ProcessorSettings:
    """Find the constructor's arguments in the processor's attributes of the same names."""
    kind = type(processor)
    if kind.__init__ is object.__init__:
        return ProcessorSettings()
    shown: dict[str, Any] = {}
    others: dict[str, Any] = {}
    missing: list[str] = []
    for name in inspect.signature(kind).parameters:
        found = _attribute(processor, name)
        if found is _NOTHING:
            missing.append(name)
            continue
        shape = _as_json(found)
        declared = not isinstance(processor, ConfiguredProcessor) or name in processor.settings
        if shape is _NOTHING or not declared:
            others[name] = found
        else:
            shown[name] = shape
    return ProcessorSettings(shown, others, missing)


_NOTHING = object()


def _attribute(processor: HistoryProcessor, name: str) -> Any:
    for known in (name, f"_{name}"):
        if hasattr(processor, known):
            return getattr(processor, known)
    return _NOTHING


def _as_json(value: Any) -> Any:
    try:
        return json.loads(json.dumps(value, default=_as_container))
    except (TypeError, ValueError):
        return _NOTHING


def _as_container(value: Any) -> Any:
    if isinstance(value, set | frozenset):
        return sorted(cast("set[str]", value))
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, object]", value))
    raise TypeError


def remade(processor: HistoryProcessor, changed: Mapping[str, Any]) -> HistoryProcessor:
    """Return the processor with other settings."""
    if not changed:
        return processor
    known = settings_of(processor)
    unknown = sorted(set(changed) - set(known.shown))
    if unknown or known.missing:
        raise ConfigurationError(
            f"{processor.name} cannot be made again: it does not keep {sorted(known.missing)}."
            if known.missing
            else f"{processor.name} has no setting {unknown} that can be edited."
        )
    try:
        return type(processor)(**{**known.others, **known.shown, **changed})
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"{processor.name}: {error}") from error


def _numbered(chains: Chains) -> list[tuple[Level, HistoryProcessor]]:
    """List the processors separately, in the order in which they run."""
    return [
        (level, unit)
        for level, processors in chains
        for processor in processors
        for unit in _units_of(processor)
    ]


def _units_of(processor: HistoryProcessor) -> list[HistoryProcessor]:
    """Return the editable parts of ``processor``: itself, or the members of a `Chain`.

    The members of a `Budget` follow from its settings, so it is edited as a whole.
    """
    if not processor.members or settings_of(processor).shown:
        return [processor]
    return [unit for member in processor.members for unit in _units_of(as_processor(member))]


def processors_json(call: ModelCall) -> list[dict[str, Any]]:
    """Describe the processors of a call with their settings."""
    found: list[dict[str, Any]] = []
    for number, (level, processor) in enumerate(_numbered(call.chains)):
        settings = settings_of(processor)
        kept = [name for name, value in settings.others.items() if value is not None]
        found.append(
            {
                "number": number,
                "level": level,
                "name": processor.name,
                "reason": processor.reason,
                "settings": {} if settings.missing else settings.shown,
                "fixed": sorted([*kept, *settings.missing]),
            }
        )
    return found


def call_edit(call: ModelCall, edit: Edit) -> CallEdit:
    """Return the edit in the engine's form."""
    numbered = _numbered(call.chains)
    unknown = sorted(edit.processors.keys() - set(range(len(numbered))))
    if unknown:
        raise ConfigurationError(f"The call has no processor {unknown[0]}.")
    chains: list[tuple[Level, list[HistoryProcessor]]] = []
    for number, (level, processor) in enumerate(numbered):
        change = edit.processors.get(number, ProcessorEdit())
        if not change.off:
            chains.append((level, [remade(processor, change.settings)]))
    return CallEdit(
        system=edit.system, input=edit.input, chains=chains if edit.processors else None
    )


async def rehearse(call: ModelCall, edit: Edit) -> dict[str, Any]:
    """Describe the request of the edited call; no model is called."""
    made = await call.rehearse(call_edit(call, edit))
    body = made.model.encode(made.request)
    return {
        "seen": levels_json(made.report),
        "stop": made.stop,
        "request": as_json(request_text(made.model, body, None)),
    }


async def ask_again(call: ModelCall, edit: Edit, prices: Prices) -> dict[str, Any]:
    """Make the edited call for real. Its tools are not called, and nothing is saved."""
    made = await call.rehearse(call_edit(call, edit))
    if made.stop:
        raise ConfigurationError("on_start ends this turn now, so the model would not be asked.")
    model, body = made.model, made.model.encode(made.request)
    runtime = RecordingRuntime(Recorder(lambda _: None))
    key, began = runtime.key_of(model), time.perf_counter()
    try:
        reply = await runtime.infer("again", model, lambda: body)
    finally:
        await runtime.aclose()
    decoded = model.decode(reply)
    return {
        "seen": levels_json(made.report),
        "request": as_json(request_text(model, body, key)),
        "reply": as_json(hide_keys(dumps(reply), model, key)),
        "messages": [message_json(message) for message in decoded.messages],
        "usage": usage_json(decoded.usage),
        "cost": prices.cost(model.model, decoded.usage),
        **finish_json(decoded.finish),
        "ms": round((time.perf_counter() - began) * 1000, 1),
    }
