"""Signed reasoning is checked when it comes back, as the providers do."""

from __future__ import annotations

import copy
from collections.abc import Callable
from datetime import date
from typing import Any

import httpx
import pytest

from agentkit_py.testing.provider import FakeProvider, Signing, tool_call

URLS = {
    "anthropic": "https://api.anthropic.com/v1/messages",
    "responses": "https://api.openai.com/v1/responses",
    "gemini": "https://generativelanguage.googleapis.com/v1beta/models/{model}:generateContent",
}
DROP = {"anthropic-beta": "thinking-binding-controls-2026-08-01"}
Body = dict[str, Any]
Change = Callable[[Body], object]


def post(
    fake: FakeProvider, body: Body, *, key: str = "sk-a", host: str = "", **headers: str
) -> httpx.Response:
    """Send a body to the host of its format."""
    kind = "responses" if "input" in body else "gemini" if "contents" in body else "anthropic"
    url = httpx.URL(URLS[kind].format(model=body.get("model")))
    if host:
        url = url.copy_with(host=host)
    given = {"anthropic-version": "2023-06-01", "x-api-key": key, "x-goog-api-key": key}
    with httpx.Client(transport=fake.transport) as client:
        return client.post(
            url, json=body, headers={**given, "authorization": f"Bearer {key}", **headers}
        )


def claude(model: str = "claude-opus-5-5") -> Body:
    """Return a request to Claude with a tool."""
    tool = {"name": "find", "input_schema": {"type": "object"}}
    messages = [{"role": "user", "content": "One?"}]
    return {
        "model": model,
        "max_tokens": 100,
        "system": "Help.",
        "tools": [tool],
        "messages": messages,
    }


def thread(fake: FakeProvider, body: Body, questions: tuple[str, ...] = ("Two?", "Three?")) -> Body:
    """Return a conversation of several turns, each with thinking, as it is sent next."""
    for question in questions:
        reply = post(fake, body)
        assert reply.status_code == 200, reply.text
        body["messages"].append({"role": "assistant", "content": reply.json()["content"]})
        body["messages"].append({"role": "user", "content": question})
    return body


def thinking() -> FakeProvider:
    """Return a provider that always thinks."""
    return FakeProvider(lambda _: {"reasoning": "Hm.", "text": "Yes."})


def nothing(_: Body) -> None:
    """Change nothing."""


def without(*places: tuple[int, int]) -> Change:
    """Return a change that leaves out blocks."""

    def change(body: Body) -> None:
        for message, block in places:
            del body["messages"][message]["content"][block]

    return change


HOLDS: dict[str, Change] = {
    "nothing": nothing,
    "longer answers": lambda b: b.update(max_tokens=200),
    "a cache mark": lambda b: b["tools"][0].update(cache_control={"type": "ephemeral"}),
    "all left out": without((1, 0), (3, 0)),
    "left out at the start": without((1, 0)),
    "left out at the end": without((3, 0)),
    "another order of keys": lambda b: b.update(messages=b.pop("messages")),
    "a deferred tool": lambda b: b["tools"].append(
        {"name": "more", "input_schema": {"type": "object"}, "defer_loading": True}
    ),
}
LOST: dict[str, Change] = {
    "the system prompt": lambda b: b.update(system="Do."),
    "the system prompt's form": lambda b: b.update(system=[{"type": "text", "text": "Help."}]),
    "another tool": lambda b: b["tools"].append(
        {"name": "more", "input_schema": {"type": "object"}}
    ),
    "a tool's description": lambda b: b["tools"][0].update(description="Finds."),
    "an earlier question": lambda b: b["messages"][0].update(content="Other?"),
    "a block more": lambda b: b["messages"][1]["content"].append({"type": "text", "text": "!"}),
    "the thinking itself": lambda b: b["messages"][1]["content"][0].update(thinking="Oh."),
}


@pytest.mark.parametrize("change", HOLDS.values(), ids=HOLDS)
def test_claude_takes_thinking_whose_beginning_is_the_same(change: Change) -> None:
    """All outside the beginning may change, and thinking may go from either end."""
    fake = thinking()
    body = thread(fake, claude())
    change(body)
    assert post(fake, body).status_code == 200


