"""Tool calls: check, approve and run the calls of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, cast
from uuid import uuid4

import anyio

from agentkit_py._core.awaiting import resolve
from agentkit_py._core.digests import short_digest
from agentkit_py._core.json import JsonValue, as_object, dumps
from agentkit_py._engine.agent_spec import AgentSpec, Turn
from agentkit_py._engine.approvals import CallDesk, refused_content
from agentkit_py._engine.call_steps import CallSteps
from agentkit_py._engine.concurrency import run_in_parallel
from agentkit_py._engine.guarding import Guards, Trip, TurnStopped
from agentkit_py._engine.instrumentation import CallTool, Monitor, logger
from agentkit_py._engine.run_context import RunContext
from agentkit_py._engine.state_changes import StateChanges
from agentkit_py._engine.tool_errors import ToolTimeout, is_first, log_failure
from agentkit_py._engine.tool_handlers import call_handler
from agentkit_py.errors import (
    AgentKitError,
    ConfigurationError,
    ReplayError,
    StateError,
    is_control_error,
)
from agentkit_py.events.types import Progress, ToolFinished, ToolProgressed, ToolStarted
from agentkit_py.history.stopping import OpenCall, OpenReply
from agentkit_py.messages import Finish, ToolCall, ToolResultMessage, calls_of
from agentkit_py.results import AgentResult
from agentkit_py.runtime.containing import contained
from agentkit_py.state import State
from agentkit_py.tools.definition import (
    DEFAULT_APPROVAL_TIMEOUT,
    NOBODY_NAMED,
    Approvers,
    Tool,
    ToolContext,
)
from agentkit_py.tools.values import (
    InvalidArguments,
    data_content,
    error_content,
    raised_content,
)


@dataclass(slots=True)
class Prepared:
    """A call whose arguments were checked, to be carried out unless it was refused."""

    step_id: str
    index: int
    """Which of the reply's calls it is."""

    call: ToolCall
    tool: Tool | None
    arguments: Any
    refused: JsonValue | None = None
    """The error sent to the model instead of a result."""

    repairs: tuple[str, ...] = ()
    """What was repaired in the model's arguments, in words."""

    reports: int = 0
    """Reports of the call's progress so far."""

    edited: Mapping[str, Any] | None = None
    """The arguments that a person put in place of the model's."""

    result: ToolResultMessage | None = None
    """The result; None until the call has ended."""

    trip: Trip | None = None
    """The guardrail that stops the run because of the result."""

    error: Exception | None = None
    """The exception that was raised, where this process made the call."""


