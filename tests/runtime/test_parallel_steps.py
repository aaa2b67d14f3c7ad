"""What `ctx.step.parallel` takes: functions, one by one."""

from __future__ import annotations

from typing import Any

import pytest

from agentkit_py.errors import ConfigurationError
from agentkit_py.runtime.direct import DirectRuntime


async def seven() -> int:
    """A call."""
    return 7


async def test_functions_run_together() -> None:
    """Their results come in the order given."""
    assert await DirectRuntime().step.parallel(seven, seven) == [7, 7]


async def test_a_list_is_refused_with_the_line_to_write() -> None:
    """`Promise.all([…])`, written line by line."""
    calls: Any = [seven, seven]
    with pytest.raises(ConfigurationError, match=r"parallel\(\*calls\)"):
        await DirectRuntime().step.parallel(calls)


async def test_calls_that_have_begun_are_refused_with_the_line_to_write() -> None:
    """Nothing of them runs."""
    step = DirectRuntime().step
    begun: Any = step.run("a", seven)
    with pytest.raises(ConfigurationError, match=r"lambda: ctx\.step\.run"):
        await step.parallel(begun, seven)
