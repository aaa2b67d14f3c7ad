"""DirectRuntime: requests over httpx, what their failures become, and when they are tried again."""

from __future__ import annotations

import asyncio
import gc
import json
import socket
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest

from agentkit_py import Agent, anthropic, gemini, openai
from agentkit_py.errors import (
    AuthenticationError,
    BadRequestError,
    ConfigurationError,
    ContextOverflowError,
    ModelConnectionError,
    ModelError,
    ModelHTTPError,
    ModelResponseError,
    ModelStreamError,
    ModelTimeoutError,
    ProviderUnavailableError,
    RateLimitError,
)
from agentkit_py.models import Model, RetryPolicy, azure_openai, grok
from agentkit_py.runtime.current import choose_runtime, close_shared_runtime, use_runtime
from agentkit_py.runtime.direct import MOST_CLIENTS, DirectRuntime, shared_runtime
from agentkit_py.runtime.port import Runtime
from agentkit_py.runtime.steps import StepTools
from agentkit_py.testing import FakeProvider, Raw, error

KEY = "sk-right"
ALL = ("openai", "azure_openai", "anthropic", "gemini", "grok")
VARIABLES = {
    "openai": "OPENAI_API_KEY",
    "azure_openai": "AZURE_OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
    "gemini": "GEMINI_API_KEY",
    "grok": "XAI_API_KEY",
}


def make(provider: str, root: str | None = None, **options: Any) -> Model:
    """A model of a provider, its base URL given or its own."""
    if provider == "azure_openai":
        endpoint = root or "https://acme.openai.azure.com"
        return azure_openai("gpt-4o", endpoint=endpoint, **options)
    factories: dict[str, tuple[Callable[..., Model], str]] = {
        "openai": (openai, "gpt-4o"),
        "anthropic": (anthropic, "claude-sonnet-4-5"),
        "gemini": (gemini, "gemini-2.5-flash"),
        "grok": (grok, "grok-4"),
    }
    factory, name = factories[provider]
    return factory(name, **({"base_url": root} if root else {}), **options)


