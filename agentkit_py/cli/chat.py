"""`agentkit chat`: talk to a network or an agent in the terminal."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from rich.console import Console
from rich.text import Text

from agentkit_py._core.interrupting import interruptible
from agentkit_py.cli.approvals import TerminalApprover
from agentkit_py.cli.console import clean
from agentkit_py.cli.context_table import print_context
from agentkit_py.cli.target import Target, check_file
from agentkit_py.cli.thread_table import print_threads
from agentkit_py.cli.transcript import Transcript
from agentkit_py.errors import HistoryError, ThreadNotFoundError
from agentkit_py.history.config import HistoryConfig
from agentkit_py.models.base import Model
from agentkit_py.network import Network
from agentkit_py.processors.report import ContextReport
from agentkit_py.processors.tokenizers import count_messages, default_tokenizer, prepare
from agentkit_py.results import USER
from agentkit_py.runtime.current import close_shared_runtime
from agentkit_py.state import State
from agentkit_py.stores import HistoryStore, MemoryHistory, SqliteHistory, for_user

_SHOWN = 6
"""Messages of a resumed thread that are shown."""

_PAGE = 500
"""Results that are read at once."""

_HELP = """\
/context   what each agent saw in the last turn
/current   this thread: messages, tokens, limits
/threads   the threads that are stored
/load ID   go on with another thread
/clean     delete this thread and begin a new one
/thread    this thread's id, and how to come back to it
/quit      end (so does Ctrl-D)
Ctrl-C     stop the agents; what they had finished stays in the thread"""


def with_history(target: Target, db: Path | None) -> tuple[Target, str]:
    """The target with a place for its threads, and a sentence that says which.

    Raises:
        ConfigurationError: ``db`` cannot be a file.
    """
    if target.history is not None:
        ignored = " (--db is not used)" if db is not None else ""
        own = "in memory" if isinstance(target.history, MemoryHistory) else repr(target.history)
        return target, f"Threads are kept by its own history, {own}{ignored}."
    if db is not None:
        check_file(db)
        return replace(target, history=SqliteHistory(db)), f"Threads are kept in {db}."
    sentence = "It keeps no threads, so this one ends with the chat; --db FILE would keep it."
    return replace(target, history=MemoryHistory()), sentence


@dataclass(slots=True)
class Chat:
    """A conversation with one target, until its user has enough.

    Attributes:
        thread_id: The thread; None before the first turn where the history makes ids itself.
        failed: How many turns ended with an error.
    """

    target: Target
    console: Console
    transcript: Transcript
    resume: str = ""
    """The command that comes back to this thread, without the thread's id."""

    thread_id: str | None = None
    user_id: str | None = None
    model: Model | None = None
    debug: bool = False
    failed: int = 0
    _written: bool = False
    """Whether there is something to come back to."""

    _reports: Sequence[ContextReport] = ()
    _commands: dict[str, Callable[[], None]] = field(init=False)

    def __post_init__(self) -> None:
        """Name the commands."""
        self._commands = {
            "/help": lambda: self.console.print(_HELP, markup=False),
            "/context": self._show_context,
            "/thread": self._show_thread,
        }

    @property
    def _history(self) -> HistoryConfig | None:
        return self.target.history

    def run(self) -> None:
        """Read and answer until the end of the input.

        Raises:
            ThreadNotFoundError: The thread to resume is not there.
            HistoryError: The store cannot be used.
        """
        with contextlib.suppress(ImportError):
            # Where it exists, it gives `input` arrow keys and a memory.
            self._complete(importlib.import_module("readline"))
        with asyncio.Runner() as runner:
            try:
                self._begin(runner)
                self._loop(runner)
            finally:
                runner.run(_close(self._history))
        if self._written:
            self._show_thread()

    def _begin(self, runner: asyncio.Runner) -> None:
        if self.thread_id is not None:
            runner.run(self._show_past(self.thread_id))
        elif isinstance(self._history, HistoryStore):
            self.thread_id = str(uuid4())
        if isinstance(self._history, HistoryStore):
            self.console.print(f"Thread {self.thread_id}. /help for help.", style="dim")
        self.console.print()

    def _loop(self, runner: asyncio.Runner) -> None:
        while True:
            line = self._read()
            if line is None or line == "/quit":
                return
            command = self._commands.get(line)
            if command is not None:
                command()
            elif self._asynchronous(line) is not None:
                self._run_command(runner, line)
            elif line.startswith("/"):
                self.console.print(Text(f"There is no {line.split()[0]}; try /help.", "yellow"))
            elif line:
                self._take_turn(runner, line)
            if line:
                self.console.print()

    def _complete(self, readline: Any) -> None:
        names = [*self._commands, *_STORE_COMMANDS, "/quit"]

        def complete(text: str, state: int) -> str | None:
            found = [name for name in names if text and name.startswith(text)]
            return found[state] if state < len(found) else None

        readline.set_completer_delims(" ")
        readline.set_completer(complete)
        readline.parse_and_bind("tab: complete")

    def _asynchronous(self, line: str) -> Callable[[Chat, HistoryStore, str], Any] | None:
        return _STORE_COMMANDS.get(line.split(maxsplit=1)[0]) if line else None

    def _run_command(self, runner: asyncio.Runner, line: str) -> None:
        command, store = self._asynchronous(line), self._history
        if command is None or not isinstance(store, HistoryStore):
            self.console.print(Text("Its history is no store of this library.", "yellow"))
            return
        try:
            work = command(self, store, line.partition(" ")[2].strip())
            runner.run(interruptible(work))
        except HistoryError as error:
            self.console.print(Text(f"  ✗ {error}", "red"))

    async def load(self, store: HistoryStore, thread_id: str) -> None:
        """Go on with another thread."""
        del store
        await self._show_past(thread_id)
        self.thread_id, self._reports = thread_id, ()

    async def clean(self, store: HistoryStore, argument: str) -> None:
        """Delete the thread, and begin a new one."""
        del argument
        if self.thread_id is not None:
            await store.delete_thread(self.thread_id)
        self.thread_id, self._reports, self._written = str(uuid4()), (), False
        self.console.print(f"Deleted. Thread {self.thread_id}.", style="dim")

    async def current(self, store: HistoryStore, argument: str) -> None:
        """Say how long the thread is, and how much of it the model may see."""
        del argument
        there = self.thread_id is not None and await store.thread_exists(self.thread_id)
        messages, tokens = (
            await _length(store, self.thread_id) if there and self.thread_id else (0, 0)
        )
        self.console.print(f"Thread {self.thread_id}")
        self.console.print(f"{messages} messages, {round(tokens)} tokens")
        if self._reports:
            last = self._reports[-1]
            self.console.print(f"{last.tokens_after} tokens sent in the last model call")
        for processor in (*store.chain, *self.target.chain):
            self.console.print(Text(f"{processor.name}: {processor.reason}", "dim"))
        for agent in self.target.agents if isinstance(self.target, Network) else ():
            for processor in agent.chain:
                line = f"{clean(agent.name)}: {processor.name}: {processor.reason}"
                self.console.print(Text(line, "dim"))

    async def threads(self, store: HistoryStore, argument: str) -> None:
        """List the threads that are stored."""
        del argument
        found = await store.list_threads(20, self.user_id)
        print_threads(self.console, found)

    def _read(self) -> str | None:
        """The next line; None at the end."""
        try:
            if sys.stdin.isatty():
                return input("> ").strip()
            line = sys.stdin.readline()
        except EOFError:
            self.console.print()
            return None
        except KeyboardInterrupt:
            if not sys.stdin.isatty():
                raise
            self.console.print("\nCtrl-D or /quit ends the chat.", style="dim")
            return ""
        if line.strip():
            self.console.print(Text(f"> {line.strip()}"), soft_wrap=True)
        return line.strip() if line else None

    def _take_turn(self, runner: asyncio.Runner, line: str) -> None:
        try:
            runner.run(interruptible(self._answer(line)))
        except KeyboardInterrupt:
            self.console.print()
            self.console.print(Text("  ■ stopped; the thread keeps what was finished", "yellow"))
        except Exception as error:
            if self.debug:
                raise
            self.failed += 1
            self.console.print(Text(f"  ✗ {type(error).__name__}: {error}", "red"))

    async def _answer(self, line: str) -> None:
        state = self._new_state()
        if isinstance(self._history, HistoryStore) and self.user_id is not None:
            await self._history.add_thread(self.thread_id, user_id=self.user_id, title=line[:80])
        try:
            await self.target.run(
                line,
                state=state,
                model=self.model,
                observer=self.transcript,
                approver=TerminalApprover(self.console),
            )
        finally:
            self._written = True
            # Nothing durable runs here, so this happens exactly once, also when it was stopped.
            self.thread_id = state.thread_id or self.thread_id
            found = [r.context for r in state.results if r.context is not None]
            self._reports = found or self._reports

    def _new_state(self) -> State[Any]:
        """As every run begins: the network's default data, and the thread to load."""
        default = self.target.default_state if isinstance(self.target, Network) else None
        state: State[Any] = State() if default is None else default.clone()
        state.thread_id = self.thread_id
        return state

    async def _show_past(self, thread_id: str) -> None:
        store = self._history
        if not isinstance(store, HistoryStore):
            return
        if self.user_id is not None:
            store = for_user(store, self.user_id)
        if not await store.thread_exists(thread_id):
            raise ThreadNotFoundError(thread_id)
        self._written = True
        count = (await store.get_thread(thread_id)).messages
        if count is None:
            count = len(await store.messages(thread_id))
        self.console.print(f"{count} messages so far; the last ones:", style="dim")
        results = [one.result for one in (await store.newest(thread_id, 2 * _SHOWN))[1]]
        texts = [(r.agent_name, m.text) for r in results for m in r.output if m.type == "text"]
        for name, text in texts[-_SHOWN:]:
            self.transcript.past("you" if name == USER else name, text, is_user=name == USER)

    def _show_context(self) -> None:
        if self._reports:
            print_context(self.console, self._reports)
        else:
            self.console.print("Nothing was asked yet.", style="dim")

    def _show_thread(self) -> None:
        if self.thread_id is None:
            return
        line = Text(f"Thread {self.thread_id}", "dim")
        if self.resume and not isinstance(self._history, MemoryHistory):
            line.append(f"; come back with: {self.resume} {self.thread_id}")
        self.console.print(line, soft_wrap=True)


async def _length(store: HistoryStore, thread_id: str) -> tuple[int, float]:
    """How many messages a thread has, and how many tokens; read in pages."""
    tokenizer = await prepare(default_tokenizer())
    count = await store.count_results(thread_id)
    messages, tokens = 0, 0.0
    for stop in range(count, 0, -_PAGE):
        for record in await store.page(thread_id, stop, _PAGE):
            messages += len(record.result.messages)
            tokens += count_messages(record.result.messages, tokenizer)
    return messages, tokens


async def _close(history: HistoryConfig | None) -> None:
    await close_shared_runtime()
    if isinstance(history, HistoryStore):
        await history.close()


_STORE_COMMANDS: dict[str, Callable[[Chat, HistoryStore, str], Any]] = {
    "/current": Chat.current,
    "/threads": Chat.threads,
    "/load": Chat.load,
    "/clean": Chat.clean,
}
