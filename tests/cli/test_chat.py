"""`agentkit chat`: a network or agent of one's own in the terminal."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from agentkit_py.messages import Message
from agentkit_py.stores import SqliteHistory, ThreadInfo
from agentkit_py.testing import FakeProvider, ReceivedRequest, error, tool_call
from agentkit_py.testing.provider import Raw, Reply
from tests.cli.terminal import COMMAND, Screen, agentkit, environment

SHOP = '''
import os
from agentkit_py import Agent, Network, SqliteHistory, ToolCallFilter, openai

def model():
    return openai("gpt-4.1", api_key="sk-test", base_url=os.environ["SHOP_MODEL"])

def stock(item: str) -> int:
    """How many are left."""
    return 3

clerk = Agent(name="clerk", system="You sell hats.", model=model(), tools=[stock], max_iter=3)
once = lambda context: clerk if context.call_count == 0 else None
shop = Network(name="shop", agents=[clerk], router=once, processors=[ToolCallFilter(exclude=["x"])])
kept = Network(name="kept", agents=[clerk], router=once, history=SqliteHistory("own.db"))

def make():
    return shop

def needs(argument):
    return shop

async def later():
    return shop

class Shop:
    instance = shop

number = 3
'''

COUNTING = '''
import os
from agentkit_py import Agent, ToolContext, openai

def count(ctx: ToolContext) -> int:
    """Count."""
    ctx.state.data["n"] = ctx.state.data.get("n", 0) + 1
    return ctx.state.data["n"]

model = openai("gpt-4.1", api_key="sk-test", base_url=os.environ["SHOP_MODEL"])
clerk = Agent(
    name="clerk", description="Counts.", system="S", model=model, tools=[count], max_iter=3
)
'''

WRONG = "import agentkit_py; agentkit_py.Agent(name='', system='')"
BROKEN = "raise RuntimeError('no config file')\n"
LEAVING = "import sys; sys.exit(3)\n"
MISSING = "import not_installed_anywhere\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with modules, as a user has one."""
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "broken.py").write_text(BROKEN)
    (tmp_path / "wrong.py").write_text(WRONG)
    (tmp_path / "leaving.py").write_text(LEAVING)
    (tmp_path / "missing.py").write_text(MISSING)
    return tmp_path


@pytest.fixture
def provider() -> Iterator[FakeProvider]:
    """The model's provider, over HTTP."""
    with FakeProvider() as provider:
        yield provider


def variables(provider: FakeProvider) -> dict[str, str]:
    """Return the variables with the address of the shop's model."""
    return {"SHOP_MODEL": provider.base_url("openai"), "XAI_API_KEY": "xai-test"}


def chat(folder: Path, provider: FakeProvider, *arguments: str, lines: str = "") -> Result:
    """Talk to the shop through a pipe."""
    return agentkit("chat", *arguments, folder=folder, lines=lines, variables=variables(provider))


def conversation(request: ReceivedRequest) -> list[str]:
    """Return the messages of a request as lines, without the system prompt."""
    messages: list[dict[str, Any]] = request.body["messages"]
    return [f"{m['role']}: {m['content']}" for m in messages if m["role"] != "system"]


def thread_in(output: str) -> str:
    """The thread's id, as the chat printed it."""
    found = re.search(r"Thread ([\w-]+)", output)
    assert found is not None
    return found[1]


def test_each_line_is_answered_with_the_conversation_before_it(
    folder: Path, provider: FakeProvider
) -> None:
    """The thread lives as long as the chat, and the chat says so."""
    provider.reply("Yes, red ones.", "Ten euros.")
    done = chat(folder, provider, "shop:shop", lines="Any hats?\n\nHow much?\n")
    assert (done.exit_code, done.stderr) == (0, "")
    assert "It keeps no threads" in done.stdout
    assert done.stdout.index("> Any hats?") < done.stdout.index("Yes, red ones.")
    assert "● clerk\n  Ten euros.\n" in done.stdout
    assert conversation(provider.requests[1]) == [
        "user: Any hats?",
        "assistant: Yes, red ones.",
        "user: How much?",
    ]


def test_tools_are_shown_with_arguments_and_results(folder: Path, provider: FakeProvider) -> None:
    """Each has lines of its own, errors too."""
    provider.reply(tool_call("stock", {"item": "red"}), tool_call("stock", {"colour": 1}), "Three.")
    done = chat(folder, provider, "shop:shop", lines="How many?\n")
    assert '  → stock(item="red")\n  ✓ stock: 3\n  → stock(colour=1)\n  ✗ stock: ' in done.stdout


