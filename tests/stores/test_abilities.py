"""What a store can do is looked at once, and a wrapper of it can do no more."""

from __future__ import annotations

from copy import copy
from typing import Any

import pytest

from agentkit_py import Agent, HistoryConfig, MemoryHistory
from agentkit_py.errors import ConfigurationError
from agentkit_py.history import StaffDesk, deliver
from agentkit_py.history.abilities import abilities_of, find_abilities
from agentkit_py.history.leases import ThreadLease
from agentkit_py.memory import Memory
from agentkit_py.stores import HistoryStore, for_user, redacted
from agentkit_py.testing import ScriptedModel


def lacking(*methods: str) -> HistoryStore:
    """Return a store in memory without these methods."""
    made: HistoryStore = type("Small", (MemoryHistory,), dict.fromkeys(methods))()
    return made


@pytest.mark.parametrize("masked", [False, True])
async def test_a_wrapper_lacks_the_abilities_that_its_store_lacks(masked: bool) -> None:
    """Each is refused with the error of the store, before anything is stored."""
    store = lacking("put_mail", "load_takeover", "add_fact")
    wrapped = redacted(store, ["email"]) if masked else for_user(store, "ada")
    with pytest.raises(ConfigurationError, match="needs history=… with a store that keeps mail"):
        await deliver(wrapped, "paid", "7", {}, mail_id="1")
    with pytest.raises(ConfigurationError, match="Staff need a store"):
        StaffDesk(wrapped)
    with pytest.raises(ConfigurationError, match="pass the store of the threads"):
        Memory(wrapped)  # type: ignore[arg-type]
    able = wrapped.abilities
    assert able.runs is able.questions is able.summaries is able.inbox is wrapped
    assert able.mail is able.takeovers is able.facts is None


def test_a_copy_of_a_store_has_abilities_of_its_own() -> None:
    """A view of one user must not answer with the store of all users."""
    store = MemoryHistory()
    assert store.abilities.runs is store
    view = copy(store)
    assert view.abilities.runs is view
    assert store.abilities.runs is store


def test_callbacks_and_no_history_have_no_abilities() -> None:
    """A `HistoryConfig` of callbacks keeps nothing beside its threads."""
    for history in (None, HistoryConfig(), object()):
        able = abilities_of(history)
        assert able.pages is able.runs is able.questions is able.mail is able.summaries is None


@pytest.mark.parametrize("masked", [False, True])
def test_a_wrapper_names_each_ability_whose_methods_it_has(masked: bool) -> None:
    """One that it forgot would be refused though the wrapper passes its calls on."""
    store = MemoryHistory()
    wrapped = redacted(store, ["email"]) if masked else for_user(store, "ada")
    assert wrapped.abilities == find_abilities(wrapped)


async def test_a_store_that_does_not_open_runs_at_once_gets_its_thread_first() -> None:
    """It makes the thread, and then gives its lease."""
    store = lacking("open_run")
    store.lease = ThreadLease()
    model = ScriptedModel("Hello.")
    run = await Agent(name="a", system="S", model=model, history=store).run("Hi", thread_id="new")
    assert run.thread_id == "new"
    assert len(await store.load("new")) == 2


def test_a_store_that_keeps_notes_and_does_not_give_them_back_is_refused() -> None:
    """The calls of a function's run that fails would be lost, and nothing would say so."""
    forgets: Any = type("Forgets", (MemoryHistory,), {"notes_of": HistoryStore.notes_of})
    with pytest.raises(ConfigurationError, match="Forgets: it has note_calls, and no notes_of"):
        forgets()
