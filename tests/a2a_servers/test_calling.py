"""`A2AAgent`: an agent behind A2A as a member, as a tool, and as somebody to hand over to."""

from __future__ import annotations

import asyncio
import dataclasses
import gzip
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import inngest
import pytest

from agentkit_py import Agent, MemoryHistory, Network, RouterContext, State, tool
from agentkit_py.a2a import A2AAgent, A2ATaskError, calling
from agentkit_py.errors import ConfigurationError
from agentkit_py.inngest import create_functions
from agentkit_py.messages import ImageContent, TextContent, UserMessage
from agentkit_py.routing import handoffs
from agentkit_py.testing import ReplayExecutor, ScriptedModel, tool_call
from tests.server.world import served

from .foreign import Foreign, foreign_app, remote
from .world import URL, serving


class Watched(httpx.AsyncHTTPTransport):
    """A transport over sockets that says when the first event of a stream was read."""

    def __init__(self) -> None:
        super().__init__()
        self.has_event = asyncio.Event()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await super().handle_async_request(request)
        if b"text/event-stream" in dict(response.headers.raw).get(b"content-type", b""):
            response.stream = Events(response.stream, self.has_event)
        return response


class Events(httpx.AsyncByteStream):
    def __init__(self, source: Any, has_event: asyncio.Event) -> None:
        self.source, self.has_event = source, has_event

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self.source:
            yield piece
            self.has_event.set()

    async def aclose(self) -> None:
        await self.source.aclose()


async def test_an_agent_elsewhere_answers_with_the_text_of_its_artifacts() -> None:
    """Pieces of an artifact are one text."""
    executor = Foreign()
    result = await remote(foreign_app(executor)).run("hello")
    assert result.text == "You said hello"
    assert [texts for _, _, texts in executor.said] == [["hello"]]


async def test_a_thread_continues_the_context_and_sends_new_messages_only() -> None:
    """The context's id is in the thread, so that any process continues it."""
    executor = Foreign()
    store = MemoryHistory()
    for text in ("one", "two"):
        agent = remote(foreign_app(executor), history=store)
        await agent.run(text, state=State(thread_id="t"))
    (first, _, one), (second, _, two) = executor.said
    assert (one, two) == (["one"], ["two"])
    assert first == second


async def test_a_question_of_the_task_is_answered_by_the_next_message() -> None:
    """The task stays the same; the text that asked is the agent's answer until then."""
    executor = Foreign()
    app = foreign_app(executor)
    agent = remote(app, history=MemoryHistory())
    asked = await agent.run("ask", state=State(thread_id="t"))
    answered = await agent.run("number 7", state=State(thread_id="t"))
    assert (asked.text, answered.text) == ("For which order?", "You said number 7")
    (_, first, _), (_, second, _) = executor.said
    assert first == second


@pytest.mark.parametrize(("then", "shown"), [("final", "Final."), ("more", "More.")])
async def test_after_a_question_only_new_texts_are_shown(then: str, shown: str) -> None:
    """A text that was rewritten is new, though its artifact keeps its id."""
    agent = remote(foreign_app(Foreign()), history=MemoryHistory())
    first = await agent.run("draft", state=State(thread_id="t"))
    second = await agent.run(then, state=State(thread_id="t"))
    assert (first.text, second.text) == ("Draft.\n\nFor which order?", shown)


@pytest.mark.parametrize(
    ("case", "shown"),
    [("note", "Order 7.\n\nFor which order?"), ("same", "For which order?")],
)
async def test_the_additions_of_a_completed_task_to_its_text_are_shown(
    case: str, shown: str
) -> None:
    """A message in the status of a task that has artifacts, unless it is one of them."""
    assert (await remote(foreign_app(Foreign())).run(case)).text == shown


async def test_a_task_that_is_gone_is_continued_by_its_context() -> None:
    """The server has restarted since it asked."""
    store = MemoryHistory()
    await remote(foreign_app(Foreign()), history=store).run("ask", state=State(thread_id="t"))
    executor = Foreign()
    agent = remote(foreign_app(executor), history=store)
    result = await agent.run("number 7", state=State(thread_id="t"))
    assert result.text == "You said number 7"
    assert len(executor.said) == 1


