"""The playground's HTTP side: who may ask, what is answered, and that nothing secret is."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx
import pytest

from agentkit_py import Agent, Lifecycle, Network, TokenLimiter, ToolCallFilter, ToolContext, tool
from agentkit_py._core.urls import is_loopback
from agentkit_py.budgets import Price, Prices
from agentkit_py.errors import ConfigurationError
from agentkit_py.lifecycle import StartContext
from agentkit_py.playground.app import COOKIE, Access, BrokenTarget, create_playground
from agentkit_py.playground.edits import remade, settings_of
from agentkit_py.playground.runs import MAX_RUNS, Playground, RecordedRun
from agentkit_py.processors import MessageWindow
from agentkit_py.routing import together
from agentkit_py.testing import FakeProvider, Raw, tool_call
from tests.playground.world import SECRET, playground, scripted, shop, shop_model, until_done

LOCAL = "http://localhost:8420"


def client(app: Any, base_url: str = LOCAL) -> httpx.AsyncClient:
    """Asks an application as a browser would, without a socket."""
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=base_url)


@pytest.fixture
async def played(tmp_path: Path) -> AsyncIterator[Playground]:
    """The shop."""
    found = playground(tmp_path)
    yield found
    await found.close()


@pytest.fixture
async def api(played: Playground) -> AsyncIterator[httpx.AsyncClient]:
    """Its page."""
    async with client(create_playground(played)) as found:
        yield found


async def run(api: httpx.AsyncClient, played: Playground, text: str, **more: Any) -> RecordedRun:
    """A run from its beginning to its end."""
    begun = (await api.post("/dev-api/runs", json={"text": text, **more})).json()
    await until_done(played, begun["run"])
    return played.runs[begun["run"]]


def kinds(run: RecordedRun) -> list[str]:
    """Return the kinds of the run's events, in order."""
    return [event["kind"] for event in run.events.values()]


async def test_a_run_is_the_one_that_plain_python_makes(
    api: httpx.AsyncClient, played: Playground, tmp_path: Path
) -> None:
    """The playground stores the same messages as a run in plain Python."""
    done = await run(api, played, "Where is my order?")
    assert done.status == "completed"
    other = playground(tmp_path)
    assert isinstance(other.target, Network)
    plain = await other.target.run("Where is my order?")
    assert played.store is not None
    assert done.thread_id is not None
    theirs = await played.store.messages(done.thread_id)
    ours = await played.store.messages(plain.thread_id or "")
    await other.close()
    assert [(m.type, m.role, m.agent) for m in theirs] == [(m.type, m.role, m.agent) for m in ours]


async def test_events_of_a_run_come_in_order(api: httpx.AsyncClient, played: Playground) -> None:
    """Agents, calls, tools with what they changed, and the end with tokens and cost."""
    listed = kinds(await run(api, played, "Where is my order?"))
    assert listed[:6] == ["run", "started", "routed", "started", "state", "call.started"]
    for kind, count in {
        "call.started": 4,
        "call.ended": 4,
        "replied": 4,
        "tool.finished": 2,
    }.items():
        assert listed.count(kind) == count, kind
    assert listed.index("state.changed") < listed.index("tool.finished")
    assert "delta" not in listed, "pieces of replies that are there as a whole are not kept"
    assert listed[-1] == "end"


async def test_the_end_has_the_cost_by_the_users_prices(
    api: httpx.AsyncClient, played: Playground
) -> None:
    """Per million tokens, as the price list says; without one there is no cost."""
    end = list((await run(api, played, "Where is my order?")).events.values())[-1]
    usage = end["usage"]
    assert end["cost"] == pytest.approx((usage["input"] * 2 + usage["output"] * 8) / 1e6)
    assert Prices().cost("gpt-shop", None) is None


async def test_a_call_shows_request_and_reply_without_the_key(
    api: httpx.AsyncClient, played: Playground
) -> None:
    """Bodies only, and no key in any answer."""
    done = await run(api, played, f"My key is {SECRET}, where is the order?")
    answer = await api.get(f"/dev-api/runs/{done.id}/calls/4")
    call = answer.json()
    assert call["request"]["model"] == "gpt-shop"
    assert call["reply"]["choices"][0]["finish_reason"] == "stop"
    assert [level["level"] for level in call["seen"]["levels"]] == ["history", "network", "agent"]
    assert SECRET not in json.dumps(call["request"])
    assert call["system"] == call["request"]["messages"][0]["content"]
    assert call["input"].endswith("where is the order?")


