"""Arguments of tools as the engine sees them; `tool_schema` makes them, with pydantic."""

from __future__ import annotations

from typing import Any, Protocol

from agentkit_py._core.json import JsonObject, JsonValue


class InvalidArguments(Exception):  # noqa: N818 - caught by the engine, never seen by users
    """Arguments that do not fit; what the model is told about them."""

    def __init__(self, issues: list[dict[str, JsonValue]]) -> None:
        super().__init__("; ".join(f"{i['path']}: {i['message']}" for i in issues))
        self.issues = issues


class Arguments(Protocol):
    """Validates what a model passes."""

    @property
    def schema(self) -> JsonObject | None:
        """JSON Schema of the arguments; None: anything goes, nothing is declared."""
        ...

    def validate(self, given: JsonValue) -> Any:
        """The validated arguments.

        Raises:
            InvalidArguments: They do not fit.
        """
        ...
