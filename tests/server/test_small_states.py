"""Every short order of what customers and machines do to one question; see `small_states`.

Each stream ends, each run has an owner or an end, each approval one effect at most, all front ends
say the same, and sending the message again brings about one answer.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.server.small_states import LETTERS, STREAMS, cases, quick_signs, try_order

MEMORY = ("memory", "memory leased")


async def try_all(which: list[tuple[str, str, str, str]], folder: Path) -> None:
    """Try orders one after the other."""
    async with quick_signs():
        for number, case in enumerate(which):
            own = folder / str(number)
            own.mkdir()
            try:
                await try_order(*case, str(own))
            except Exception as error:
                error.add_note(str(case))
                raise


@pytest.mark.parametrize("stream", STREAMS)
async def test_every_order_of_one_step_leaves_an_end_or_a_reason(
    stream: str, tmp_path: Path
) -> None:
    """In both kinds of stores."""
    await try_all([*cases(1, MEMORY, (stream,), whole=True)], tmp_path)


@pytest.mark.parametrize("first", LETTERS)
async def test_every_order_of_two_steps_leaves_an_end_or_a_reason(
    first: str, tmp_path: Path
) -> None:
    """Stores and streams take turns; `make explore-served` does more."""
    every = cases(2, (*MEMORY, "sqlite leased"), STREAMS)
    await try_all([one for one in every if one[0].startswith(first)], tmp_path)
