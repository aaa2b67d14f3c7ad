"""Each parameter of `create_app`, `create_functions` and `resume` has a test of its effect.

`TESTS` names it. Each was seen to fail where the parameter was left out of the calls. Parameters of
`Agent`, `Network` and `run` are in `effects`.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
from functools import cache
from pathlib import Path
from typing import Any

import inngest
import pytest

from agentkit_py import Agent, MemoryHistory, RunLimits, UserMessage, openai, tool
from agentkit_py.errors import ConfigurationError
from agentkit_py.history.leases import OnBusy
from agentkit_py.inngest import create_functions
from agentkit_py.runtime.direct import DirectRuntime
from agentkit_py.server import create_app
from agentkit_py.server.chat_page import ChatPage
from agentkit_py.stores import ThreadLease
from agentkit_py.testing import FakeProvider, ReplayExecutor, ScriptedModel, tool_call
from tests.server.world import app_of, by_header, client_of, said, support

from .cases import TAKES
from .effects import look, refund
from .test_effects import REFUSED

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
        "staff": "test_staff.py::test_joining_may_stop_the_agents",
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
        "agents": f"{FUNCTIONS}::test_a_bad_event_fails_once_and_names_the_expected_fields",
        "networks": f"{FUNCTIONS}::test_a_networks_function_says_why_it_ended",
        "options": f"{FUNCTIONS}::test_options_are_passed_on_to_the_server",
        "inference": f"{FUNCTIONS}::"
        "test_a_word_that_an_option_does_not_know_is_refused_with_its_choices",
        "realtime": "tests/durable/test_streaming.py::"
        "test_a_function_publishes_to_the_users_channel",
        "local": f"{HERE}::test_requests_are_sent_by_the_local_runtime_that_is_given",
    },
    "run": {
        "ctx": f"{HERE}::test_a_run_with_the_context_of_a_function_is_of_steps",
        "require_durable": "tests/durable/test_same_as_direct.py::"
        "test_require_durable_refuses_a_run_outside_of_inngest",
        "on_busy": f"{HERE}::test_a_message_reaches_the_run_of_a_busy_thread_where_it_steers",
    },
    "resume": {
        "thread": "tests/durable/test_questions.py::test_answer_question_answers_a_run_once",
        "answers": "tests/durable/test_questions.py::test_answer_question_answers_a_run_once",
        "by": "tests/engine/test_pausing.py::"
        "test_a_run_pauses_and_resumes_in_a_process_that_does_not_know_it",
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
    parameters = [name for _, name in REFUSED] if of == "run" else TAKES.get(of, resuming)
    assert sorted(TESTS[of]) == sorted(parameters)


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


async def test_requests_are_sent_by_the_local_runtime_that_is_given() -> None:
    """Without it, by a runtime of the process's own."""
    sent: list[tuple[int, int]] = []
    for is_given in (False, True):
        own, other = FakeProvider(["Hello."]), FakeProvider(["Hello."])
        options: dict[str, Any] = {"local": DirectRuntime(transport=own.transport)}
        client = inngest.Inngest(app_id="app", is_production=False)

        def functions(
            client: inngest.Inngest = client, options: dict[str, Any] = options if is_given else {}
        ) -> list[inngest.Function[Any]]:
            agent = Agent(name="clerk", system="S", model=openai("gpt-4o", api_key="k"))
            return create_functions(client, agents=[agent], **options)

        executor = ReplayExecutor(client, functions, transport=other.transport)
        run = await executor.run("app/agent-clerk", {"input": "Hi"})
        assert run.output["text"] == "Hello."
        sent.append((len(own.requests), len(other.requests)))
    assert sent == [(0, 1), (1, 0)]


async def test_a_run_with_the_context_of_a_function_is_of_steps() -> None:
    """Without it, and without the middleware, nothing would be remembered: it is refused."""
    seen: list[tuple[object, int, bool]] = []
    for is_given in (False, True):
        model = ScriptedModel("Hello.")
        agent = Agent(name="clerk", system="S", model=model)
        client = inngest.Inngest(app_id="app", is_production=False)
        trigger = inngest.TriggerEvent(event="go")

        @client.create_function(fn_id="f", trigger=trigger)
        async def function(
            ctx: inngest.Context, agent: Agent = agent, is_given: bool = is_given
        ) -> str:
            return (await agent.run("Hi", **({"ctx": ctx} if is_given else {}))).text

        executor = ReplayExecutor(client, [function], transport=model.transport)
        run = await executor.run("go")
        seen.append((run.output, len(run.steps), "AgentKitMiddleware" in str(run.error)))
    assert seen == [(None, 0, True), ("Hello.", 1, False)]


class Posts(MemoryHistory):
    """A store that says when a message for a run is there."""

    def __init__(self) -> None:
        super().__init__(lease=ThreadLease(steering=True, seconds=3600))
        self.posted = asyncio.Event()

    async def put_message(
        self, thread_id: str, message: UserMessage, *, interrupts: bool = False
    ) -> None:
        await super().put_message(thread_id, message, interrupts=interrupts)
        self.posted.set()


@pytest.mark.parametrize("on_busy", ["wait", "steer"])
async def test_a_message_reaches_the_run_of_a_busy_thread_where_it_steers(on_busy: OnBusy) -> None:
    """A message that waits has a run of its own afterwards."""
    later: list[asyncio.Task[Any]] = []
    store = Posts()

    @tool
    async def paint() -> str:
        """Paint; meanwhile another message comes."""
        later.append(asyncio.create_task(clerk.run("In blue.", thread_id="t", on_busy=on_busy)))
        if on_busy == "steer":
            await store.posted.wait()
        return "painted"

    model = ScriptedModel(tool_call("paint", {}), "Done.", "Done in blue.")
    clerk = Agent(name="clerk", system="S", model=model, tools=[paint], history=store)
    await clerk.run("Paint it.", thread_id="t")
    await later[0]
    assert ("In blue." in str(model.bodies[1])) == (on_busy == "steer")
