"""The envelope by which a model learns what a tool gave: ``{"data": …}`` or ``{"error": …}``."""

from __future__ import annotations

from typing import Any

from pydantic_core import from_json, to_json, to_jsonable_python

from agentkit_py._core.json import JsonValue, find_non_json
from agentkit_py.errors import ToolDefinitionError


def error_content(name: str, message: str, **facts: JsonValue) -> JsonValue:
    """An error as the model reads it: no stack trace, nothing of the machine."""
    return {"error": {"name": name, "message": message or name, **facts}}


def data_content(tool: str, value: object) -> JsonValue:
    """A handler's value as the model reads it; None says that the tool succeeded.

    Raises:
        ToolDefinitionError: The value has no JSON form.
    """
    if value is None:
        return {"data": f"{tool} successfully executed"}
    try:
        plain: Any = to_jsonable_python(value)
        # What is left that JSON has no form for are NaN and the infinities.
        if find_non_json(plain) is not None:
            plain = from_json(to_json(plain, inf_nan_mode="strings"))
    except (ValueError, RecursionError) as error:  # pydantic's own are ValueErrors, too
        raise ToolDefinitionError(
            tool, f"it returned {type(value).__name__}, which has no JSON form: {error}"
        ) from error
    return {"data": plain}
