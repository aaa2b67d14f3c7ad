"""The settings of a server: its networks and agents, their store, and limits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, TypeAlias, TypedDict

from agentkit_py._core.awaiting import resolve
from agentkit_py._engine.option_checks import (
    expect_bool,
    expect_callback,
    expect_text,
    expect_texts,
    wrong,
)
from agentkit_py._engine.tool_limits import check_tool_limits, limits_for
from agentkit_py.agent import Agent
from agentkit_py.errors import ConfigurationError
from agentkit_py.history.questions import Question
from agentkit_py.history.staff import Takeover
from agentkit_py.memory import Memory
from agentkit_py.network import Network, Target
from agentkit_py.routing import agents_with, is_open
from agentkit_py.runs import RunLimits
from agentkit_py.server.errors import invalid
from agentkit_py.server.hub import HubLimits
from agentkit_py.server.notices import Notify
from agentkit_py.state import TENANT_KEYS, missing_fields
from agentkit_py.stores import HistoryStore
from agentkit_py.tools import Tool


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """Limits per user and for all users together.

    Raises:
        ConfigurationError: A limit is not positive.
    """

    body_bytes: int = 4 * 2**20
    """Bytes of a request. The hook sends the whole conversation with each message."""

    message_characters: int = 32_000
    """Characters of a message."""

    state_bytes: int = 16_384
    """Bytes, as JSON, of the client state that goes with a message."""

    history_characters: int = 200_000
    """Characters of the client's history, where it is read at all."""

    runs_per_user: int = 4
    """A user's simultaneous runs, and the user's open questions."""

    runs: int = 1000
    """Runs of this process at the same time, without those that wait for a person."""

    run_seconds: float = 600.0
    """Seconds that a run may take from its beginning, or from a person's answer."""

    streams_per_user: int = 16
    """A user's simultaneous readers."""

    stream_seconds: float = 30.0
    """Seconds that a reader may take to accept a message before its connection is closed."""

    token_seconds: int = 600
    """Seconds for which a realtime token may be used to connect."""

    shutdown_seconds: float = 10.0
    """Seconds that runs get to end when the server stops, before they are cancelled."""

    health_seconds: float = 3.0
    """Seconds that the store may take to answer `GET /health/ready`."""

    def __post_init__(self) -> None:
        """Check the numbers."""
        for item in fields(self):
            if getattr(self, item.name) <= 0:
                raise ConfigurationError(f"ServerLimits: {item.name} must be more than 0")


OWNER = "owner"
"""Among `ServerOptions.approvers`: the user whose thread it is."""

MayAnswer: TypeAlias = Callable[[str, Question], "bool | Awaitable[bool]"]
"""Says whether the user with this id may answer a question."""


MayTakeOver: TypeAlias = Callable[[str, Takeover], "bool | Awaitable[bool]"]
"""Says whether the user with this id may read a thread as staff, and take it over."""


TenantOf: TypeAlias = Callable[[str], "str | Awaitable[str | None] | None"]
"""Returns the tenant of the user with this id; None: the user has none."""

NewState: TypeAlias = Callable[[str], Any]
"""Returns the state, or its data, with which runs of the user with this id begin, at once or as an
awaitable."""

_MOST_LISTED = 1000

_CALLBACKS: Mapping[str, Sequence[str]] = {
    "may_answer": ("user_id", "question"),
    "may_take_over": ("user_id", "takeover"),
    "notify": ("user_id", "notice"),
    "new_state": ("user_id",),
    "tenant_of": ("user_id",),
}
"""What functions among the options are called with."""

_LIMITS: Mapping[str, type] = {"limits": ServerLimits, "hub_limits": HubLimits}

_OWNER_KEYS = frozenset({"user_id", "userId", *TENANT_KEYS})
"""Keys of the state that say whose something is."""