async def test_an_edited_call_is_shown_without_calling_the_model(
    api: httpx.AsyncClient, played: Playground
) -> None:
    """Another prompt, other settings, a processor less; the call itself stays what it was."""
    done = await run(api, played, "Where is my order?")
    path = f"/dev-api/runs/{done.id}/calls/3"
    before = (await api.get(path)).json()
    edit = {"system": "You sell hats.", "processors": {"0": {"settings": {"limit": 1}}}}
    seen = (await api.post(f"{path}/look", json=edit)).json()
    assert seen["request"]["messages"][0]["content"] == "You sell hats."
    assert seen["seen"]["levels"][0]["messagesAfter"] == 0
    off = {"processors": {"2": {"off": True}}}
    shown = (await api.post(f"{path}/look", json=off)).json()["seen"]
    assert [level["name"] for level in shown["levels"]][:2] == ["TokenLimiter", "hide_mail"]
    assert shown["figures"]["sentMessages"] > before["seen"]["figures"]["sentMessages"]
    assert (await api.get(path)).json() == before


async def test_a_call_is_made_again_and_the_thread_stays_as_it_is(
    api: httpx.AsyncClient, played: Playground
) -> None:
    """The model answers; no tool is called and nothing is stored."""
    done = await run(api, played, "Where is my order?")
    thread = f"/dev-api/threads/{done.thread_id}"
    before = (await api.get(thread)).json()
    path = f"/dev-api/runs/{done.id}/calls/3/again"
    made = (await api.post(path, json={"input": "Hello?", "system": "You sell. Be brief."})).json()
    assert made["messages"][0]["text"] == "Briefly: yes."
    assert made["usage"]["input"] > 0
    assert (await api.get(thread)).json() == before


@pytest.mark.parametrize(
    ("edit", "problem"),
    [
        ({"processors": {"9": {"off": True}}}, "no processor 9"),
        ({"processors": {"0": {"settings": {"limit": 0}}}}, "whole number of at least 1"),
        ({"processors": {"0": {"settings": {"colour": 1}}}}, "no setting"),
        ({"mood": "good"}, "mood"),
    ],
)
async def test_an_impossible_edit_is_refused_with_the_reason(
    api: httpx.AsyncClient, played: Playground, edit: dict[str, Any], problem: str
) -> None:
    """The page shows it next to the form."""
    done = await run(api, played, "Hello")
    answer = await api.post(f"/dev-api/runs/{done.id}/calls/1/look", json=edit)
    assert answer.status_code == 422
    assert problem in answer.json()["error"]


async def test_one_thread_runs_once_at_a_time_and_is_cancelled(
    api: httpx.AsyncClient, played: Playground
) -> None:
    """The second message is refused; after the cancellation it is not."""
    begun = (await api.post("/dev-api/runs", json={"text": "wait"})).json()
    again = {"text": "Hello?", "thread": begun["thread"]}
    assert (await api.post("/dev-api/runs", json=again)).status_code == 409
    cancelled = await api.post(f"/dev-api/runs/{begun['run']}/cancel", json={})
    assert cancelled.json() == {"status": "cancelled"}
    assert kinds(played.runs[begun["run"]])[-1] == "end"
    assert (await run(api, played, "Hello?", thread=begun["thread"])).status == "completed"


async def test_a_failed_run_names_its_error(tmp_path: Path) -> None:
    """The error, as one would see it in the terminal, and the call it came from."""
    provider = FakeProvider([Raw(status=400, json={"error": {"message": "no such model"}})])
    agent = Agent(name="a", system="S", model=shop_model(provider))
    found = Playground(agent)
    async with client(create_playground(found)) as api:
        done = await run(api, found, "Hello")
        assert done.status == "failed"
        call = (await api.get(f"/dev-api/runs/{done.id}/calls/1")).json()
    assert "no such model" in call["error"]
    end = list(done.events.values())[-1]
    assert "no such model" in end["error"]


async def test_state_that_cannot_be_copied_does_not_disturb_the_run() -> None:
    """It is not shown, and the call says why it cannot be made again."""

    def keep_a_lock(context: StartContext) -> None:
        context.state.data["lock"] = threading.Lock()

    hooks = Lifecycle(on_start=keep_a_lock)
    model = shop_model(FakeProvider(["Hi."]))
    found = Playground(Agent(name="a", system="S", model=model, lifecycle=hooks))
    async with client(create_playground(found)) as api:
        done = await run(api, found, "Hello")
        assert done.status == "completed"
        call = (await api.get(f"/dev-api/runs/{done.id}/calls/1")).json()
        assert call["state"] is None
        assert "cannot be copied" in call["problem"]
        again = await api.post(f"/dev-api/runs/{done.id}/calls/1/again", json={})
        assert again.status_code == 422


