"""Inngest functions as tools: the model calls, `step.invoke` runs, the result comes back."""

from __future__ import annotations

import inspect
from datetime import timedelta
from typing import Any, get_type_hints

import inngest
from pydantic import BaseModel

from agentkit_py._core.naming import slugify
from agentkit_py.errors import ToolDefinitionError
from agentkit_py.tools import Tool, ToolContext, create_tool


def inngest_tool(
    function: inngest.Function[Any],
    *,
    name: str | None = None,
    description: str | None = None,
    parameters: Any = None,
    timeout: timedelta | None = None,
) -> Tool:
    """A tool that invokes an Inngest function and waits for what it returns.

    Args:
        function: The function; it must be served by an app that the server knows.
        name: What the model calls it; made of the function's id unless given.
        description: Tells the model when to use it; the function's name unless given.
        parameters: A pydantic model or JSON Schema of ``event.data``. The SDK's functions have no
            schema of their own; unless given, it is taken from the type of the handler's parameter
            ``data`` or attribute ``input_model``, where there is one.
        timeout: How long to wait for the function.

    Raises:
        ToolDefinitionError: There is no schema to be found, or the name cannot be used.
    """
    label = name or slugify(function.local_id).replace("-", "_")
    schema = parameters if parameters is not None else _input_model(label, function)

    async def invoke(given: Any, ctx: ToolContext) -> Any:
        data = given.model_dump(mode="json") if isinstance(given, BaseModel) else given
        return await ctx.step.invoke_by_id(
            "invoke",
            function_id=function.local_id,
            data=data,
            timeout=timeout,
        )

    return create_tool(
        name=label,
        description=description if description is not None else function.name,
        parameters=schema,
        handler=invoke,
        steps=True,
    )


def _input_model(label: str, function: inngest.Function[Any]) -> type[BaseModel]:
    # The handler is the function's only description of its input, and the SDK keeps it private.
    handler = getattr(function, "_handler", None)
    declared = getattr(handler, "input_model", None)
    if declared is None and handler is not None and "data" in inspect.signature(handler).parameters:
        declared = get_type_hints(handler).get("data")
    if isinstance(declared, type) and issubclass(declared, BaseModel):
        return declared
    raise ToolDefinitionError(
        label,
        "an Inngest function has no input schema of its own; use inngest_tool(function, "
        "parameters=MyModel), or set handler.input_model = MyModel",
    )
