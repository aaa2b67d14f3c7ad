"""Names as TypeScript spells them: errors suggest the name of the option or member here.

`OTHER_WORDS` is the table of names that differ in more than spelling; the porting page shows it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from dataclasses import FrozenInstanceError
from functools import wraps
from types import FunctionType
from typing import Any, TypeVar, cast

OTHER_WORDS: dict[str, str] = {
    "kv.set": 'kv["plan"] = value',
    "kv.has": '"plan" in kv',
    "kv.delete": 'del kv["plan"]',
    "kv.all": "dict(kv)",
    "userMessage.timestamp": "user_message.client_timestamp",
    "toolMessage.input": "call.arguments",
    "network.state": "state=create_state(…) for a run, and run.state or ctx.state in it",
    "network.availableAgents": "await ctx.network.available_agents()",
    "network.addAgent": "ctx.network.add_agent(agent)",
    "network.schedule": "ctx.network.schedule(name)",
    "network.defaultRouter": "network.router",
    "run.description": "network.description",
    "run.defaultModel": "network.default_model",
    "run.router": "network.router",
    "run.maxIter": "network.max_iter",
    "run.history": "network.history",
    "run.run": "network.run(…)",
    "run.export": "run.to_dict()",
    "agent.lifecycles": "agent.lifecycle",
    "routingAgent.type": "isinstance(agent, RoutingAgent)",
    "tool.mcp": "server.names, the names on the server by those of its tools",
    "tool.strict": "tool.spec.strict",
    "tool.inputSchema": "tool.spec.parameters",
    "toJSON": "to_dict()",
    "defaultRouter": "router=…",
    "network": "state=ctx.state.clone(), and model=… where the agent has none",
    "streamingContext": "nothing: a run inside of a run streams by itself",
    "step": "nothing: a model call is a step by itself, and tools have ctx.step",
    "handlers": "handler=…",
    "inputSchema": "parameters=…",
    "mcp": "mcp_servers=[…] of the agent",
    "userMessage(timestamp)": "client_timestamp=…",
    "toolMessage(input)": "arguments=…",
    "result(raw)": "reply=…",
    "result(checksum)": "nothing: it is computed",
    "appId": "inngest.Inngest(app_id=…), which is the first argument",
    "functions": "them beside the others where they are served: [*create_functions(…), own]",
    "requestInit": 'transport={"type": …, "requestInit": …}',
    "reconnectionOptions": 'transport={"type": …, "reconnectionOptions": …}',
    "sessionId": 'transport={"type": …, "sessionId": …}',
    "authProvider": 'transport={"type": …, "authProvider": …}',
    "eventSourceInit": 'transport={"type": …, "eventSourceInit": …}',
}
"""What is another word here, by ``object.member``, by the option's name, or by ``object(option)``;
all others are the same words in snake_case."""

_OBJECTS: dict[str, str] = {
    "DataView": "kv",
    "UserMessage": "userMessage",
    "ToolCall": "toolMessage",
    "Network": "network",
    "NetworkRun": "run",
    "Agent": "agent",
    "RoutingAgent": "routingAgent",
    "Tool": "tool",
    "AgentResult": "result",
}
"""What TypeScript's programs call an object of a class."""

C = TypeVar("C", bound=type)
F = TypeVar("F", bound=Callable[..., Any])


def snake_case(name: str) -> str:
    """Return a name in camelCase as Python writes it."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def option_hint(name: str, known: Iterable[str], owner: str = "") -> str | None:
    """Return the option that TypeScript calls ``name``, as a hint, or None.

    Args:
        name: The option as it was written.
        known: The options that there are.
        owner: The class that is made.
    """
    ours = snake_case(name)
    if ours != name and ours in set(known):
        return f"{name!r} is {ours}=… here"
    by_word = {snake_case(word): line for word, line in OTHER_WORDS.items()}
    line = by_word.get(snake_case(f"{_OBJECTS.get(owner, '')}({ours})")) or by_word.get(ours)
    return None if line is None else f"for {name!r} write {line}"


def member_hint(value: object, name: str) -> str | None:
    """Return the hint for a member of TypeScript's object, or None."""
    kind = type(value)
    words = [f"{_OBJECTS.get(one.__name__, '')}.{name}" for one in kind.__mro__]
    if name == "toJSON" and hasattr(kind, "to_dict"):
        words.append(name)
    for word in words:
        if word in OTHER_WORDS:
            return f"write {OTHER_WORDS[word]}"
    ours = snake_case(name)
    if ours != name and (hasattr(kind, ours) or ours in getattr(value, "__dict__", ())):
        return f"it is {ours} here"
    return None


