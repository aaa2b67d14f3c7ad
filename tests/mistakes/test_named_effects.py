"""Each parameter of `create_app`, `create_functions` and `resume` has a test of its effect.

`TESTS` names it. Each was seen to fail where the parameter was left out of the calls, but that of
``create_functions(local=…)``. Parameters of `Agent`, `Network` and `run` are in `effects`.
"""

from __future__ import annotations

import ast
import inspect
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from agentkit_py import Agent, MemoryHistory, RunLimits
from agentkit_py.errors import ConfigurationError
from agentkit_py.server import create_app
from agentkit_py.server.chat_page import ChatPage
from agentkit_py.testing import tool_call
from tests.server.world import app_of, by_header, client_of, said, support

from .cases import TAKES
from .effects import look, refund

ROOT = Path(__file__).resolve().parents[2]
HERE = "tests/mistakes/test_named_effects.py"
SERVER = "tests/server"
FUNCTIONS = "tests/durable/test_functions.py"

TESTS: dict[str, dict[str, str]] = {
    "create_app": {
        "networks": "test_threads.py::test_the_networks_own_history_is_used_where_none_is_given",
        "agents": "test_facts.py::test_a_memory_that_could_not_be_shown_is_refused",
        "history": f"{HERE}::test_threads_are_in_the_store_of_the_server",
        "client": "test_inngest_mode.py::test_the_event_carries_the_clients_history",
        "auth": "test_access.py::test_an_invalid_user_id_from_auth_is_an_internal_error",
        "approvers": f"{HERE}::test_questions_need_approvers",
        "may_answer": "test_approving.py::"
        "test_a_tool_says_who_decides_and_to_whom_a_question_escalates",
        "staff": "test_staff.py::test_joining_may_stop_what_agents_do",
        "may_take_over": "test_staff.py::"
        "test_the_applications_rule_decides_but_never_for_the_customer",
        "notify": "test_staff.py::test_a_customer_who_has_left_gets_a_notice_with_a_link",
        "thread_url": "test_staff.py::test_a_customer_who_has_left_gets_a_notice_with_a_link",
        "client_state": "test_chat.py::test_only_allowed_keys_of_client_state_are_used",
        "client_history": "test_chat.py::test_the_clients_history_is_used_with_client_history",
        "user_key": "test_access.py::test_tools_find_the_user_of_auth_in_the_state",
        "new_state": "tests/test_given_state.py::test_new_state_makes_the_state_of_a_users_runs",
        "tenant_of": "test_facts.py::test_a_user_of_two_tenants_sees_one",
        "across_tenants": "test_tenants.py::test_across_tenants_needs_tenants_and_a_list",
        "memory": "test_facts.py::test_one_tenant_is_named_once",
        "origins": "test_access.py::test_pages_of_named_origins_may_use_the_api",
        "limits": "test_chat.py::test_one_run_of_the_process_too_many_is_refused",
        "hub_limits": "test_streams.py::test_a_last_event_id_that_was_dropped_gives_a_reset",
        "run_limits": f"{HERE}::test_run_limits_end_a_run_of_the_server",
        "leases": "test_shared_streams.py::test_a_store_keeps_its_own_lease_or_none",
        "page": f"{HERE}::test_a_page_is_served_where_it_is_given",
        "extended": "test_streams.py::test_usage_and_metadata_are_streamed_only_with_extended",
        "secret": "test_attacks.py::test_a_short_secret_is_refused",
        "realtime": "test_inngest_mode.py::"
        "test_a_store_that_carries_no_streams_is_refused_for_them",
        "realtime_url": "test_realtime.py::test_realtime_url_overrides_the_tokens_address",
    },
    "create_functions": {
        "client": f"{FUNCTIONS}::test_options_are_passed_on_to_the_server",
        "agents": f"{FUNCTIONS}::test_a_bad_event_fails_once_and_says_what_was_expected",
        "networks": f"{FUNCTIONS}::test_a_networks_function_says_why_it_ended",
        "options": f"{FUNCTIONS}::test_options_are_passed_on_to_the_server",
        "inference": f"{FUNCTIONS}::"
        "test_a_word_that_an_option_does_not_know_is_refused_with_its_choices",
        "realtime": "tests/durable/test_streaming.py::"
        "test_a_function_publishes_to_the_users_channel",
        "local": "tests/durable/test_deploys.py::"
        "test_a_run_goes_on_where_models_are_asked_from_elsewhere_now",
    },
    "resume": {
        "thread": "tests/durable/test_questions.py::test_answer_question_answers_a_run_once",
        "answers": "tests/durable/test_questions.py::test_answer_question_answers_a_run_once",
        "by": "tests/engine/test_pausing.py::"
        "test_a_run_pauses_and_goes_on_where_nothing_is_known_of_it",
    },
}
"""The test of each parameter; a file without a folder is of the server's tests."""


def node_of(test: str) -> str:
    """Return the path of a test."""
    return test if "/" in test else f"{SERVER}/{test}"


@cache
def names_in(path: str) -> set[str]:
    """Return the names of a file's tests."""
    tree = ast.parse((ROOT / path).read_text())
    return {
        one.name for one in tree.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
    }


NAMED = [(of, name) for of, tests in TESTS.items() for name in tests]


@pytest.mark.parametrize("of", TESTS)
def test_every_parameter_names_a_test(of: str) -> None:
    """A new parameter needs a test; one that is gone has none."""
    taken = inspect.signature(Agent.resume).parameters
    resuming = {name: "" for name in taken if name not in ("self", "options")}
    assert sorted(TESTS[of]) == sorted(TAKES.get(of, resuming))


@pytest.mark.parametrize(("of", "name"), NAMED, ids=[f"{of}.{name}" for of, name in NAMED])
def test_the_test_of_a_parameter_is_there(of: str, name: str) -> None:
    """It is a test of the suite."""
    path, _, test = node_of(TESTS[of][name]).partition("::")
    assert test in names_in(path)


async def test_run_limits_end_a_run_of_the_server() -> None:
    """The model of a thread is asked no more often than they let it."""
    replies = [tool_call("look", {}), "Found.", tool_call("look", {}), "Found."]
    texts: list[bool] = []
    for options in ({}, {"run_limits": RunLimits(max_inferences=1)}):
        app = app_of(support(*replies, tools=(look,)), **options)
        await said(app, "Where is it?", "t")
        async with client_of(app) as client:
            thread = await client.get("/api/threads/t")
            texts.append("Found." in thread.text)
    assert texts == [True, False]


async def test_a_page_is_served_where_it_is_given() -> None:
    """Without it there is none."""
    found: list[int] = []
    for options in ({}, {"page": ChatPage()}):
        async with client_of(app_of(support("Hello."), **options)) as client:
            found.append((await client.get("/chat/")).status_code)
    assert found == [404, 200]


async def test_threads_are_in_the_store_of_the_server() -> None:
    """Where its networks have none of their own."""
    saved: list[bool] = []
    for is_given in (False, True):
        store = MemoryHistory()
        options: dict[str, Any] = {"history": store} if is_given else {}
        network = support("Hello.")
        app = create_app(networks=[network], auth=by_header, **options)
        await said(app, "Hi", "t")
        saved.append(bool(await store.list_threads()))
    assert saved == [False, True]


def test_questions_need_approvers() -> None:
    """Without them nobody could answer."""
    network = support("Hello.", tools=(refund,), history=MemoryHistory())
    with pytest.raises(ConfigurationError, match="approvers"):
        create_app(networks=[network], auth=by_header)
    create_app(networks=[network], auth=by_header, approvers=["owner"])
