"""Answers: the output in the replies of an agent with an ``output_type``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from agentkit_py._core.awaiting import is_async_callable, resolve, takes_two
from agentkit_py._core.json import JsonValue, dumps
from agentkit_py._engine.agent_spec import Turn
from agentkit_py._engine.concurrency import in_thread
from agentkit_py._engine.run_context import RunContext
from agentkit_py.errors import ConfigurationError, ModelRetry
from agentkit_py.messages import Finish, FinishReason, TextMessage, ToolCall, ToolCallMessage
from agentkit_py.output.types import Member, OutputPlan, OutputSpec
from agentkit_py.processors.redaction import Redactor
from agentkit_py.results import NO_VALUE, AgentResult
from agentkit_py.tools.values import InvalidArguments, error_content


@dataclass(slots=True)
class Answer:
    """The outcome of a reply."""

    value: Any = NO_VALUE
    """The output, if the reply gave a valid output."""

    problem: str | None = None
    """The problems of the reply's answer."""

    settled: dict[int, JsonValue] = field(default_factory=dict[int, JsonValue])
    """Results of calls that are not run, by their index in the reply."""

    in_text: bool = False
    """True if the answer was text: a problem then goes into a message, not into a call's result."""

    cut: FinishReason | None = None
    """Why the reply was cut off; None if it is complete."""


@dataclass(slots=True)
class AnswerReader:
    """Reads the replies of a turn; collects their problems."""

    run: RunContext
    turn: Turn
    plan: OutputPlan
    problems: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        """Leave the problems with the run, which may end after the turn without an output."""
        self.run.memory.remember_problems(self.problems)

    async def read(self, path: str, result: AgentResult, calls: Sequence[ToolCall]) -> Answer:
        """Return a reply's answer; a problem is added to those of the turn.

        Args:
            path: Step id prefix of the inference.
            result: The reply.
            calls: Its tool calls.
        """
        own = [index for index, call in enumerate(calls) if call.name in self.plan.tools]
        cut = _cut(result, calls)
        if cut is not None:
            answer = Answer(in_text=not calls, cut=cut.reason)
            answer.problem = f"The reply was cut ({cut}). Answer again, with less text."
        elif own:
            answer = await self._read_calls(path, own, calls)
        elif calls or result.finish_reason == "pause":
            return Answer()
        else:
            answer = await self._read_text(path, result.text)
        if answer.problem is not None:
            self.problems.append(answer.problem)
        return answer

    def mask(self, answer: Answer, redactors: Sequence[Redactor]) -> None:
        """Mask the problem of an invalid answer, which may quote it."""
        for redactor in redactors:
            answer.settled = {index: redactor.value(one) for index, one in answer.settled.items()}
            if answer.problem is not None:
                self.problems[-1] = answer.problem = redactor.text(answer.problem)

    def corrected(self, result: AgentResult, answer: Answer) -> AgentResult:
        """Append the validation error as a user message, unless a call's result has it."""
        if answer.problem is None or not answer.in_text:
            return result
        said = TextMessage("user", answer.problem, from_history=False)
        return result.with_messages([*result.output, said])

    async def _read_calls(self, path: str, own: Sequence[int], calls: Sequence[ToolCall]) -> Answer:
        answer, problems = Answer(), list[str]()
        members = {member.tool.name: member for member in self.plan.spec.members}
        for index in own:
            call, member = calls[index], members[calls[index].name]
            if answer.value is not NO_VALUE:
                answer.settled[index] = {"data": "Not used: another answer was taken."}
                continue
            problem = _malformed(call)
            if problem is None:
                value, problem = await self._settle(
                    f"{path}.output.{index}", member, partial(member.tool.validate, call)
                )
                answer.value = value
            if problem is None:
                answer.settled[index] = {"data": "The answer was taken."}
            else:
                problems.append(problem)
                answer.settled[index] = error_content("InvalidOutputError", problem)
        if answer.value is NO_VALUE:
            answer.problem = "; ".join(problems)
        elif self.plan.spec.end_strategy == "early":
            for index in set(range(len(calls))) - answer.settled.keys():
                answer.settled[index] = {"data": "Not run: the same reply gave the answer."}
        return answer

    async def _read_text(self, path: str, text: str) -> Answer:
        from agentkit_py.output.schema import read_json  # noqa: PLC0415 - loads pydantic

        member, spec = self.plan.in_text, self.plan.spec
        if member is None:
            names = " or ".join(self.plan.tools)
            return Answer(problem=f"Give the answer by calling {names}.", in_text=True)
        if member is spec.text and not text.strip():
            return Answer(problem="The reply is empty. Answer the request.", in_text=True)
        given = partial(str, text) if member is spec.text else partial(read_json, member, text)
        value, problem = await self._settle(f"{path}.output", member, given)
        if problem is not None:
            said = problem.removesuffix(".")
            problem = f"The answer does not fit: {said}. Answer again, with the whole answer."
        return Answer(value, problem, in_text=True)

    async def _settle(
        self, step_id: str, member: Member, given: Callable[[], Any]
    ) -> tuple[Any, str | None]:
        """Return the output made from the model's value, or its problem."""
        try:
            value = given()
        except InvalidArguments as error:
            return NO_VALUE, str(error)
        validators = self.plan.spec.validators
        if member.function is None and not validators:
            return value, None
        # A step, so that a durable run calls functions and validators once for each answer.
        make = partial(self._made, member, value)
        made = await self.run.runtime.effect(step_id, make, self.run.changes)
        if "retry" in made:
            return NO_VALUE, str(made["retry"])
        return member.adapter.validate_json(dumps(made["output"])), None

    async def _made(self, member: Member, value: Any) -> dict[str, Any]:
        context = self.run.context_of(self.turn.agent)
        try:
            if member.function is not None:
                value = await _called(member, value, context)
            for validator in self.plan.spec.validators:
                given = (context, value) if takes_two(validator) else (value,)
                value = await resolve(validator(*given))
        except ModelRetry as error:
            return {"retry": str(error)}
        return {"output": self._plain(member, value)}

    def _plain(self, member: Member, value: Any) -> JsonValue:
        """Return an output as JSON that gives it again.

        Raises:
            ConfigurationError: The value is not JSON.
        """
        try:
            plain = member.adapter.dump_python(value, mode="json", by_alias=True, warnings=False)
            again = member.adapter.validate_json(dumps(plain))
        except (ValueError, TypeError) as error:
            again, reason = None, str(error)
        else:
            reason = f"it comes back as {type(again).__name__}"
            if type(again) is type(value):
                return plain
        raise ConfigurationError(
            f"Agent {self.turn.agent.name!r}: a function or validator of its output gave "
            f"{value!r:.80}, which does not survive JSON ({reason:.300}). Annotate its "
            "return type, and return a value of that type."
        )


