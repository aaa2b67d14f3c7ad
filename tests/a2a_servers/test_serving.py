"""`create_a2a_app`: a network for the SDK's own client, with the users and rights of the API."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.helpers import get_data_parts, get_message_text, new_text_part
from a2a.server.context import ServerCallContext
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    SendMessageConfiguration,
    Task,
    TaskPushNotificationConfig,
    TaskState,
)
from a2a.utils.errors import A2AError, InvalidParamsError, TaskNotFoundError
from starlette.applications import Starlette

from agentkit_py import MemoryHistory, tool
from agentkit_py.a2a import create_a2a_app
from agentkit_py.a2a import serving as serving_module
from agentkit_py.errors import ConfigurationError
from agentkit_py.guardrails import Guardrail, Tripwire
from agentkit_py.server import ServerLimits
from agentkit_py.testing import tool_call
from agentkit_py.tools import Progress, ToolContext
from tests.server.world import app_of, served, support

from .world import (
    URL,
    artifacts_of,
    events_of,
    http_of,
    last_state,
    saying,
    sdk,
    serving,
    task_of,
    texts_of,
)


@tool(needs_approval=True)
def refund(order: str) -> str:
    """Pay money back."""
    return f"paid {order}"


class SlowTasks(InMemoryTaskStore):
    """Answers later, as a database does."""

    async def get(self, task_id: str, context: ServerCallContext) -> Task | None:
        """Return a task as it was a while ago."""
        found = await super().get(task_id, context)
        for _ in range(300):
            await asyncio.sleep(0)
        return found


def task_id_of(events: list[Any]) -> str:
    """The task that a reply began."""
    return events[0].task.id


async def test_the_card_names_the_network_and_says_nothing_of_its_agents() -> None:
    """It is public, so that clients find the endpoint; it needs no user."""
    async with serving() as app, http_of(app, None) as http:
        card = (await http.get(f"{URL}/.well-known/agent-card.json")).json()
    assert (card["name"], card["description"]) == ("support", "Sells hats.")
    assert card["capabilities"] == {"streaming": True, "pushNotifications": True}
    assert card["supportedInterfaces"][0]["url"] == f"{URL}/a2a"
    assert "clerk" not in str(card)


async def test_a_reply_streams_as_pieces_of_an_artifact_and_then_as_a_whole() -> None:
    """The task in the store has the text once, as a single part."""
    async with serving("Hats are ten euros.") as app, sdk(app) as client:
        events = await events_of(client, saying("How much?"))
        task = await client.get_task(GetTaskRequest(id=task_id_of(events)))
    pieces = artifacts_of(events)
    assert len(pieces) > 1
    assert [piece.append for piece in pieces] == [False, *[True] * (len(pieces) - 2), False]
    assert [piece.last_chunk for piece in pieces] == [*[False] * (len(pieces) - 1), True]
    assert last_state(events) == "completed"
    assert texts_of(task) == ["Hats are ten euros."]
    assert [get_message_text(said) for said in task.history] == ["How much?"]


async def test_events_reach_a_client_while_the_run_works() -> None:
    """Over a socket: the tool waits for what the client does once it has seen the call."""
    seen = asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        await seen.wait()
        return "ok"

    network = support(tool_call("wait", {}), "Done.", tools=(wait,))
    async with served(create_a2a_app(app_of(network), url=URL)) as url, httpx.AsyncClient() as http:
        http.headers["x-user"] = "ada"
        card = await A2ACardResolver(http, url).get_agent_card()
        card.supported_interfaces[0].url = f"{url}/a2a"
        client = ClientFactory(ClientConfig(httpx_client=http)).create(card)
        events: list[Any] = []
        async for event in client.send_message(saying("a")):
            events.append(event)
            if "clerk calls wait" in get_message_text(event.status_update.status.message):
                seen.set()
    assert last_state(events) == "completed"


@pytest.mark.parametrize("streaming", [True, False])
async def test_a_message_that_comes_again_is_answered_with_its_task(streaming: bool) -> None:
    """A client that died does not know that it was answered; the model is asked once."""
    async with serving("Ten.") as app, sdk(app, streaming=streaming) as client:
        request = saying("How much?")
        first = await events_of(client, request)
        again = await events_of(client, request)
        tasks = (await client.list_tasks(ListTasksRequest())).tasks
        other = saying("How many?", message_id=request.message.message_id)
        with pytest.raises(InvalidParamsError, match="another message"):
            await events_of(client, other)
    assert len(tasks) == 1
    assert again[-1].task.id == first[0].task.id
    assert texts_of(again[-1].task) == ["Ten."]


@pytest.mark.parametrize("streaming", [True, False])
async def test_a_message_that_comes_again_while_its_run_works_gets_the_same_end(
    streaming: bool,
) -> None:
    """Its events so far and the rest."""
    begun, free = asyncio.Event(), asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        begun.set()
        await free.wait()
        return "ok"

    calls = tool_call("wait", {}), "Done."
    async with serving(*calls, tools=(wait,)) as app, sdk(app, streaming=streaming) as client:
        request = saying("a")
        first = asyncio.create_task(events_of(client, request))
        await begun.wait()
        again = asyncio.create_task(events_of(client, request))
        for _ in range(20):
            await asyncio.sleep(0)
        free.set()
        seen = await again
        assert last_state(seen) == last_state(await first) == "completed"
        assert len(seen) > 1 or not streaming
        tasks = (await client.list_tasks(ListTasksRequest())).tasks
    assert len(tasks) == 1


@pytest.mark.parametrize("streaming", [True, False])
async def test_a_message_that_is_sent_twice_at_once_is_answered_once(streaming: bool) -> None:
    """Also an answer: the second is not taken for the answer to the question after it."""
    paid: list[str] = []

    @tool(needs_approval=True)
    def refund(order: str) -> str:
        """Pay money back."""
        paid.append(order)
        return "paid"

    asks = [tool_call("refund", {"order": order}) for order in "78"]
    serve = {"task_store": SlowTasks()}
    async with (
        serving(*asks, "Done.", tools=(refund,), serve=serve) as app,
        sdk(app, streaming=streaming) as client,
    ):
        request = saying("pay")
        both = await asyncio.gather(*(events_of(client, request) for _ in range(2)))
        assert [last_state(one) for one in both] == ["input_required"] * 2
        (task,) = (await client.list_tasks(ListTasksRequest())).tasks
        answer = saying("yes", task_id=task.id, context_id=task.context_id)
        both = await asyncio.gather(*(events_of(client, answer) for _ in range(2)))
        assert [last_state(one) for one in both] == ["input_required"] * 2
    assert paid == ["7"]


async def test_an_answer_that_comes_again_is_given_once() -> None:
    """The call that it allows is made once."""
    paid: list[str] = []

    @tool(needs_approval=True)
    def refund(order: str) -> str:
        """Pay money back."""
        paid.append(order)
        return "paid"

    replies = tool_call("refund", {"order": "7"}), "Done."
    async with serving(*replies, tools=(refund,)) as app, sdk(app) as client:
        task = (await events_of(client, saying("pay")))[0].task
        answer = saying("yes", task_id=task.id, context_id=task.context_id)
        for _ in range(2):
            assert last_state(await events_of(client, answer)) == "completed"
    assert paid == ["7"]


async def test_the_oldest_tasks_are_dropped_with_their_notifications(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Memory does not grow with the server's age."""
    monkeypatch.setattr(serving_module, "MOST_TASKS", 2)
    async with serving("1", "2", "3") as app, sdk(app) as client:
        ids = [task_id_of(await events_of(client, saying(text))) for text in "abc"]
        left = (await client.list_tasks(ListTasksRequest())).tasks
        assert {task.id for task in left} == set(ids[1:])
        with pytest.raises(TaskNotFoundError):
            await client.get_task(GetTaskRequest(id=ids[0]))


