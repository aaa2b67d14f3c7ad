"""Flow control by name, options that would lose messages, and encryption."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import inngest
import pytest
from inngest_encryption import EncryptionMiddleware

from agentkit_py import Agent
from agentkit_py.errors import ConfigurationError
from agentkit_py.inngest import FunctionOptions, create_functions, per_customer, per_thread
from agentkit_py.testing import ScriptedModel


def client(*middleware: Any) -> inngest.Inngest:
    """A client."""
    return inngest.Inngest(app_id="app", is_production=False, middleware=list(middleware))


def agent() -> Agent:
    """An agent."""
    return Agent(name="a", system="S", model=ScriptedModel("Hi."))


def test_flow_control_joins_threads_customers_and_other_options() -> None:
    """The server gets all of it."""
    options = per_thread(debounce=timedelta(seconds=2)) | FunctionOptions(retries=8)
    options |= per_customer(concurrency=3, throttle=20, priority="event.data.vip ? 60 : 0")
    (made,) = create_functions(client(), agents=[agent()], options={"a": options})
    config: Any = made.get_config("http://here").main
    limits = [(one.limit, one.key) for one in config.concurrency]
    assert limits == [(1, "event.data.threadId"), (3, "event.data.userId")]
    assert config.debounce.key == "event.data.threadId"
    assert (config.throttle.limit, config.throttle.key) == (20, "event.data.userId")
    assert config.priority.run == "event.data.vip ? 60 : 0"
    assert config.steps["step"].retries.attempts == 8


@pytest.mark.parametrize("make", [per_thread, per_customer])
def test_a_limit_of_none_is_refused(make: Any) -> None:
    """Nothing would ever run."""
    with pytest.raises(ConfigurationError, match="throttle=0"):
        make(throttle=0)


def test_batches_are_refused() -> None:
    """All events but the first would be lost."""
    with pytest.raises(ConfigurationError, match="batch_events"):
        FunctionOptions(batch_events=inngest.Batch(max_size=10, timeout=1000))


def test_encryption_that_the_server_would_go_round_is_refused() -> None:
    """It is taken where this process asks the models, which is the default."""
    encryption: Any = EncryptionMiddleware.factory("a key of our own")
    with pytest.raises(ConfigurationError, match="EncryptionMiddleware"):
        create_functions(client(encryption), agents=[agent()], inference="offload")
    options = {"a": FunctionOptions(middleware=[encryption])}
    with pytest.raises(ConfigurationError, match="EncryptionMiddleware"):
        create_functions(client(), agents=[agent()], options=options, inference="offload")
    assert create_functions(client(encryption), agents=[agent()])
