"""`agentkit chat` and `agentkit demo`: conversations in the terminal."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import signal
import sys
from collections.abc import Callable, Coroutine, Generator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, cast
from uuid import uuid4

import anyio
import typer
from rich.console import Console
from rich.text import Text

from agentkit_py._core.awaiting import interruptible, run_interruptibly
from agentkit_py._core.untrusted import clean
from agentkit_py.cli.console import Terminal
from agentkit_py.cli.explain import print_context
from agentkit_py.cli.printing import RunPrinter, call_line
from agentkit_py.cli.target import (
    BaseUrlOption,
    DbOption,
    ModelOption,
    Target,
    TargetArgument,
    load_model,
    load_target,
    with_history,
)
from agentkit_py.cli.threads import print_threads
from agentkit_py.errors import ConfigurationError, HistoryError, ThreadNotFoundError
from agentkit_py.events.approvals import ApprovalAnswer, ApprovalRequest, Decision
from agentkit_py.history.questions import Question
from agentkit_py.models.base import Model
from agentkit_py.network import Network, NetworkRun
from agentkit_py.processors.report import ContextReport
from agentkit_py.processors.tokenizers import count_messages, default_tokenizer, prepare
from agentkit_py.results import USER, AgentResult
from agentkit_py.runtime.current import close_shared_runtime
from agentkit_py.state import State, clone_data
from agentkit_py.stores import HistoryStore, MemoryHistory, for_user
from agentkit_py.stores.base import thread_store
from agentkit_py.stores.rows import title_of

_Delay = Annotated[bool, typer.Option("--delay/--no-delay", help="Type answers out in a terminal.")]


def demo(  # noqa: PLR0913 - the options of the command
    ctx: typer.Context,
    *,
    model: ModelOption = None,
    base_url: BaseUrlOption = None,
    db: Annotated[
        Path | None, typer.Option(help="SQLite file for the thread; temporary unless given.")
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the temporary files.")] = False,
    report: Annotated[
        bool, typer.Option("--report/--no-report", help="Show each agent's messages.")
    ] = True,
    delay: _Delay = True,
    resume: Annotated[
        str | None, typer.Option(metavar="THREAD", help="Continue a kept thread (with --db).")
    ] = None,
    ask: Annotated[str | None, typer.Option(hidden=True)] = None,
) -> None:
    """Watch a support network answer a customer over several turns.

    Offline: the model is a script behind a strict fake provider, asked over real HTTP. The last
    turn happens in a second process, which answers from the thread of the first.
    """
    from agentkit_py.cli.demo.play import DemoOptions, answer_later, open_desk, play  # noqa: PLC0415 - slow to load

    terminal: Terminal = ctx.obj
    if ask is None:  # the second process gets the address of the first process's scripted model
        _check_base_url(model, base_url)
    if resume is not None and db is None:
        raise ConfigurationError("--resume needs --db, the file that the thread is in.")
    if resume is not None and db is not None and not db.is_file():
        raise ConfigurationError(f"--db: there is no file {str(db)!r}.")
    chosen = DemoOptions(
        model=model,
        base_url=base_url,
        db=db,
        keep=keep,
        report=report,
        delay=terminal.delay(wanted=delay),
        flags=terminal.flags,
    )
    if resume is None:
        raise typer.Exit(run_interruptibly(play(terminal.console, chosen)))
    assert db is not None
    with open_desk(chosen, db.absolute(), resume) as desk:
        if ask is not None:
            run_interruptibly(answer_later(desk, terminal.console, resume, ask, chosen))
            return
        printer = RunPrinter(terminal.console, delay=chosen.delay)
        command = f"agentkit demo --db {db} --resume"
        _talk(Chat(desk.network, terminal.console, printer, command, resume, debug=terminal.debug))


def chat(
    ctx: typer.Context,
    target: TargetArgument,
    *,
    thread: Annotated[str | None, typer.Option(metavar="ID", help="Continue this thread.")] = None,
    db: DbOption = None,
    user: Annotated[
        str | None, typer.Option(metavar="ID", help="The user of a new thread, in the store.")
    ] = None,
    model: ModelOption = None,
    base_url: BaseUrlOption = None,
    delay: _Delay = True,
) -> None:
    """Talk to any network or agent.

    Each line is a run on the thread, with the state of the previous run. Lines may also be
    piped in; then the exit status is 1 if a run failed. /help lists the commands.
    """
    terminal: Terminal = ctx.obj
    found, where = with_history(load_target(target), db)
    other = None if model is None else load_model(model, base_url=base_url)
    _check_base_url(model, base_url)
    terminal.console.print(f"{type(found).__name__} {found.name}. {where}", soft_wrap=True)
    printer = RunPrinter(terminal.console, delay=terminal.delay(wanted=delay))
    kept = f" --db {db}" if db is not None else ""
    command = f"agentkit chat {target}{kept} --thread"
    _talk(
        Chat(found, terminal.console, printer, command, thread, user, other, debug=terminal.debug)
    )


def _check_base_url(model: str | None, base_url: str | None) -> None:
    if base_url is not None and model is None:
        raise ConfigurationError("--base-url needs --model.")


def _talk(conversation: Chat) -> None:
    conversation.run()
    if conversation.failed and not sys.stdin.isatty():
        raise typer.Exit(1)


_SHOWN = 6
"""Messages of a resumed thread that are shown."""

_PAGE = 500
"""Results that are read at once."""

_HELP = """\
/undo [N]  take back your last message and its answers, or the last N
/fork [N]  continue in a fork of this thread, before your last message or the last N; 0: at the end
/agents    who can answer
/why       who answered the last message, and why the run ended
/context   the messages that each agent saw in the last turn
/pending   answer what runs of this thread ask, whoever began them
/current   this thread: messages, tokens, limits, workspace
/threads   the threads that are stored
/load ID   continue another thread
/clean     delete this thread and begin a new one
/thread    this thread's id, and how to come back to it
/quit      end (so does Ctrl-D)
Ctrl-C     stop the agents; finished work stays in the thread"""


@dataclass(slots=True)
class Chat:
    """A conversation with a target, until its user ends it.

    Attributes:
        thread_id: The thread; None before the first turn where the history makes ids itself.
        failed: Number of turns that ended with an error.
    """

    target: Target
    console: Console
    printer: RunPrinter
    resume: str = ""
    """The command that comes back to this thread, without the thread's id."""

    thread_id: str | None = None
    user_id: str | None = None
    model: Model | None = None
    debug: bool = False
    failed: int = 0
    _written: bool = False
    """True if the thread has entries, so that it can be resumed."""

    _reports: Sequence[ContextReport] = ()
    _data: Any = None
    """The state's data after the last turn that succeeded; None: begin with the target's own."""

    _before: list[Any] = field(default_factory=list[Any])
    """The data before each turn of this thread."""

    _results: Sequence[AgentResult] = ()
    """The results of the last turn."""

    _last: Any = None
    """The last turn's run, or an agent's result; None: it did not complete."""

    _commands: dict[str, Callable[[str], Coroutine[Any, Any, None]]] = field(init=False)

    def __post_init__(self) -> None:
        """Name the commands."""
        self._commands = {
            "/help": self._show_help,
            "/undo": self._undo,
            "/fork": self._fork,
            "/agents": self._show_agents,
            "/why": self._show_why,
            "/context": self._show_context,
            "/pending": self._answer_pending,
            "/thread": self._show_thread,
            "/current": self._show_length,
            "/threads": self._list_threads,
            "/load": self._load,
            "/clean": self._delete,
        }

    @property
    def _store(self) -> HistoryStore:
        store = thread_store(self.target.history)
        if store is None:
            raise HistoryError("Its history is not a store of this library.")
        return store

    def run(self) -> None:
        """Read and answer until the end of the input.

        Raises:
            ThreadNotFoundError: The thread to resume does not exist.
            HistoryError: The store cannot be used.
        """
        with contextlib.suppress(ImportError):
            # Where it exists, it gives `input` arrow keys and a memory.
            self._complete(importlib.import_module("readline"))
        with asyncio.Runner() as runner:
            try:
                runner.run(self._begin())
                while (line := self._read()) not in (None, "/quit"):
                    self._handle(runner, line or "")
            finally:
                runner.run(self._close())
            if self._written:
                runner.run(self._show_thread())

    async def _begin(self) -> None:
        if thread_store(self.target.history) is not None:
            if self.thread_id is not None:
                await self._load(self.thread_id)
            else:
                self.thread_id = str(uuid4())
            self.console.print(f"Thread {self.thread_id}. /help for help.", style="dim")
        self.console.print()

    async def _close(self) -> None:
        await close_shared_runtime()
        store = thread_store(self.target.history)
        if store is not None:
            await store.close()

    def _handle(self, runner: asyncio.Runner, line: str) -> None:
        name, _, argument = line.partition(" ")
        command = self._commands.get(name)
        if command is not None:
            try:
                runner.run(interruptible(command(argument.strip())))
            except HistoryError as error:
                self.console.print(Text(f"  ✗ {error}", "red"))
        elif line.startswith("/"):
            self.console.print(Text(f"There is no {name}; try /help.", "yellow"))
        elif line:
            self._take_turn(runner, line)
        if line:
            self.console.print()

    def _complete(self, readline: Any) -> None:
        names = [*self._commands, "/quit"]

        def complete(text: str, state: int) -> str | None:
            found = [name for name in names if text and name.startswith(text)]
            return found[state] if state < len(found) else None

        readline.set_completer_delims(" ")
        readline.set_completer(complete)
        readline.parse_and_bind("tab: complete")

    def _read(self) -> str | None:
        """Return the next line; None at the end."""
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
            self.console.print(Text("  ■ stopped; finished work stays in the thread", "yellow"))
        except Exception as error:
            if self.debug:
                raise
            self.failed += 1
            self.console.print(Text(f"  ✗ {type(error).__name__}: {error}", "red"))

    async def _answer(self, line: str) -> None:
        state = self._next_state()
        store = thread_store(self.target.history)
        if store is not None and self.user_id is not None:
            await store.add_thread(self.thread_id, user_id=self.user_id, title=title_of(line))
        self._before.append(self._data)
        self._last = None
        try:
            self._last = await self.target.run(
                line,
                state=state,
                model=self.model,
                observer=self.printer,
                approver=TerminalApprover(self.console),
            )
            self._data = clone_data(state.data)
        finally:
            self._written = True
            # Nothing durable runs here, so this happens exactly once, also when it was stopped.
            self.thread_id = state.thread_id or self.thread_id
            self._results = [r for r in state.results if r.context is not None]
            found = [r.context for r in self._results if r.context is not None]
            self._reports = found or self._reports

    def _next_state(self) -> State[Any]:
        """Return the state that the next turn begins with."""
        default = self.target.default_state if isinstance(self.target, Network) else None
        state: State[Any] = State() if default is None else default.clone()
        if self._data is not None:
            state.data = clone_data(self._data)
        state.thread_id = self.thread_id
        return state

    async def _continue_in(self, thread_id: str) -> None:
        """Go on in a thread, with the data that its last run left, where the store has it."""
        self.thread_id, self._reports, self._results, self._last = thread_id, (), (), None
        runs = self._store.abilities.runs
        run = None if runs is None else await runs.load_run(thread_id)
        if run is not None and run.state is not None:
            self._data = None
            state = self._next_state()
            state.load(dict(run.state))
            self._data = state.data

    async def _undo(self, argument: str) -> None:
        place = await self._place(argument or "1")
        if place is None or self.thread_id is None:
            return
        await self._store.rewind(self.thread_id, place)
        self._take_back(int(argument or 1))
        await self._continue_in(self.thread_id)
        await self._show_past(self.thread_id)

    async def _fork(self, argument: str) -> None:
        count = argument or "1"
        place = None if count == "0" else await self._place(count)
        if self.thread_id is None or (place is None and count != "0"):
            return
        made = await self._store.fork(self.thread_id, place, fork_id=str(uuid4()))
        self._take_back(int(count))
        await self._continue_in(made)
        await self._show_past(made)
        await self._show_thread()

    def _take_back(self, count: int) -> None:
        """Restore the data of so many turns ago, if this chat has it."""
        for _ in range(count):
            self._data = self._before.pop() if self._before else None

    async def _place(self, count: str) -> int | None:
        """Return the position of the user's message that is ``count`` from the end."""
        found = None
        if count.isdecimal() and int(count) and self.thread_id is not None and self._written:
            found = await self._store.last_user_message(self.thread_id, int(count))
        if found is None:
            self.console.print(Text(f"You have not written {count} messages here.", "yellow"))
        return None if found is None else found.position

    async def _show_agents(self, _: str) -> None:
        target = self.target
        for agent in target.agents if isinstance(target, Network) else (target,):
            self.console.print(Text(clean(agent.name), "bold"), end="")
            self.console.print(Text(f"  {clean(agent.description)}"), soft_wrap=True)
            names = [getattr(one, "name", getattr(one, "__name__", one)) for one in agent.tools]
            tools = ", ".join(clean(str(name)) for name in names)
            if tools:
                self.console.print(Text(f"  tools: {tools}", "dim"), soft_wrap=True)

    async def _show_why(self, _: str) -> None:
        """Show whose turns there were, how their replies ended, and why the run did."""
        run = self._last
        if not self._results:
            self.console.print("Nothing was answered yet.", style="dim")
        for result in self._results:
            calls = [call.tool.name for call in result.tool_calls]
            reason = result.finish.reason if result.finish is not None else "stop"
            line = f"{clean(result.agent_name)}: {clean(str(reason))}"
            line += f", called {clean(', '.join(calls))}" if calls else ""
            self.console.print(Text(line), soft_wrap=True)
        if isinstance(run, NetworkRun):
            turns = "1 turn" if run.call_count == 1 else f"{run.call_count} turns"
            self.console.print(Text(f"{turns}; ended: {run.stop_reason}", "dim"))

    async def _show_past(self, thread_id: str) -> None:
        store = self._store if self.user_id is None else for_user(self._store, self.user_id)
        if not await store.thread_exists(thread_id):
            raise ThreadNotFoundError(thread_id)
        self._written = True
        count = (await store.get_thread(thread_id)).message_count
        if count is None:
            count = len(await store.messages(thread_id))
        self.console.print(f"{count} messages so far; the last ones:", style="dim")
        results = [one.result for one in (await store.newest(thread_id, 2 * _SHOWN))[1]]
        texts = [(r, m.text) for r in results for m in r.output if m.type == "text"]
        for result, text in texts[-_SHOWN:]:
            name, is_user = result.agent_name, result.agent_name == USER
            self.printer.past("you" if is_user else name, text, is_user=is_user, cut=result.cut)

    async def _show_help(self, _: str) -> None:
        self.console.print(_HELP, markup=False)

    async def _show_context(self, _: str) -> None:
        if self._reports:
            print_context(self.console, self._reports)
        else:
            self.console.print("Nothing was asked yet.", style="dim")

    async def _show_thread(self, _: str = "") -> None:
        if self.thread_id is None:
            return
        line = Text(f"Thread {self.thread_id}", "dim")
        if self.resume and not isinstance(self.target.history, MemoryHistory):
            line.append(f"; come back with: {self.resume} {self.thread_id}")
        self.console.print(line, soft_wrap=True)

    async def _show_length(self, _: str) -> None:
        """Show how long the thread is, and how much of it the model may see."""
        store, messages, tokens = self._store, 0, 0.0
        if self.thread_id is not None and await store.thread_exists(self.thread_id):
            messages, tokens = await _length(store, self.thread_id)
        self.console.print(f"Thread {self.thread_id}")
        self.console.print(f"{messages} messages, {round(tokens)} tokens")
        if self._reports:
            last = self._reports[-1]
            self.console.print(f"{last.tokens_after} tokens sent in the last model call")
        if store.workspace is not None and self.thread_id is not None:
            folder = store.workspace.folder(self.thread_id)
            made = "" if folder.is_dir() else " (no file yet)"
            self.console.print(f"Workspace {folder}{made}", soft_wrap=True)
        for processor in (*store.chain, *self.target.chain):
            self.console.print(Text(f"{processor.name}: {processor.reason}", "dim"))
        for agent in self.target.agents if isinstance(self.target, Network) else ():
            for processor in agent.chain:
                line = f"{clean(agent.name)}: {processor.name}: {processor.reason}"
                self.console.print(Text(line, "dim"))

    async def _list_threads(self, _: str) -> None:
        print_threads(self.console, await self._store.list_threads(20, self.user_id))

    async def _load(self, thread_id: str) -> None:
        await self._show_past(thread_id)
        self._data, self._before = None, []
        await self._continue_in(thread_id)
        await self._show_pending()

    async def _show_pending(self) -> list[Question]:
        """Show the questions of this thread's runs; return the ones that can be answered here."""
        assert self.thread_id is not None
        questions = await self.target.pending(self.thread_id)
        for question in questions:
            wanted = question.message or ", ".join(map(call_line, question.calls))
            self.console.print(Text(f"  ? {clean(question.agent)} waits: {wanted}", "yellow"))
        here = [one for one in questions if one.execution is None]
        if here:
            self.console.print("  /pending answers", style="dim")
        if len(here) < len(questions):
            words = "  An Inngest function waits: answer over HTTP, or with answer_question(…)"
            self.console.print(words, style="dim")
        return here

    async def _answer_pending(self, _: str) -> None:
        """Ask the user the questions of this thread's runs, and resume them."""
        if self.thread_id is None or not (questions := await self._show_pending()):
            self.console.print("No run of this thread waits for an answer.", style="dim")
            return
        ask = TerminalApprover(self.console)
        while questions:
            question = questions[0]
            answers = {question.id: await ask(question.request)}
            run: Any = await self.target.resume(
                self.thread_id, answers, model=self.model, observer=self.printer
            )
            questions = await self.target.pending(self.thread_id)
            self._last = run
            if isinstance(run, NetworkRun):
                self._data = clone_data(cast("Any", run).state.data)

    async def _delete(self, _: str) -> None:
        store = self._store
        if self.thread_id is not None:
            await store.delete_thread(self.thread_id)
        self.thread_id, self._reports, self._written = str(uuid4()), (), False
        self._data, self._before, self._results, self._last = None, [], (), None
        self.console.print(f"Deleted. Thread {self.thread_id}.", style="dim")