async def test_a_reply_that_a_guardrail_replaces_is_replaced_in_the_task() -> None:
    """Users saw its pieces; the task has the words in their place."""
    refuse = Guardrail(lambda _: Tripwire("no prices", reply="I may not say."), name="no")
    network = support("Hats are ten euros.")
    clerk = network.agents[0]
    clerk.output_guardrails, clerk.stream_before_response = [refuse], True
    app = create_a2a_app(app_of(network), url=URL)
    async with app.router.lifespan_context(app), sdk(app) as client:
        events = await events_of(client, saying("How much?"))
        task = await client.get_task(GetTaskRequest(id=task_id_of(events)))
    assert last_state(events) == "completed"
    assert "euros" not in "".join(texts_of(task))
    assert "I may not say." in texts_of(task)


async def test_a_client_without_streams_gets_the_task_once_it_has_ended() -> None:
    """`SendMessage` waits for the reply."""
    async with serving("Ten.") as app, sdk(app, streaming=False) as client:
        (event,) = await events_of(client, saying("How much?"))
    assert texts_of(event.task) == ["Ten."]


async def test_a_context_is_a_thread_of_the_http_api() -> None:
    """The next message of a context continues it, and front ends see the same thread."""
    store = MemoryHistory()
    async with serving("One.", "Two.", history=store) as app, sdk(app) as client:
        first = await events_of(client, saying("a"))
        context = first[0].task.context_id
        await events_of(client, saying("b", context_id=context))
        async with http_of(app) as http:
            shown = (await http.get(f"{URL}/api/threads/{context}")).json()
    assert await store.count_results(context) == 4
    assert "Two." in str(shown)


