"""Observers that take other parameters than an event."""

from __future__ import annotations

from typing import Any

import pytest

from agentkit_py import Agent
from agentkit_py.errors import ConfigurationError
from agentkit_py.events.types import Event
from agentkit_py.testing import ScriptedModel


class Watcher:
    """An object whose method takes too much."""

    def watch(self, event: Event, more: int) -> None:
        """Do nothing."""


@pytest.mark.parametrize("observer", [lambda: None, Watcher().watch], ids=["function", "method"])
async def test_an_observer_of_other_parameters_is_refused_before_the_run(observer: Any) -> None:
    """The error names what it is called with."""
    model = ScriptedModel("Hello.")
    agent = Agent(name="a", system="S", model=model)
    with pytest.raises(ConfigurationError, match=r"observer is called with \(event\); it takes"):
        await agent.run("Hi", observer=observer)
    assert model.requests == []
