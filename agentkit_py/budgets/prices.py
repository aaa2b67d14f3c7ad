"""Prices of model calls, as the user gave them; none are built in, since they change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, NotRequired

from pydantic import Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from agentkit_py._core.validation import wrong_number
from agentkit_py.errors import ConfigurationError
from agentkit_py.messages import Usage

_MILLION = 1_000_000
_FORM = (
    '{"currency": "USD", "models": {"NAME": {"input": …, "output": …, "cached": …, "written": …}}}'
    ", prices per million tokens"
)

Amount = Annotated[float, Field(ge=0, strict=True)]


@dataclass(frozen=True, slots=True)
class Price:
    """The price of one model per million tokens."""

    input: Amount
    output: Amount
    cached: Amount | None = None
    """The price of input from the provider's cache; None: the price of other input."""

    written: Amount | None = None
    """The price of input that is written to the provider's cache; None: that of other input."""

    def __post_init__(self) -> None:
        """Refuse what is no price."""
        given = {"input": self.input, "output": self.output}
        beside = {"cached": self.cached, "written": self.written}
        given |= {name: value for name, value in beside.items() if value is not None}
        for name, value in given.items():
            if wrong := wrong_number(value):
                raise ConfigurationError(f"Price({name}={value!r}): {wrong}.")


class _File(TypedDict):
    models: dict[str, Price]
    currency: NotRequired[str]


_FILE: TypeAdapter[_File] = TypeAdapter(_File)


@dataclass(frozen=True, slots=True)
class Prices:
    """A price list; empty where the user gave none."""

    models: Mapping[str, Price] = field(default_factory=dict[str, Price])
    currency: str = "USD"

    @classmethod
    def read(cls, path: Path) -> Prices:
        """Return the list in a JSON file.

        Raises:
            ConfigurationError: It cannot be read, or is not of this form.
        """
        try:
            found = _FILE.validate_json(path.read_bytes())
        except OSError as error:
            raise ConfigurationError(f"The prices in {path} cannot be read: {error}") from error
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"]))
            problem = f"{where}: {first['msg']}" if where else first["msg"]
            raise ConfigurationError(f"{path}: {problem}. It should hold {_FORM}.") from error
        return cls(found["models"], found.get("currency", "USD"))

    def __call__(self, model: str, usage: Usage) -> float:
        """Return the cost of a call, for `RunLimits` and `Budgets`.

        Raises:
            ConfigurationError: The list has no price of the model.
        """
        found = self.cost(model, usage)
        if found is None:
            known = ", ".join(sorted(self.models)) or "none"
            raise ConfigurationError(f"There is no price of model {model!r}, only of: {known}.")
        return found

    def cost(self, model: str, usage: Usage | None) -> float | None:
        """Return the cost of a call; None where price or tokens are not known."""
        price = self.models.get(model)
        if price is None or usage is None:
            return None
        cached = price.input if price.cached is None else price.cached
        written = price.input if price.written is None else price.written
        fresh = usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens
        total = fresh * price.input + usage.cached_tokens * cached
        total += usage.cache_write_tokens * written
        return (total + usage.output_tokens * price.output) / _MILLION