async def test_requests_without_a_user_are_refused() -> None:
    """The API's `auth` decides; A2A has no door of its own."""
    async with serving("x") as app, sdk(app, None) as client:
        with pytest.raises(A2AError, match="401"):
            await events_of(client, saying("hi"))


async def test_strangers_reach_neither_a_task_nor_a_context() -> None:
    """What another user may not see looks as if it did not exist."""
    async with serving("Secret.", "x") as app, sdk(app) as ada, sdk(app, "bob") as bob:
        events = await events_of(ada, saying("a"))
        task = events[0].task
        with pytest.raises(TaskNotFoundError):
            await bob.get_task(GetTaskRequest(id=task.id))
        with pytest.raises(TaskNotFoundError):
            await bob.cancel_task(CancelTaskRequest(id=task.id))
        assert not (await bob.list_tasks(ListTasksRequest())).tasks
        config = TaskPushNotificationConfig(task_id=task.id, url="https://bob.example")
        with pytest.raises(TaskNotFoundError):
            await bob.create_task_push_notification_config(config)
        stolen = await events_of(bob, saying("b", context_id=task.context_id))
    assert last_state(stolen) == "rejected"
    assert "no such thread" in get_message_text(stolen[-1].status_update.status.message)


async def test_runs_have_the_tenant_of_their_user_and_not_the_one_that_a_client_names() -> None:
    """The request's own `tenant` says nothing about rights."""
    seen: list[Any] = []

    @tool
    def look(ctx: ToolContext[Any]) -> str:
        """Look up."""
        seen.append((ctx.state.data["user_id"], ctx.state.data["tenant"]))
        return "ok"

    tenants = {"ada": "A"}.get
    calls = tool_call("look", {}), "Done."
    async with serving(*calls, tools=(look,), tenant_of=tenants) as app, sdk(app) as client:
        request = saying("a")
        request.tenant = "B"
        assert last_state(await events_of(client, request)) == "completed"
    assert seen == [("ada", "A")]


async def test_calls_and_progress_of_tools_are_states_of_the_task() -> None:
    """A client sees that work continues, and how far it has come."""

    @tool
    async def export() -> Any:
        """Export."""
        yield Progress("half", fraction=0.5)
        yield "done"

    replies = tool_call("export", {}), "Done."
    async with serving(*replies, tools=(export,)) as app, sdk(app) as client:
        events = await events_of(client, saying("a"))
    said = [e.status_update.status.message for e in events if e.HasField("status_update")]
    words = [get_message_text(one) for one in said]
    assert [word for word in words if word] == ["clerk calls export", "half"]
    assert dict(said[words.index("half")].metadata)["fraction"] == 0.5


