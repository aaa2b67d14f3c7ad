"""What model calls cost, by prices that the user gave; none are built in, since they change."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from agentkit_py.errors import ConfigurationError
from agentkit_py.messages import Usage

_MILLION = 1_000_000
_FORM = (
    '{"currency": "USD", "models": {"NAME": {"input": …, "output": …, "cached": …}}}, '
    "prices per million tokens"
)


@dataclass(frozen=True, slots=True)
class Price:
    """Of one model, per million tokens."""

    input: float
    output: float
    cached: float | None = None
    """Of input that came from the provider's cache; None: as other input."""


@dataclass(frozen=True, slots=True)
class Prices:
    """A price list; empty where the user gave none."""

    models: Mapping[str, Price] = field(default_factory=dict[str, Price])
    currency: str = "USD"

    @classmethod
    def read(cls, path: Path) -> Prices:
        """The list in a JSON file.

        Raises:
            ConfigurationError: It cannot be read, or is not of this form.
        """
        try:
            record: object = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ConfigurationError(f"The prices in {path} cannot be read: {error}") from error
        fields = cast("Mapping[str, Any]", record if isinstance(record, dict) else {})
        models: object = fields.get("models")
        if not isinstance(models, dict):
            raise ConfigurationError(f"{path} has no prices; it should hold {_FORM}.")
        found = {
            name: _price(path, name, value)
            for name, value in cast("Mapping[str, object]", models).items()
        }
        return cls(found, str(fields.get("currency", "USD")))

    def cost(self, model: str, usage: Usage | None) -> float | None:
        """What a call cost; None where price or tokens are not known."""
        price = self.models.get(model)
        if price is None or usage is None:
            return None
        cached = price.input if price.cached is None else price.cached
        fresh = usage.input_tokens - usage.cached_tokens
        total = fresh * price.input + usage.cached_tokens * cached
        return (total + usage.output_tokens * price.output) / _MILLION


def _price(path: Path, name: str, value: object) -> Price:
    fields = cast("Mapping[str, object]", value if isinstance(value, dict) else {})
    numbers = {key: fields.get(key) for key in ("input", "output", "cached")}
    for key, number in numbers.items():
        given = isinstance(number, int | float) and not isinstance(number, bool) and number >= 0
        if not given and not (key == "cached" and number is None):
            raise ConfigurationError(
                f"{path}: {key!r} of {name!r} must be a number of at least 0, got {number!r:.80}."
            )
    return Price(**cast("dict[str, Any]", numbers))