async def _length(store: HistoryStore, thread_id: str) -> tuple[int, float]:
    """Return the number of a thread's messages and of their tokens; read in pages."""
    tokenizer = await prepare(default_tokenizer())
    count = await store.count_results(thread_id)
    messages, tokens = 0, 0.0
    for stop in range(count, 0, -_PAGE):
        for record in await store.page(thread_id, stop, _PAGE):
            messages += len(record.result.messages)
            tokens += count_messages(record.result.messages, tokenizer)
    return messages, tokens


class TerminalApprover:
    """Asks the person at the terminal about each call; the end of the input refuses the rest.

    Use as ``approver=``.
    """

    _PROMPT = "    [y/n, or why not] "

    def __init__(self, console: Console) -> None:
        self._console = console

    async def __call__(self, request: ApprovalRequest) -> ApprovalAnswer:
        """Ask. It may block: the run has nothing to do until it is answered."""
        try:
            with _default_interrupt():
                return self._ask(request)
        except KeyboardInterrupt:
            signal.raise_signal(signal.SIGINT)  # for the handler that cancels the run
            await anyio.sleep_forever()
            raise

    def _ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        if not request.calls:
            self._line(f"{request.agent} asks: {request.message}")
            decision = self._decision()
            # A tool's own question may be answered in words, too.
            data = {"answer": decision.reason} if decision.reason else {}
            return ApprovalAnswer(
                approved=decision.approved,
                reason=decision.reason,
                data=data,
                to_user=decision.to_user,
            )
        found: dict[int, Decision] = {}
        for index, call in enumerate(request.calls):
            self._line(f"{request.agent} wants {call_line(call)}")
            found[index] = self._decision()
        return ApprovalAnswer(approved=False, calls=found)

    def _decision(self) -> Decision:
        line = self._read()
        while line == "":  # an extra key press is not an answer
            line = self._read()
        if line is None:
            return Decision(approved=False, reason="Nobody answered.")
        if line.lower() in ("y", "yes"):
            return Decision(approved=True)
        reason = "" if line.lower() in ("n", "no") else line
        return Decision(approved=False, reason=reason, to_user=reason)  # the user's own words

    def _read(self) -> str | None:
        """Return the next line; None at the end of the input."""
        if sys.stdin.isatty():
            try:
                return input(self._PROMPT).strip()
            except EOFError:
                self._console.print()
                return None
        line = sys.stdin.readline()
        self._console.print(Text(f"{self._PROMPT}{line.strip()}"), soft_wrap=True)
        return line.strip() if line else None

    def _line(self, text: str) -> None:
        self._console.print(Text(f"  ? {clean(text)}", "yellow"), soft_wrap=True)


@contextlib.contextmanager
def _default_interrupt() -> Generator[None]:
    """Let Ctrl-C end the prompt at once, not after the next line."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
