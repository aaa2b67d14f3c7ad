"""The state that a run begins with: the network's default, the run before, the client, the user."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from agentkit_py._core.json import dumps, find_non_json
from agentkit_py.errors import StateError
from agentkit_py.history.runs import RunStore
from agentkit_py.network import Network
from agentkit_py.server.config import ClientRules, Target
from agentkit_py.server.refusals import invalid
from agentkit_py.state import State, fields_of
from agentkit_py.stores import HistoryStore

_DEEPEST = 100
"""Levels of a client's state: what walks it later must not come to the end of Python's stack."""


def allowed_state(
    given: Mapping[str, Any] | None, rules: ClientRules, longest: int
) -> dict[str, Any]:
    """What of a client's state is taken.

    Raises:
        Refusal: It is too long or too deep, or no JSON that can be kept.
    """
    found = {key: value for key, value in (given or {}).items() if key in rules.state_keys}
    if _is_deeper(found, _DEEPEST + 1):
        raise invalid(f"userMessage.state: at most {_DEEPEST} levels")
    where = find_non_json(found, "userMessage.state")
    if where is not None:
        raise invalid(f"{where}: no plain JSON")
    try:
        size = len(dumps(found).encode())
    except UnicodeEncodeError:
        raise invalid("userMessage.state: is not valid Unicode") from None
    if size > longest:
        raise invalid(f"userMessage.state: at most {longest} bytes")
    return found


def _is_deeper(value: object, levels: int) -> bool:
    if isinstance(value, dict):
        items = list(cast("dict[str, object]", value).values())
    elif isinstance(value, list):
        items = cast("list[object]", value)
    else:
        return False
    return levels == 0 or any(_is_deeper(item, levels - 1) for item in items)


def begin_state(
    target: Target,
    user_id: str,
    client: Mapping[str, Any],
    rules: ClientRules,
    previous: Mapping[str, Any] | None = None,
) -> State[Any]:
    """The state of a run.

    Args:
        target: Whose default state it begins with.
        user_id: The user, written over whatever else says who that is.
        client: What a client set, already reduced to what it may set.
        rules: Where the user's id stands.
        previous: The data that the thread's run before ended with.

    Raises:
        StateError: The client's values do not fit a typed state.
    """
    default = target.default_state if isinstance(target, Network) else None
    state: State[Any] = State() if default is None else default.clone()
    if previous is not None:
        state.load(dict(previous))
    trusted = {rules.user_key: user_id}
    data: object = state.data
    if isinstance(data, dict):
        cast("dict[str, Any]", data).update({**client, **trusted})
        return state
    known = fields_of(data)
    changes = {key: value for key, value in {**client, **trusted}.items() if key in known}
    if changes:
        state.load({**state.dump(), **changes})
    return state


def check_state(
    target: Target, user_id: str, client: Mapping[str, Any], rules: ClientRules
) -> None:
    """Refuse client state that does not fit, while there is somebody to tell.

    Raises:
        Refusal: It does not fit a typed state.
    """
    try:
        begin_state(target, user_id, client, rules)
    except StateError:
        raise invalid("userMessage.state: does not fit the state of this network") from None


async def previous_data(store: HistoryStore, thread_id: str) -> Mapping[str, Any] | None:
    """What the thread's run before left, where the store lets runs go on from each other."""
    if store.turns is None or not isinstance(store, RunStore):
        return None
    run = await store.load_run(thread_id)
    return None if run is None else run.state