def spelled_here(cls: C) -> C:
    """Let a class suggest the names of members that are spelled as in TypeScript."""

    def missing(self: object, name: str) -> Any:
        hint = None if name.startswith("__") else member_hint(self, name)
        said = f"{type(self).__name__!r} object has no attribute {name!r}"
        raise AttributeError(f"{said}: {hint}" if hint else said, name=name, obj=self)

    def subscripted(self: object, key: object) -> Any:
        said = f"{type(self).__name__!r} object is not subscriptable"
        ours = snake_case(key) if isinstance(key, str) else ""
        there = ours.isidentifier() and hasattr(self, ours)
        raise TypeError(f"{said}: write .{ours}" if there else said)

    setattr(cls, "__getattr__", missing)  # noqa: B010 - a type checker must not see it
    if not hasattr(cls, "__getitem__"):
        setattr(cls, "__getitem__", subscripted)  # noqa: B010 - as above
    return cls


def replaced_here(cls: C) -> C:
    """Let a frozen class say how a copy with another member is made."""

    def assigned(self: object, name: str, value: object) -> None:
        del self, value
        raise FrozenInstanceError(
            f"cannot assign to field {name!r}: return a copy, made by "
            f"dataclasses.replace(…, {snake_case(name)}=…)"
        )

    setattr(cls, "__setattr__", assigned)  # noqa: B010 - as above
    return cls


def options_spelled_here(cls: C) -> C:
    """Let a class suggest the names of options that are spelled as in TypeScript.

    A subclass whose method has the name of an option is refused: the option's value would hide it.
    """
    setattr(cls, "__init__", explained(cls.__init__, cls.__name__))  # noqa: B010 - as above
    _refuse_hidden_methods(cls)
    return cls


def _refuse_hidden_methods(cls: type) -> None:
    options = frozenset(inspect.signature(cls.__init__).parameters) - {"self"}
    own = cls.__dict__.get("__init_subclass__")

    def check(sub: type, **given: Any) -> None:
        (super(cls, sub).__init_subclass__ if own is None else own.__get__(None, sub))(**given)
        for name, value in vars(sub).items():
            if name in options and isinstance(value, _METHODS):
                raise TypeError(
                    f"class {sub.__name__}: {name!r} is an option of {cls.__name__}, whose value "
                    f"hides a method of this name: pass the function as {name}=… "
                    f"to {cls.__name__}, or call the method otherwise"
                )

    setattr(cls, "__init_subclass__", classmethod(check))  # noqa: B010 - as above


_METHODS = (FunctionType, classmethod, staticmethod)


def explained(function: F, name: str | None = None) -> F:
    """Return a function that suggests the names of options that are spelled as in TypeScript.

    Args:
        function: The function.
        name: What errors call it; its own name unless given.
    """
    parameters = inspect.signature(function).parameters
    label = name or function.__name__

    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        try:
            return function(*args, **options)
        except TypeError:
            unknown = [option for option in options if option not in parameters]
            hints = list(filter(None, (option_hint(one, parameters, label) for one in unknown)))
            if hints:
                raise TypeError(f"{label}(): {'; '.join(hints)}") from None
            if args and isinstance(args[-1], dict) and not _fits(function, args, options):
                given = cast("dict[Any, Any]", args[-1])
                raise TypeError(f"{label}(): {_by_name(label, given)}") from None
            raise

    return cast("F", call)


def explained_run(function: F) -> F:
    """Return an async function whose error says how to pass options that came in an object."""
    parameters = inspect.signature(function).parameters.values()
    positional = sum(parameter.kind is parameter.POSITIONAL_OR_KEYWORD for parameter in parameters)
    label = function.__name__

    @wraps(function)
    async def call(*args: Any, **options: Any) -> Any:
        if len(args) > positional and isinstance(args[-1], dict):
            raise TypeError(
                f"{label}(): {_by_name(label, cast('dict[Any, Any]', args[-1]), '…, ')}"
            )
        return await function(*args, **options)

    return cast("F", call)


def _by_name(label: str, options: Iterable[Any], before: str = "") -> str:
    names = ", ".join(f"{snake_case(str(option))}=…" for option in options) or "name=…"
    return f"options go by name, e.g. {label}({before}{names}), not in an object"


def _fits(function: Callable[..., Any], args: Any, options: Any) -> bool:
    try:
        inspect.signature(function).bind(*args, **options)
    except TypeError:
        return False
    return True
