"""What is assigned to an object of a public class counts from the next use on, or is refused."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import pkgutil
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

import agentkit_py
from agentkit_py import SqliteHistory
from agentkit_py.knowledge import PostgresKnowledge, SqliteKnowledge
from agentkit_py.processors import Redactor
from agentkit_py.stores import PostgresHistory, Workspace

_CALLBACKS = {"append_results", "append_user_message", "create_thread", "get", "lazy", "save_each"}

READ_AT_EACH_USE: dict[str, set[str]] = {
    "Budgets": {"clock", "on_failure", "plans", "prices", "store"},
    "HashingEmbedder": {"dimensions", "texts"},
    "HistoryConfig": _CALLBACKS,
    "HistoryStore": {*_CALLBACKS, "counts_tokens"},
    "Hub": {"clock", "on_publish"},
    "Knowledge": {"embedder", "k", "mode", "store"},
    "Memory": {"clock", "most", "shared", "store", "tenant"},
    "OpenAIEmbedder": {"dimensions"},
    "RedactingFilter": {"redactor"},
    "ScopedBudget": {"scopes"},
    "State": {"context_id", "data", "goes_on_with", "not_loaded", "parent_context", "thread_id"},
    "UserMemory": {"tenant", "user_id"},
}
"""Settings that nothing is derived from when the object is made. Before adding to it, look where
the attribute is read: if that is in the constructor, make it a property."""

RECORDS = {
    *("EventLog", "FakeProvider", "InngestRuntime", "MessageAssembler", "NetworkRun"),
    *("ReplayExecutor", "Subscription"),
}
"""Classes whose attributes are what happened, for reading."""

PLAIN = {
    *("A2AAgent", "Agent", "MCPServer", "Network", "Projector", "RoutingAgent", "StreamedPart"),
    "Suite",
}
"""Dataclasses that are not frozen: their fields are resolved where a run or a use begins."""


def _is_own_class(kind: Any) -> bool:
    """Return whether it is no `TypedDict` and no `Protocol`, though it may be derived from one."""
    own = cast("dict[str, Any]", vars(kind))
    return not hasattr(kind, "__total__") and not own.get("_is_protocol", False)


def public_classes() -> Iterator[type[Any]]:
    """Each class that a package of the library exports, errors and tuples left out."""
    names = [f"agentkit_py.{one.name}" for one in pkgutil.iter_modules(agentkit_py.__path__)]
    modules = [importlib.import_module(one) for one in names if "._" not in one]
    exported: list[Any] = [
        getattr(m, n) for m in (agentkit_py, *modules) for n in getattr(m, "__all__", ())
    ]
    for one in dict.fromkeys(item for item in exported if inspect.isclass(item)):
        is_ours = one.__module__.startswith("agentkit_py")
        is_class = not issubclass(one, BaseException | tuple)
        if is_ours and is_class and _is_own_class(one):
            yield one


def assignable(kind: type[Any]) -> set[str]:
    """Public attributes that constructors of the class and its bases set, properties left out."""
    found: set[str] = set()
    for one in kind.__mro__:
        made = vars(one).get("__init__")
        if made is None or not one.__module__.startswith("agentkit_py"):
            continue
        tree = ast.parse(textwrap.dedent(inspect.getsource(made)))
        found |= {
            node.attr
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute)
            and isinstance(node.ctx, ast.Store)
            and isinstance(node.value, ast.Name)
            and node.value.id == "self"
        }
    return {
        name
        for name in found
        if not name.startswith("_")
        and not isinstance(inspect.getattr_static(kind, name, None), property)
    }


def test_each_attribute_that_can_be_assigned_counts() -> None:
    """All others are properties, or their class is frozen."""
    unknown: dict[str, set[str]] = {}
    for kind in public_classes():
        if dataclasses.is_dataclass(kind):
            frozen: bool = getattr(kind, "__dataclass_params__").frozen  # noqa: B009 - not typed
            if not frozen and kind.__name__ not in PLAIN:
                unknown[kind.__name__] = {one.name for one in dataclasses.fields(kind)}
            continue
        if kind.__name__ in RECORDS:
            continue
        known: set[str] = set()
        for one in kind.__mro__:
            known |= READ_AT_EACH_USE.get(one.__name__, set())
        if more := assignable(kind) - known:
            unknown[kind.__name__] = more
    assert unknown == {}


def test_the_walk_sees_the_attributes_that_a_class_sets() -> None:
    """The property can fail."""
    assert {"Budgets", "SqliteHistory", "Agent"} <= {one.__name__ for one in public_classes()}
    assert assignable(SqliteHistory) == READ_AT_EACH_USE["HistoryStore"]


def fixed(folder: Path) -> list[tuple[object, str]]:
    """Objects, each with an attribute that is settled when it is made."""
    store, knowledge = SqliteHistory(folder / "a.db"), SqliteKnowledge(folder / "k.db")
    server = "postgresql://host/db"
    return [
        (store, "path"),
        (store, "busy_timeout"),
        (PostgresHistory(server), "schema"),
        (PostgresHistory(server), "prefix"),
        (knowledge, "path"),
        (PostgresKnowledge(server), "schema"),
        (Redactor(["email"]), "function"),
        (Workspace(folder), "root"),
    ]


def test_fields_of_a_value_cannot_be_assigned(tmp_path: Path) -> None:
    """A connection, a file and a compiled pattern are of the old value."""
    for made, name in fixed(tmp_path):
        with pytest.raises(AttributeError, match=f"{name}.*has no setter"):
            setattr(made, name, "other")
