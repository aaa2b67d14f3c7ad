"""Options of agents and networks as tools of agents."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Literal, TypeAlias, TypedDict

from agentkit_py.history.config import HistoryConfig
from agentkit_py.lifecycle.hooks import ModelChoice
from agentkit_py.state import State

Rights: TypeAlias = Collection[str] | Literal["own"]
"""Names of tools, or ``"own"``: all that it would have by itself."""


class AsToolOptions(TypedDict, total=False):
    """Options of an agent or a network as a tool; all may be left out."""

    name: str
    """The tool's name; made of the agent's or network's unless given."""

    description: str
    """Describes to the model when to use it; the agent's or network's unless given."""

    allowed_tools: Rights
    """The tools of its own that it may use in such a run; none, with a warning, unless given."""

    max_iter: int
    """The maximum of inferences per call (of a network: agent turns); 10 unless given."""

    max_depth: int
    """The limit of the nesting depth of such runs, the outermost being 0; 3 unless given."""

    state: Callable[[], State[Any]]
    """Makes the state of each call; an empty state unless given."""

    history: HistoryConfig | None
    """The store of its threads; its own history unless given."""

    model: ModelChoice
    """Another model than its own."""

    inherit: bool
    """True: processors of the run it is called in (its history's, its network's, and those given to
    it) apply in it, too, before its own; not those of the calling agent."""
