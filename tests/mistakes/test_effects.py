"""Every parameter changes something that can be seen: a conversation with it, and one without."""

from __future__ import annotations

import pytest

from .cases import TAKES
from .effects import AGENT, NETWORK, RUN, Effect, seen

TABLES = {"Agent": AGENT, "Network": NETWORK, "run": RUN}
REFUSED = {("run", "ctx"), ("run", "require_durable"), ("run", "on_busy")}
"""Those that this conversation can only be refused for; their effect is in `test_named_effects`."""

ROWS = [(of, name) for of, table in TABLES.items() for name in table]


@pytest.mark.parametrize("of", TABLES)
def test_every_parameter_has_an_effect_in_the_table(of: str) -> None:
    """A new parameter is shown to have an effect; one that is gone is not tried."""
    assert sorted(TABLES[of]) == sorted(TAKES[of])


@pytest.mark.parametrize(("of", "name"), ROWS, ids=[f"{of}.{name}" for of, name in ROWS])
async def test_a_parameter_has_an_effect(of: str, name: str) -> None:
    """Two conversations without it are the same; a conversation with it is another."""
    effect: Effect = TABLES[of][name]

    def without() -> dict[str, object]:
        return {} if effect.instead is None else {name: effect.instead()}

    plain = await seen(of, effect, without())
    assert await seen(of, effect, without()) == plain
    other = await seen(of, effect, {name: effect.value()})
    assert other != plain
    is_refused = other.count("ConfigurationError") > plain.count("ConfigurationError")
    assert is_refused == ((of, name) in REFUSED)
