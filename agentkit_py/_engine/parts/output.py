"""Output of an agent with an ``output_type``: read, asked for again, announced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from agentkit_py._engine.answers import Answer, AnswerReader
from agentkit_py._engine.model_calls import CallModel, ModelAnswer
from agentkit_py._engine.parts.base import Inference, Part
from agentkit_py.errors import EmptyReplyError, OutputError
from agentkit_py.events.types import OutputDelta
from agentkit_py.processors.redaction import Redactor
from agentkit_py.results import NO_VALUE, AgentResult
from agentkit_py.tools.definition import Tool

_FINAL = ("refusal", "content_filter", "error")
"""Ends of replies after which another try would end alike."""


@dataclass(slots=True)
class Output(Part):
    """Ends the turn with an output of the agent's type, or with an `OutputError`."""

    reader: AnswerReader
    redactors: Sequence[Redactor]
    """Mask the error about an answer that does not fit; it may quote the answer."""

    _answer: Answer = field(default_factory=Answer, init=False)
    """The answer in the last reply."""

    _failure: str | None = field(default=None, init=False)
    """Why the turn has no output."""

    _last: AgentResult | None = field(default=None, init=False)
    """The last result in the transcript."""

    async def offered(self) -> Mapping[str, Tool]:
        """Return the tools that take outputs."""
        return self.reader.plan.tools

    def around_call(self, call_model: CallModel) -> CallModel:
        """Return the call; an empty reply is an `OutputError`."""

        async def call() -> ModelAnswer:
            try:
                return await call_model()
            except EmptyReplyError as error:
                raise self._error(error.finish_reason) from error

        return call

    async def replied(self, inference: Inference) -> None:
        """Read the output from the reply."""
        result = inference.result
        answer = await self.reader.read(inference.path, result, inference.calls)
        self.reader.mask(answer, self.redactors)
        self._answer = answer
        for index, content in answer.settled.items():
            inference.settle(index, content)
        if answer.value is not NO_VALUE:
            inference.replace_result(replace(result, value=answer.value))

    async def after_tools(self, inference: Inference) -> None:
        """End the turn with the output, or ask for another answer."""
        answer, reader = self._answer, self.reader
        if answer.value is not NO_VALUE:
            await self._emit(inference.result.value)
            inference.end()
        elif inference.is_last or answer.problem is None:  # handed over, tools, or a pause
            return
        elif answer.cut in _FINAL or len(reader.problems) > reader.plan.spec.retries:
            self._failure = answer.cut or "retries"
            inference.end(self._failure)
        else:
            inference.replace_result(reader.corrected(inference.result, answer))
            inference.repeat()

    async def added(self, inference: Inference, result: AgentResult) -> None:
        """Raise the error of a turn without an output.

        Raises:
            OutputError: The output is missing.
        """
        self._last = result
        if self._failure is not None:
            raise self._error(self._failure)

    def _error(self, reason: str) -> OutputError:
        name, problems = self.turn.agent.name, self.reader.problems
        return OutputError(name, reason, result=self._last, problems=problems)

    async def _emit(self, output: Any) -> None:
        """Emit the whole output, as its pieces were emitted."""
        if self.run.monitor.wants_tokens:
            from pydantic_core import to_jsonable_python  # noqa: PLC0415 - loads pydantic

            json = to_jsonable_python(output, fallback=str)
            event = OutputDelta(**self.turn.facts, json=json, output=output)
            await self.run.monitor.emit(event)
