"""A durable run gives what a direct one gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from agentkit_py import Agent, Lifecycle, Network, RetryPolicy, State, ToolContext, tool, together
from agentkit_py.testing import ScriptedModel, tool_call, tool_calls

from .world import EVENT, INFERENCES, Inference, Scenario, Stage, executor_for


@pytest.mark.parametrize("inference", INFERENCES)
async def test_a_network_gives_what_it_gives_directly(
    support: Scenario, inference: Inference
) -> None:
    """State, results, thread rows, requests, side effects and chunks, but for ids and times."""
    direct, durable = await support.direct(), await support.durable(inference)
    assert direct.error is None
    assert durable == direct
    assert set(direct.effects.values()) == {1}