@dataclass(slots=True)
class ToolRunner:
    """Runs the calls of a reply."""

    run: RunContext
    turn: Turn
    tools: Mapping[str, Tool]
    """The tools that may be called now."""

    path: str
    """Step id prefix of the inference that asked."""

    result: AgentResult
    """The reply. Where it was cut, its calls are not run, since they may be incomplete."""

    reply: OpenReply | None = None
    """The reply, if its calls are recorded in a thread."""

    settled: Mapping[int, JsonValue] = field(default_factory=dict[int, JsonValue])
    """Results for calls that are not run, by their place in the reply."""

    guards: Guards | None = None
    trip: Trip | None = field(default=None, init=False)
    """The guardrail that stops the run."""

    @property
    def agent(self) -> AgentSpec:
        """The agent whose turn it is."""
        return self.turn.agent

    async def run_all(self) -> AgentResult:
        """Run all calls of the reply; return it with their results in order.

        Raises:
            NonRetriableError: A tool raised it (so with `RetryAfterError`).
            StateConflictError: Two parallel tools changed the same key.
            TurnStopped: A guardrail of a call or a result tripped.
        """
        calls = calls_of(self.result.output)
        prepared = [self._limited(self._prepare(index, call)) for index, call in enumerate(calls)]
        counted = [one for one in prepared if one.refused is None and one.tool is not None]
        checked = [one for one in prepared if self._guards_of(one.tool)]
        if checked:
            await self._guard_calls(prepared)
        asked = cast("list[int] | None", self.run.runtime.recorded(f"{self.path}.approve"))
        if asked is not None or any(map(_may_need_approval, prepared)):
            await self._approve(prepared, asked)
        waiting = [one for one in prepared if one.result is None]
        if self._is_together(waiting):
            await self._run_together(waiting)
        else:
            for one in waiting:
                if self.trip is not None and one.refused is None:
                    one.refused = _stopped(self.trip)
                await self._run(one)
                self.trip = self.trip or one.trip
        if checked:
            self.trip = self.trip or next((one.trip for one in checked if one.trip), None)
        for one in counted:
            if one.refused is not None:  # by a guardrail or a person: it was not made
                self.run.spending.meter.count_tool_call(one.call.name, -1)
        results = [one.result for one in prepared if one.result is not None]
        result = _with_repairs(self.result.with_tool_calls(tuple(results)), prepared)
        if self.trip is not None:
            raise TurnStopped(self.trip, result)
        return result

    def _guards_of(self, tool: Tool | None) -> Guards | None:
        """Return the guardrails and masks of a tool; None if it has none."""
        guards = self.guards
        return guards if tool is not None and guards is not None and guards.check(tool) else None

    def _is_together(self, waiting: Sequence[Prepared]) -> bool:
        """Return whether calls run at the same time: as they did when the run came here first."""
        runtime, key = self.run.runtime, f"{self.path}.together"
        if runtime.recorded(key) is None:
            if not self.agent.tools.in_parallel or len(waiting) < 2:  # noqa: PLR2004 - one is alone
                return False
            ids = [one.step_id for one in waiting]
            if any(runtime.remembers(one) or runtime.remembers(f"{one}.") for one in ids):
                return False  # it became an option under the run
        runtime.decide(key, lambda: True, "The calls of a reply run in parallel")
        return True

    def _releases(self) -> bool:
        """Return whether each call that has waited and ended lets others have the thread.

        Runs that were recorded by an earlier version, without it, continue without it.
        """
        runtime, key, thread = self.run.runtime, f"{self.path}.releases", self.run.thread
        if thread.lease is None and thread.outer_lease is None:
            return False
        if runtime.recorded(key) is None and runtime.recorded(f"{self.path}.together") is not None:
            return False
        runtime.decide(key, lambda: True, "Calls that have waited release the thread at their end")
        return True

    async def _guard_calls(self, prepared: Sequence[Prepared]) -> None:
        """Mark the calls that guardrails refuse: all, if a guardrail stops the run."""
        for one in prepared:
            if one.refused is not None or one.tool is None or self.guards is None:
                continue
            context = partial(self._context, one, self.run.state, may_step=False)
            found = await self.guards.check_call(
                one.step_id, one.tool, one.call, one.arguments, context
            )
            if isinstance(found, Trip):
                self.trip = found
                break
            if found is not None:
                one.refused = error_content("GuardrailError", found)
        if self.trip is not None:
            for one in prepared:
                one.refused = one.refused or _stopped(self.trip)

    async def _run(self, one: Prepared) -> None:
        if self.run.monitor.is_active:
            await self._announce(one)
        one.result = await self.run_one(one, self.run.state)

    def _prepare(self, index: int, call: ToolCall) -> Prepared:
        tool, step_id = self.tools.get(call.name), f"{self.path}.tool.{index}.{call.name}"
        if index in self.settled:
            return Prepared(step_id, index, call, None, None, self.settled[index])
        cut = self.result.cut
        if cut is not None and call.malformed is None:
            return Prepared(step_id, index, call, None, None, _not_run(cut))
        if tool is None:
            return Prepared(step_id, index, call, None, None, self._unknown(call))
        if call.malformed is not None:
            text = f"The arguments are no JSON: {call.malformed[:200]}"
            refused = error_content("InvalidArgumentsError", text)
            return Prepared(step_id, index, call, None, None, refused)
        plain = tool.needs_approval is False and tool.check is None
        repair = self.agent.tools.repair_arguments
        if plain and self.run.runtime.remembers(step_id):  # its arguments are not parsed again
            repairs = tool.repairs_of(call) if repair else ()
            return Prepared(step_id, index, call, tool, None, repairs=repairs)
        try:
            arguments, repairs = tool.read(call, repair=repair)
        except InvalidArguments as error:
            refused = error_content("InvalidArgumentsError", str(error), issues=error.issues)
            return Prepared(step_id, index, call, None, None, refused)
        return Prepared(step_id, index, call, tool, arguments, repairs=repairs)

    def _limited(self, one: Prepared) -> Prepared:
        """Count a call, or refuse it where its tool has been called as often as it may be.

        Recorded calls were made, and calls refused in an earlier execution stay refused, whatever
        the limits are now.
        """
        if one.refused is not None or one.tool is None:
            return one
        meter, runtime, key = self.run.spending.meter, self.run.runtime, f"{one.step_id}.limit"
        if not (runtime.remembers(one.step_id) or runtime.remembers(f"{one.step_id}.")):
            reason = runtime.recorded(key) or meter.tool_limit(one.call.name, one.tool.max_calls)
            if reason is not None:
                runtime.decide(key, lambda: reason, f"The limit of calls of {one.call.name!r}")
                text = f"{reason}: this call was not made. Continue without it."
                one.refused = error_content("ToolLimitError", text)
                return one
        meter.count_tool_call(one.call.name)
        return one

    def _unknown(self, call: ToolCall) -> JsonValue:
        listed = ", ".join(self.tools)
        offer = f"Available: {listed}." if listed else "No tools are available now."
        shared = self.run.choices.shared if self.turn.shares_prefix else None
        owner = None if shared is None else shared.owner_of(call.name)
        if owner is not None and not self.agent.tools.may_have(call.name):
            text = f"{call.name!r} is a tool of {owner!r}; you are {self.agent.name!r}. {offer}"
            return error_content("ToolNotAllowedError", text)
        if self.agent.tools.may_have(call.name):
            text = f"{call.name!r} may not be called now. {offer}"
            return error_content("ToolNotAllowedError", text)
        offer = offer if self.tools or self.agent.tools.own else "This agent has no tools."
        return error_content("UnknownToolError", f"Unknown tool {call.name!r}. {offer}")

    async def _approve(self, prepared: Sequence[Prepared], asked: list[int] | None) -> None:
        """Ask a person once for all calls that need it, and mark those that were refused.

        Args:
            prepared: The calls of the reply.
            asked: The calls that a person was asked about in an earlier execution, whatever the
                tools require now; None if there was no question, or nothing was done since.
        """
        runtime = self.run.runtime
        if asked is None and any(runtime.remembers(one.step_id) for one in prepared):
            # Approval was added to the tool after the run began: calls that it had reached run
            # without.
            for one in prepared:
                if _may_need_approval(one) and not runtime.remembers(one.step_id):
                    break
                await self._run(one)
        waiting = await self._needing_approval(prepared)
        if asked is not None:
            waiting = [one for one in prepared if one.index in asked]
        indexes = [one.index for one in waiting]
        step_id = f"{self.path}.approve"
        runtime.decide(step_id, lambda: indexes, "The calls that a person is asked about")
        if not waiting:
            return
        groups: dict[Approvers, list[Prepared]] = {}
        for one in waiting:
            groups.setdefault(one.tool.approvers if one.tool else NOBODY_NAMED, []).append(one)
        for number, (approvers, group) in enumerate(groups.items()):
            await self._ask(f"{step_id}.{number}" if number else step_id, group, approvers)

    async def _ask(self, step_id: str, group: Sequence[Prepared], approvers: Approvers) -> None:
        """Ask about calls that the same people decide on."""
        run = self.run
        steps = CallSteps(run.runtime, self.path, thread=run.thread, allowed=True)
        timeouts = [one.tool.approval_timeout for one in group if one.tool is not None]
        answer = await CallDesk(run, self.turn, steps).ask(
            step_id,
            calls=[one.call for one in group],
            timeout=min(timeouts, default=DEFAULT_APPROVAL_TIMEOUT),
            about=[one.index for one in group],
            approvers=approvers,
        )
        for index, one in enumerate(group):
            one.refused = refused_content(one.call, answer, index)
            edited = None if answer is None else answer.on(index).arguments
            if one.refused is None and edited is not None:
                again = self._prepare(one.index, replace(one.call, arguments=dict(edited)))
                one.arguments, one.refused, one.edited = again.arguments, again.refused, edited
                one.repairs = again.repairs

    async def _needing_approval(self, prepared: Sequence[Prepared]) -> list[Prepared]:
        """Return the calls that need approval; mark those that a check or rule refuses."""
        candidates = [one for one in prepared if one.result is None and _may_need_approval(one)]
        run, step_id = self.run, f"{self.path}.before"
        if not run.runtime.remembers(step_id) and all(
            one.tool and one.tool.needs_approval is True and not one.tool.check
            for one in candidates
        ):
            return candidates
        # A single step for all, as a replay must reach the same question.
        examine = partial(self._examine_all, candidates)
        found = {
            word["index"]: word for word in await run.runtime.effect(step_id, examine, run.changes)
        }
        known = [one for one in prepared if one.index in found]
        for one in known:
            one.refused = found[one.index]["refused"]
        return [one for one in known if found[one.index]["ask"]]

    async def _examine_all(self, candidates: Sequence[Prepared]) -> list[dict[str, Any]]:
        return [{"index": one.index, **await self._examine(one)} for one in candidates]

    async def _examine(self, one: Prepared) -> dict[str, Any]:
        context = self._context(one, self.run.state, may_step=False)
        refused = await self._check(one, context)
        if refused is not None:
            return {"refused": refused, "ask": False}
        assert one.tool is not None
        needed = one.tool.needs_approval
        try:
            ask = needed if isinstance(needed, bool) else await resolve(needed(context))
        except Exception as error:
            if is_control_error(error):
                raise
            return {"refused": self._raised(one, error), "ask": False}
        return {"refused": None, "ask": bool(ask)}

    async def _run_together(self, prepared: Sequence[Prepared]) -> None:
        run, releases = self.run, self._releases()
        for one in prepared if run.monitor.is_active else ():
            await self._announce(one)
        forks = [(one.call.name, run.state.fork()) for one in prepared]

        async def call(one: Prepared, fork: State[Any], monitor: Monitor) -> ToolResultMessage:
            branch = replace(run, monitor=monitor)
            guards = None if self.guards is None else replace(self.guards, run=branch)
            runner = replace(self, run=branch, guards=guards)
            work = partial(runner.run_one, one, fork)
            return await (run.thread.run_branch(one.step_id, work) if releases else work())

        calls = [partial(call, one, fork) for one, (_, fork) in zip(prepared, forks, strict=True)]
        network = run.network
        stack = [] if network is None else network.stack
        outcomes = await run_in_parallel(run.runtime, run.monitor, network, stack, calls)
        if releases:
            await run.thread.join_branches(self.path, [one.step_id for one in prepared])
        errors = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
        if errors:
            raise errors[0]
        run.state.merge(forks)
        for one, result in zip(prepared, outcomes, strict=True):
            one.result = result

    async def _announce(self, one: Prepared) -> None:
        await self.run.monitor.emit(ToolStarted(**self.turn.facts, call=one.call))

    async def run_one(self, one: Prepared, state: State[Any]) -> ToolResultMessage:
        """Run a call on a state; return its result."""
        opened = self._opened(one)
        try:
            content = await self._content(one, state, opened)
        except Exception as error:
            if opened is not None and _is_of_the_call(error):
                opened.failed(error)
            raise
        if opened is not None:
            opened.seen(content)
        guards = self._guards_of(one.tool) if one.refused is None else None
        if guards is not None and one.tool is not None:
            content = await self._guard_result(one, one.tool, state, content, guards)
        if one.edited is not None and isinstance(content, dict):
            note = f"A person changed the arguments to {dumps(dict(one.edited))}"
            content = {**content, "note": note}
        if self.reply is not None:
            self.reply.contents[one.index] = content
        result = ToolResultMessage(
            one.call, content, agent=self.agent.name, from_history=False, error=one.error
        )
        if self.run.monitor.is_active:
            await self.run.monitor.emit(ToolFinished(**self.turn.facts, result=result))
        return result

    async def _guard_result(
        self, one: Prepared, tool: Tool, state: State[Any], content: JsonValue, guards: Guards
    ) -> JsonValue:
        """Return a result, or an error for the model if a guardrail refuses it."""
        context = partial(self._context, one, state, may_step=False)
        found = await guards.check_result(one.step_id, tool, content, context)
        if isinstance(found, Trip):
            one.trip = found
            found = f"A guardrail withheld the result: {found.tripwire.reason}"
        return content if found is None else error_content("GuardrailError", found)

    def _opened(self, one: Prepared) -> OpenCall | None:
        """Return the call as its reply records it; None if it is not recorded.

        A recorded call was made, whatever its tool requires now.
        """
        run, reply = self.run, self.reply
        refused = one.refused is not None or one.tool is None
        if reply is None or (refused and not run.runtime.remembers(one.step_id)):
            return None
        keeper = run.thread.keeper
        if keeper is not None:
            keeper.will_note()
        opened = OpenCall(reply, one.index, keeper, run.nesting.outer_call)
        opened.asked()
        return opened

    async def _content(
        self, one: Prepared, state: State[Any], opened: OpenCall | None
    ) -> JsonValue:
        run = self.run
        changes = run.changes if state is run.state else StateChanges(state, run.network)
        if run.runtime.remembers(one.step_id):  # the call was made, whatever its tool requires now
            return await run.runtime.effect(one.step_id, _never, changes)
        if one.refused is not None or one.tool is None:
            return one.refused
        if not one.tool.steps:
            call = self._watched(one, partial(self._checked, one, state, opened))
            content = await run.runtime.effect(one.step_id, call, changes)
            self._check_state(state)
            return content
        if one.tool.check is not None:
            again = partial(self._check, one, self._context(one, state, may_step=False))
            name = f"{one.step_id}.check"
            refused = await run.runtime.effect(name, again, changes)
            if refused is not None:
                return refused
        with run.runtime.within(one.step_id):
            context = self._context(one, state, may_step=True, opened=opened)
            content = await self._watched(one, partial(self._invoke, one, context))()
        self._check_state(state)
        run.runtime.decide(
            f"{one.step_id}.result",
            lambda: short_digest(content),
            f"Tool {one.call.name!r} of {self.agent.name!r} gave a result with digest",
        )
        return content

    def _check_state(self, state: State[Any]) -> None:
        """Refuse a state that the run could not keep at its end, before a model is asked again.

        Raises:
            StateError: The tool, which has acted, has put something into it that is no JSON.
        """
        if not self.run.thread.keeps_state:
            return
        try:
            state.dump()
        except StateError as error:
            error.acted = True
            raise

    def _watched(self, one: Prepared, handler: CallTool) -> CallTool:
        monitor, tool = self.run.monitor, one.tool
        if tool is None or not monitor.is_active:
            return handler
        return monitor.tool_call(
            *(one.step_id, one.call, tool.description, handler),
            lasting=tool.steps,
            raised=lambda: one.error,
        )

    async def _checked(
        self, one: Prepared, state: State[Any], opened: OpenCall | None
    ) -> JsonValue:
        """Run the call, unless a check or rule refuses it since its approval."""
        context = self._context(one, state, may_step=False)
        refused = None
        if one.tool is not None and one.tool.check is not None:
            refused = await self._check(one, context)
        if refused is not None:
            return refused
        if opened is None:
            return await self._invoke(one, context)
        await opened.begin()
        content = await self._invoke(one, context)
        await opened.finish(content)
        return content

    def _context(
        self, one: Prepared, state: State[Any], *, may_step: bool, opened: OpenCall | None = None
    ) -> ToolContext:
        run = self.run
        steps = CallSteps(
            run.runtime, one.step_id, thread=run.thread, allowed=may_step, open_call=opened
        )
        return ToolContext(
            agent=self.agent.agent,
            network=run.network,
            state=state,
            step=steps,
            call=one.call,
            arguments=one.arguments,
            services=CallDesk(run, self.turn, steps),
        )

    async def _invoke(self, one: Prepared, context: ToolContext) -> JsonValue:
        """Carry the call out, again where it fails and its tool says so."""
        tool, runtime = one.tool, self.run.runtime
        assert tool is not None
        tries = runtime.attempt
        while True:
            content, error = await self._attempt(tool, one, context)
            again = error is not None and tries < tool.retries
            content = self._failed(one, tool, content, error or _nested_error(context), again=again)
            if error is None or not again:
                return content
            await runtime.try_again(min(tool.backoff * 2**tries, _LONGEST_BACKOFF), error)
            tries += 1

    def _failed(
        self, one: Prepared, tool: Tool, content: JsonValue, error: Exception | None, *, again: bool
    ) -> JsonValue:
        """Return a result masked; where the call failed, log it and keep the exception."""
        if (guards := self._guards_of(tool)) is not None:
            content = _masked(guards, tool, content)
        one.error = error
        is_failed = error is not None or (isinstance(content, dict) and "error" in content)
        if is_failed and self._is_news(one, tool):
            log_failure(tool.name, self.agent.name, content, error, again=again)
        return content

    def _is_news(self, one: Prepared, tool: Tool) -> bool:
        """Return whether a failure is not logged yet: tools with steps fail in each replay."""
        runtime = self.run.runtime
        if not tool.steps:
            return True
        known = runtime.recorded(f"{one.step_id}.result") is not None
        return not known and is_first(runtime.new_id(f"{one.step_id}/failed"))

    def _raised(self, one: Prepared, error: Exception) -> JsonValue:
        """Return the error for the model when a check or rule of the call raised."""
        assert one.tool is not None
        return self._failed(one, one.tool, raised_content(error), error, again=False)

    async def _check(self, one: Prepared, context: ToolContext) -> JsonValue | None:
        """Return an error for the model if a check or rule refuses the call, or the check fails.

        Raises:
            ConfigurationError: The check did not return a sentence or None.
        """
        if one.tool is None or one.tool.check is None:
            return None
        try:
            problem = await resolve(one.tool.check(context))
        except Exception as error:
            if is_control_error(error):
                raise
            return self._raised(one, error)
        if problem is None:
            return None
        if not isinstance(problem, str):
            raise ConfigurationError(
                f"The check of {one.tool.name} must return a sentence or None, got {problem!r:.80}"
            )
        return error_content("PreconditionError", problem)

    async def _report(self, one: Prepared, tool: Tool, progress: Progress) -> None:
        """Hand out a call's progress, masked; results that guardrails check have none."""
        run, guards = self.run, self._guards_of(tool)
        if not run.monitor.is_active:
            return
        if guards is not None:
            if guards.of_tool(tool).tool_output.guardrails:
                return
            masked: Any = _masked(guards, tool, progress.to_dict())
            progress = Progress(**masked) if "error" not in masked else Progress()
        one.reports += 1
        key = f"{one.step_id}/progress/{one.reports}"
        # A tool with steps reports again in each replay; a retried step makes a new report.
        report_id = run.runtime.new_id(key) if tool.steps else uuid4().hex
        event = ToolProgressed(**self.turn.facts, call=one.call, progress=progress, id=report_id)
        await run.monitor.progress(event)

    async def _attempt(
        self, tool: Tool, one: Prepared, context: ToolContext
    ) -> tuple[JsonValue, Exception | None]:
        """Run the call once; return the content for the model, and the error if it failed."""
        # A tool that waits, perhaps for a person, takes as long as it takes.
        limits = () if tool.steps else (tool.timeout, self.run.spending.meter.limits.tool_timeout)
        limit = min([one for one in limits if one is not None], default=None)
        report = partial(self._report, one, tool)
        call = partial(call_handler, tool, one.arguments, context, report)
        value: object = None
        timer: anyio.CancelScope | None = None
        try:
            if limit is None:
                value = await contained(call)
            else:
                with anyio.move_on_after(limit) as timer:
                    value = await contained(call)
        except ConfigurationError:
            raise  # the developer's error: a model cannot correct it
        except Exception as error:
            if _ends_run(error):
                raise
            return raised_content(error), error
        if timer is not None and timer.cancelled_caught:
            late = f"{tool.name} took more than {limit} s"
            return error_content("ToolTimeoutError", late), ToolTimeout(late)
        content = data_content(tool.name, value)
        if tool.spec.provider is not None and isinstance(value, str):
            text = (as_object(content) or {}).get("data")
            return text, None  # models know the tool, and its results as plain text
        return content, None