async def test_a_copy_with_another_url_asks_the_other_server() -> None:
    """And sends its own headers there."""
    asked: list[tuple[str, str | None]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append((request.url.host, request.headers.get("x-key")))
        return httpx.Response(503)

    agent = A2AAgent(name="b", url="https://a.example", transport=httpx.MockTransport(answer))
    with pytest.raises(A2ATaskError):
        await agent.run("Hello")
    copy = dataclasses.replace(agent, url="https://b.example", headers={"x-key": "b"})
    with pytest.raises(A2ATaskError):
        await copy.run("Hello")
    assert asked == [("a.example", None), ("b.example", "b")]


async def test_the_transport_of_the_caller_stays_open() -> None:
    """It is closed by its owner."""

    class Owned(httpx.MockTransport):
        async def aclose(self) -> None:
            raise AssertionError("closed")

    transport = Owned(lambda _: httpx.Response(503))
    for _ in range(2):
        with pytest.raises(A2ATaskError, match="503"):
            await A2AAgent(name="b", url=URL, transport=transport).run("a")


@pytest.mark.parametrize(
    ("card", "others", "is_taken"),
    [
        (f"{URL}:80/rpc", [], True),
        ("http://LOCALHOST/rpc", [], True),
        ("http://localhost:81/rpc", [], False),
        ("http://ef.ex/rpc", ["thief.example"], False),
    ],
)
async def test_the_server_of_a_card_is_compared_as_browsers_do(
    card: str, others: list[str], *, is_taken: bool
) -> None:
    """Scheme, host and port count, the port of the scheme where none is given."""
    app = foreign_app(Foreign())
    app.state.card.supported_interfaces[0].url = card
    agent = remote(app, other_hosts=others)
    if is_taken:
        assert (await agent.run("a")).text == "You said a"
    else:
        with pytest.raises(A2ATaskError, match="which is not at"):
            await agent.run("a")


async def test_headers_leave_no_encrypted_connection() -> None:
    """A named host gets them by https only, where the server itself has it."""
    asked: list[str] = []

    async def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.scheme)
        app = foreign_app(Foreign())
        app.state.card.supported_interfaces[0].url = "http://b.example/rpc"
        return await httpx.ASGITransport(app).handle_async_request(request)

    agent = A2AAgent(
        name="b",
        url="https://a.example",
        other_hosts=["b.example"],
        transport=httpx.MockTransport(answer),
    )
    with pytest.raises(A2ATaskError, match="https only"):
        await agent.run("a")
    assert asked == ["https"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"other_hosts": "thief.example"}, "other_hosts"),
        ({"timeout": "x"}, "timeout"),
        ({"timeout": -1}, "timeout"),
        ({"max_reply_bytes": 0}, "max_reply_bytes"),
        ({"headers": {"a": 1}}, "headers"),
        ({"headers": "a"}, "headers"),
    ],
)
def test_values_of_a_wrong_kind_are_refused(options: dict[str, Any], words: str) -> None:
    """Where the agent is made; the error names the option."""
    with pytest.raises(ConfigurationError, match=f"'b': {words}"):
        A2AAgent(name="b", url=URL, **options)


async def test_texts_of_other_agents_are_sent_under_their_names() -> None:
    """In a network it sees the conversation, and no calls of tools."""

    @tool
    def look_up() -> str:
        """Look up."""
        return "SECRET"

    model = ScriptedModel(tool_call("look_up", {}), "It is paid.")
    clerk = Agent(name="clerk", system="PROMPT", model=model, tools=[look_up])
    executor = Foreign()
    billing = remote(foreign_app(executor))

    def route(context: RouterContext) -> Agent[Any, Any] | None:
        return [clerk, billing, None][context.call_count]

    await Network(name="n", agents=[clerk, billing], router=route).run("Where is my money?")
    assert [texts for _, _, texts in executor.said] == [
        ["Where is my money?", "clerk: It is paid."]
    ]


async def test_it_is_a_tool_of_another_agent() -> None:
    """The model reads the reply as the tool's result."""
    executor = Foreign()
    billing = remote(foreign_app(executor), description="Knows invoices.")
    model = ScriptedModel(tool_call("billing", {"task": "invoice 7"}), "Done.")
    clerk = Agent(name="clerk", system="S", model=model, tools=[billing.as_tool()])
    await clerk.run("a")
    model.assert_saw("You said invoice 7")


