"""Tools that a provider defines and the program runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Unpack

from agentkit_py._core.json import JsonObject, JsonValue, as_object
from agentkit_py.models.provider_tools import defined
from agentkit_py.tools.definition import Tool, ToolTraits, create_tool
from agentkit_py.tools.values import InvalidArguments


def provider_tool(
    definition: str | Mapping[str, Any],
    handler: Callable[..., Any],
    *,
    description: str = "",
    **traits: Unpack[ToolTraits],
) -> Tool:
    """Make a tool that the provider defines and its models know, and that this program runs.

    It is a tool like any other: with approvals, guardrails, durable steps, stores and filters. Only
    the models of its provider can call it.

    Example:
        ::

            Agent(tools=[provider_tool("bash_20250124", run_bash, needs_approval=True)], …)

    Args:
        definition: A type of Claude's tools (``"memory_20250818"``, ``"bash_20250124"``,
            ``"text_editor_20250728"``, ``"computer_toolset_20260801"``, …) or OpenAI's
            (``"shell"``, ``"apply_patch"``, ``"computer"``), or the provider's JSON for it, which
            ``custom`` and ``mcp`` of OpenAI need: ``{"type": "custom", "name": …, "format": …}``.
        handler: As `create_tool`'s. It gets the call's arguments under the provider's names: a
            custom tool's its text; a shell's ``{"commands": […]}``; ``{"type", "path", "diff"}`` of
            a patch; the actions of a computer, of a toolset of Claude's with the member as
            ``"action"``; the request of an MCP server. A text goes to the model as it is. A shell's
            handler may return ``{"stdout", "stderr", "exit_code"}`` or a list of these, a
            computer's returns an `ImageContent` of the screen, and MCP's whether it agrees.
        description: Shown to the people who approve calls.
        traits: See `ToolTraits`.

    Raises:
        ConfigurationError: The program cannot run the tool.
        ToolDefinitionError: The handler or an option cannot be used.
    """
    name, given = defined(definition)
    made = create_tool(name=name, handler=handler, description=description, **traits)
    if given["type"] == "custom":
        text = _TextInput()
        made = replace(made, arguments=text, spec=replace(made.spec, parameters=text.schema))
    return replace(made, spec=replace(made.spec, provider=given))


class _TextInput:
    """The input of a custom tool: a text, which its handler gets."""

    schema: JsonObject | None = {  # noqa: RUF012 - never changed
        "type": "object",
        "properties": {"input": {"type": "string"}},
        "required": ["input"],
        "additionalProperties": False,
    }

    def validate(self, given: JsonValue) -> str:
        """Return the text.

        Raises:
            InvalidArguments: There is none.
        """
        text = (as_object(given) or {}).get("input")
        if not isinstance(text, str):
            raise InvalidArguments([{"path": "input", "message": "must be a text"}])
        return text