@pytest.mark.parametrize("change", LOST.values(), ids=LOST)
def test_claude_refuses_thinking_whose_beginning_changed(change: Change) -> None:
    """Anthropic says so since 31 August 2026."""
    fake = thinking()
    body = thread(fake, claude())
    change(body)
    reply = post(fake, body)
    assert reply.status_code == 400
    assert "Invalid `signature` in `thinking` block" in reply.text


def test_claude_refuses_thinking_behind_a_gap() -> None:
    """Each block records the one before it."""
    fake = thinking()
    body = thread(fake, claude(), ("2", "3", "4"))
    without((3, 0))(body)
    assert "different conversation" in post(fake, body).text


def test_claude_refuses_thinking_that_was_made_without_the_restored_messages() -> None:
    """Thinking that an earlier request left out must stay out."""
    fake = thinking()
    body = thread(fake, claude(), ("2",))
    first = copy.deepcopy(body["messages"][1]["content"][0])
    without((1, 0))(body)
    thread(fake, body, ("3",))
    body["messages"][1]["content"].insert(0, first)
    assert post(fake, body).status_code == 400


def swap(body: Body) -> None:
    """Change the order of two blocks of thinking, of which each keeps its place."""
    blocks = body["messages"][1]["content"]
    blocks[0], blocks[2] = blocks[2], blocks[0]


@pytest.mark.parametrize("model", ["claude-opus-5-5", "claude-opus-5", "claude-sonnet-4-5"])
@pytest.mark.parametrize(
    ("change", "taken"),
    [
        (nothing, True),
        (without((1, 0), (1, 1)), True),
        (without((1, 0)), False),
        (without((1, 2)), False),
        (swap, False),
    ],
)
def test_claude_wants_the_open_turns_thinking_whole_or_not_at_all(
    model: str, change: Change, taken: bool
) -> None:
    """So do those models that check nothing else."""
    calls = [{"name": "find"}]
    fake = FakeProvider(lambda _: {"reasoning": ["Hm.", "Oh."], "text": "So.", "tool_calls": calls})
    body = claude(model)
    content = post(fake, body).json()["content"]
    assert [b["type"] for b in content] == ["thinking", "text", "thinking", "tool_use"]
    result = {"type": "tool_result", "tool_use_id": content[-1]["id"], "content": "found"}
    body["messages"] += [
        {"role": "assistant", "content": content},
        {"role": "user", "content": [result]},
    ]
    change(body)
    reply = post(fake, body)
    assert (reply.status_code == 200) is taken
    assert taken or "thinking" in reply.json()["error"]["message"]


@pytest.mark.parametrize(
    ("model", "created", "status"),
    [
        ("claude-opus-5-5", date(2026, 8, 31), 400),
        ("claude-opus-5-5", date(2026, 8, 30), 200),
        ("claude-fable-5-2", date(2020, 1, 1), 400),
        ("claude-opus-5", date(2026, 9, 1), 200),
        ("claude-sonnet-4-5", date(2026, 9, 1), 200),
    ],
)
def test_a_refusal_depends_on_the_model_and_the_accounts_age(
    model: str, created: date, status: int
) -> None:
    """Older accounts are only told, and older models do not look."""
    fake = FakeProvider(
        lambda _: {"reasoning": "Hm.", "text": "Yes."}, signing=Signing(account_created=created)
    )
    body = thread(fake, claude(model))
    body["system"] = "Other."
    assert post(fake, body).status_code == status


def test_claude_drops_thinking_and_says_so_where_it_is_asked_to() -> None:
    """The way out of a thread that is refused; the field needs the header."""
    fake = thinking()
    body = thread(fake, claude())
    body["system"] = "Other."
    body["thinking"] = {
        "type": "adaptive",
        "block_binding": {"prefix_mismatch_behavior": "drop_block"},
    }
    assert "Extra inputs are not permitted" in post(fake, body).text
    reply = post(fake, body, **DROP)
    assert reply.status_code == 200
    done = reply.json()["input_transformations"]
    assert [one["reason"] for one in done] == ["prefix_binding_mismatch"] * 2
    assert done[0] == {
        "type": "thinking_dropped",
        "path": "messages.1.content.0",
        "reason": "prefix_binding_mismatch",
    }