class ServerOptions(TypedDict, total=False):
    """Options of `create_app`; all may be left out."""

    approvers: Collection[str]
    """Ids of the users who may answer questions of others' threads; ``"owner"`` lets users answer
    those of their own. A tool's ``approvers`` come before these."""

    may_answer: MayAnswer
    """Says who may answer which question, in place of ``approvers``."""

    staff: Collection[str]
    """Ids of the users who may take over threads of others; ``"owner"`` lets users take over their
    own, for trying it out."""

    may_take_over: MayTakeOver
    """Decides who may take over which thread, in place of ``staff``; never their own."""

    notify: Notify
    """Notifies a user who has no stream open: see `Notice`."""

    thread_url: str
    """The page of a thread, for notices: ``"https://shop.example/chat/{thread_id}"``."""

    client_state: Collection[str]
    """Keys of the state that clients may set; none unless given."""

    client_history: bool
    """Continue from the texts that the client shows, instead of the stored thread."""

    user_key: str
    """The key of the user's id in the state, for tools; ``user_id`` unless given."""

    new_state: NewState
    """Returns the state with which runs of a user begin, in place of ``default_state`` and
    ``state_type()``: a `State`, or its data. What the thread's last run left goes over it, then
    ``client_state`` and the user's id."""

    tenant_of: TenantOf
    """Returns the tenant of a user; runs have it in the state, as ``tenant``. Staff and approvers
    act on threads of users of their own tenant only, also where ``may_answer`` or
    ``may_take_over`` would let them."""

    across_tenants: Collection[str]
    """Ids of the users who act as staff and approvers in every tenant."""

    memory: Memory
    """The memory whose facts users see, correct and forget: that of the agents."""

    origins: Sequence[str]
    """Pages on other hosts that may use the API, as ``https://host``."""

    limits: ServerLimits
    """Limits of users' requests."""

    hub_limits: HubLimits
    """Limits of the chunks kept for readers."""

    run_limits: RunLimits
    """Limits of each run in this process."""

    leases: bool
    """Give the store a `ThreadLease` if it has none, so that a single run at a time works on a
    thread, across all processes; False unless given."""

    extended: bool
    """Also stream ``usage.updated`` and ``metadata.updated``: tokens and processors."""

    secret: str
    """Signs realtime tokens, the same in all processes; random unless given."""

    realtime: Literal["inngest", "store"]
    """With ``client``: how chunks of functions reach front ends, as in ``create_functions(…,
    realtime=…)``; ``"inngest"`` unless given."""

    realtime_url: str
    """The realtime server's address for browsers, if not the default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """A server's targets, store and `ServerOptions`, checked once when it is made.

    Raises:
        ConfigurationError: A client may set the user's identity, no user could approve, or the
            memory differs from the runs'.
    """

    targets: Mapping[tuple[str, str], Target]
    """Networks and agents by kind and name; the first is the default."""

    store: HistoryStore
    approvers: Collection[str] = ()
    may_answer: MayAnswer | None = None
    staff: Collection[str] = ()
    may_take_over: MayTakeOver | None = None
    notify: Notify | None = None
    thread_url: str = ""
    client_state: Collection[str] = ()
    client_history: bool = False
    user_key: str = "user_id"
    new_state: NewState | None = None
    tenant_of: TenantOf | None = None
    across_tenants: Collection[str] = ()
    memory: Memory | None = None
    origins: Sequence[str] = ()
    limits: ServerLimits = field(default_factory=ServerLimits)
    hub_limits: HubLimits = field(default_factory=HubLimits)
    run_limits: RunLimits | None = None
    leases: bool = False
    extended: bool = False
    secret: str | None = None
    realtime: Literal["inngest", "store"] = "inngest"
    realtime_url: str | None = None

    def __post_init__(self) -> None:
        """Refuse clients that could name another user, and approvals without approvers."""
        self._check_kinds()
        if self.across_tenants and self.tenant_of is None:
            raise ConfigurationError("across_tenants: pass tenant_of=…; tenants need it")
        if not self.approvers and self.may_answer is None:
            self._check_approvers()
        self._check_limits()
        for key in sorted({self.user_key, *_OWNER_KEYS}.intersection(self.client_state)):
            raise ConfigurationError(
                f"client_state: {key!r} says who the user is, so clients may not set it"
            )
        if self.memory is not None:
            self._check_memory(self.memory)
        for target in self.targets.values():
            self._check_state(target)

    def _check_kinds(self) -> None:
        """Refuse values of kinds that an option does not take."""
        where = "create_app"
        for name in ("approvers", "staff", "across_tenants"):
            expect_texts(where, name, getattr(self, name), "a list of users' ids")
        expect_texts(where, "client_state", self.client_state, "a list of keys")
        for name in ("thread_url", "user_key", "realtime_url"):
            expect_text(where, name, getattr(self, name))
        for name in ("client_history", "leases", "extended"):
            expect_bool(where, name, getattr(self, name))
        for name, parameters in _CALLBACKS.items():
            expect_callback(where, name, getattr(self, name), *parameters)
        for name, kind in _LIMITS.items():
            if not isinstance(given := getattr(self, name), kind):
                raise wrong(where, name, f"{kind.__name__}(…)", given)
        if self.run_limits is not None and not isinstance(self.run_limits, RunLimits):
            raise wrong(where, "run_limits", "RunLimits(…)", self.run_limits)
        if self.realtime not in ("inngest", "store"):
            raise wrong(where, "realtime", "'inngest' or 'store'", self.realtime)

    def _check_state(self, target: Target) -> None:
        """Refuse a typed state that no run could begin with."""
        kind, default = target.state_type, getattr(target, "default_state", None)
        if self.new_state is not None or default is not None or kind is None:
            return
        known = {self.user_key, *self.client_state}
        missing = missing_fields(kind, known if self.tenant_of is None else {*known, *TENANT_KEYS})
        if missing:
            raise ConfigurationError(
                f"create_app: runs of {target.name!r} begin without the state's {missing[0]!r}, "
                f"which {kind.__name__} (state_type) needs. Give the field a default, or pass "
                f"new_state=lambda user_id: {kind.__name__}({missing[0]}=…)"
            )

    def _check_memory(self, memory: Memory) -> None:
        """Refuse a memory that runs would not write, or that would outlive its threads."""
        if not isinstance(memory, Memory):
            raise ConfigurationError(f"memory: pass a Memory, not {memory!r:.80}")
        if id(memory.store) != id(self.store):
            raise ConfigurationError(
                "memory: it has another store than the threads, so that its facts would outlive "
                "them: pass the same store to Memory(…) and as history=…"
            )
        if (memory.tenant is None) is (self.tenant_of is None):
            raise ConfigurationError(
                "memory: pass either tenant_of=… or Memory(store, tenant=…), which says that all "
                "users are of the same tenant"
            )
        if self.user_key not in ("user_id", "userId"):
            raise ConfigurationError(
                f"memory: agents remember for the user_id of the state, which user_key="
                f"{self.user_key!r} does not set"
            )

    @property
    def most_listed(self) -> int | None:
        """The maximum number of questions or threads of a full read; None: all.

        With tenants it is all: those of other tenants may come first, however many they are.
        """
        return _MOST_LISTED if self.tenant_of is None else None

    async def tenant(self, user_id: str) -> str | None:
        """Return the tenant of a user, as the application says it.

        Raises:
            TypeError: It says something else.
        """
        found = None if self.tenant_of is None else await resolve(self.tenant_of(user_id))
        if found is not None and not isinstance(found, str):
            raise TypeError(f"tenant_of must return a str or None, not {type(found).__name__}")
        return found or None

    def limits_of(self, target: Target) -> RunLimits | None:
        """Return the limits of a target's runs: of tools those that it has."""
        return limits_for(self.run_limits, agents_in(target))

    def _check_limits(self) -> None:
        targets = self.targets.values()
        agents = [agent for target in targets for agent in agents_in(target)]
        may_grow = any(isinstance(one, Network) and is_open(one.router) for one in targets)
        check_tool_limits("create_app", self.run_limits, agents, is_open=may_grow)

    def _check_approvers(self) -> None:
        for target in self.targets.values():
            for agent in [target] if isinstance(target, Agent) else target.agents:
                for tool in agent.tools:
                    if isinstance(tool, Tool) and tool.needs_approval and not tool.approvers.names:
                        raise ConfigurationError(
                            f"create_app: tool {tool.name!r} of {agent.name!r} needs approval, and "
                            "no user could give it: pass approvers=[…] with ids of users "
                            f"({OWNER!r}: users decide for themselves) or may_answer=…"
                        )

    def target(self, network: str | None, agent: str | None) -> Target:
        """Return the network or agent that a client names, or the default."""
        if network is None and agent is None:
            return next(iter(self.targets.values()))
        key = ("network", network or "") if network is not None else ("agent", agent or "")
        found = self.targets.get(key)
        if found is None:
            raise invalid(f"There is no {key[0]} of that name.")
        return found


def agents_in(target: Target) -> list[Agent[Any, Any]]:
    """Return the agents of a network, as far as they are known, or the agent itself."""
    if isinstance(target, Agent):
        return [target]
    return agents_with(target.agents, target.router)
