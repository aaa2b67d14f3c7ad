"""A deploy while a run waits: old runs go the old way, new ones the new way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import inngest

from agentkit_py import Agent, Network, RouterContext
from agentkit_py.inngest import FunctionOptions, create_functions, patched
from agentkit_py.models import Model


def desk(model: Model, *, checks_fraud: bool) -> Network:
    """Return the network, before the deploy or after it."""
    triage, fraud, billing = (
        Agent(name=name, system=f"You do {name}.", model=model)
        for name in ("triage", "fraud", "billing")
    )

    def in_turn(context: RouterContext) -> Agent | None:
        return dict(enumerate([triage, billing])).get(context.call_count)

    # --8<-- [start:patched]
    def router(context: RouterContext) -> Agent | None:
        order = [triage, *([fraud] if patched("fraud-check") else []), billing]
        return order[context.call_count] if context.call_count < len(order) else None

    # --8<-- [end:patched]

    chosen = router if checks_fraud else in_turn
    return Network(name="desk", agents=[triage, fraud, billing], router=chosen)


def functions_of(client: inngest.Inngest, network: Network) -> Sequence[inngest.Function[Any]]:
    """Return the functions of a deploy that old runs are not to go on with."""
    # --8<-- [start:version]
    options = FunctionOptions(version="2026-11-22", on_version_mismatch="fail")
    return create_functions(client, networks=[network], options={"desk": options})
    # --8<-- [end:version]
