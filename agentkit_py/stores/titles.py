"""Titles of threads that were made before anybody had said anything. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable

from agentkit_py.results import USER, AgentResult
from agentkit_py.stores.records import Row, title_of


def title_in(rows: Iterable[Row]) -> str:
    """A title made of the first thing that a user says in ``rows``; empty if there is none."""
    for row in rows:
        if row.agent_name == USER:
            result = AgentResult.from_dict(json.loads(row.json))
            return title_of("".join(m.text for m in result.output if m.type == "text"))
    return ""