@pytest.mark.parametrize(
    ("answer", "paid"),
    [
        ({"text": "yes"}, True),
        ({"text": "No"}, False),
        ({"data": {"approved": True}}, True),
        ({"data": {"approved": False, "reason": "too much"}}, False),
    ],
)
async def test_a_question_waits_for_input_and_its_answer_resumes_the_run(
    answer: dict[str, Any], paid: bool
) -> None:
    """The task continues in the same context; the call is made once, or not at all."""
    store = MemoryHistory()
    replies = tool_call("refund", {"order": "7"}), "Done."
    async with serving(*replies, tools=(refund,), history=store) as app, sdk(app) as client:
        asked = await events_of(client, saying("pay"))
        assert last_state(asked) == "input_required"
        message = asked[-1].status_update.status.message
        (told,) = get_data_parts(message.parts)
        (question,) = told["questions"]
        assert (question["tool"], question["arguments"]) == ("refund", {"order": "7"})
        task = asked[0].task
        where = {"task_id": task.id, "context_id": task.context_id}
        ended = await events_of(client, saying(**answer, **where))
        assert last_state(ended) == "completed"
        assert texts_of(await client.get_task(GetTaskRequest(id=task.id))) == ["Done."]
        _, rows = await store.newest(task.context_id, 10)
    assert ("paid 7" in str(rows)) is paid


@pytest.mark.parametrize(
    "answer",
    [
        {"text": "maybe"},
        {"data": {"answers": {"other": True}}},
        {"data": {"x": 1}},
        {"data": {"approved": "maybe"}},
    ],
)
async def test_an_answer_that_decides_nothing_leaves_the_question_open(
    answer: dict[str, Any],
) -> None:
    """The task says again how it is answered; nothing is guessed."""
    replies = tool_call("refund", {"order": "7"}), "Done."
    async with serving(*replies, tools=(refund,)) as app, sdk(app) as client:
        task = (await events_of(client, saying("pay")))[0].task
        where = {"task_id": task.id, "context_id": task.context_id}
        again = await events_of(client, saying(**answer, **where))
        assert last_state(again) == "input_required"
        words = get_message_text(again[-1].status_update.status.message)
        assert "yes or no" in words or "approved" in words
        assert last_state(await events_of(client, saying("yes", **where))) == "completed"


async def test_another_users_answer_is_waited_for_and_the_client_cannot_give_it() -> None:
    """Who may approve is the API's to say; the task works until a person has decided."""
    replies = tool_call("refund", {"order": "7"}), "Done."
    options: dict[str, Any] = {"approvers": ["mia"], "tools": (refund,)}
    async with serving(*replies, **options) as app, sdk(app) as client, http_of(app, "mia") as mia:
        reply = asyncio.create_task(events_of(client, saying("pay")))
        asked: list[Any] = []
        while not asked:
            await asyncio.sleep(0)
            asked = (await mia.get(f"{URL}/api/approvals")).json()["approvals"]
        task = await task_of(client)
        assert (
            task.status.state != TaskState.TASK_STATE_INPUT_REQUIRED
        )  # no input is required of this client
        path = f"{URL}/api/approvals/{asked[0]['id']}"
        assert (await mia.post(path, json={"action": "approve"})).status_code == 200
        events = await reply
    assert last_state(events) == "completed"


async def test_a_server_that_ends_leaves_nothing_at_work() -> None:
    """Also not a task that waits for an answer."""
    replies = (tool_call("refund", {"order": "7"}),)
    async with serving(*replies, tools=(refund,)) as app, sdk(app) as client:
        assert last_state(await events_of(client, saying("pay"))) == "input_required"
        assert "ActiveTask" in str(asyncio.all_tasks())  # the SDK's
    assert "ActiveTask" not in str(asyncio.all_tasks())


