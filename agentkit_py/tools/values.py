"""Values of tools: their arguments, and the envelope in which a model reads their results.

Contents are ``{"data": …}`` or ``{"error": …}``, as in the TypeScript package.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import NoneType
from typing import Any, Protocol, cast

from agentkit_py._core.json import (
    MAX_DEPTH,
    JsonObject,
    JsonValue,
    as_object,
    find_non_json,
    is_too_deep,
)
from agentkit_py._core.secrets import without_secrets
from agentkit_py.errors import ToolDefinitionError, ToolError


class InvalidArguments(Exception):  # noqa: N818 - caught by the engine, never seen by users
    """Arguments that do not fit the schema, with the issues that are sent to the model."""

    def __init__(self, issues: list[dict[str, JsonValue]]) -> None:
        super().__init__("; ".join(f"{i['path']}: {i['message']}" for i in issues))
        self.issues = issues


class Arguments(Protocol):
    """Validates the arguments that a model passes."""

    @property
    def schema(self) -> JsonObject | None:
        """JSON Schema of the arguments; None: undeclared, so anything is accepted."""
        ...

    def validate(self, given: JsonValue) -> Any:
        """The validated arguments.

        Raises:
            InvalidArguments: They do not fit.
        """
        ...


def raised_content(error: Exception) -> JsonValue:
    """An exception of a tool as the model reads it, without secrets."""
    facts: dict[str, JsonValue] = {}
    if isinstance(error, ToolError) and error.to_user is not None:
        facts["toUser"] = error.to_user
    return error_content(_name_of(error), without_secrets(str(error)), **facts)


def _name_of(error: Exception) -> str:
    """Return an error's name; of a step that Inngest remembers, the name of the original error."""
    name: object = getattr(error, "name", None)
    is_remembered = type(error).__name__ == "StepError"
    return name if is_remembered and isinstance(name, str) else type(error).__name__


def error_content(name: str, message: str, **facts: JsonValue) -> JsonValue:
    """An error as the model reads it: no stack trace, nothing of the machine."""
    return {"error": {"name": name, "message": message or name, **facts}}


_DEEPEST = 20
"""The depth to which a value is searched for parts without JSON form."""


def _culprit(value: object, path: str = "result", depth: int = 0) -> tuple[str, object]:
    """Return the path and the kind of the first part of ``value`` that has no JSON form."""
    from pydantic_core import to_jsonable_python  # noqa: PLC0415 - loads pydantic

    items: list[tuple[str, object]] = []
    if depth > _DEEPEST:  # it holds itself, or as good as
        return path, "something too deep"
    if isinstance(value, dict):
        fields = cast("dict[object, object]", value)
        items = [(f"{path}.{key}", item) for key, item in fields.items()]
    elif isinstance(value, list | tuple):
        entries = enumerate(cast("list[object]", value))
        items = [(f"{path}[{index}]", item) for index, item in entries]
    for where, item in items:
        try:
            to_jsonable_python(item)
        except (ValueError, RecursionError):
            return _culprit(item, where, depth + 1)
    return path, cast("object", value)


@cache
def _to_jsonable() -> Callable[[object], Any]:
    """A function of pydantic, looked up once: even an import of a loaded module takes time."""
    from pydantic_core import to_jsonable_python  # noqa: PLC0415 - loads pydantic

    return to_jsonable_python


def _plain(value: object) -> Any:
    """JSON of a handler's value.

    Raises:
        ValueError: It has none; pydantic's own errors are ValueErrors, too.
        RecursionError: It is too deep.
    """
    plain = _to_jsonable()(value)
    # What is left that JSON has no form for are NaN and the infinities.
    if find_non_json(plain) is not None:
        from pydantic_core import from_json, to_json  # noqa: PLC0415 - loads pydantic

        plain = from_json(to_json(plain, inf_nan_mode="strings"))
    return plain


def _flat(value: object) -> dict[Any, Any] | None:
    """Return a copy of a flat object of plain JSON; None if it needs a deeper look."""
    fields: dict[Any, Any] | None = as_object(value)
    if fields is None:
        return None
    for key, item in fields.items():
        if type(key) is not str or type(item) not in _PLAIN:
            return None
        if not key.isascii() or (type(item) is str and not item.isascii()):
            return None  # it may hold half a surrogate pair
    return {**fields}


_PLAIN = (str, int, bool, NoneType)


def _whole_text(text: str) -> str:
    """``text`` with halves of surrogate pairs joined where they meet, else replaced by U+FFFD."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _whole(value: object) -> object:
    """``value`` with every text in it whole, names of fields too."""
    if isinstance(value, str):
        return _whole_text(value)
    if isinstance(value, list | tuple):
        return [_whole(item) for item in cast("list[object]", value)]
    if not isinstance(value, dict):
        return value
    made: dict[object, object] = {}
    for key, item in cast("dict[object, object]", value).items():
        wanted = name = _whole(key) if isinstance(key, str) else key
        number = 1
        while name in made:
            number += 1
            name = f"{wanted} {number}"
        made[name] = _whole(item)
    return made


def _plain_and_whole(value: object) -> Any:
    """JSON of a value that may hold halves of surrogate pairs, which pydantic does not take.

    Raises:
        ValueError: The value has another fault.
        RecursionError: It is too deep.
    """
    from pydantic_core import SchemaSerializer, core_schema  # noqa: PLC0415 - loads pydantic

    parts = SchemaSerializer(core_schema.any_schema()).to_python(value)  # models become dicts
    return _plain(_whole(parts))


def data_content(tool: str, value: object) -> JsonValue:
    """A handler's value as the model reads it; None says that the tool succeeded.

    A value that is nested too deeply to be stored, or that holds bytes that are not text, is an
    error that the model reads: the model, or a stranger, may have written it.

    Raises:
        ToolDefinitionError: The value has no JSON form.
    """
    if value is None:
        return {"data": f"{tool} successfully executed"}
    flat = _flat(value)
    if flat is not None:
        return {"data": flat}
    if is_too_deep(value):
        words = f"{tool} was carried out, but its result is nested in more than {MAX_DEPTH} levels"
        return error_content("ResultTooDeepError", f"{words}, and cannot be kept. Ask for less.")
    try:
        try:
            plain = _plain(value)
        except ValueError:
            plain = _plain_and_whole(value)
    except (ValueError, RecursionError) as error:
        path, what = _culprit(value)
        if isinstance(what, bytes | bytearray) or "utf-8" in str(error):
            words = f"{tool} was carried out, but its result holds bytes that are not text"
            return error_content("ResultNotTextError", f"{words}, at {path}, and cannot be kept.")
        raise ToolDefinitionError(
            tool, f"it returned {what!r:.60} at {path}, which has no JSON form: {error}"
        ) from error
    if is_too_deep(plain):  # the JSON of a pydantic model of the handler
        return data_content(tool, plain)
    return {"data": plain}
