"""The first cases of the soak, as many as CI has time for; `make soak` runs a million."""

from __future__ import annotations

import time

from .cases import faults_of
from .signed import faults_in, faults_in_requests

CASES = 600
SECONDS = 6
"""On a busy machine fewer cases are run."""

LEAST = 100

NETWORKS = 20
CONVERSATIONS = 20


def test_random_chains_leave_requests_that_every_provider_takes() -> None:
    """Results are valid, pinned and not changed in vain; a failing case's seed repeats it."""
    end = time.monotonic() + SECONDS
    for number in range(CASES):
        seed = f"soak:{number}"
        assert (seed, faults_of(seed)) == (seed, [])
        if number >= LEAST and time.monotonic() > end:
            break


async def test_random_networks_are_refused_nothing_by_providers_that_sign() -> None:
    """`make soak ARGS="--signed networks"` tries more; a failing case's seed repeats it."""
    for number in range(NETWORKS):
        seed = f"signed:{number}"
        assert (seed, await faults_in(seed)) == (seed, [])


async def test_random_requests_are_refused_nothing_by_providers_that_sign() -> None:
    """`make soak ARGS="--signed requests"` tries more; a failing case's seed repeats it."""
    found = ["soak:25512", "soak:36268"]  # a processor that doubles messages: refused once
    found += ["soak:92", "soak:653"]  # a reply that ends in thinking, before it had a binding
    for seed in [*(f"requests:{number}" for number in range(CONVERSATIONS)), *found]:
        assert (seed, await faults_in_requests(seed)) == (seed, [])