def test_calls_that_are_no_objects_and_reasoning_are_shown_too(
    folder: Path, provider: FakeProvider
) -> None:
    """Malformed arguments, reasoning and the reason of a stopped turn are part of the output."""
    model = ["--model", "grok:grok-4", "--base-url", provider.base_url("grok")]
    calls = [tool_call("stock", arguments) for arguments in ("{nope", "[1]")]
    thought = {"reasoning": "Look it up.", **tool_call("stock", {"item": "red"})}
    provider.reply(*calls, thought)
    done = chat(folder, provider, "shop:shop", *model, lines="How many?\n")
    for line in ("→ stock({nope)", "→ stock([1])", "… Look it up.", "✓ stock: 3"):
        assert f"  {line}\n" in done.stdout
    assert "  ■ clerk was stopped: max_iter\n" in done.stdout


def test_a_reply_that_is_not_whole_says_so_once(folder: Path, provider: FakeProvider) -> None:
    """With the provider's word and details; one that says nothing is an error."""
    refused = {"message": {"role": "assistant", "refusal": "Not this."}, "finish_reason": "stop"}
    empty = {"message": {"role": "assistant"}, "finish_reason": "content_filter"}
    provider.reply({"text": "It is", "finish": "length"}, Raw(json={"choices": [refused]}))
    provider.reply(Raw(json={"choices": [empty]}))
    done = chat(folder, provider, "shop:shop", lines="How many?\nAnd?\nAnd?\n")
    assert "  It is\n  ■ the reply is not whole: length\n\n" in done.stdout
    assert (
        '  ■ the reply is not whole: refusal (stop)\n    {"refusal":"Not this."}\n' in done.stdout
    )
    assert "  ✗ EmptyReplyError: " in done.stdout
    assert done.exit_code == 1


def test_a_chat_without_a_word_has_nothing_to_come_back_to(
    folder: Path, provider: FakeProvider
) -> None:
    """A chat whose thread was deleted has none either."""
    provider.reply("Yes.")
    for lines in ("", "/help\n", "Any hats?\n/clean\n"):
        shown = chat(folder, provider, "shop:shop", "--db", "chat.db", lines=lines)
        assert "come back with" not in shown.stdout, lines


def test_a_thread_continues_in_another_process(folder: Path, provider: FakeProvider) -> None:
    """The command to come back is printed, and what was said is shown and sent."""
    provider.reply("Yes, red ones.", "As I said, red ones.")
    first = chat(folder, provider, "shop:shop", "--db", "chat.db", lines="Any hats?\n")
    thread = thread_in(first.stdout)
    command = f"agentkit chat shop:shop --db chat.db --thread {thread}"
    assert first.stdout.splitlines()[-1] == f"Thread {thread}; come back with: {command}"
    second = chat(folder, provider, *command.split()[2:], lines="What colour?\n")
    assert "2 messages so far; the last ones:\n● you\n  Any hats?\n● clerk\n" in second.stdout
    assert conversation(provider.requests[1]) == [
        "user: Any hats?",
        "assistant: Yes, red ones.",
        "user: What colour?",
    ]
    assert provider.rejections == []


def test_a_thread_can_be_read_without_asking_anything(folder: Path, provider: FakeProvider) -> None:
    """Its last messages are shown, and leaving it changes nothing."""
    provider.reply("Yes, red ones.")
    first = chat(folder, provider, "shop:shop", "--db", "chat.db", lines="Any hats?\n")
    resumed = ["shop:shop", "--db", "chat.db", "--thread", thread_in(first.stdout)]
    left = chat(folder, provider, *resumed, lines="/help\n/context\n/nothing\n/quit\n")
    assert "● you\n  Any hats?\n● clerk\n  Yes, red ones.\n" in left.stdout
    assert chat(folder, provider, *resumed).stdout.count("2 messages so far") == 1
    assert len(provider.requests) == 1


def test_a_cut_text_of_an_earlier_run_is_marked_as_cut(
    folder: Path, provider: FakeProvider
) -> None:
    """It looks like an answer otherwise."""
    provider.reply({"text": "Yes, red", "finish": "length"})
    first = chat(folder, provider, "shop:shop", "--db", "chat.db", lines="Any hats?\n")
    resumed = ["shop:shop", "--db", "chat.db", "--thread", thread_in(first.stdout)]
    shown = chat(folder, provider, *resumed).stdout
    assert "  Yes, red\n  ■ the reply is not whole: length\n" in shown