class Waits:
    """Sleeps without sleeping."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        """Write it down."""
        self.seconds.append(seconds)


@pytest.fixture(params=["http", "transport"])
def serve(request: pytest.FixtureRequest) -> Iterator[Callable[..., tuple[Any, Any]]]:
    """A provider with a script, over loopback HTTP and as a transport, and options to reach it."""
    started: list[FakeProvider] = []

    def begin(*replies: Any, **options: Any) -> tuple[FakeProvider, dict[str, Any]]:
        fake = FakeProvider(replies, **options)
        if request.param == "transport":
            return fake, {"transport": fake.transport}
        started.append(fake.start())
        return fake, {}

    yield begin
    for fake in started:
        fake.stop()


async def ask(
    fake: FakeProvider, how: dict[str, Any], provider: str = "openai", **options: Any
) -> tuple[str, list[float]]:
    """Ask a model once; the answer, and for how long the runtime waited between attempts."""
    waits = Waits()
    runtime = DirectRuntime(environment={}, sleep=waits, **how)
    root = None if how else fake.base_url(provider)
    options = {"api_key": KEY, "timeout": 30, **options}
    agent = Agent(name="a", system="S", model=make(provider, root, **options))
    try:
        return (await agent.run("q?", runtime=runtime)).text, waits.seconds
    except Exception as failure:
        failure.__dict__["waits"] = waits.seconds
        raise
    finally:
        await runtime.aclose()


@pytest.mark.parametrize("provider", ALL)
async def test_every_provider_answers(serve: Any, provider: str) -> None:
    """Each gets the right key, in the right place."""
    fake, how = serve("hi", api_keys={provider: KEY})
    assert await ask(fake, how, provider) == ("hi", [])
    assert fake.requests[0].headers["content-type"] == "application/json"


@pytest.mark.parametrize("provider", ALL)
async def test_a_wrong_key_is_an_authentication_error_and_not_tried_again(
    serve: Any, provider: str
) -> None:
    """It would be wrong the second time, too."""
    fake, how = serve("hi", api_keys={provider: "sk-other"})
    with pytest.raises(AuthenticationError) as caught:
        await ask(fake, how, provider)
    assert (caught.value.status, caught.value.retriable) == (401, False)
    assert caught.value.provider == make(provider, api_key=KEY).provider
    assert len(fake.requests) == 1


@pytest.mark.parametrize("status", [403, 400, 404, 413, 422, 418])
async def test_a_refused_request_is_not_tried_again(serve: Any, status: int) -> None:
    """The error holds what the provider said."""
    fake, how = serve(error(status, "This is wrong.", headers={"x-request-id": "r1"}), "hi")
    expected = AuthenticationError if status == 403 else BadRequestError
    with pytest.raises(expected, match=f"HTTP {status}: This is wrong") as caught:
        await ask(fake, how)
    assert (caught.value.status, caught.value.detail) == (status, "This is wrong.")
    assert caught.value.request_id == "r1"
    assert len(fake.requests) == 1


async def test_a_request_that_is_too_long_has_an_error_of_its_own(serve: Any) -> None:
    """A processor or a larger model may help."""
    body = {"error": {"message": "too long", "code": "context_length_exceeded"}}
    fake, how = serve(Raw(json=body, status=400))
    with pytest.raises(ContextOverflowError):
        await ask(fake, how)


async def test_a_request_that_the_strict_provider_refuses_is_a_bad_request(serve: Any) -> None:
    """A fault of ours, and never tried again."""
    fake, how = serve("hi")
    with pytest.raises(BadRequestError):
        await ask(fake, how, default_parameters={"temperature": "hot"})
    assert len(fake.rejections) == 1


async def test_a_rate_limit_is_waited_out_as_long_as_the_provider_asks(serve: Any) -> None:
    """The provider's time overrides our own."""
    limited = error(429, "Slow down.", headers={"retry-after": "7"})
    fake, how = serve(limited, limited, "hi")
    assert await ask(fake, how) == ("hi", [7.0, 7.0])


async def test_milliseconds_come_before_seconds(serve: Any) -> None:
    """OpenAI sends both."""
    headers = {"retry-after-ms": "1500", "retry-after": "2"}
    fake, how = serve(error(429, "Slow down.", headers=headers), "hi")
    assert await ask(fake, how) == ("hi", [1.5])


async def test_a_longer_wait_than_allowed_fails_at_once_and_says_how_long(serve: Any) -> None:
    """An error now is better than an hour of silence."""
    fake, how = serve(error(429, "Slow down.", headers={"retry-after": "3600"}), "hi")
    with pytest.raises(RateLimitError) as caught:
        await ask(fake, how)
    assert caught.value.retry_after == 3600
    assert caught.value.__dict__["waits"] == []
    assert len(fake.requests) == 1


async def test_waits_of_our_own_grow_within_their_bounds(serve: Any) -> None:
    """Jitter keeps clients from coming back together."""
    fake, how = serve(*[error(500, "Oops.")] * 5, "hi")
    retry = RetryPolicy(attempts=6, min_wait=1, max_wait=3)
    answer, waits = await ask(fake, how, retry=retry)
    assert answer == "hi"
    for seconds, bound in zip(waits, [1, 2, 3, 3, 3], strict=True):
        assert 0 <= seconds <= bound


@pytest.mark.parametrize("status", [500, 502, 503, 529])
async def test_a_provider_that_keeps_failing_is_given_up(serve: Any, status: int) -> None:
    """The policy limits the attempts."""
    fake, how = serve(*[error(status, "Oops.")] * 3, "hi")
    with pytest.raises(ProviderUnavailableError) as caught:
        await ask(fake, how)
    assert (caught.value.status, caught.value.retriable) == (status, True)
    assert len(fake.requests) == 3


