"""Memory across threads: facts about users that tools write, and that agents and users see."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel, Field

from agentkit_py._core.json import JsonValue
from agentkit_py.errors import ConfigurationError
from agentkit_py.history.abilities import abilities_of
from agentkit_py.history.users import Fact, FactStore
from agentkit_py.memory.recall import Extractor, Heard, Learned, MemoryRecall, extractor, heard_in
from agentkit_py.memory.users import MAX_CHARS, FactVectors, UserMemory
from agentkit_py.search import Embedder
from agentkit_py.state import State, tenant_of, user_of
from agentkit_py.tools import Tool, ToolContext, create_tool

__all__ = [
    "Extractor",
    "Fact",
    "FactStore",
    "Heard",
    "Learned",
    "Memory",
    "MemoryRecall",
    "UserMemory",
    "extractor",
]

logger: logging.Logger = logging.getLogger("agentkit_py")


class Memory:
    """Facts about users, kept outside of their threads.

    The run's state names the user: ``user_id`` and ``tenant`` of its data. Where any of them
    is missing nothing is read or written: the tool, the report and the log say so.

    Args:
        store: The store of the threads: `SqliteHistory`, `PostgresHistory`, `MemoryHistory`.
        tenant: The tenant of all runs, where an application has only a single tenant; a state that
            names another is refused.
        shared: Whether a user's agents share their facts; False: each has its own facts.
        embedder: Makes vectors of facts, so that they are also recalled by meaning; None:
            by their words alone.
        most: The maximum number of facts of a user. Further facts are refused until some are
            deleted.
        clock: The time, with its zone.

    Raises:
        ConfigurationError: The store keeps no facts, or the embedder is none.
    """

    def __init__(
        self,
        store: FactStore,
        *,
        tenant: str | None = None,
        shared: bool = True,
        embedder: Embedder | None = None,
        most: int = 500,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        if abilities_of(store).facts is None:
            raise ConfigurationError(
                f"Memory({store!r:.80}): pass the store of the threads (SqliteHistory, "
                "PostgresHistory or MemoryHistory)."
            )
        if embedder is not None and not callable(getattr(embedder, "embed", None)):
            raise ConfigurationError(
                f"Memory(embedder={embedder!r:.80}): pass an object with key and embed(texts)."
            )
        if most < 1:
            raise ConfigurationError(f"Memory(most={most!r}): pass 1 or more.")
        self.store = store
        self.tenant = tenant
        self.shared = shared
        self.most = most
        self._vectors = None if embedder is None else FactVectors(embedder)
        self.clock = clock

    def of(self, *, user: str | None, tenant: str | None = None) -> UserMemory:
        """Return the memory of a user.

        Raises:
            ConfigurationError: No user or no tenant is named, or another tenant than the memory's.
        """
        if self.tenant is not None and tenant not in (None, self.tenant):
            raise ConfigurationError(f"This memory is of another tenant than {tenant!r}.")
        whose = tenant or self.tenant
        for what, name, value in (("user", "user_id", user), ("tenant", "tenant", whose)):
            if not value:
                raise ConfigurationError(
                    f"Nothing is remembered: there is no {what} ({name} of the state's data)."
                )
        return UserMemory(
            self.store,
            whose or "",
            user or "",
            most=self.most,
            clock=self.clock,
            vectors=self._vectors,
        )

    def tools(self) -> list[Tool]:
        """Return the tools ``remember`` and ``forget``.

        They write for the user of the run, whatever the model says.
        """
        return [
            create_tool(
                name="remember",
                description="Remember a fact about the user beyond this conversation: preferences, "
                "circumstances, decisions. Nothing that only matters now, and no secrets.",
                parameters=_Remember,
                handler=self._remember,
            ),
            create_tool(
                name="forget",
                description="Forget a fact about the user, if the user wants that.",
                parameters=_Forget,
                handler=self._forget,
            ),
        ]

    def recall(self, k: int = 20) -> MemoryRecall:
        """Return a processor that shows an agent the facts of the run's user.

        Args:
            k: Facts at the most: those that the input is about, then the newest.
        """
        return MemoryRecall(lambda user, tenant: self.of(user=user, tenant=tenant), self.shared, k)

    async def learn(self, state: State[Any], extract: Extractor, *, last: int = 10) -> list[Fact]:
        """Find facts in the newest messages of a run's user, and remember them.

        Call it after a run with its state, or from a task or an Inngest function in the background.
        Doing it again for the same messages and facts adds nothing.

        Args:
            state: The run's state: it says whose the facts are, and holds the messages.
            extract: Finds the facts, e.g. `extractor`.
            last: Messages of the user to look at.

        Returns:
            The facts that are remembered; all of the user's agents know them. A fact that is empty
            or too long, or for which the memory is full, is skipped with a warning.

        Raises:
            ConfigurationError: The state names no user or tenant.
            HistoryError: The store cannot be used.
        """
        mine = self.of(user=user_of(state), tenant=tenant_of(state))
        heard = heard_in(state)[-last:]
        known = [fact for fact in await mine.facts() if fact.agent is None]
        ids = {fact.id for fact in known}
        found: list[Fact] = []
        for one in (await extract(heard, known)) if heard else ():
            source = dict(enumerate(heard)).get(-1 if one.source is None else one.source, heard[-1])
            try:
                fact = await mine.remember(
                    one.text,
                    thread_id=state.thread_id,
                    message_id=source.id,
                    replaces=one.replaces if one.replaces in ids else None,
                )
            except ConfigurationError as error:
                logger.warning("learn: %s", error)
                continue
            found.append(fact)
        return found

    async def _remember(self, given: _Remember, ctx: ToolContext) -> JsonValue:
        heard = heard_in(ctx.state)
        try:
            fact = await self.of(user=user_of(ctx.state), tenant=tenant_of(ctx.state)).remember(
                given.fact,
                agent=self._reader(ctx),
                thread_id=ctx.thread_id,
                message_id=heard[-1].id if heard else None,
                replaces=given.replaces,
                key=ctx.idempotency_key,
            )
        except ConfigurationError as error:
            logger.warning("remember: %s", error)
            return {"remembered": False, "reason": str(error)}
        return {"remembered": True, "id": fact.id}

    async def _forget(self, given: _Forget, ctx: ToolContext) -> JsonValue:
        try:
            mine = self.of(user=user_of(ctx.state), tenant=tenant_of(ctx.state))
            known = {fact.id for fact in await mine.facts(agent=self._reader(ctx))}
            gone = given.id in known and await mine.forget(given.id)
        except ConfigurationError as error:
            logger.warning("forget: %s", error)
            return {"forgotten": False, "reason": str(error)}
        return {"forgotten": gone} if gone else {"forgotten": False, "reason": "No such fact."}

    def _reader(self, ctx: ToolContext) -> str | None:
        """Return the agent whose facts alone count; None: everybody's do."""
        return None if self.shared else ctx.agent.name


class _Remember(BaseModel):
    fact: str = Field(
        min_length=1, max_length=MAX_CHARS, description="A sentence that can be read alone."
    )
    replaces: str | None = Field(
        None, description="The id of a remembered fact that this fact corrects."
    )


class _Forget(BaseModel):
    id: str = Field(description="The id of the fact, as shown in brackets.")