async def test_an_agent_hands_the_conversation_over_to_it() -> None:
    """A handoff goes to it as to any agent."""
    executor = Foreign()
    billing = remote(foreign_app(executor), description="Knows invoices.")
    model = ScriptedModel(tool_call("transfer_to_billing", {}))
    clerk = Agent(name="clerk", system="S", model=model, handoffs=[billing])
    network = Network(name="n", agents=[clerk, billing], router=handoffs(clerk))
    run = await network.run("invoice 7")
    assert run.text == "You said invoice 7"


async def test_our_own_server_is_an_agent_like_any_other() -> None:
    """Both ends of this library, with the user in a header."""
    async with serving("Ten euros.") as app:
        result = await remote(app, headers={"x-user": "ada"}).run("How much?")
        assert result.text == "Ten euros."
        with pytest.raises(A2ATaskError, match="401"):
            await remote(app).run("How much?")


async def test_a_failed_task_is_an_error_with_the_servers_words() -> None:
    """The error keeps the task's id."""
    with pytest.raises(A2ATaskError, match="task failed: For which order") as caught:
        await remote(foreign_app(Foreign())).run("fail")
    assert caught.value.task_id
    assert not caught.value.retriable


@pytest.mark.parametrize(("status", "retriable"), [(503, True), (429, True), (401, False)])
async def test_a_card_is_asked_for_again_where_that_may_help(
    status: int, *, retriable: bool
) -> None:
    """Nothing was sent to the server yet."""
    transport = httpx.MockTransport(lambda _: httpx.Response(status))
    with pytest.raises(A2ATaskError, match="its card cannot be read") as caught:
        await A2AAgent(name="b", url=URL, transport=transport).run("a")
    assert caught.value.retriable is retriable


async def test_a_reply_that_is_too_long_is_an_error() -> None:
    """A stranger's server decides how much it sends."""
    with pytest.raises(A2ATaskError, match="more than 99 bytes"):
        await remote(foreign_app(Foreign()), max_reply_bytes=99).run("long")


async def test_a_card_that_names_another_host_gets_no_headers() -> None:
    """Whoever changes a card would get the caller's key; the caller may name the host."""
    app = foreign_app(Foreign())
    app.state.card.supported_interfaces[0].url = "http://thief.example/rpc"
    with pytest.raises(A2ATaskError, match=r"sends messages to 'http://thief\.example/rpc'"):
        await remote(app).run("a")
    result = await remote(app, other_hosts=["thief.example"]).run("a")
    assert result.text == "You said a"


async def test_a_reply_compressed_in_an_unknown_way_is_refused() -> None:
    """A small body could become a large body that fills the memory."""

    async def answer(_request: httpx.Request) -> httpx.Response:
        async def body() -> AsyncIterator[bytes]:
            yield gzip.compress(b"{}")

        return httpx.Response(200, content=body(), headers={"content-encoding": "br"})

    agent = A2AAgent(name="b", url=URL, transport=httpx.MockTransport(answer))
    with pytest.raises(A2ATaskError, match="compressed"):
        await agent.run("a")


async def test_controls_in_a_servers_words_reach_no_terminal() -> None:
    """The error has the words without escape sequences, and not without end."""
    executor = Foreign()
    executor.words = "\x1b[31mred" + "x" * 9999
    with pytest.raises(A2ATaskError, match=r"task failed: \[31mred") as caught:
        await remote(foreign_app(executor)).run("fail")
    assert len(str(caught.value)) < 2500


@pytest.mark.parametrize("url", ["https://ada:key@b.example", "https://b.example/?key=1"])
def test_an_address_with_a_secret_is_refused(url: str) -> None:
    """Addresses are in errors, traces and logs."""
    with pytest.raises(ConfigurationError, match="put credentials into headers"):
        A2AAgent(name="b", url=url)


async def test_an_image_is_an_error_and_not_left_out() -> None:
    """Texts only are sent."""
    message = UserMessage([TextContent("Look"), ImageContent(url="https://a.example/b.png")])
    with pytest.raises(A2ATaskError, match="a message has image"):
        await remote(foreign_app(Foreign())).run(message)


def test_an_address_that_is_none_is_refused_where_the_agent_is_made() -> None:
    """The error names the agent and the value."""
    with pytest.raises(ConfigurationError, match="'b': url='billing' is not an http"):
        A2AAgent(name="b", url="billing")


