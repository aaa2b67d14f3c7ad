"""Guarding: the guardrails of an agent's turn are called, and a tripped guardrail stops it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, cast

from agentkit_py._core.awaiting import resolve, takes_two
from agentkit_py._core.json import JsonValue, dumps
from agentkit_py._engine.agent_spec import Turn
from agentkit_py._engine.run_context import RunContext, RunSetup
from agentkit_py._engine.run_messages import RunInput
from agentkit_py._engine.state_changes import StateChanges
from agentkit_py._engine.transcript import GUARDRAIL
from agentkit_py.errors import ConfigurationError, GuardrailTripped, OutputError
from agentkit_py.events.types import GuardrailChecked
from agentkit_py.lifecycle.guardrails import (
    NO_GUARDRAILS,
    Checks,
    Guardrail,
    GuardrailSpec,
    GuardrailStage,
    GuardrailVerdict,
    Tripwire,
)
from agentkit_py.lifecycle.hooks import AgentContext
from agentkit_py.lifecycle.network_run import AgentLike
from agentkit_py.messages import (
    Finish,
    Message,
    TextMessage,
    ToolCall,
    ToolCallMessage,
    UserMessage,
)
from agentkit_py.processors.redaction import Redactor
from agentkit_py.results import NO_VALUE, AgentResult
from agentkit_py.state import State, clone_data
from agentkit_py.tools.definition import Tool, ToolContext

if TYPE_CHECKING:
    from agentkit_py.output.types import Member

T = TypeVar("T")

AskAgent: TypeAlias = Callable[[RunContext, AgentLike, Turn], Awaitable[AgentResult]]
"""Runs an agent's turn in a context of its own, as part of another's turn."""


@dataclass(frozen=True, slots=True)
class Trip:
    """A guardrail that stops the run."""

    guardrail: Guardrail[Any]
    stage: GuardrailStage
    tripwire: Tripwire
    tool: str | None = None
    model_call: Literal["cancelled", "discarded"] | None = None
    message_id: str | None = None
    """The message that is withheld, in a run with several."""

    def error(self, agent: str) -> GuardrailTripped:
        """Return the error of the run, where the guardrail has no reply."""
        return GuardrailTripped(
            self.guardrail.label,
            self.stage,
            self.tripwire.reason,
            agent=agent,
            tool=self.tool,
            info=self.tripwire.info,
            model_call=self.model_call,
        )

    @property
    def finish(self) -> Finish:
        """The finish of the reply that replaces the blocked reply."""
        details: dict[str, JsonValue] = {"guardrail": self.guardrail.label, "stage": self.stage}
        if self.message_id is not None:
            details["message"] = self.message_id
        return Finish("content_filter", GUARDRAIL, details)


class TurnStopped(Exception):  # noqa: N818 - it ends a turn, not a run
    """Raised where a guardrail stops the turn, and caught within the turn."""

    def __init__(self, trip: Trip, result: AgentResult | None = None) -> None:
        """Keep the guardrail, and the part of the result that may stay."""
        super().__init__(trip.tripwire.reason)
        self.trip = trip
        self.result = result


@dataclass(frozen=True, slots=True)
class _InputCheck:
    """A guardrail that checks a message of the user."""

    step_id: str
    guardrail: Guardrail[Any]
    given: RunInput

    @property
    def key(self) -> tuple[int, str | None]:
        return id(self.guardrail), self.given.message.id


@dataclass(slots=True)
class Guards:
    """The guardrails of an agent's turn: its network's, then its own."""

    run: RunContext
    turn: Turn
    ask: AskAgent
    spec: GuardrailSpec = field(init=False)
    has_output: bool = field(init=False)
    """True if outputs are checked or masked."""

    def __post_init__(self) -> None:
        self.spec = self.run.choices.guardrails_of(self.turn.agent)
        self.has_output = bool(self.spec.output)

    # Input.

    def _pending(self, *, beside: bool) -> list[_InputCheck]:
        """Return the input guardrails that have not checked a message of this run yet."""
        if not self.spec.input.guardrails:
            return []
        return [
            check
            for number, given in enumerate((self.run.messages.input, *self.run.messages.late))
            for check in self._checks_of(number, given)
            if check.guardrail.run_in_parallel is beside
            and check.key not in self.run.messages.checked
        ]

    def _checks_of(self, number: int, given: RunInput) -> list[_InputCheck]:
        return [
            _InputCheck(
                f"{self.turn.path}.input.{index}.{guardrail.label}{f'.{number}' if number else ''}",
                guardrail,
                given,
            )
            for index, guardrail in enumerate(self.spec.input.guardrails)
        ]

    async def check_input(self) -> None:
        """Run the input guardrails that have to pass before the first model call.

        Raises:
            TurnStopped: A guardrail tripped.
            ConfigurationError: A redactor of the agent came too late for this run's input.
        """
        late = [
            redactor
            for redactor in self.spec.input.redactors
            if redactor not in self.run.messages.masks
        ]
        if late:
            raise ConfigurationError(
                f"Agent {self.turn.agent.name!r} has a Redactor in input_guardrails, and joined "
                "the network when its input was already stored. Put it into the network's."
            )
        await self._check(self._pending(beside=False))

    async def check_late(self) -> None:
        """Run all input guardrails on the latest message, before a model sees it.

        Raises:
            TurnStopped: A guardrail tripped.
        """
        await self._check(self._checks_of(len(self.run.messages.late), self.run.messages.late[-1]))

    async def _check(self, checks: Sequence[_InputCheck]) -> None:
        for check in checks:
            trip = await self._judge_input(check)
            self.run.messages.checked.add(check.key)
            await self._announce(check.guardrail, "input", trip and trip.tripwire)
            if trip is not None:
                raise TurnStopped(trip)

    async def with_checks(self, call: Callable[[], Awaitable[T]]) -> T:
        """Make a model call, and run the parallel input guardrails at the same time.

        Raises:
            TurnStopped: A guardrail tripped.
        """
        pending = self._pending(beside=True)
        if not pending:
            return await call()
        checks = [partial(self._judge_input, check) for check in pending]
        answer, *outcomes = await self.run.runtime.with_checks(call, checks)
        trips = [outcome for outcome in outcomes if isinstance(outcome, Trip)]
        fate: Any = ("cancelled" if answer is None else "discarded") if trips else None
        for check, outcome in zip(pending, outcomes, strict=True):
            self.run.messages.checked.add(check.key)
            if not isinstance(outcome, Exception):
                verdict = outcome and outcome.tripwire
                await self._announce(
                    check.guardrail, "input", verdict, fate=fate if outcome else None
                )
        if trips:
            raise TurnStopped(replace(trips[0], model_call=fate))
        for outcome in (*outcomes, answer):
            if isinstance(outcome, Exception):
                raise outcome
        return cast("T", answer)

    async def _judge_input(self, check: _InputCheck) -> Trip | None:
        context, guardrail, given = (
            self.run.context_of(self.turn.agent),
            check.guardrail,
            check.given,
        )
        asked = UserMessage(given.message.content)
        verdict = await self._judge(check.step_id, guardrail, "input", context, given.text, asked)
        if not isinstance(verdict, Tripwire):
            return None
        message_id = given.message.id if self.run.messages.late else None
        return Trip(guardrail, "input", verdict, message_id=message_id)

    # Output.

    async def check_output(self, path: str, result: AgentResult, value: Any) -> AgentResult:
        """Return a result with its output masked, once guardrails have passed it.

        Args:
            path: Step id prefix of the inference.
            result: The reply.
            value: The output; `NO_VALUE`: the reply's text is it.

        Raises:
            TurnStopped: A guardrail tripped; nothing of the output is kept.
        """
        for redactor in self.spec.output.redactors:
            result, value = self._masked(redactor, result, value)
        is_text = value is NO_VALUE
        result = result if is_text else replace(result, value=value)
        if is_text and not result.text:
            return result
        given: Any = result.text if is_text else value
        for index, guardrail in enumerate(self.spec.output.guardrails):
            step_id = f"{path}.output.{index}.{guardrail.label}"
            context = self.run.context_of(self.turn.agent)
            verdict = await self._judge(step_id, guardrail, "output", context, given, given)
            await self._announce(guardrail, "output", verdict)
            if isinstance(verdict, Tripwire):
                raise TurnStopped(Trip(guardrail, "output", verdict), result)
        return result

    def mask_output(self, result: AgentResult) -> AgentResult:
        """Return the reply masked; it holds no output."""
        for redactor in self.spec.output.redactors:
            result, _ = self._masked(redactor, result, NO_VALUE)
        return result

    def _masked(
        self, redactor: Redactor, result: AgentResult, value: Any
    ) -> tuple[AgentResult, Any]:
        plan = self.turn.output
        names = () if plan is None else plan.tools

        def masked(message: Message) -> Message:
            if isinstance(message, TextMessage):
                return redactor.message(message)
            if not isinstance(message, ToolCallMessage):
                return message
            if not any(call.name in names for call in message.tools):
                return message
            made = cast("ToolCallMessage", redactor.message(message))
            both = zip(message.tools, made.tools, strict=True)
            return replace(made, tools=[new if old.name in names else old for old, new in both])

        output = [masked(message) for message in result.output]
        result = result.with_messages(output)
        if value is NO_VALUE or plan is None:
            return result, value
        for member in plan.spec.members or (plan.spec.text,):
            assert member is not None
            plain = _dumped(member, value)
            if plain is not NO_VALUE:
                return result, member.adapter.validate_json(dumps(redactor.value(plain)))
        return result, value

    # Tools.

    def check(self, tool: Tool) -> bool:
        """Return whether anything checks or masks calls of a tool."""
        return self.spec is not NO_GUARDRAILS or tool.guardrails is not NO_GUARDRAILS

    def of_tool(self, tool: Tool) -> GuardrailSpec:
        """Return the guardrails of a tool's calls: the network's, the agent's, and its own."""
        return self.spec + tool.guardrails

    async def check_call(
        self,
        step_id: str,
        tool: Tool,
        call: ToolCall,
        arguments: Any,
        make_context: Callable[[], ToolContext],
    ) -> Trip | str | None:
        """Return why a call is refused, a text for the model, or the trip that stops the run."""
        checks = self.of_tool(tool).tool_input
        if not checks.guardrails:
            return None
        text = UserMessage(dumps({"tool": call.name, "arguments": call.arguments}))
        context = make_context()
        return await self._check_tool(checks, "tool_input", step_id, context, arguments, text)

    async def check_result(
        self, step_id: str, tool: Tool, content: JsonValue, make_context: Callable[[], ToolContext]
    ) -> Trip | str | None:
        """Return why a result is withheld; see `check_call`."""
        checks = self.of_tool(tool).tool_output
        if not checks.guardrails:
            return None
        text = UserMessage(dumps({"tool": tool.name, "result": content}))
        fields = content if isinstance(content, dict) else {}
        given, context = fields.get("data", content), make_context()
        return await self._check_tool(checks, "tool_output", step_id, context, given, text)

    def mask_result(self, tool: Tool, content: JsonValue) -> JsonValue:
        """Return a tool's result, masked."""
        for redactor in self.of_tool(tool).tool_output.redactors:
            content = redactor.value(content)
        return content

    async def _check_tool(
        self,
        checks: Checks,
        stage: GuardrailStage,
        step_id: str,
        context: ToolContext,
        given: Any,
        text: UserMessage,
    ) -> Trip | str | None:
        tool = context.call.name
        changes = self.run.changes
        if context.state is not self.run.state:  # a fork's
            changes = StateChanges(context.state, self.run.network)
        for index, guardrail in enumerate(checks.guardrails):
            name = f"{step_id}.{stage}.{index}.{guardrail.label}"
            verdict = await self._judge(
                name, guardrail, stage, context, given, text, changes=changes
            )
            await self._announce(guardrail, stage, verdict, tool=tool)
            if verdict is not None:
                return (
                    verdict if isinstance(verdict, str) else Trip(guardrail, stage, verdict, tool)
                )
        return None

    # All.

    async def _judge(
        self,
        step_id: str,
        guardrail: Guardrail[Any],
        stage: GuardrailStage,
        context: AgentContext | ToolContext,
        given: Any,
        asked: Any,
        *,
        changes: StateChanges | None = None,
    ) -> GuardrailVerdict:
        """Return a guardrail's verdict, with its own reply where it has none.

        Args:
            step_id: A function's step, or the prefix of an agent's.
            guardrail: The guardrail.
            stage: What is checked.
            context: The context for functions.
            given: The input, output, arguments or result.
            asked: The same, in the form for agents.
            changes: Records the changes that a function makes to the state.
        """
        judge = guardrail.agent
        verdict: Any
        if judge is not None:
            output = await self._ask(step_id, judge, asked)
            verdict = self._verdict(f"{step_id}.trips", guardrail, stage, output)
        else:
            function: Any = guardrail.check

            async def call() -> JsonValue:
                arguments = (context, given) if takes_two(function) else (given,)
                return _plain(guardrail, stage, await resolve(function(*arguments)))

            verdict = await self.run.runtime.effect(step_id, call, changes or self.run.changes)
        return Tripwire(**cast("Any", verdict)) if isinstance(verdict, dict) else verdict

    def _verdict(
        self, key: str, guardrail: Guardrail[Any], stage: GuardrailStage, output: Any
    ) -> JsonValue:
        """Return the verdict of ``trips`` on an agent's output, as a step remembers it."""
        recorded = self.run.runtime.recorded(key)
        if isinstance(recorded, dict):
            verdict = recorded["verdict"]
        else:
            assert guardrail.trips is not None
            returned = guardrail.trips(output)
            if isinstance(returned, bool):
                returned = f"{guardrail.label} tripped" if returned else None
            verdict = _plain(guardrail, stage, returned, _json(output))
        self.run.runtime.decide(
            key, lambda: {"verdict": verdict}, f"Guardrail {guardrail.label!r}, trips="
        )
        return verdict

    async def _ask(self, step_id: str, agent: AgentLike[Any], asked: Any) -> Any:
        """Run an agent that judges, on a copy of the state; return its output.

        Raises:
            OutputError: It gave none, so that nothing is known.
        """
        run, text = self.run, asked if isinstance(asked, UserMessage) else _as_text(asked)
        with run.runtime.within(step_id):
            state = State[Any](clone_data(run.state.data))
            nested = run.nested(RunSetup(name=agent.name), text, state, context_id=GUARDRAIL)
            result = await self.ask(nested, agent, self.turn)
        if result.value is not NO_VALUE:
            return result.value
        if result.stop_reason is not None or agent.output_type is not None or not result.text:
            raise OutputError(agent.name, result.stop_reason or "retries", result=result)
        return result.text

    async def _announce(
        self,
        guardrail: Guardrail[Any],
        stage: GuardrailStage,
        verdict: GuardrailVerdict,
        *,
        tool: str | None = None,
        fate: Literal["cancelled", "discarded"] | None = None,
    ) -> None:
        if self.run.monitor.is_active:
            is_trip = isinstance(verdict, Tripwire)
            event = GuardrailChecked(
                **self.turn.facts,
                guardrail=guardrail.label,
                stage=stage,
                verdict="passed" if verdict is None else "tripped" if is_trip else "refused",
                reason=verdict.reason if isinstance(verdict, Tripwire) else verdict or "",
                tool=tool,
                model_call=fate,
            )
            await self.run.monitor.emit_now(event)

    # The end.

    def replied(self, trip: Trip, result: AgentResult) -> AgentResult:
        """Return the result with a guardrail's reply instead of the blocked reply.

        Raises:
            ConfigurationError: The guardrail's reply is not an output of the agent.
        """
        given = trip.tripwire.reply
        text, value = ("", NO_VALUE) if given is None else self._as_output(trip, given)
        output = [TextMessage("assistant", text, from_history=False)] if text else []
        return replace(
            result,
            output=output,
            tool_calls=(),
            reply=None,
            finish=trip.finish,
            stop_reason=GUARDRAIL,
            value=value,
        )

    def _as_output(self, trip: Trip, reply: Any) -> tuple[str, Any]:
        plan, name = self.turn.output, self.turn.agent.name
        text = reply if isinstance(reply, str) else dumps(reply)
        if plan is None and isinstance(reply, str):
            return text, text
        spec = None if plan is None else plan.spec
        members = () if spec is None else (*spec.members, *([spec.text] if spec.text else []))
        for member in members:
            try:
                return text, member.adapter.validate_json(dumps(reply))
            except ValueError:
                continue
        raise ConfigurationError(
            f"Guardrail {trip.guardrail.label!r}: reply={reply!r:.80} is not an output of agent "
            f"{name!r}, which ends in {'a text' if plan is None else 'its output_type'}"
        )


