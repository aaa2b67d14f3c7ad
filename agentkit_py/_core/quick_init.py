"""Frozen dataclasses that are made in the time of plain ones.

What the standard library writes for them calls ``object.__setattr__`` for each field, which takes
most of the time of an object. Here an object is *thawed* while its fields are set: it is of a class
with the same slots that is not frozen. Then it becomes one of its own class; nobody has it before.
"""

from __future__ import annotations

from dataclasses import MISSING, fields
from functools import wraps
from typing import Any, TypeVar

T = TypeVar("T")

_PLAIN = {"__setattr__": object.__setattr__, "__delattr__": object.__delattr__}


def quick_init(kind: type[T]) -> type[T]:
    """Give a frozen, slotted dataclass an ``__init__`` that takes less than half the time.

    For classes of which each message or model call makes some. It is made with the first object, so
    that an import does not wait for it. Subclasses keep the one that the standard library wrote.
    """
    written: Any = kind.__init__

    @wraps(written)
    def first(self: Any, *args: Any, **named: Any) -> None:
        kind.__init__ = init = _quick(kind, written)
        init(self, *args, **named)

    kind.__init__ = first
    return kind


def _quick(kind: type[Any], written: Any) -> Any:
    names: dict[str, Any] = {
        "__name__": kind.__module__,
        "_kind": kind,
        "_thawed": thawed(kind),
        "_change": object.__setattr__,
        "_written": written,
    }
    init = function_of(_init_source(kind, names), names)
    for name in ("__defaults__", "__kwdefaults__", "__annotations__", "__qualname__", "__module__"):
        setattr(init, name, getattr(written, name))
    return init


def thawed(kind: type[Any]) -> type[Any]:
    """A class with the slots of ``kind`` that is not frozen."""
    own = vars(kind)
    slots = {"__slots__": own["__slots__"]} if "__slots__" in own else {}
    return type(f"{kind.__name__}Thawed", kind.__bases__, {**slots, **_PLAIN})


def can_thaw(kind: type[Any]) -> bool:
    """Whether nobody is told of the class that `thawed` makes beside ``kind``.

    What a user derives may count its subclasses, or be `Generic`, which refuses to be a plain base.
    """
    return type(kind) is type and not any(
        "__init_subclass__" in vars(base) for base in kind.__mro__[:-1]
    )


def _init_source(kind: type[Any], names: dict[str, Any]) -> str:
    """The text of ``__init__``; what it needs beside its arguments is put into ``names``."""
    written: Any = names["_written"]
    code: Any = written.__code__
    by_place = code.co_varnames[: code.co_argcount]
    by_name = code.co_varnames[code.co_argcount :][: code.co_kwonlyargcount]
    places = zip(reversed(by_place), reversed(written.__defaults__ or ()), strict=False)
    defaults: dict[str, Any] = {**dict(places), **(written.__kwdefaults__ or {})}
    lines = [
        f"def __init__({', '.join([*by_place, *(['*'] if by_name else ()), *by_name])}):",
        "  if self.__class__ is not _kind:",
        f"    return _written({', '.join([*by_place, *(f'{name}={name}' for name in by_name)])})",
        "  _change(self, '__class__', _thawed)",
    ]
    for field in fields(kind):
        value, make, unset = field.name, f"_make_{field.name}", f"_unset_{field.name}"
        names[make], names[unset] = field.default_factory, defaults.get(field.name, field.default)
        if field.default_factory is not MISSING:
            value = f"{make}() if {value} is {unset} else {value}" if field.init else f"{make}()"
        elif not field.init:
            value = unset
        lines.append(f"  self.{field.name} = {value}")
    lines.append("  self.__class__ = _kind")
    if hasattr(kind, "__post_init__"):
        lines.append("  self.__post_init__()")
    return "\n".join(lines)


def function_of(source: str, names: dict[str, Any]) -> Any:
    """The function that ``source`` defines, as the standard library makes those of dataclasses."""
    before = set(names)
    exec(source, names)  # noqa: S102 - made of the names of fields
    return next(names[name] for name in names.keys() - before if name != "__builtins__")