async def test_a_sleep_in_a_tool_is_recorded_as_a_wait() -> None:
    """The wait has the step's name, and lasts from its beginning to its end."""

    @tool(steps=True)
    async def nap(ctx: ToolContext) -> str:
        """Sleep a millisecond."""
        await ctx.step.sleep("nap", 1)
        return "slept"

    model = shop_model(FakeProvider([tool_call("nap"), "Good morning."]))
    found = Playground(Agent(name="a", system="S", model=model, tools=[nap], max_iter=2))
    async with client(create_playground(found)) as api:
        listed = kinds(await run(api, found, "Hello"))
    assert listed.index("tool.started") < listed.index("wait.began") < listed.index("wait.ended")
    assert listed.index("wait.ended") < listed.index("tool.finished")


async def test_tools_of_agents_that_run_together_keep_their_own_times() -> None:
    """Events of the second agent come late, but name its own calls and tools."""

    async def look(what: str) -> str:
        """Look at something."""
        return f"saw {what}"

    def looker(name: str) -> Agent:
        model = shop_model(
            FakeProvider([tool_call("look", {"what": name}), tool_call("look", {"what": "x"}), "."])
        )
        return Agent(name=name, system="S", model=model, tools=[look], max_iter=3)

    agents = [looker("left"), looker("right")]
    network = Network(
        name="n", agents=agents, router=lambda c: None if c.call_count else together(*agents)
    )
    found = Playground(network)
    async with client(create_playground(found)) as api:
        done = await run(api, found, "Hello")
    events = list(done.events.values())
    for kind in ("tool.began", "tool.started", "tool.ended", "tool.finished"):
        keys = sorted(event["tool"] for event in events if event["kind"] == kind)
        assert len(keys) == len(set(keys)) == 4, kind
    agent_of = {e["call"]: e["agent"] for e in events if e["kind"] == "call.started"}
    for event in events:
        if event["kind"] == "tool.started":
            assert agent_of[int(event["tool"].split(".")[0])] == event["name"]


async def test_nested_runs_have_their_own_calls() -> None:
    """An agent that is a tool: its calls and tools have keys of their own each time."""

    async def look(what: str) -> str:
        """Look at something."""
        return f"saw {what}"

    looks = [tool_call("look", {"what": "x"}), "I saw it."]
    helper = Agent(
        name="helper",
        system="H",
        model=shop_model(FakeProvider([*looks, *looks])),
        tools=[look],
        max_iter=1,
    )
    tasks = [tool_call("helper", {"task": "a"}), tool_call("helper", {"task": "b"}), "Done."]
    lead = Agent(
        name="lead",
        system="L",
        model=shop_model(FakeProvider(tasks)),
        tools=[helper.as_tool(allowed_tools="own")],
        max_iter=3,
    )
    found = Playground(lead)
    async with client(create_playground(found)) as api:
        done = await run(api, found, "Hello")
        assert done.status == "completed"
        for number in range(1, 8):
            call = (await api.get(f"/dev-api/runs/{done.id}/calls/{number}")).json()
            assert call["reply"], number
    events = list(done.events.values())
    names = [event["agent"] for event in events if event["kind"] == "call.started"]
    assert names == ["lead", "helper", "helper", "lead", "helper", "helper", "lead"]
    keys = [event["tool"] for event in events if event["kind"] == "tool.finished"]
    assert sorted(keys) == ["1.0", "2.0", "4.0", "5.0"]
    began = [event["tool"] for event in events if event["kind"] == "tool.began"]
    assert began == ["2.0", "5.0"]


async def test_follow_gives_missed_events_and_then_new_ones(
    api: httpx.AsyncClient, played: Playground
) -> None:
    """A page that comes late, or again, gets every event once and in order."""
    done = await run(api, played, "Hello")
    assert done.thread_id is not None
    numbers = list(done.events)
    got: list[int] = []
    async for seq, name, _ in played.follow(done.thread_id, numbers[3]):
        assert name == done.id
        got.append(seq)
        if seq == numbers[-1]:
            break
    assert got == numbers[4:]