@pytest.mark.parametrize("status", [429, 503])
async def test_a_request_is_sent_once_if_the_provider_says_not_to_retry(
    serve: Any, status: int
) -> None:
    """OpenAI and Anthropic send this header."""
    fake, how = serve(error(status, "No.", headers={"x-should-retry": "false"}), "hi")
    with pytest.raises(ModelHTTPError) as caught:
        await ask(fake, how)
    assert not caught.value.retriable
    assert len(fake.requests) == 1


async def test_one_attempt_means_no_retry(serve: Any) -> None:
    """Callers that retry themselves use it."""
    fake, how = serve(error(500, "Oops."), "hi")
    with pytest.raises(ProviderUnavailableError):
        await ask(fake, how, retry=RetryPolicy(attempts=1))
    assert len(fake.requests) == 1


async def test_an_answer_that_takes_too_long_is_a_timeout(serve: Any) -> None:
    """It is tried again; the message says what to raise."""
    slow = Raw(reply="late", delay=30)
    fake, how = serve(slow, slow, "hi")
    with pytest.raises(ModelTimeoutError, match=r"within 0.05 s \(raise it with") as caught:
        await ask(fake, how, timeout=0.05, retry=RetryPolicy(attempts=2))
    assert caught.value.timeout == 0.05
    while len(fake.requests) < 2:  # noqa: ASYNC110 - its server may read a request after the client left
        await asyncio.sleep(0.005)
    assert len(fake.requests) == 2


async def test_a_broken_connection_is_tried_again(serve: Any) -> None:
    """The next one may hold."""
    fake, how = serve(Raw(disconnect=True), "hi")
    assert (await ask(fake, how))[0] == "hi"


async def test_a_connection_that_keeps_breaking_is_given_up(serve: Any) -> None:
    """The error has the address."""
    fake, how = serve(*[Raw(disconnect=True)] * 3)
    with pytest.raises(ModelConnectionError, match="could not reach http"):
        await ask(fake, how)


