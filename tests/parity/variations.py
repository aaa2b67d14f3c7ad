"""Recorded scenarios with one thing changed: what nobody recorded, judged all the same."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TypeAlias

from .vectors import Json

Change: TypeAlias = Callable[[dict[str, Json]], None]

_INPUT = {"city": "Rome"}
_TOOL: dict[str, Json] = {"type": "tool", "id": "h1", "name": "get_weather", "input": _INPUT}
_OTHER: dict[str, Json] = {"type": "tool", "id": "h2", "name": "sum", "input": {}}
_STATE: dict[str, Json] = {
    "messages": [
        {"type": "text", "role": "user", "content": "earlier question"},
        {"type": "text", "role": "system", "content": "mid system message"},
        {
            "type": "text",
            "role": "user",
            "content": [{"type": "text", "text": "part one "}, {"type": "text", "text": "two"}],
        },
    ],
    "results": [
        {
            "agentName": "x",
            "output": [
                {"type": "text", "role": "assistant", "content": "calling", "stop_reason": "tool"},
                {
                    "type": "tool_call",
                    "role": "assistant",
                    "stop_reason": "tool",
                    "tools": [_TOOL, _OTHER],
                },
            ],
            "toolCalls": [
                {
                    "type": "tool_result",
                    "role": "tool_result",
                    "stop_reason": "tool",
                    "tool": tool,
                    "content": {"data": tool["id"]},
                }
                for tool in (_TOOL, _OTHER)
            ],
            "createdAt": "2024-01-02T03:04:05.000Z",
        },
        {
            "agentName": "y",
            "output": [
                {"type": "text", "role": "assistant", "content": "final", "stop_reason": "stop"}
            ],
            "toolCalls": [],
            "createdAt": "2024-01-02T03:04:05.000Z",
        },
    ],
}
_STORE: dict[str, Json] = {
    "createThread": {"return": {"threadId": "made"}},
    "get": {"return": _STATE["results"]},
    "appendUserMessage": {},
    "appendResults": {},
}


def _options(spec: dict[str, Json]) -> list[dict[str, Json]]:
    return [run.setdefault("options", {}) for run in spec["runs"]]


def _streamed(spec: dict[str, Json]) -> None:
    for options in _options(spec):
        options["streaming"] = {"simulateChunking": True}


def _looped(spec: dict[str, Json]) -> None:
    for run in spec["runs"]:
        if "agent" in run["target"]:
            run.setdefault("options", {})["maxIter"] = 3


def _prefilled(spec: dict[str, Json]) -> None:
    for agent in spec["agents"].values():
        agent["assistant"] = "Well, "


def _seeded(spec: dict[str, Json]) -> None:
    spec.setdefault("states", {})["seeded"] = copy.deepcopy(_STATE)
    for options in _options(spec):
        options["state"] = "seeded"


def _stored(spec: dict[str, Json]) -> None:
    spec.setdefault("histories", {})["stored"] = copy.deepcopy(_STORE)
    spec.setdefault("states", {})["known"] = {"threadId": "T9", "data": {"userId": "u"}}
    for owner in [*spec["agents"].values(), *spec.get("networks", {}).values()]:
        owner["history"] = "stored"
    for options in _options(spec):
        options["state"] = "known"


def _in_a_network(spec: dict[str, Json]) -> None:
    if spec.get("networks"):
        return
    names = list(spec["agents"])
    rules = [{"when": {"callCount": i}, "return": name} for i, name in enumerate(names * 2)]
    router = {"kind": "fn", "rules": rules}
    spec["networks"] = {"around": {"name": "net", "agents": names, "router": router}}
    for run in spec["runs"]:
        run["target"] = {"network": "around"}
        for name in ("maxIter", "model", "network"):
            run.get("options", {}).pop(name, None)


def _forced(spec: dict[str, Json]) -> None:
    for agent in spec["agents"].values():
        if agent.get("tools"):
            agent["toolChoice"] = "any"
    for model in spec["models"].values():
        model["options"].setdefault("defaultParameters", {})["temperature"] = 0.3


def _rich_input(spec: dict[str, Json]) -> None:
    for run in spec["runs"]:
        if isinstance(run["input"], str):
            said = {"id": "um", "role": "user", "content": run["input"]}
            run["input"] = {**said, "systemPrompt": "Be brief."}


def _hooked(spec: dict[str, Json]) -> None:
    said = {"type": "text", "role": "user", "content": "hook"}
    added = {"type": "text", "role": "assistant", "content": "added", "stop_reason": "stop"}
    for agent in spec["agents"].values():
        cycle = agent.setdefault("lifecycle", {})
        cycle.setdefault("onStart", {"ops": [{"op": "appendHistory", "messages": [said]}]})
        cycle.setdefault("onResponse", {"ops": [{"op": "appendOutput", "messages": [added]}]})
        cycle.setdefault("onFinish", {})


def _stopped(spec: dict[str, Json]) -> None:
    for agent in spec["agents"].values():
        agent.setdefault("lifecycle", {})["onStart"] = {"stop": True}


def _filtered(spec: dict[str, Json]) -> None:
    options = {"exclude": ["get_weather"], "persistResults": True}
    for agent in spec["agents"].values():
        agent["processors"] = [
            {"type": "ToolCallFilter", "options": options},
            {"type": "TokenLimiter", "options": {"limit": 300, "useTiktoken": False}},
        ]


def _all(*changes: Change) -> Change:
    def change(spec: dict[str, Json]) -> None:
        for each in changes:
            each(spec)

    return change


VARIATIONS: dict[str, Change] = {
    "streamed": _streamed,
    "looped": _looped,
    "prefilled": _prefilled,
    "seeded": _seeded,
    "stored": _stored,
    "in a network": _in_a_network,
    "forced": _forced,
    "rich input": _rich_input,
    "hooked": _hooked,
    "stopped": _stopped,
    "filtered": _filtered,
    "seeded, looped, streamed": _all(_seeded, _looped, _streamed),
    "in a network, stored, streamed": _all(_in_a_network, _stored, _streamed),
    "hooked, filtered, looped": _all(_hooked, _filtered, _looped),
}
"""Changes by name."""
