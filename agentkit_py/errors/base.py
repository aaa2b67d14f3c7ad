"""What every error is, and what the developer passed that cannot work."""

from __future__ import annotations

from typing import Any


class AgentKitError(Exception):
    """Base of every error that this library raises."""

    def __reduce__(self) -> tuple[Any, ...]:
        """With message and facts: what `Exception` has would call the constructor with the text."""
        return _made_again, (type(self), self.args, vars(self).copy())


def _made_again(
    kind: type[AgentKitError], args: tuple[Any, ...], facts: dict[str, Any]
) -> AgentKitError:
    error = kind.__new__(kind, *args)
    vars(error).update(facts)
    return error


class ConfigurationError(AgentKitError, ValueError):
    """What the developer passed cannot work; the message names the value and what to do."""


class MissingModelError(ConfigurationError):
    """Neither the run, nor the agent, nor its network has a model.

    Attributes:
        agent: Name of the agent that was to run.
    """

    def __init__(self, agent: str) -> None:
        super().__init__(
            f"Agent {agent!r} has no model. Pass model=… to the agent or to run(), "
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
            f"{purpose} needs the package {package!r}: pip install 'pyagentkit[{extra}]'"
        )
        self.package = package
        self.extra = extra
