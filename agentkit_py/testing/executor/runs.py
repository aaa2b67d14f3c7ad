"""Runs from the server's view, their wait expressions, and points to kill them at."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, cast

from agentkit_py._core.validation import wrong_word
from agentkit_py.errors import ConfigurationError, ScriptError

Status: TypeAlias = Literal["running", "completed", "failed", "cancelled"]

Moment: TypeAlias = Literal["before", "inside", "after"]
"""``"before"``: the request is lost, nothing of it ran. ``"inside"``: everything ran, a step's
handler included, and the answer is lost. ``"after"``: the answer was recorded, then it died."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KillAt:
    """Kill the worker once: at a step, or at a request.

    A killed attempt counts as an attempt of the function, as on the server. If the
    executor was given a factory, the functions are made again, as in a new process.
    """

    step: str | None = None
    """Name of a step; its first time."""

    request: int | None = None
    """Number of a request to the worker, 1 the first."""

    when: Moment = "inside"

    def __post_init__(self) -> None:
        """Check the moment.

        Raises:
            ConfigurationError: It is none.
        """
        wrong = wrong_word("when", self.when, ("before", "inside", "after"))
        if wrong:
            raise ConfigurationError(f"KillAt: {wrong}")


def kill_points(requests: int) -> Iterator[KillAt]:
    """Yield every point at which a run that made so many requests can be killed."""
    for number in range(1, requests + 1):
        for when in ("before", "inside", "after"):
            yield KillAt(request=number, when=when)


@dataclass(slots=True, kw_only=True)
class StepRecord:
    """One step of a run, as the server knows it."""

    id: str
    """The hashed id."""

    name: str
    op: str
    """Its kind: ``StepRun``, ``AIGateway``, ``Sleep``, ``WaitForEvent``, ``InvokeFunction``."""

    opts: dict[str, Any] = field(default_factory=dict[str, Any])
    attempts: int = 1
    done: bool = False
    output: Any = None
    error: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """One request to the worker."""

    request: int
    run_id: str
    function: str
    attempt: int
    target: str | None
    """Name of the step that was to run, where several were planned."""

    outcome: str
    """``"killed before"``, ``"killed inside"``, ``"steps"``, ``"output"``, ``"error"``, or
    ``"ignored"``: the run was cancelled meanwhile."""

    steps: tuple[str, ...] = ()
    """The steps that the worker reported: op and name."""


@dataclass(slots=True, kw_only=True, eq=False)
class Wait:
    """An event that a run waits for."""

    run: Run
    step: StepRecord
    event: str
    expression: str | None


@dataclass(slots=True, kw_only=True, eq=False)
class Run:
    """One run of a function.

    Attributes:
        output: What the function returned.
        error: ``{"name", "message", "stack", …}`` of a run that failed.
        memos: What the server sends with each request, by hashed id.
        requests: How often the function was called.
        differences: (``check=True``) Where a request asked for something else the second time.
    """

    id: str
    function: str
    events: list[dict[str, Any]]
    max_attempts: int = 5
    status: Status = "running"
    output: Any = None
    error: dict[str, Any] | None = None
    memos: dict[str, Any] = field(default_factory=dict[str, Any])
    recorded: dict[str, StepRecord] = field(default_factory=dict[str, StepRecord])
    waits: dict[str, Wait] = field(default_factory=dict[str, Wait])
    pending: set[str] = field(default_factory=set[str])
    """Steps that were reported and are not done."""

    retrying: set[str] = field(default_factory=set[str])
    """Pending steps that failed and will be reported again."""

    planning: bool = False
    """True while the worker must not run steps that it has not planned."""

    discovering: bool = False
    """True while a request for the next step is under way."""

    size: int = 0
    requests: int = 0
    differences: list[str] = field(default_factory=list[str])
    invoked_by: tuple[Run, str] | None = None

    @property
    def steps(self) -> list[StepRecord]:
        """The steps that are done, in the order in which they were."""
        return [self.recorded[hashed] for hashed in self.memos]

    @property
    def names(self) -> list[str]:
        """Names of the steps that are done, in the order in which they were."""
        return [step.name for step in self.steps]

    @property
    def waiting_for(self) -> list[str]:
        """Names of the events that the run waits for."""
        return [wait.event for wait in self.waits.values()]


# Strings stay; the rest becomes Python, in which `~` binds as tightly as CEL's `!`.
_CEL = re.compile(
    r"(?P<text>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")"
    r"|(?P<op>&&|\|\||!(?!=))"
    r"|\.(?P<field>[A-Za-z_]\w*)"
    r"|\b(?P<word>true|false|null|async)\b"
)
_PYTHON = {
    "&&": " and ",
    "||": " or ",
    "!": "~",
    "true": "True",
    "false": "False",
    "null": "None",
    "async": "async_",
}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.GtE: operator.ge,
    ast.LtE: operator.le,
    ast.Lt: operator.lt,
    ast.Gt: operator.gt,
}


def matches(expression: str | None, variables: Mapping[str, Any]) -> bool:
    """Return whether ``expression`` holds for ``event`` and ``async`` in ``variables``.

    Raises:
        ScriptError: It uses more of CEL than is known here.
    """
    if not expression:
        return True
    names = {_PYTHON.get(name, name): value for name, value in variables.items()}
    try:
        tree = ast.parse(_CEL.sub(_translated, expression).strip(), mode="eval")
        return bool(_value(tree.body, names))
    except (SyntaxError, LookupError) as error:
        raise ScriptError(
            f"ReplayExecutor cannot evaluate the expression {expression!r}; it knows comparisons "
            "of event.… and async.… with each other and with literals, &&, || and !"
        ) from error


def _translated(found: re.Match[str]) -> str:
    if found["field"]:
        return f"[{found['field']!r}]"
    return found[0] if found["text"] else _PYTHON[found[0]]


def _value(node: ast.expr, names: Mapping[str, Any]) -> Any:
    """Return the value of a part; LookupError where it is none of the known kinds."""
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return names[name]
        case ast.Subscript(value=inner, slice=ast.Constant(value=key)):
            return _member(_value(inner, names), key)
        case ast.UnaryOp(op=ast.Invert(), operand=operand):
            return not _value(operand, names)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=value)):
            return -cast("Any", value)
        case ast.BoolOp(op=op, values=values):
            found = [bool(_value(one, names)) for one in values]
            return all(found) if isinstance(op, ast.And) else any(found)
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            try:
                return _COMPARE[type(op)](_value(left, names), _value(right, names))
            except TypeError:  # CEL knows no order between kinds; the event does not match
                return False
        case _:
            raise LookupError(type(node).__name__)


def _member(value: Any, key: Any) -> Any:
    if isinstance(value, dict):
        return cast("dict[Any, Any]", value).get(key)
    if isinstance(value, list) and isinstance(key, int):
        items = cast("list[Any]", value)
        return items[key] if key < len(items) else None
    return None