async def test_only_the_last_runs_are_kept(api: httpx.AsyncClient, played: Playground) -> None:
    """A playground that is open all day must not grow; the others are shown from the store."""
    first = await run(api, played, "Hello")
    for number in range(MAX_RUNS):
        await run(api, played, f"Hello {number}")
    assert len(played.runs) == MAX_RUNS
    gone = await api.get(f"/dev-api/runs/{first.id}/calls/1")
    assert gone.status_code == 404
    assert "are gone" in gone.json()["error"]
    thread = (await api.get(f"/dev-api/threads/{first.thread_id}")).json()
    assert [(one["status"], one["input"]) for one in thread["runs"]] == [("stored", "Hello")]
    assert len(thread["results"]) == 4


async def test_a_page_asks_only_for_new_data_after_a_run(
    api: httpx.AsyncClient, played: Playground
) -> None:
    """Results after the place it knows; runs without the events that it has followed."""
    first = await run(api, played, "Hello", thread="t1")
    path = "/dev-api/threads/t1"
    whole = (await api.get(path)).json()
    second = await run(api, played, "Hello again", thread="t1")
    after = len(whole["results"])
    news = (await api.get(f"{path}?after={after}")).json()
    now = (await api.get(path)).json()
    assert news["offset"] == after == first.last
    assert whole["results"] + news["results"] == now["results"]
    assert [one["events"] for one in news["runs"]] == [[], []]
    assert (news["runs"][1]["first"], news["runs"][1]["last"]) == (second.first, second.last)
    nothing = (await api.get(f"{path}?after={second.last}")).json()
    assert (nothing["offset"], nothing["results"]) == (second.last, [])
    shorter = (await api.get(f"{path}?after=999")).json()
    assert shorter["results"] == now["results"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/dev-api/runs/none/calls/1", 404),
        ("POST", "/dev-api/runs/none/cancel", 404),
        ("POST", "/dev-api/approvals/none", 404),
        ("GET", "/dev-api/threads/none", 200),
        ("PUT", "/dev-api/runs", 405),
    ],
)
async def test_unknown_runs_calls_and_threads_give_json_errors(
    api: httpx.AsyncClient, method: str, path: str, status: int
) -> None:
    """The errors have no traceback."""
    answer = await api.request(method, path, json={"approved": True})
    assert answer.status_code == status
    assert answer.json()


@pytest.mark.parametrize(
    ("content", "status"),
    [("{", 400), ("[]", 422), ('{"text": ""}', 422), ('{"text": "x", "user": "y"}', 422)],
)
async def test_an_invalid_message_is_refused(
    api: httpx.AsyncClient, played: Playground, content: str, status: int
) -> None:
    """The error says what is wrong."""
    headers = {"content-type": "application/json"}
    answer = await api.post("/dev-api/runs", content=content, headers=headers)
    assert answer.status_code == status
    assert answer.json()["error"]
    assert played.runs == {}


async def test_a_message_that_is_too_long_is_refused(api: httpx.AsyncClient) -> None:
    """The refusal comes before the whole body was read."""
    headers = {"content-type": "application/json"}
    answer = await api.post("/dev-api/runs", content=b" " * 5_000_000, headers=headers)
    assert answer.status_code == 413


# Who may ask.


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8420", "127.0.0.1.evil.example", ""]
)
async def test_other_names_of_this_machine_are_refused(played: Playground, host: str) -> None:
    """A page of another site cannot get here by a name that it made point here."""
    async with client(create_playground(played)) as api:
        answer = await api.get("/dev-api/target", headers={"host": host})
        assert answer.status_code == 403
        assert "shop" not in answer.text


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "http://localhost:9999"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
async def test_pages_of_other_sites_cannot_begin_a_run(
    played: Playground, headers: dict[str, str]
) -> None:
    """Such pages cannot read anything either."""
    async with client(create_playground(played)) as api:
        for ask in (
            api.post("/dev-api/runs", json={"text": "x"}, headers=headers),
            api.get("/dev-api/threads", headers=headers),
        ):
            assert (await ask).status_code == 403
    assert played.runs == {}


async def test_a_form_cannot_begin_a_run(api: httpx.AsyncClient, played: Playground) -> None:
    """Other sites can send forms and plain text without being asked; JSON they cannot."""
    body = '{"text": "x"}'
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        headers = {"content-type": kind}
        answer = await api.post("/dev-api/runs", content=body, headers=headers)
        assert answer.status_code == 415
    assert played.runs == {}


