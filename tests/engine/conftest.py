"""Every test that runs an agent or a network does so in both ways."""

from __future__ import annotations

import pytest

from .runner import MODES, Runner


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Both ways, or the direct one where the test is marked with the reason why."""
    if "runner" in metafunc.fixturenames:
        only = metafunc.definition.get_closest_marker("direct_only")
        metafunc.parametrize("runner", MODES if only is None else MODES[:1], indirect=True)


@pytest.fixture
def runner(request: pytest.FixtureRequest) -> Runner:
    """Runs agents and networks."""
    return Runner(request.param)
