"""The envelope by which a model learns what a tool gave: ``{"data": …}`` or ``{"error": …}``."""

from __future__ import annotations

from typing import Any, cast

from agentkit_py._core.json import JsonValue, find_non_json
from agentkit_py.errors import ToolDefinitionError


def error_content(name: str, message: str, **facts: JsonValue) -> JsonValue:
    """An error as the model reads it: no stack trace, nothing of the machine."""
    return {"error": {"name": name, "message": message or name, **facts}}


_DEEPEST = 20
"""Levels of a value that are looked into for what has no JSON form."""


def _culprit(value: object, path: str = "result", depth: int = 0) -> tuple[str, object]:
    """Where in ``value`` the first thing without a JSON form is, and what it is."""
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


def data_content(tool: str, value: object) -> JsonValue:
    """A handler's value as the model reads it; None says that the tool succeeded.

    Raises:
        ToolDefinitionError: The value has no JSON form.
    """
    if value is None:
        return {"data": f"{tool} successfully executed"}
    from pydantic_core import to_jsonable_python  # noqa: PLC0415 - loads pydantic

    try:
        plain: Any = to_jsonable_python(value)
        # What is left that JSON has no form for are NaN and the infinities.
        if find_non_json(plain) is not None:
            from pydantic_core import from_json, to_json  # noqa: PLC0415 - loads pydantic

            plain = from_json(to_json(plain, inf_nan_mode="strings"))
    except (ValueError, RecursionError) as error:  # pydantic's own are ValueErrors, too
        path, what = _culprit(value)
        raise ToolDefinitionError(
            tool, f"it returned {what!r:.60} at {path}, which has no JSON form: {error}"
        ) from error
    return {"data": plain}