async def test_other_machines_need_the_token(played: Playground) -> None:
    """Once, in the address; from then on a cookie that scripts cannot read has it."""
    app = create_playground(played, access=Access("the-token"))
    async with client(app, "http://10.0.0.5:8420") as api:
        for path in ("/", "/dev-api/target", "/static/js/main.js", "/?token=the-tokem"):
            answer = await api.get(path)
            assert answer.status_code == 401, path
            assert "the-token" not in answer.text
        api.cookies.set(COOKIE, "wrong")
        assert (await api.get("/")).status_code == 401
        api.cookies.clear()
        welcome = await api.get("/?token=the-token&thread=t1")
        assert (welcome.status_code, welcome.headers["location"]) == (303, "/?thread=t1")
        cookie = welcome.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert (await api.get("/dev-api/target")).status_code == 200


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("127.0.0.1", True), ("localhost", True), ("::1", True), ("[::1]", True),
        ("127.8.8.8", True), ("0.0.0.0", False),  # noqa: S104 - an address to judge, nothing listens there
        ("10.0.0.5", False), ("example.org", False),
    ],
)  # fmt: skip
def test_only_loopback_addresses_need_no_token(host: str, local: bool) -> None:
    """Everything else is reachable for others."""
    assert is_loopback(host) is local


@pytest.mark.parametrize("path", ["/", "/static/js/main.js", "/dev-api/target", "/nothing"])
async def test_every_answer_has_strict_headers(api: httpx.AsyncClient, path: str) -> None:
    """No script, style or request but the page's own."""
    headers = (await api.get(path)).headers
    assert headers["content-security-policy"].startswith("default-src 'self';")
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    "path", ["/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2fapp.py"]
)
async def test_only_the_pages_own_files_are_served(api: httpx.AsyncClient, path: str) -> None:
    """Paths above the folder are refused."""
    assert (await api.get(path)).status_code == 404


def test_the_page_names_no_other_host(root: Path) -> None:
    """No CDN, no fonts, no link out; and every file can be read at once."""
    files = [f for f in (root / "agentkit_py/playground/static").rglob("*.*") if f.is_file()]
    assert len(files) > 10
    for file in files:
        text = file.read_text(encoding="utf-8")
        assert "https://" not in text
        assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")
        assert "innerHTML" not in text
        assert len(text.splitlines()) <= 400, file.name


# What there is besides.


async def test_a_target_that_fails_to_load_is_shown_with_its_error() -> None:
    """The endpoints say the same, instead of failing."""
    app = create_playground(
        BrokenTarget("'shop' cannot be imported: x", "Traceback …"), target="shop:n"
    )
    async with client(app) as api:
        target = (await api.get("/dev-api/target")).json()
        assert target["broken"] == {
            "message": "'shop' cannot be imported: x",
            "details": "Traceback …",
        }
        assert (await api.get("/")).status_code == 200
        assert (await api.get("/dev-api/threads")).status_code == 503


async def test_an_agent_without_a_store_can_be_played_with() -> None:
    """Its threads are those of the runs of this process."""
    agent = Agent(name="clerk", system="You sell.", model=shop_model(FakeProvider(scripted)))
    found = Playground(agent)
    async with client(create_playground(found)) as api:
        done = await run(api, found, "Hello")
        assert done.status == "completed"
        assert (await api.get("/dev-api/target")).json()["kind"] == "agent"
        assert (await api.get("/dev-api/threads")).status_code == 200


def test_settings_of_a_processor_are_found_and_changed() -> None:
    """Settings that are no JSON stay as they are."""
    limiter = TokenLimiter(100)
    shown = {"limit": 100, "encoding": None, "use_tiktoken": True, "skip_calls": False}
    shown |= {"shorten_current": True}
    assert settings_of(limiter).shown == shown
    assert repr(remade(limiter, {"limit": 7})) == repr(TokenLimiter(7))
    window = MessageWindow(5)
    assert remade(window, {}) is window
    tools = ToolCallFilter(include=["b", "a"])
    assert settings_of(tools).shown["include"] == ["a", "b"]
    assert repr(remade(tools, {"include": ["c"]})) == repr(ToolCallFilter(include=["c"]))
    with pytest.raises(ConfigurationError, match="no setting"):
        remade(limiter, {"size": 3})