async def test_a_port_without_a_listener_is_a_connection_error() -> None:
    """The address is in the message."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    root = f"http://127.0.0.1:{port}/v1"
    model = openai("gpt-4o", api_key=KEY, base_url=root, retry=RetryPolicy(attempts=1))
    with pytest.raises(ModelConnectionError, match=f"could not reach {root}"):
        await Agent(name="a", system="S", model=model).run("q?", runtime=DirectRuntime())


@pytest.mark.parametrize("base", ["http://[oops]/v1", "http://xn--\u0378.example/v1"])
async def test_a_host_that_is_no_host_is_a_connection_error(base: str) -> None:
    """Httpx finds out only when it is asked."""
    model = openai("gpt-4o", api_key=KEY, base_url=base, retry=RetryPolicy(attempts=1))
    with pytest.raises(ModelConnectionError, match="could not reach"):
        await Agent(name="a", system="S", model=model).run("q?", runtime=DirectRuntime())


BAD_ANSWERS = [
    (Raw(text="<html>Hello</html>", content_type="text/html"), r"no JSON \(text/html\)"),
    (Raw(text=""), "no JSON"),
    (Raw(text="[" * 100_000), "no JSON"),
    (Raw(json=[1, 2]), "no JSON object"),
    (Raw(json=None), "no JSON object"),
    (Raw(json={}), "no choices"),
    (Raw(json={"choices": []}), "no choices"),
    (Raw(json={"error": {"message": "quota"}}), "the answer is an error: quota"),
    (Raw(json={"error": "quota"}), "the answer is an error: quota"),
    (Raw(text="no gzip", headers={"content-encoding": "gzip"}), "could not be read"),
]


@pytest.mark.parametrize(("reply", "words"), BAD_ANSWERS)
async def test_an_answer_that_no_api_promises_is_a_response_error(
    serve: Any, reply: Raw, words: str
) -> None:
    """The status said success; it is not tried again."""
    fake, how = serve(reply, "hi")
    with pytest.raises(ModelResponseError, match=words):
        await ask(fake, how)
    assert len(fake.requests) == 1


async def test_the_beginning_of_a_bad_answer_is_an_attribute_of_the_error(serve: Any) -> None:
    """At most 500 characters are kept."""
    fake, how = serve(Raw(text="x" * 1000))
    with pytest.raises(ModelResponseError) as caught:
        await ask(fake, how)
    assert caught.value.excerpt == "x" * 500
    assert "xxx" not in str(caught.value)


@pytest.mark.parametrize("provider", ALL)
async def test_without_a_key_anywhere_the_error_names_the_variable(provider: str) -> None:
    """No request is sent."""
    fake = FakeProvider(["hi"])
    runtime = DirectRuntime(transport=fake.transport, environment={})
    with pytest.raises(ConfigurationError, match=f"set {VARIABLES[provider]} or pass api_key="):
        await Agent(name="a", system="S", model=make(provider)).run("q?", runtime=runtime)
    assert fake.requests == []


@pytest.mark.parametrize("provider", ALL)
@pytest.mark.parametrize("written", [KEY, f"{KEY}\n", f" {KEY} "])
async def test_a_key_in_the_environment_is_used(provider: str, written: str) -> None:
    """White space around it, common in files and shells, is removed."""
    fake = FakeProvider(["hi"], api_keys={provider: KEY})
    environment = {VARIABLES[provider]: written}
    runtime = DirectRuntime(transport=fake.transport, environment=environment)
    agent = Agent(name="a", system="S", model=make(provider))
    assert (await agent.run("q?", runtime=runtime)).text == "hi"


async def test_a_models_own_key_comes_before_the_environments() -> None:
    """An explicit key overrides the environment."""
    fake = FakeProvider(["hi"], api_keys={"openai": KEY})
    runtime = DirectRuntime(transport=fake.transport, environment={"OPENAI_API_KEY": "sk-other"})
    agent = Agent(name="a", system="S", model=make("openai", api_key=KEY))
    assert (await agent.run("q?", runtime=runtime)).text == "hi"


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_transport_in_which_something_is_cancelled_is_tried_again(
    *, streamed: bool
) -> None:
    """It is an error of the model's connection; the run itself was not cancelled."""
    fake = FakeProvider(["hi"])
    failures: list[type[BaseException]] = [SystemExit, asyncio.CancelledError]

    async def answer(request: httpx.Request) -> httpx.Response:
        if failures:
            raise failures.pop()
        return await fake.transport.handle_async_request(request)

    runtime = DirectRuntime(transport=httpx.MockTransport(answer), environment={}, sleep=Waits())
    agent = Agent(name="a", system="S", model=make("openai", api_key=KEY))

    async def ask_once() -> str:
        if not streamed:
            return (await agent.run("q?", runtime=runtime)).text
        stream = agent.stream("q?", runtime=runtime)
        async for _ in stream:
            pass
        return stream.result.text

    assert await ask_once() == "hi"
    failures.extend([asyncio.CancelledError] * 3)
    with pytest.raises(ModelConnectionError, match="something inside it was cancelled"):
        await ask_once()


async def test_a_stream_in_which_something_is_cancelled_breaks_off() -> None:
    """After its first piece nothing is tried again; what had arrived is kept."""
    begun: list[int] = []

    async def pieces() -> AsyncIterator[bytes]:
        begun.append(1)
        choice = {"index": 0, "delta": {"role": "assistant", "content": "Half"}}
        yield b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"
        raise asyncio.CancelledError

    def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=pieces())

    runtime = DirectRuntime(transport=httpx.MockTransport(answer), environment={}, sleep=Waits())
    agent = Agent(name="a", system="S", model=make("openai", api_key=KEY))
    with pytest.raises(ModelStreamError, match="cancelled") as caught:
        async for _ in agent.stream("q?", runtime=runtime):
            pass
    assert "Half" in str(caught.value.messages)
    assert begun == [1]