def _plain(
    guardrail: Guardrail[Any], stage: GuardrailStage, verdict: object, info: JsonValue = None
) -> Any:
    """Return a verdict as JSON; a reason that no model would read becomes a tripwire.

    Raises:
        ConfigurationError: The guardrail returned something other than a verdict.
    """
    if isinstance(verdict, str) and verdict and stage in ("input", "output"):
        verdict = Tripwire(verdict)
    if verdict is None or (isinstance(verdict, str) and verdict):
        return verdict
    if not isinstance(verdict, Tripwire):
        raise ConfigurationError(
            f"Guardrail {guardrail.label!r} must return None, a reason or a Tripwire, got "
            f"{verdict!r:.80}"
        )
    reply = guardrail.reply if verdict.reply is None else verdict.reply
    facts = info if verdict.info is None else verdict.info
    return {"reason": verdict.reason, "reply": _json(reply), "info": facts}


def _json(value: Any) -> Any:
    if value is None or isinstance(value, str):
        return value
    from pydantic_core import to_jsonable_python  # noqa: PLC0415 - loads pydantic

    return to_jsonable_python(value, fallback=str)


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else dumps(_json(value))


def _dumped(member: Member, value: Any) -> Any:
    """Return an output as JSON, if it is of this type; else `NO_VALUE`."""
    try:
        return member.adapter.dump_python(value, mode="json", by_alias=True, warnings="error")
    except (ValueError, TypeError):
        return NO_VALUE