def test_a_new_thread_belongs_to_the_user_that_was_named(
    folder: Path, provider: FakeProvider
) -> None:
    """An application finds it among that user's threads."""
    provider.reply("Yes.")
    chat(folder, provider, "shop:shop", "--db", "chat.db", "--user", "u-7", lines="Any hats?\n")

    async def threads() -> list[ThreadInfo]:
        async with SqliteHistory(folder / "chat.db") as history:
            return await history.list_threads(user_id="u-7")

    (thread,) = asyncio.run(threads())
    assert thread.title == "Any hats?"


def test_a_networks_own_history_is_used(folder: Path, provider: FakeProvider) -> None:
    """--db does not replace it, and the chat says so."""
    provider.reply("Yes.")
    done = chat(folder, provider, "shop:kept", "--db", "other.db", lines="Any hats?\n")
    assert done.exit_code == 0
    assert "(--db is not used)" in done.stdout
    assert (folder / "own.db").exists()
    assert not (folder / "other.db").exists()


@pytest.mark.parametrize("target", ["shop:clerk", "shop:make", "shop:Shop.instance"])
def test_agents_factories_and_attributes_can_be_talked_to(
    folder: Path, provider: FakeProvider, target: str
) -> None:
    """Targets other than networks work, too."""
    provider.reply("Yes.", "Ten.")
    done = chat(folder, provider, target, lines="Any hats?\nHow much?\n")
    assert (done.exit_code, done.stderr) == (0, "")
    assert len(conversation(provider.requests[1])) == 3


def test_another_model_can_be_named(folder: Path, provider: FakeProvider) -> None:
    """It overrides those of all agents."""
    provider.reply("Yes.")
    model = ["--model", "grok:grok-4", "--base-url", provider.base_url("grok")]
    done = chat(folder, provider, "shop:shop", *model, lines="Any hats?\n")
    assert (done.exit_code, done.stderr) == (0, "")
    assert provider.requests[0].model == "grok-4"


def test_a_model_error_is_shown_and_the_chat_continues(
    folder: Path, provider: FakeProvider
) -> None:
    """A script learns of it by the exit status."""
    provider.reply(error(401, "Wrong key."), "Yes.")
    done = chat(folder, provider, "shop:shop", lines="Any hats?\nAny hats now?\n")
    assert "✗ AuthenticationError: openai model 'gpt-4.1': HTTP 401: Wrong key." in done.stdout
    assert done.stdout.index("Wrong key.") < done.stdout.index("  Yes.")
    assert (done.exit_code, done.stderr) == (1, "")


def test_slash_commands_are_answered_by_the_chat(folder: Path, provider: FakeProvider) -> None:
    """They are not sent to the model."""
    provider.reply("Yes.")
    lines = "/context\n/help\nAny hats?\n/context\n/nothing\n/thread\n/quit\nnever read\n"
    done = chat(folder, provider, "shop:shop", lines=lines)
    assert done.exit_code == 0
    assert "Nothing was asked yet." in done.stdout
    assert "Ctrl-C     stop the agents" in done.stdout
    assert re.search(r"clerk +network +ToolCallFilter +0 → 0 +0 → 0", done.stdout)
    assert "There is no /nothing; try /help." in done.stdout
    assert done.stdout.count(f"Thread {thread_in(done.stdout)}") == 3
    assert len(provider.requests) == 1


def test_messages_are_taken_back_and_asked_otherwise_in_a_fork(
    folder: Path, provider: FakeProvider
) -> None:
    """/undo continues in the thread, /fork in another one."""
    provider.reply("Red.", "Ten.", "Five.", "Blue.")
    lines = (
        "Which?\nHow much?\n/undo\nHow many?\n/fork 2\nWhich others?\n/undo 9\n/fork x\n/threads\n"
    )
    done = chat(folder, provider, "shop:kept", lines=lines)
    assert conversation(provider.requests[2]) == [
        "user: Which?",
        "assistant: Red.",
        "user: How many?",
    ]
    assert conversation(provider.requests[3]) == ["user: Which others?"]
    assert "You have not written 9 messages here." in done.stdout
    assert "You have not written x messages here." in done.stdout
    assert len(set(re.findall(r"Thread ([\w-]+)", done.stdout))) == 2


def test_the_state_is_kept_from_line_to_line(folder: Path, provider: FakeProvider) -> None:
    """It goes back with the message that changed it."""
    (folder / "counting.py").write_text(COUNTING)
    call = tool_call("count", {})
    provider.reply(call, "One.", call, "Two.", call, "Two again.")
    lines = "count\ncount\n/why\n/undo\ncount\n/agents\n"
    done = chat(folder, provider, "counting:clerk", lines=lines)
    assert re.findall(r"✓ count: (\d)", done.stdout) == ["1", "2", "2"]
    assert "clerk: tool_calls, called count" in done.stdout
    assert "clerk  Counts.\n  tools: count" in done.stdout