def test_claude_leaves_out_thinking_of_other_accounts_and_models_in_silence() -> None:
    """Sonnet 5.5 binds to the account; Fable 5.2 can be read by its like only."""
    fake = thinking()
    body = thread(fake, claude("claude-sonnet-5-5"))
    reply = post(fake, body, key="sk-b", **DROP)
    assert {one["reason"] for one in reply.json()["input_transformations"]} == {
        "organization_mismatch"
    }
    body = thread(fake, claude("claude-fable-5-2"))
    body["model"] = "claude-opus-5-5"
    assert post(fake, body).status_code == 200
    reply = post(fake, body, **DROP)
    assert {one["reason"] for one in reply.json()["input_transformations"]} == {"model_mismatch"}
    strict = FakeProvider(["Yes."], signing=Signing(fail_on_loss=True))
    assert "would be dropped: model_mismatch" in post(strict, body).text


def test_claude_refuses_another_hosts_signature() -> None:
    """Vendors that speak this format sign for themselves."""
    fake = thinking()
    body = thread(fake, claude("claude-opus-5"))
    reply = post(fake, body, host="anthropic.example.com")
    assert reply.status_code == 400
    assert reply.json()["error"]["message"].endswith("Invalid `signature` in `thinking` block")


def test_unknown_signatures_are_refused_where_the_test_says_so() -> None:
    """Tests may write signatures of their own."""
    block = {"type": "thinking", "thinking": "Hm.", "signature": "mine"}
    body = claude()
    body["messages"] += [
        {"role": "assistant", "content": [block, {"type": "text", "text": "Yes."}]},
        {"role": "user", "content": "Two?"},
    ]
    assert post(FakeProvider(["Yes."]), body).status_code == 200
    strict = FakeProvider(["Yes."], signing=Signing(fail_on_unknown=True))
    assert post(strict, body).status_code == 400


def gpt(fake: FakeProvider, model: str) -> Body:
    """Return a request to OpenAI with the items of a turn before it."""
    body: Body = {
        "model": model,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "input": [{"role": "user", "content": "One?"}],
    }
    reply = post(fake, body)
    assert reply.status_code == 200, reply.text
    body["input"] += [*reply.json()["output"], {"role": "user", "content": "Two?"}]
    return body


def test_gpt_removes_reasoning_in_silence_and_a_test_can_make_it_fail() -> None:
    """GPT-6.2 answers 200 and thinks worse."""
    fake = thinking()
    body = gpt(fake, "gpt-6.2-astra")
    assert "input_transformations" not in post(fake, body).json()
    lower = {**body, "model": "gpt-6.2-sol"}
    assert post(fake, lower).json()["input_transformations"][0]["reason"] == "model_mismatch"
    body["input"][0]["content"] = "Other?"
    done = post(fake, body).json()["input_transformations"]
    assert [(one["action"], one["reason"]) for one in done] == [("removed", "prefix_mismatch")]
    strict = FakeProvider(["Yes."], signing=Signing(fail_on_loss=True))
    assert "would be removed: prefix_mismatch" in post(strict, body).text


def test_encrypted_reasoning_goes_back_to_its_host_and_account_only() -> None:
    """Azure binds it to the resource, OpenAI to the organisation, xAI to itself."""
    fake = thinking()
    body = gpt(fake, "gpt-5")
    assert post(fake, body).status_code == 200
    assert post(fake, body, key="sk-b").json()["error"]["code"] == "invalid_encrypted_content"
    shared = FakeProvider(["Yes."], signing=Signing(accounts={"sk-a": "acme", "sk-b": "acme"}))
    body = gpt(FakeProvider([{"reasoning": "Hm.", "text": "Y"}], signing=shared.signing), "gpt-5")
    assert post(shared, body, key="sk-b").status_code == 200
    elsewhere = post(fake, body, host="acme.openai.azure.com")
    assert elsewhere.json()["error"]["code"] == "invalid_encrypted_content"


