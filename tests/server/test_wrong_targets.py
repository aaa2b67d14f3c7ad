"""`create_app` says what to write where its networks and agents are of the wrong kind."""

from __future__ import annotations

from typing import Any

import pytest

from agentkit_py import Agent, Network
from agentkit_py.errors import ConfigurationError
from agentkit_py.server import create_app

CLERK = Agent(name="clerk", system="S")
DESK = Network(name="desk", agents=[CLERK], router=lambda _: None)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"networks": DESK}, r"networks is a list, got 'desk'; write networks=\[…\]"),
        ({"agents": CLERK}, r"agents is a list, got 'clerk'; write agents=\[…\]"),
        ({"networks": CLERK}, "networks is a list, got 'clerk'; it takes Networks"),
        ({"networks": "desk"}, "networks is a list, got 'desk'; it takes Networks"),
        ({"networks": {"desk": DESK}}, "networks is a list"),
        ({"networks": [CLERK]}, r"networks takes Networks, got Agent.*an item of agents=\[…\]\?"),
        ({"agents": [DESK]}, r"agents takes Agents, got Network.*an item of networks=\[…\]\?"),
        ({"agents": ["clerk"]}, "agents takes Agents, got 'clerk'"),
        ({}, "create_app needs networks"),
    ],
)
def test_a_wrong_kind_of_target_is_refused_with_advice(options: dict[str, Any], said: str) -> None:
    """Not an error of an attribute that strings do not have."""
    with pytest.raises(ConfigurationError, match=said):
        create_app(auth="local", **options)