def with_earlier_output(spec: OutputSpec | None, result: AgentResult) -> AgentResult:
    """Return the last result of an earlier run with its output, read from the reply again.

    There is none where the run did not end by itself, and where functions or validators had a part
    in it: they are not called twice.
    """
    if spec is None or spec.validators or result.stop_reason is not None:
        return result
    members = {member.tool.name: member for member in spec.members if member.function is None}
    calls = [call for m in result.output if isinstance(m, ToolCallMessage) for call in m.tools]
    with suppress(InvalidArguments):
        for call in calls:
            if call.name in members and call.malformed is None:
                return replace(result, value=members[call.name].tool.validate(call))
        if spec.whole is not None and spec.whole.function is None and not calls:
            from agentkit_py.output.schema import read_json  # noqa: PLC0415 - loads pydantic

            return replace(result, value=read_json(spec.whole, result.text))
    return result if spec.text is None or calls else replace(result, value=result.text)


def _cut(result: AgentResult, calls: Sequence[ToolCall]) -> Finish | None:
    """Return why the reply is not whole; a call that its provider could not read can be mended."""
    cut = result.cut
    unread = cut is not None and cut.reason == "error" and any(call.malformed for call in calls)
    return None if unread else cut


def _malformed(call: ToolCall) -> str | None:
    return None if call.malformed is None else f"The answer is no JSON: {call.malformed[:200]}"


async def _called(member: Member, arguments: Any, context: Any) -> Any:
    assert member.function is not None
    kind: Any = arguments.__class__
    fields: dict[str, Any] = kind.model_fields
    given = {_parameter(name, info): getattr(arguments, name) for name, info in fields.items()}
    if member.context is not None:
        given[member.context] = context
    call = partial(member.function, **given)
    return await call() if is_async_callable(member.function) else await in_thread(call)


def _parameter(name: str, info: Any) -> str:
    return info.alias if name.startswith("argument_") and info.alias else name