def test_gemini_refuses_signatures_of_another_account_or_family() -> None:
    """A key that changed in the middle of a turn breaks it."""
    fake = FakeProvider(lambda _: tool_call("find"))
    body: Body = {
        "model": "gemini-3-pro",
        "contents": [{"role": "user", "parts": [{"text": "One?"}]}],
        "tools": [{"functionDeclarations": [{"name": "find"}]}],
    }
    sent = {name: body[name] for name in ("contents", "tools")}

    def ask(model: str, key: str = "sk-a") -> httpx.Response:
        with httpx.Client(transport=fake.transport) as client:
            url = URLS["gemini"].format(model=model)
            return client.post(url, json=sent, headers={"x-goog-api-key": key})

    part = ask("gemini-3-pro").json()["candidates"][0]["content"]["parts"][0]
    answer: Body = {"functionResponse": {"name": "find", "response": {}}}
    sent["contents"] += [{"role": "model", "parts": [part]}, {"role": "user", "parts": [answer]}]
    assert ask("gemini-3-pro").status_code == 200
    assert ask("gemini-3-flash").status_code == 200
    for other in (ask("gemini-3-pro", "sk-b"), ask("gemini-4-argon")):
        assert "Corrupted thought signature" in other.text


# ------------------------------------------------------------------------------------- summaries

COMPACT = {"anthropic-beta": "compact-2026-01-12"}
WORDS = "word " * 50_000
EDITS = {
    "edits": [{"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 50_000}}]
}
WISH = [{"type": "compaction", "compact_threshold": 1000}]


def summed_up(kind: str) -> tuple[FakeProvider, Body, list[Any]]:
    """Return a request that wishes for a summary and is long enough, and what was replied."""
    reply = {"reasoning": "Hm.", "text": "Yes."}
    fake = FakeProvider(lambda _: reply, signing=Signing(fail_on_loss=True))
    if kind == "claude":
        body = {**claude(), "context_management": EDITS}
        body["messages"] = [{"role": "user", "content": WORDS}]
        return fake, body, post(fake, body, **COMPACT).json()["content"]
    body = {"model": "gpt-6.2-sol", "store": False, "context_management": WISH}
    body["input"] = [{"role": "user", "content": WORDS}]
    return fake, body, post(fake, body).json()["output"]


@pytest.mark.parametrize("kind", ["claude", "gpt"])
@pytest.mark.parametrize("whole", [True, False])
def test_reasoning_behind_a_summary_holds_with_and_without_what_it_sums_up(
    kind: str, whole: bool
) -> None:
    """Both APIs take either; with the summary, what counts as the beginning begins."""
    fake, body, reply = summed_up(kind)
    assert reply[0]["type"] == "compaction"
    name = "messages" if kind == "claude" else "input"
    said = [{"role": "assistant", "content": reply}] if kind == "claude" else reply
    body[name] = [*(body[name] if whole else ()), *said, {"role": "user", "content": "And?"}]
    again = post(fake, body, **COMPACT)
    assert again.status_code == 200, again.text
    assert "compaction" not in again.text, "it is short again"


@pytest.mark.parametrize("kind", ["claude", "gpt"])
def test_a_summary_of_another_account_is_refused_as_unknown(kind: str) -> None:
    """The stand-in says that it does not know, in its own voice."""
    fake, body, reply = summed_up(kind)
    name = "messages" if kind == "claude" else "input"
    said = [{"role": "assistant", "content": reply[:1]}] if kind == "claude" else reply[:1]
    body[name] = [*said, {"role": "user", "content": "And?"}]
    refused = post(fake, body, key="sk-b", **COMPACT)
    assert "FakeProvider does not know how a summary is taken" in refused.text
    assert fake.rejections[-1].unknown