_LONGEST_BACKOFF = 3600.0
"""Seconds between two attempts at the most."""


def _ends_run(error: Exception) -> bool:
    """Return whether the error of a tool ends the run instead of being read by the model."""
    return is_control_error(error) or (isinstance(error, AgentKitError) and error.acted)


def _is_of_the_call(error: Exception) -> bool:
    """Return whether the call itself failed with an error that ends the run.

    Other errors, of the store or of the replay guard, say nothing about the call.
    """
    if isinstance(error, ReplayError):
        return False
    return _ends_run(error) or isinstance(error, ConfigurationError | StateError)


def _with_repairs(result: AgentResult, prepared: Sequence[Prepared]) -> AgentResult:
    """Return a result whose report says which arguments were repaired."""
    repairs = tuple([f"{one.call.name}({note})" for one in prepared for note in one.repairs])
    if not repairs or result.context is None:
        return result
    return replace(result, context=replace(result.context, repaired=repairs))


async def _never() -> JsonValue:
    raise RuntimeError("a step that is remembered was asked for again")


def _not_run(cut: Finish) -> JsonValue:
    text = (
        f"This call was not run: the reply was cut ({cut}), so its arguments may be incomplete. "
        "Call again if it is still needed, with less text."
    )
    return error_content("IncompleteReplyError", text)


def _masked(guards: Guards, tool: Tool, content: JsonValue) -> JsonValue:
    """Return a result masked; where that fails it is withheld, since the call is made."""
    try:
        return guards.mask_result(tool, content)
    except Exception as error:  # noqa: BLE001 - the call would be made again
        logger.exception("The result of tool %r could not be masked", tool.name)
        text = f"{tool.name} was carried out; its result could not be masked, and is withheld"
        return error_content("GuardrailError", f"{text} ({type(error).__name__})")


def _stopped(trip: Trip) -> JsonValue:
    text = f"This call was not run: a guardrail stopped the run ({trip.tripwire.reason})."
    return error_content("GuardrailError", text)


def _may_need_approval(one: Prepared) -> bool:
    return one.refused is None and one.tool is not None and one.tool.needs_approval is not False


def _nested_error(context: ToolContext) -> Exception | None:
    """Return the error of the run of an agent or network as a tool, if it failed."""
    services = context.services
    return services.error if isinstance(services, CallDesk) else None