async def stored(db: Path, thread_id: str) -> list[Message]:
    """The messages of a thread."""
    async with SqliteHistory(db) as history:
        return await history.messages(thread_id)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pseudo-terminals")
def test_in_a_terminal_ctrl_c_at_the_prompt_explains_and_ctrl_d_ends(
    folder: Path, provider: FakeProvider
) -> None:
    """Ctrl-C and Ctrl-D act as in other chats, and a terminal gets a prompt and colours."""
    ours, theirs = os.openpty()
    env = environment(**variables(provider), TERM="xterm-256color", NO_COLOR="")
    command = [*COMMAND, "chat", "shop:shop"]
    provider.reply("Yes, red ones.")
    screen = Screen(ours)
    with subprocess.Popen(
        command, cwd=folder, env=env, stdin=theirs, stdout=theirs, stderr=theirs
    ) as process:
        os.close(theirs)
        screen.wait_for(b"> ")
        os.write(ours, b"Any hats?\n")
        screen.wait_for(b"red ones.")
        screen.wait_for(b"> ")
        # A signal between the prompt and readline's waiting is noticed at the next key or signal.
        interrupt = partial(process.send_signal, signal.SIGINT)
        interrupt()
        screen.wait_for(b"ends the chat.", again=interrupt)
        screen.wait_for(b"> ")
        os.write(ours, b"\x04")
        assert process.wait() == 0
    os.close(ours)
    assert b"\x1b[1;36m" in screen.shown


class Hanging:
    """A model that does not answer its second request, and says when it is asked."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.count = 0

    def __call__(self, request: ReceivedRequest) -> Reply:
        self.count += 1
        if self.count == 1:
            return tool_call("stock", {"item": "red"})
        if self.count == 2:
            self.asked.set()
            return Raw(reply="Too late.", delay=600)
        return "Hello again."


def test_ctrl_c_stops_the_run_and_leaves_a_thread_that_goes_on(folder: Path) -> None:
    """The tool call that was finished is in it, and the next turn's request is accepted."""
    model = Hanging()
    with FakeProvider(model) as provider:
        process = subprocess.Popen(
            [*COMMAND, "chat", "shop:shop", "--db", "chat.db"],
            cwd=folder,
            env=environment(**variables(provider)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )
        assert process.stdin is not None
        process.stdin.write("How many?\n")
        process.stdin.flush()
        assert model.asked.wait()
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate("Still there?\n")
        assert provider.rejections == []
    assert (process.returncode, errors) == (0, "")
    assert output.index("■ stopped") < output.index("> Still there?") < output.index("Hello again.")
    messages = asyncio.run(stored(folder / "chat.db", thread_in(output)))
    assert [(m.type, m.role) for m in messages] == [
        ("text", "user"),
        ("tool_call", "assistant"),
        ("tool_result", "tool_result"),
        ("text", "user"),
        ("text", "assistant"),
    ]


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        ("shop", "'shop' is not MODULE:OBJECT"),
        (":shop", "is not MODULE:OBJECT"),
        ("shop.py:shop", "'shop.py' is a file; name the module"),
        ("shops:shop", "Module 'shops' is neither in"),
        ("shop.sub:shop", "Module 'shop.sub' is neither in"),
        ("shop:network", "'shop' has no 'network'. It has 'clerk', 'shop', 'kept'."),
        ("shop:number", "'shop:number' is of type int; give a Network, an Agent,"),
        ("shop:Shop", "'shop:Shop' is the class Shop;"),
        ("shop:needs", "'shop:needs' was called without arguments: TypeError"),
        ("broken:shop", "'broken' cannot be imported: RuntimeError: no config file"),
        ("wrong:shop", "'wrong' cannot be imported: An agent's name must be"),
        ("shop:later", "'shop:later' is an async function; give a sync function"),
        ("leaving:shop", "'leaving' cannot be imported: it ends the program (SystemExit: 3)"),
        ("missing:shop", "'missing' cannot be imported: No module named 'not_installed_anywhere'"),
    ],
)
def test_an_invalid_target_is_refused_in_one_line(
    folder: Path, provider: FakeProvider, target: str, sentence: str
) -> None:
    """Status 2, no traceback."""
    done = chat(folder, provider, target)
    assert (done.exit_code, done.stdout) == (2, "")
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1