@pytest.mark.parametrize(
    "option",
    [
        {"system": "S"},
        {"tools": [print]},
        {"output_type": int},
        {"tool_choice": "any"},
        {"markdown": True},
        {"stream_before_response": True},
        {"allowed_tools": ["a"]},
        {"parallel_tools": True},
        {"repair_arguments": False},
        {"max_iter": 3},
        {"output_retries": 0},
        {"search_knowledge": False},
    ],
)
def test_options_that_have_no_effect_are_refused(option: dict[str, Any]) -> None:
    """The server has its own prompt, tools and limits."""
    with pytest.raises(ConfigurationError, match=f"{next(iter(option))} cannot be set"):
        A2AAgent(name="b", url=URL, **option)


def test_every_option_of_agents_is_refused_or_has_an_effect() -> None:
    """A new option must not be taken in silence: the server knows nothing of it."""
    effective = {
        *("name", "description", "lifecycle", "input_guardrails", "output_guardrails"),
        *("state_type", "model", "history", "processors", "keep_cut_replies"),
        *("history_mode", "token_counter"),
    }
    refused: set[str] = set(calling._NOT_SENT)  # pyright: ignore[reportPrivateUsage]
    options = {option.name for option in dataclasses.fields(Agent) if option.init}
    advice = "add the option to _NOT_SENT in agentkit_py/a2a/calling.py, or to effective"
    assert options - effective - refused == set(), advice
    assert effective & refused == set()


def test_another_model_takes_its_place_in_a_test() -> None:
    """Nothing is called then."""
    agent = A2AAgent(name="b", url="https://b.example").with_model(ScriptedModel("Fine."))
    assert agent.run_sync("a").text == "Fine."


async def test_a_durable_run_sends_a_message_once() -> None:
    """The reply is remembered as the output of a step, with its context."""
    executor = Foreign()
    billing = remote(foreign_app(executor))
    model = ScriptedModel("Thanks.")
    clerk = Agent(name="clerk", system="S", model=model)
    network = Network(
        name="n", agents=[billing, clerk], router=lambda c: [billing, clerk, None][c.call_count]
    )
    client = inngest.Inngest(app_id="t", is_production=False)
    functions = create_functions(client, networks=[network], inference="local")
    replay = ReplayExecutor(client, functions, transport=model.transport, check=True)
    run = await replay.run("t/network-n", {"input": "hi"})
    assert run.error is None
    assert run.output["text"] == "Thanks."
    assert len(executor.said) == 1
    model.assert_saw("You said hi")


async def test_a_run_that_is_stopped_cancels_the_task() -> None:
    """The server stops its work; over a socket, as an app in this task would stop by itself."""
    executor = Foreign()
    app = foreign_app(executor)
    async with served(app) as url:
        app.state.card.supported_interfaces[0].url = f"{url}/rpc"
        transport = Watched()
        agent = A2AAgent(name="billing", url=url, transport=transport)
        run = asyncio.create_task(agent.run("hang"))
        await transport.has_event.wait()  # with the task's id
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        await transport.aclose()
    assert executor.cancelled.is_set()


DESK = """
from agentkit_py import Agent, tool
from agentkit_py.testing import ScriptedModel, tool_call

@tool(needs_approval=True)
def refund(order: int) -> str:
    "Pay back."
    return "paid"

model = ScriptedModel(tool_call("refund", {"order": 7}), "It is paid.", "Gladly.")
clerk = Agent(name="Order Desk", system="S", tools=[refund], model=model)
"""


async def test_the_command_serves_an_agent_whose_question_is_answered(tmp_path: Path) -> None:
    """A process of its own, over HTTP; a page that points its name to this machine is refused."""
    (tmp_path / "desk.py").write_text(DESK)
    process = subprocess.Popen(  # noqa: ASYNC220 - started once, at once
        [sys.executable, "-m", "agentkit_py.cli", "a2a", "desk:clerk", "--port", "0"],
        cwd=tmp_path,
        env={**os.environ, "COLUMNS": "200"},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        found = re.search(r"http://127\.0\.0\.1:\d+", process.stdout.readline())
        assert found is not None
        agent = A2AAgent(name="desk", url=found[0], history=MemoryHistory())
        asked, paid, thanked = [
            (await agent.run(text, state=State(thread_id="t"))).text
            for text in ("Pay back", "yes", "Thank you")
        ]
        assert 'refund {"order":7}' in asked
        assert (paid, thanked) == ("It is paid.", "Gladly.")
        async with httpx.AsyncClient(base_url=found[0]) as http:
            refused = await http.post("/a2a", json={}, headers={"Host": "evil.example"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "local_only")
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
