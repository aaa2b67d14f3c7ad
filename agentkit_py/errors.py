"""All errors of the library, as a tree.

::

    AgentKitError
    ├── ConfigurationError          something the developer passed cannot work (also a ValueError)
    │   ├── MissingModelError       neither run, agent nor network has a model
    │   ├── ToolDefinitionError     a tool's name, signature or schema cannot be used
    │   ├── MissingDependencyError  an optional package is not installed
    │   ├── StepLimitError          a durable run is larger than Inngest allows
    │   └── ReplayError             a durable run would repeat work, or continue wrongly
    │       ├── OverlapError            two steps at the same time, outside of a group
    │       └── VersionMismatchError    the run began under another definition
    ├── ModelError                  an error of a model call
    │   ├── ModelHTTPError          the provider answered with an error status
    │   │   ├── AuthenticationError     401, 403
    │   │   ├── BadRequestError         400, 404, 413, 422 and other 4xx
    │   │   │   └── ContextOverflowError    the request is longer than the model's window
    │   │   ├── RateLimitError          429
    │   │   ├── QuotaExceededError      402, or 429 for want of credit
    │   │   └── ProviderUnavailableError    5xx, 408, 424
    │   ├── ModelTimeoutError       no answer within the model's time-out
    │   ├── ModelConnectionError    the provider could not be reached
    │   ├── ModelNotAskedError      a breaker or your own limit held the request back
    │   └── ModelResponseError      the answer violates the provider's API
    │       ├── EmptyReplyError     the reply was cut or refused before any content
    │       ├── RejectedReplyError  your own check rejects the reply
    │       └── ModelStreamError    a streamed answer broke off in the middle
    ├── BudgetExceededError         a user or tenant has used up a budget
    ├── NonRetriableError           raised by users: stop, and do not try this again
    ├── RetryAfterError             raised by users: stop, and try again after a while
    ├── AbruptExitError             code that was called left by CancelledError or SystemExit
    ├── ToolError                   raised by users in a tool: the model reads why the call failed
    ├── ModelRetry                  raised by users: the model reads the problem of its answer
    ├── OutputError                 an agent or network ended without its output
    ├── GuardrailTripped            a guardrail stopped the run
    ├── ProcessorError              a history processor failed or returned nonsense
    ├── ToolSourceError             a server that has tools cannot be reached or used
    ├── NestingError                agents or networks as tools are nested too deep
    ├── RoutingError                a router's result is not an agent
    ├── StateError                  state data cannot be used, merged or stored as JSON
    │   └── StateConflictError      two parallel tools changed the same key
    ├── HistoryError                a thread could not be loaded or saved
    │   ├── ThreadNotFoundError
    │   ├── MessageNotFoundError    a thread has no such message of the user's
    │   ├── MessageConflictError    another message of the thread has this id
    │   ├── ThreadBusyError         another run is working on the thread
    │   ├── NotPendingError         no question waits for this answer
    │   ├── NotOnThreadError        a person writes in a thread without having joined it
    │   ├── StoreVersionError       the database was written by a newer version
    │   └── InvalidRecordError      stored or imported JSON violates its format
    ├── KnowledgeError              documents could not be read, stored or searched
    │   └── FilterError             a filter of documents cannot be used
    └── ScriptError                 (testing) a scripted model got an unexpected request

Every error keeps its facts as attributes, so that messages need no parsing. The wording of
messages is not part of the public interface; the classes and attributes are. No message holds a
secret: API keys never reach this module.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from agentkit_py._core.untrusted import clean


class AgentKitError(Exception):
    """Base of every error that this library raises.

    Its text is clean: untrusted parts (a provider's words, a name, a title) contain no
    escape sequences, controls and format characters. Its attributes are unchanged.

    Attributes:
        acted: True if a step had done its work, and only its result could not be stored.
    """

    acted: bool = False

    def __str__(self) -> str:
        """Return the message as it may be shown."""
        return clean(super().__str__())

    def __reduce__(self) -> tuple[Any, ...]:
        """Keep message and facts: `Exception` itself would call the constructor with the text."""
        return _restore, (type(self), self.args, vars(self).copy())


def _restore(
    kind: type[AgentKitError], args: tuple[Any, ...], facts: dict[str, Any]
) -> AgentKitError:
    error = kind.__new__(kind, *args)
    vars(error).update(facts)
    return error


class ConfigurationError(AgentKitError, ValueError):
    """A value from the developer cannot work; the message names it and the remedy."""


class MissingModelError(ConfigurationError):
    """Neither the run, nor the agent, nor its network has a model.

    Attributes:
        agent: Name of the agent that was to run.
    """

    def __init__(self, agent: str, message: str = "") -> None:
        super().__init__(
            message
            or f"Agent {agent!r} has no model. Pass model=… to the agent or to run(), "
            "or default_model=… to its network."
        )
        self.agent = agent


class ToolDefinitionError(ConfigurationError):
    """A tool's name, signature or schema cannot be used.

    Attributes:
        tool: Name of the tool.
    """

    def __init__(self, tool: str, reason: str) -> None:
        super().__init__(f"Tool {tool!r}: {reason}")
        self.tool = tool


class MissingDependencyError(ConfigurationError):
    """An optional package is needed and not installed.

    Attributes:
        package: The package that is missing.
        extra: The extra of this distribution that brings it.
    """

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(
            f'{purpose} needs the package {package!r}: pip install "pyagentkit[{extra}]"'
        )
        self.package = package
        self.extra = extra


class StepLimitError(ConfigurationError):
    """A durable run, or a step of it, is larger than Inngest allows.

    Attributes:
        limit: ``"steps"``, ``"output"``, ``"request"`` or ``"state"``.
        size: The number of steps, or of bytes.
        most: How many are allowed.
    """

    def __init__(self, message: str, *, limit: str, size: int, most: int) -> None:
        super().__init__(message)
        self.limit = limit
        self.size = size
        self.most = most


class ReplayError(ConfigurationError):
    """A durable run would repeat work, or continue with a wrong record; so it ends.

    Attributes:
        step: The step at which that was seen; None at the end of the run.
        remembered: Names of remembered steps that were not requested again, as far as they are
            known.
        tried_again: True if nothing was done, and a worker with other code or settings may
            continue: the request is tried again while there are attempts.
    """

    tried_again: bool = False

    def __init__(
        self, message: str, *, step: str | None = None, remembered: Sequence[str] = ()
    ) -> None:
        super().__init__(message)
        self.step = step
        self.remembered: tuple[str, ...] = tuple(remembered)


class OverlapError(ReplayError):
    """A step was begun while another was running, outside of a group.

    Attributes:
        steps: The running step, and the new step.
    """

    def __init__(self, first: str, second: str) -> None:
        super().__init__(
            f"Step {second!r} was begun while step {first!r} was under way. Inngest records "
            "only one of them, and repeats the other. Run them in sequence, or in a group: "
            "ctx.step.parallel(…) in tools, together(…) for agents, parallel_tools=True for tools, "
            "and ctx.group.parallel(…) for whole runs in a function of your own.",
            step=second,
        )
        self.steps: tuple[str, str] = (first, second)


class VersionMismatchError(ReplayError):
    """The code has changed during a run so that it cannot continue.

    Nothing was done. The request is tried again, as a worker with the run's own version may take
    it, and fails for good when the function's attempts are used up.

    Attributes:
        changes: What differs from the definition that the run began with.
    """

    tried_again = True

    def __init__(
        self,
        message: str,
        *,
        step: str | None = None,
        remembered: Sequence[str] = (),
        changes: Sequence[str] = (),
    ) -> None:
        super().__init__(message, step=step, remembered=remembered)
        self.changes: tuple[str, ...] = tuple(changes)


# --------------------------------------------------------------------------- model calls


class ModelError(AgentKitError):
    """One model call failed.

    Attributes:
        provider: The provider's name, e.g. ``"openai"``.
        model: The model's name.
        retriable: Whether the same request may succeed later.
    """

    retriable: bool = False

    def __init__(self, message: str, *, provider: str, model: str) -> None:
        super().__init__(f"{provider} model {model!r}: {message}")
        self.provider = provider
        self.model = model


class ModelHTTPError(ModelError):
    """The provider answered with an error status.

    Attributes:
        status: The HTTP status.
        detail: The provider's text (from its error body, at most 2,000 characters).
        retry_after: Seconds after which the provider asks for a retry, if given.
        request_id: The provider's id of the request, if given.
    """

    def __init__(
        self,
        detail: str,
        *,
        provider: str,
        model: str,
        status: int,
        retry_after: float | None = None,
        request_id: str | None = None,
    ) -> None:
        super().__init__(f"HTTP {status}: {detail}", provider=provider, model=model)
        self.status = status
        self.detail = detail
        self.retry_after = retry_after
        self.request_id = request_id


class AuthenticationError(ModelHTTPError):
    """The provider refused the API key (401) or its rights (403)."""


class BadRequestError(ModelHTTPError):
    """The provider refused the request itself; sending it again would be refused again."""


class ContextOverflowError(BadRequestError):
    """The request is longer than the model's context window."""


class RateLimitError(ModelHTTPError):
    """The provider asks to slow down (429)."""

    retriable = True


class QuotaExceededError(ModelHTTPError):
    """The account has no credit left, or its billing is not active; waiting does not help.

    402 (DeepSeek, OpenRouter), or 429 with ``insufficient_quota`` (OpenAI).
    """


class ProviderUnavailableError(ModelHTTPError):
    """The provider failed (5xx, 408, 424); the same request may succeed later."""

    retriable = True


class ModelTimeoutError(ModelError):
    """No answer came within the time-out.

    Attributes:
        timeout: The time-out in seconds.
    """

    retriable = True

    def __init__(self, *, provider: str, model: str, timeout: float) -> None:
        super().__init__(
            f"no answer within {timeout:g} s (raise it with timeout=…)",
            provider=provider,
            model=model,
        )
        self.timeout = timeout


class ModelConnectionError(ModelError):
    """The provider could not be reached, or the connection broke."""

    retriable = True


class ModelNotAskedError(ModelError):
    """A guard of this process kept the request back: nothing was sent.

    Attributes:
        retry_after: Seconds after which it may be sent.
    """

    retriable = True

    def __init__(self, reason: str, *, provider: str, model: str, retry_after: float) -> None:
        super().__init__(f"not asked: {reason}", provider=provider, model=model)
        self.retry_after = retry_after


class ModelResponseError(ModelError):
    """The provider answered 200 with something its API does not promise.

    Attributes:
        excerpt: The beginning of the answer, at most 500 characters.
    """

    def __init__(self, message: str, *, provider: str, model: str, excerpt: str = "") -> None:
        super().__init__(message, provider=provider, model=model)
        self.excerpt: str = excerpt[:500]


class EmptyReplyError(ModelResponseError):
    """The model's reply says nothing, and not because the model was done.

    Attributes:
        finish_reason: Why it ended: ``"length"``, ``"refusal"``, ``"content_filter"``, … .
        provider_reason: The provider's own word for that.
        details: The provider's further text, e.g. the category of a refusal; may be None.
        usage: The tokens it cost all the same (`agentkit_py.messages.Usage`); None: not known.
    """

    def __init__(
        self,
        finish_reason: str,
        *,
        provider: str,
        model: str,
        provider_reason: str = "",
        details: Any = None,
        usage: Any = None,
        excerpt: str = "",
    ) -> None:
        word = f" ({provider_reason})" if provider_reason not in ("", finish_reason) else ""
        said = f" {details}" if details else ""
        cure = _CURES.get(finish_reason, "")
        super().__init__(
            f"the reply says nothing: it ended with {finish_reason}{word}.{said[:500]}{cure}",
            provider=provider,
            model=model,
            excerpt=excerpt,
        )
        self.finish_reason: str = finish_reason
        self.provider_reason: str = provider_reason
        self.details: Any = details
        self.usage: Any = usage


_CURES = {
    "length": " Give it more tokens: reasoning counts, too.",
    "context_window": " Send it less, e.g. with TokenLimiter.",
    "refusal": " Ask another model, or ask otherwise.",
    "content_filter": " Ask otherwise, or change the provider's filter settings.",
}


class RejectedReplyError(ModelResponseError):
    """The check of a `FallbackModel` says that the reply will not do.

    Attributes:
        reason: Why, in the check's words.
    """

    def __init__(self, reason: str, *, provider: str, model: str, excerpt: str = "") -> None:
        super().__init__(
            f"the reply was rejected: {reason[:500]}",
            provider=provider,
            model=model,
            excerpt=excerpt,
        )
        self.reason = reason


class ModelStreamError(ModelResponseError):
    """A streamed answer broke off; ``__cause__`` says why, where that is known.

    Once a piece of the answer was streamed, the call is not tried again: another answer would begin
    from the start. Every failure after the first piece is this error.

    Attributes:
        partial: The text that had arrived.
        messages: The messages (`Message`) that had arrived; arguments that were cut are malformed.
        retriable: Whether nothing had been streamed yet.
    """

    def __init__(
        self, message: str, *, provider: str, model: str, messages: Sequence[Any] = ()
    ) -> None:
        texts = [message for message in messages if message.type == "text"]
        self.partial: str = "".join(text.text for text in texts)
        super().__init__(message, provider=provider, model=model, excerpt=self.partial)
        self.messages: tuple[Any, ...] = tuple(messages)
        self.retriable: bool = not messages


# --------------------------------------------------------------------------- runs


class BudgetExceededError(AgentKitError):
    """A user or tenant has used up a budget; nothing was sent.

    Attributes:
        scope: Whose budget it is, e.g. ``"user:u1"``.
        limit: ``"tokens"``, ``"cost"`` or ``"runs"``.
        most: How much is allowed in a period.
        used: How much is used, calls under way included.
        resets_at: The end of the period (ISO 8601, UTC); None: it has none.
    """

    def __init__(
        self, *, scope: str, limit: str, most: float, used: float, resets_at: str | None
    ) -> None:
        until = f"; the next period begins at {resets_at}" if resets_at else ""
        super().__init__(f"The budget of {scope!r} is used up: {used:g} of {most:g} {limit}{until}")
        self.scope = scope
        self.limit = limit
        self.most = most
        self.used = used
        self.resets_at = resets_at


class NonRetriableError(AgentKitError):
    """Raise it in a tool, router or hook to fail the run without another attempt."""


class AbruptExitError(AgentKitError):
    """Code that a run called was left by a `BaseException` of its own; the run was not ended.

    It has the name of the original exception: ``CancelledError`` after a cancellation inside,
    ``GeneratorExit``, ``SystemExit`` or ``BaseExceptionGroup``.
    """


class RetryAfterError(AgentKitError):
    """Raise it in a tool, router or hook to fail this attempt and ask for a later attempt.

    Attributes:
        retry_after: Seconds to wait before the next attempt.
    """

    def __init__(self, message: str, retry_after: float | timedelta) -> None:
        super().__init__(message)
        seconds = retry_after.total_seconds() if isinstance(retry_after, timedelta) else retry_after
        self.retry_after: float = float(seconds)


class ToolError(AgentKitError):
    """Raise it in a tool: the model reads the text, and the call has failed.

    What a tool raises else is logged with its traceback; the model reads its name and text, without
    secrets, and users read only that something failed.

    Attributes:
        to_user: The text for the user; None: that something failed.
    """

    def __init__(self, message: str, *, to_user: str | None = None) -> None:
        super().__init__(message)
        self.to_user = to_user


class ModelRetry(AgentKitError):  # noqa: N818 - pydantic-ai's name
    """Raise it in a function or validator of an output: the model reads why, and answers again."""


class OutputError(AgentKitError):
    """An agent or network ended without its output.

    Attributes:
        name: Its name.
        reason: ``"retries"`` (no answer fitted), why the last reply was cut (``"length"``,
            ``"refusal"``, …), ``"type"`` (a network's output is of another type), or the limit or
            stop reason that ended the turn or run.
        result: The last result (`AgentResult`), with the reply; None if no model has replied.
        problems: What was wrong with each answer, in order.
    """

    def __init__(
        self, name: str, reason: str, *, result: Any = None, problems: Sequence[str] = ()
    ) -> None:
        wrong = f" The last problem: {problems[-1][:500]}" if problems else ""
        cure = _OUTPUT_CURES.get(reason, "")
        said = f"{name!r} ended without its output: {reason}.{wrong}{cure}"
        if reason == "type" and problems:
            said = f"{name!r} ended without its output: {problems[-1]}"
        super().__init__(said)
        self.name = name
        self.reason = reason
        self.result: Any = result
        self.problems: tuple[str, ...] = tuple(problems)


_OUTPUT_CURES = {
    "retries": " Give it more tries with output_retries=…, or ask for a simpler type.",
    "length": " Give it more tokens.",
    "max_iter": " Give it more inferences with max_iter=….",
    "refusal": " Ask another model, or ask otherwise.",
    "earlier run": " The message was answered before; its result of functions or "
    "validators is not stored.",
}


class GuardrailTripped(AgentKitError):  # noqa: N818 - the field's word for it
    """A guardrail stopped the run.

    Attributes:
        guardrail: Its name.
        stage: ``"input"``, ``"output"``, ``"tool_input"`` or ``"tool_output"``.
        reason: Why.
        agent: The agent whose turn it was.
        tool: The tool whose call or result it was about; None: it was about none.
        info: Facts that the guardrail gave with the reason, as JSON.
        model_call: The fate of the parallel model call: ``"cancelled"``, or ``"discarded"`` where
            it could not be ended and its reply was dropped; None: no call.
    """

    def __init__(
        self,
        guardrail: str,
        stage: str,
        reason: str,
        *,
        agent: str,
        tool: str | None = None,
        info: Any = None,
        model_call: str | None = None,
    ) -> None:
        about = _STAGES.get(stage, stage) + ("" if tool is None else f" of {tool!r}")
        super().__init__(
            f"Guardrail {guardrail!r} stopped agent {agent!r} at {about}: {reason[:500]}"
        )
        self.guardrail = guardrail
        self.stage = stage
        self.reason = reason
        self.agent = agent
        self.tool = tool
        self.info: Any = info
        self.model_call = model_call


_STAGES = {
    "input": "its input",
    "output": "its output",
    "tool_input": "a call",
    "tool_output": "a result",
}


class ProcessorError(AgentKitError):
    """A history processor failed, or its result is not a list of messages.

    Attributes:
        processor: Its name.
        level: ``"history"``, ``"network"``, ``"agent"`` or ``"chain"``.
    """

    def __init__(self, message: str, *, processor: str, level: str) -> None:
        super().__init__(f"Processor {processor!r} ({level} level): {message}")
        self.processor = processor
        self.level = level


class NestingError(AgentKitError):
    """An agent or network was called as a tool too deep inside other runs.

    Attributes:
        name: Its name.
        depth: How deep its run would have been nested.
        most: How deep it may be nested.
    """

    def __init__(self, name: str, *, depth: int, most: int) -> None:
        super().__init__(
            f"{name!r} would be nested {depth} runs deep, and may be {most} at the most "
            "(as_tool(max_depth=…)). Do it here instead."
        )
        self.name = name
        self.depth = depth
        self.most = most


class RoutingError(AgentKitError):
    """A router returned something that is neither an agent, a list of agents nor None.

    Attributes:
        network: Name of the network.
    """

    def __init__(self, message: str, *, network: str) -> None:
        super().__init__(f"Network {network!r}: {message}")
        self.network = network


class StateError(AgentKitError):
    """State data cannot be used, merged, or stored as JSON."""


class StateConflictError(StateError):
    """Two tools that ran in parallel changed the same key.

    Attributes:
        keys: The keys that both changed.
        tools: The two tools.
    """

    def __init__(self, keys: Sequence[str], tools: tuple[str, str]) -> None:
        names = ", ".join(repr(key) for key in keys)
        super().__init__(
            f"Tools {tools[0]!r} and {tools[1]!r} ran in parallel and both changed state key(s) "
            f"{names}. Let a single tool write each key, or run them with parallel_tools=False."
        )
        self.keys: tuple[str, ...] = tuple(keys)
        self.tools = tools


class ToolSourceError(AgentKitError):
    """A server that has tools cannot be reached or used.

    Attributes:
        source: The name by which the agent knows it.
        reason: What went wrong.
    """

    def __init__(self, source: str, reason: str) -> None:
        super().__init__(f"Tool server {source!r}: {reason}")
        self.source = source
        self.reason = reason


class ScriptError(AgentKitError):
    """A scripted model got more requests than replies, or unexpected content."""


def is_control_error(error: Exception) -> bool:
    """Return whether ``error``, raised by a tool, must fail the run instead of going to the model.

    Ours and the Inngest SDK's error of the same name both do. The SDK's are known by name, since
    the engine imports no SDK.
    """
    if isinstance(error, NonRetriableError | RetryAfterError):
        return True
    return any(
        cls.__module__.startswith("inngest") and cls.__name__ in _SDK_CONTROL
        for cls in type(error).__mro__
    )


_SDK_CONTROL = frozenset({"NonRetriableError", "RetryAfterError"})


# --------------------------------------------------------------------------- threads and documents


class HistoryError(AgentKitError):
    """A thread could not be loaded or saved."""


class ThreadNotFoundError(HistoryError):
    """The thread `thread_id` does not exist, or belongs to another user."""

    def __init__(self, thread_id: str) -> None:
        super().__init__(f"There is no thread {thread_id!r}.")
        self.thread_id = thread_id

    def looked_for_in(self, store: object) -> None:
        """Name the store in the error's text."""
        self.args: tuple[Any, ...] = (f"There is no thread {self.thread_id!r} in {store!r:.200}.",)


class MessageNotFoundError(HistoryError):
    """The thread `thread_id` has no message of the user's at `message`, an id or a position."""

    def __init__(self, thread_id: str, message: str | int) -> None:
        where = f"with the id {message!r}" if isinstance(message, str) else f"at {message}"
        super().__init__(
            f"Thread {thread_id!r} has no message of the user {where}: give the id of a "
            "message, or its position, which counts results from 0."
        )
        self.thread_id = thread_id
        self.message = message


class MessageConflictError(HistoryError):
    """The thread `thread_id` holds another message or result under the id `message_id`."""

    def __init__(self, thread_id: str, message_id: str) -> None:
        super().__init__(
            f"Thread {thread_id!r} already holds another result with the id {message_id!r}; "
            "stored results are never changed. Give each message and result an id of its own."
        )
        self.thread_id = thread_id
        self.message_id = message_id


class ThreadBusyError(HistoryError):
    """Another run is working on the thread `thread_id`."""

    def __init__(self, thread_id: str) -> None:
        super().__init__(f"Another run is working on thread {thread_id!r}.")
        self.thread_id = thread_id


class NotPendingError(HistoryError):
    """No run of the thread `thread_id` waits for the answer to `question_id`.

    `status` is the question's status, if it exists; `answered_by` is the first answerer.
    """

    def __init__(
        self,
        thread_id: str,
        problem: str,
        *,
        question_id: str | None = None,
        status: str | None = None,
        answered_by: str | None = None,
    ) -> None:
        asked = [] if question_id is None else [f"question {question_id!r}"]
        where = ", ".join([*([f"thread {thread_id!r}"] if thread_id else []), *asked])
        super().__init__(f"{where[:1].upper()}{where[1:]}: {problem}; no run waits for an answer.")
        self.thread_id = thread_id
        self.question_id = question_id
        self.status = status
        self.answered_by = answered_by


class NotOnThreadError(HistoryError):
    """The person `person_id` has not joined the thread `thread_id`."""

    def __init__(self, thread_id: str, person_id: str) -> None:
        super().__init__(
            f"{person_id!r} is not on thread {thread_id!r}: join it before you write in it or hand "
            "it back."
        )
        self.thread_id = thread_id
        self.person_id = person_id


class StoreVersionError(HistoryError):
    """A newer library wrote the database: its schema version `found` is above `supported`."""

    def __init__(self, location: str, *, found: int, supported: int) -> None:
        super().__init__(
            f"{location} has schema version {found}, this library knows up to {supported}. "
            "Upgrade pyagentkit, or use another file."
        )
        self.found = found
        self.supported = supported


class InvalidRecordError(HistoryError):
    """Stored or imported JSON violates its format.

    Attributes:
        where: Which record, e.g. ``"line 12"``.
        field: Path of the field, e.g. ``"messages[3].role"``.
    """

    def __init__(self, message: str, *, where: str, field: str) -> None:
        super().__init__(f"{where}, field {field}: {message}")
        self.where = where
        self.field = field


class KnowledgeError(AgentKitError):
    """Documents could not be read, stored or searched."""


class FilterError(KnowledgeError, ValueError):
    """A filter of documents cannot be used: an unknown key or operator, or an unfit value."""
