"""Errors of a set-up: one clear line that says what to write, without the library's frames."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import pytest

from agentkit_py import Agent, Network
from agentkit_py.errors import ConfigurationError
from agentkit_py.testing import ScriptedModel


def agent(**options: Any) -> Agent[Any, Any]:
    """An agent."""
    return Agent(name="a", system="S", **options)


SETUPS: dict[str, tuple[Callable[[], object], str]] = {
    "no key": (lambda: agent(model="openai:gpt-5").run_sync("Hi"), "set OPENAI_API_KEY"),
    "no model": (lambda: agent().run_sync("Hi"), "Pass model="),
    "no router and no model": (
        lambda: Network(name="n", agents=[agent(model=ScriptedModel("x"))]).run_sync("Hi"),
        "Pass router=once",
    ),
    "no store": (lambda: agent(model=ScriptedModel("x")).run_sync("Hi", on_busy="steer"), "lease"),
}


@pytest.mark.parametrize("setup", SETUPS)
def test_run_sync_shows_no_frame_of_the_library(
    setup: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the caller's line, and that of `run_sync`."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    run, words = SETUPS[setup]
    with pytest.raises(ConfigurationError, match=words) as caught:
        run()
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert [frame.name for frame in frames if "agentkit_py" in frame.filename] == ["run_sync"]
    assert caught.value.__context__ is None


def test_run_sync_shows_the_frames_of_the_users_own_code() -> None:
    """What a prompt's function raised is found by them."""

    def system(context: Any) -> str:
        raise ConfigurationError("There is no such shop.")

    asked = Agent(name="a", system=system, model=ScriptedModel("x"))
    with pytest.raises(ConfigurationError) as caught:
        asked.run_sync("Hi")
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert "system" in [frame.name for frame in frames]


def test_a_class_in_place_of_a_model_is_refused() -> None:
    """When the agent is made: it can be called, and would give no model."""
    kind: Any = ScriptedModel
    with pytest.raises(ConfigurationError, match="model is the class ScriptedModel; write"):
        agent(model=kind)