async def test_a_server_of_ones_own_may_need_no_key() -> None:
    """Nothing is sent where the key would be."""

    def answer(request: httpx.Request) -> httpx.Response:
        assert "authorization" not in request.headers
        choice = {"message": {"role": "assistant", "content": "hi"}}
        return httpx.Response(200, json={"choices": [choice]})

    runtime = DirectRuntime(transport=httpx.MockTransport(answer), environment={})
    model = openai("llama", base_url="http://localhost:11434/v1/")
    assert (await Agent(name="a", system="S", model=model).run("q?", runtime=runtime)).text == "hi"


@pytest.mark.parametrize("slash", ["", "/", "//"])
async def test_a_base_url_may_end_in_slashes(slash: str) -> None:
    """They make no double ones."""
    with FakeProvider(["hi"]) as fake:
        root = fake.base_url("openai")
        model = openai("gpt-4o", api_key=KEY, base_url=root + slash)
        runtime = DirectRuntime()
        await Agent(name="a", system="S", model=model).run("q?", runtime=runtime)
        await runtime.aclose()
        assert fake.requests[0].path == f"{root.removeprefix(fake.url)}/chat/completions"


async def test_a_models_own_transport_comes_before_the_runtimes() -> None:
    """A proxy for one provider only."""
    own, shared = FakeProvider(["own", "own"]), FakeProvider(["shared"])
    runtime = DirectRuntime(transport=shared.transport, environment={})
    model = make("openai", api_key=KEY)
    agent = Agent(name="a", system="S", model=replace(model, transport=own.transport))
    assert (await agent.run("q?", runtime=runtime)).text == "own"
    assert (await agent.run("q?", runtime=runtime)).text == "own"
    assert (await agent.run("q?", runtime=runtime, model=model)).text == "shared"


async def test_a_model_that_responds_in_this_process_needs_no_key_and_no_network() -> None:
    """It gets the body, and gives the provider's JSON."""
    bodies: list[dict[str, Any]] = []

    async def respond(body: dict[str, Any]) -> object:
        bodies.append(body)
        return {"choices": [{"message": {"role": "assistant", "content": "hi"}}]}

    model = replace(make("openai"), answers=respond)
    runtime = DirectRuntime(environment={})
    assert (await Agent(name="a", system="S", model=model).run("q?", runtime=runtime)).text == "hi"
    assert bodies[0]["messages"][-1]["content"] == "q?"


# Connections.


def test_a_runtime_serves_several_event_loops_one_after_another() -> None:
    """A client of a closed loop is not used again."""
    with FakeProvider(["one", "two", "three"]) as fake:
        runtime = DirectRuntime()
        agent = Agent(
            name="a", system="S",
            model=openai("gpt-4o", api_key=KEY, base_url=fake.base_url("openai")),
        )  # fmt: skip

        async def once() -> str:
            text = (await agent.run("q?", runtime=runtime)).text
            await runtime.aclose()
            return text

        assert [asyncio.run(once()) for _ in range(3)] == ["one", "two", "three"]