def test_resuming_a_thread_that_is_not_there_is_an_error(
    folder: Path, provider: FakeProvider
) -> None:
    """A typing error must not begin a new conversation."""
    done = chat(folder, provider, "shop:shop", "--db", "chat.db", "--thread", "t-1", lines="Hi\n")
    assert (done.exit_code, done.stderr) == (1, "agentkit: There is no thread 't-1'.\n")
    assert provider.requests == []


@pytest.mark.parametrize(
    ("db", "sentence"),
    [("no/chat.db", "The folder of --db no/chat.db does not exist."), (".", "--db . is a folder.")],
)
def test_a_file_that_cannot_be_created_is_refused_at_once(
    folder: Path, provider: FakeProvider, db: str, sentence: str
) -> None:
    """Status 2."""
    done = chat(folder, provider, "shop:shop", "--db", db)
    assert (done.exit_code, done.stderr) == (2, f"agentkit: {sentence}\n")
    assert done.stdout == ""


def test_a_base_url_without_a_model_is_an_error(folder: Path, provider: FakeProvider) -> None:
    """It would be silently ignored otherwise."""
    done = chat(folder, provider, "shop:shop", "--base-url", "http://localhost:1")
    assert done.exit_code == 2
    assert "--base-url needs --model" in done.stderr


def test_texts_of_models_cannot_steer_the_terminal(folder: Path, provider: FakeProvider) -> None:
    """Control characters are left out, markup stays text."""
    provider.reply("\x1b[2J\x1b]0;title\x07[bold]Yes[/bold].")
    done = chat(folder, provider, "shop:shop", lines="Any hats?\n")
    assert "\x1b" not in done.stdout
    assert "[2J]0;title[bold]Yes[/bold]." in done.stdout


def test_threads_are_listed_loaded_measured_and_cleaned(
    folder: Path, provider: FakeProvider
) -> None:
    """The commands work inside the chat."""
    provider.reply("Yes, red ones.")
    first = chat(folder, provider, "shop:shop", "--db", "t.db", lines="Any hats?\n")
    thread = thread_in(first.stdout)
    lines = f"/current\n/threads\n/load {thread}\n/current\n/load nope\n/clean\n/threads\n"
    done = chat(folder, provider, "shop:shop", "--db", "t.db", lines=lines)
    assert done.exit_code == 0, done.stderr
    said = done.stdout
    assert "0 messages, 0 tokens" in said
    assert said.count("messages so far; the last ones:") == 1
    assert "There is no thread 'nope'" in said
    assert f"Thread {thread}\n" in said
    rest = said.partition("Deleted. Thread")[2]
    assert thread not in rest


def test_a_named_user_does_not_find_threads_of_others(folder: Path, provider: FakeProvider) -> None:
    """Neither the option nor the command opens another user's thread."""
    provider.reply("Yes, red ones.")
    first = chat(folder, provider, "shop:shop", "--db", "t.db", "--user", "a", lines="Any hats?\n")
    thread, missing = thread_in(first.stdout), "There is no thread"
    options = ["shop:shop", "--db", "t.db", "--user", "b"]
    assert missing in chat(folder, provider, *options, lines=f"/load {thread}\n").stdout
    assert chat(folder, provider, *options, "--thread", thread).exit_code == 1
    assert missing not in chat(folder, provider, *options[:-1], "a", "--thread", thread).stdout


def test_the_folder_of_a_threads_files_is_named(folder: Path, provider: FakeProvider) -> None:
    """Before there is a file, too."""
    (folder / "files.py").write_text(
        SHOP + "\nfrom dataclasses import replace\nfrom agentkit_py import MemoryHistory\n"
        "from agentkit_py.stores import Workspace\n"
        "store = MemoryHistory()\nstore.workspace = Workspace('files')\n"
        "filed = replace(shop, history=store)\n"
    )
    said = chat(folder, provider, "files:filed", lines="/current\n").stdout
    assert f"Workspace {folder / 'files'}" in said
    assert "(no file yet)" in said


def test_the_limits_of_agents_are_named_too(folder: Path, provider: FakeProvider) -> None:
    """An agent's limit is shown with its name, after the network's."""
    (folder / "tight.py").write_text(
        SHOP + "\nfrom dataclasses import replace\nfrom agentkit_py import TokenLimiter\n"
        "clerk = replace(clerk, processors=[TokenLimiter(700)])\n"
        "tight = replace(shop, agents=[clerk])\n"
    )
    said = chat(folder, provider, "tight:tight", "--db", "t.db", lines="/current\n").stdout
    assert "ToolCallFilter: " in said
    assert "clerk: TokenLimiter: limit of 700 tokens" in said