async def test_cancelling_a_task_stops_its_run() -> None:
    """The tool is stopped, and the task is cancelled, for those who listen, too."""
    begun, stopped = asyncio.Event(), asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return ""

    async with serving(tool_call("wait", {}), "x", tools=(wait,)) as app, sdk(app) as client:
        reply = asyncio.create_task(events_of(client, saying("a")))
        await begun.wait()
        task = await task_of(client)
        cancelled = await client.cancel_task(CancelTaskRequest(id=task.id))
        await stopped.wait()
        await reply
        known = await client.get_task(GetTaskRequest(id=task.id))
    assert cancelled.status.state == known.status.state == TaskState.TASK_STATE_CANCELED


async def test_a_failed_run_fails_the_task_in_words_for_users() -> None:
    """The error names no machine and no provider."""
    async with serving() as app, sdk(app) as client:
        events = await events_of(client, saying("a"))
    assert last_state(events) == "failed"
    words = get_message_text(events[-1].status_update.status.message)
    assert words
    assert "script" not in words.casefold()


@pytest.mark.parametrize("text", [None, "Look at this."])
async def test_other_parts_than_text_are_rejected(text: str | None) -> None:
    """A file that is left out silently would look as if it had been read."""
    request = saying(data={"a": 1})
    if text is not None:
        request.message.parts.append(new_text_part(text))
    async with serving("x") as app, sdk(app) as client:
        events = await events_of(client, request)
    assert last_state(events) == "rejected"


async def test_a_request_is_as_long_as_the_api_allows() -> None:
    """The limit of the body is the API's own."""
    limits = ServerLimits(body_bytes=2000)
    async with serving("x", limits=limits) as app, sdk(app) as client:
        with pytest.raises(A2AError, match="413"):
            await events_of(client, saying("a" * 3000))


async def test_push_notifications_say_states_and_whole_texts() -> None:
    """They go to the client's URL with its token; pieces of a text are left out."""
    sent: list[dict[str, Any]] = []

    async def take(request: httpx.Request) -> httpx.Response:
        assert request.headers["x-a2a-notification-token"] == "t"
        sent.append(json.loads(await request.aread()))
        return httpx.Response(200)

    async def allowed(url: str) -> bool:
        return url == "https://desk.example/news"

    pusher = httpx.AsyncClient(transport=httpx.MockTransport(take))
    serve = {"push_url_check": allowed, "http_client": pusher}
    async with serving("Ten euros.", serve=serve) as app, sdk(app) as client:
        request = saying("How much?")
        config = TaskPushNotificationConfig(url="https://desk.example/news", token="t")
        request.configuration.CopyFrom(
            SendMessageConfiguration(task_push_notification_config=config)
        )
        await events_of(client, request)
    assert sent[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
    texts = [one["artifactUpdate"] for one in sent if "artifactUpdate" in one]
    assert [one["artifact"]["parts"] for one in texts] == [[{"text": "Ten euros."}]]


async def test_push_notifications_to_addresses_of_the_machine_are_refused() -> None:
    """Otherwise a client could let the server reach what it cannot reach itself."""
    async with serving("x") as app, sdk(app) as client:
        request = saying("a")
        config = TaskPushNotificationConfig(url="http://127.0.0.1:9/x")
        request.configuration.task_push_notification_config.CopyFrom(config)
        with pytest.raises(InvalidParamsError):
            await events_of(client, request)


async def test_the_http_api_is_served_beside_it() -> None:
    """Staff and front ends work on the same threads."""
    async with serving() as app, http_of(app) as http:
        assert (await http.get(f"{URL}/api/agents")).json()["agents"][0]["agent"] == "clerk"
        assert (await http.get(f"{URL}/health/live")).status_code == 200


def test_only_the_app_of_create_app_can_be_served() -> None:
    """The error names what was given."""
    with pytest.raises(ConfigurationError, match="takes the app of create_app, got <starlette"):
        create_a2a_app(Starlette(), url=URL)