def test_a_runtime_serves_event_loops_in_several_threads_at_once() -> None:
    """Each has its own connections."""
    meeting = threading.Barrier(2, timeout=120)

    async def reply(request: Any) -> str:
        await asyncio.get_running_loop().run_in_executor(None, meeting.wait)
        return "hi"

    with FakeProvider(reply) as fake:
        runtime = DirectRuntime()
        agent = Agent(
            name="a", system="S",
            model=openai("gpt-4o", api_key=KEY, base_url=fake.base_url("openai")),
        )  # fmt: skip
        answers: list[str] = []

        async def once() -> None:
            answers.append((await agent.run("q?", runtime=runtime)).text)
            await runtime.aclose()

        threads = [threading.Thread(target=asyncio.run, args=(once(),)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert answers == ["hi", "hi"]


async def test_a_closed_runtime_opens_new_connections() -> None:
    """Closing it is for tidiness."""
    with FakeProvider(["one", "two", "three"]) as fake:
        runtime = DirectRuntime()
        await runtime.aclose()
        agent = Agent(
            name="a", system="S",
            model=openai("gpt-4o", api_key=KEY, base_url=fake.base_url("openai")),
        )  # fmt: skip
        assert (await agent.run("q?", runtime=runtime)).text == "one"
        assert (await agent.run("q?", runtime=runtime)).text == "two"
        await runtime.aclose()
        assert (await agent.run("q?", runtime=runtime)).text == "three"
        await runtime.aclose()


# The port.


def test_direct_runtime_has_the_shape_of_the_port() -> None:
    """Engine code knows nothing else."""
    runtime = DirectRuntime()
    assert isinstance(runtime, Runtime)
    steps: StepTools = runtime.step
    assert steps is runtime.step
    assert runtime.claim("x") == "x"
    assert runtime.new_id("k") != runtime.new_id("k")
    assert runtime.now("k").tzinfo is not None
    assert runtime.is_final(ValueError())


async def test_parallel_runs_all_to_their_end_and_gives_errors_as_values() -> None:
    """The results keep the order of the calls."""
    meeting = asyncio.Barrier(2)

    async def one() -> str:
        await meeting.wait()
        return "one"

    async def two() -> str:
        await meeting.wait()
        raise LookupError("two")

    first, second = await DirectRuntime().parallel([one, two])
    assert first == "one"
    assert isinstance(second, LookupError)
    assert await DirectRuntime().parallel([]) == []


async def test_publish_hands_chunks_to_all_listeners() -> None:
    """Chunks without a listener are dropped."""
    got: list[dict[str, Any]] = []

    async def listen(chunk: dict[str, Any]) -> None:
        got.append(chunk)

    await DirectRuntime(publish=listen).publish({"event": "x"})
    await DirectRuntime().publish({"event": "y"})
    assert got == [{"event": "x"}]


async def test_a_run_chooses_its_runtime_explicit_then_ambient_then_direct() -> None:
    """Decided in one place."""
    explicit, ambient = DirectRuntime(), DirectRuntime()
    assert choose_runtime() is shared_runtime()
    with use_runtime(ambient):
        assert choose_runtime() is ambient
        assert choose_runtime(explicit) is explicit
        with use_runtime(explicit):
            assert choose_runtime() is explicit
        assert choose_runtime() is ambient
    assert choose_runtime() is shared_runtime()
    await close_shared_runtime()


def test_every_model_error_says_whether_to_try_again() -> None:
    """Callers with retries of their own need not know all classes."""
    where = {"provider": "p", "model": "m"}
    facts: dict[str, Any] = {**where, "status": 500}
    again: list[ModelError] = [
        RateLimitError("x", **facts),
        ProviderUnavailableError("x", **facts),
        ModelTimeoutError(**where, timeout=1),
        ModelConnectionError("x", **where),
    ]
    never: list[ModelError] = [
        AuthenticationError("x", **facts),
        BadRequestError("x", **facts),
        ContextOverflowError("x", **facts),
        ModelHTTPError("x", **facts),
        ModelResponseError("x", **where),
    ]
    assert [e.retriable for e in again] == [True] * 4
    assert [e.retriable for e in never] == [False] * 5
    assert str(again[0]) == "p model 'm': HTTP 500: x"


def test_transports_of_models_that_are_gone_are_let_go() -> None:
    """A process that makes a model for each request keeps the transports of the last ones only."""
    runtime, seen = DirectRuntime(), list[weakref.ref[Any]]()

    async def alive_after(count: int) -> int:
        for _ in range(count):
            transport = FakeProvider(["yes"]).transport
            model = replace(openai("gpt-4o", api_key=KEY), transport=transport)
            agent = Agent(name="a", system="S", model=model)
            assert (await agent.run("q?", runtime=runtime)).text == "yes"
            seen.append(weakref.ref(transport))
            del transport, model, agent
        gc.collect()
        return sum(one() is not None for one in seen)

    assert asyncio.run(alive_after(2 * MOST_CLIENTS)) == MOST_CLIENTS