@pytest.mark.parametrize(
    "content",
    ["", "[]", '{"models": {"m": {"input": "2", "output": 1}}}', '{"models": {"m": {"input": 1}}}'],
)
def test_an_invalid_price_list_is_refused(tmp_path: Path, content: str) -> None:
    """The error names the file."""
    file = tmp_path / "prices.json"
    file.write_text(content)
    with pytest.raises(ConfigurationError, match=r"prices\.json"):
        Prices.read(file)


def test_cached_tokens_have_their_own_price(tmp_path: Path) -> None:
    """The ``cached`` price of the list applies."""
    file = tmp_path / "prices.json"
    file.write_text('{"currency": "EUR", "models": {"m": {"input": 2, "output": 8, "cached": 1}}}')
    assert Prices.read(file) == Prices({"m": Price(2, 8, 1)}, "EUR")


async def test_a_tool_that_raises_shows_its_traceback(tmp_path: Path) -> None:
    """The developer reads where, without secrets."""

    @tool
    def look_up(order: str) -> str:
        """Look an order up."""
        raise LookupError("no order at postgres://shop:hunter2@db")

    network = shop(tmp_path)
    network.agents[1].tools = [look_up]
    played = Playground(network)
    async with client(create_playground(played)) as api:
        done = await run(api, played, "Where is my order?")
        thread = (await api.get(f"/dev-api/threads/{done.thread_id}")).json()
    events = thread["runs"][0]["events"]
    (traceback,) = [one["traceback"] for one in events if "traceback" in one]
    assert "test_api.py" in traceback
    assert "LookupError: no order" in traceback
    assert "hunter2" not in traceback
    await played.close()


async def test_a_question_of_another_process_is_shown_and_answered(tmp_path: Path) -> None:
    """A run over HTTP asked it, or this page did before a file was saved."""
    first = playground(tmp_path)
    async with client(create_playground(first)) as api:
        asked = await run(api, first, "refund A7")
        assert asked.status == "waiting"
    await first.close()  # as when a file is saved
    played = playground(tmp_path)
    async with client(create_playground(played)) as api:
        thread = f"/dev-api/threads/{asked.thread_id}"
        (question,) = (await api.get(thread)).json()["questions"]
        assert question["toolCalls"][0]["toolName"] == "refund"
        path = f"/dev-api/approvals/{question['requestId']}?thread={asked.thread_id}"
        assert (await api.post(path, json={"approved": True})).json() == {"answered": True}
        (going_on,) = played.runs.values()
        await until_done(played, going_on.id)
        found = (await api.get(thread)).json()
        assert (going_on.status, found["questions"]) == ("completed", [])
        assert "A7 is refunded" in str(found["results"])
        assert (await api.post(path, json={"approved": True})).status_code == 404
    assert kinds(going_on).count("replied") == 1
    await played.close()


@pytest.mark.parametrize("names_thread", [True, False])
async def test_a_question_of_this_page_is_answered_once(
    tmp_path: Path, *, names_thread: bool
) -> None:
    """Its card says how it was decided, also before the page knows the thread."""
    played = playground(tmp_path)
    async with client(create_playground(played)) as api:
        asked = await run(api, played, "refund A7")
        (question,) = asked.asked
        path = f"/dev-api/approvals/{question}?thread={asked.thread_id if names_thread else ''}"
        await api.post(path, json={"approved": False, "reason": "Too late."})
        going_on = list(played.runs.values())[-1]
        await until_done(played, going_on.id)
    (decided,) = [event for event in asked.events.values() if event["kind"] == "decided"]
    assert (decided["resolution"], decided["reason"]) == ("denied", "Too late.")
    assert "Too late." in str(going_on.events)
    await played.close()


async def test_the_matrix_of_a_thread_shows_each_message_in_each_model_call(
    tmp_path: Path,
) -> None:
    """Its page is served beside it."""
    played = playground(tmp_path)
    async with client(create_playground(played)) as api:
        done = await run(api, played, "Where is order 7?")
        found = (await api.get(f"/dev-api/matrix/{done.thread_id}")).json()
        page = await api.get(f"/matrix/?thread={done.thread_id}")
        missing = await api.get("/dev-api/matrix/none")
    assert len(found["calls"]) == len(done.recorder.calls)
    assert {call["agent"] for call in found["calls"]} == {"greeter", "clerk"}
    assert "processors of today" in found["note"]
    assert "viewer.js" in page.text
    assert missing.status_code == HTTPStatus.NOT_FOUND
    await played.close()
