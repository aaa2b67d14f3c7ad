"""The facts of a user: read, written, corrected and forgotten."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from datetime import datetime

from agentkit_py._core.json import dumps
from agentkit_py._core.untrusted import clean
from agentkit_py.errors import ConfigurationError
from agentkit_py.history.users import Fact, FactStore
from agentkit_py.search import FACTS, Embedder, embed_all, ranked
from agentkit_py.search.vectors import Vector, nearest, normalized

MAX_CHARS = 1000
"""Characters of a fact."""


_USERS = 1000
"""Users whose vectors are in memory."""


class FactVectors:
    """Vectors of facts, made once while the process lives."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._known: dict[tuple[str, str], dict[str, Vector]] = {}

    async def likeness(self, query: str, facts: Sequence[Fact]) -> dict[int, float]:
        """Return the similarity of each fact of a user to a query, by its place.

        Raises:
            ModelError: The embedder failed.
        """
        if not facts:
            return {}
        owner = facts[0].tenant, facts[0].user_id
        before = self._known.get(owner, {})
        new = [fact for fact in facts if fact.id not in before]
        made = await embed_all(self._embedder, [query, *(fact.text for fact in new)])
        # Those of forgotten facts are not kept.
        known = {fact.id: before[fact.id] for fact in facts if fact.id in before}
        known |= {fact.id: normalized(one) for fact, one in zip(new, made[1:], strict=True)}
        self._known.pop(owner, None)
        self._known[owner] = known
        if len(self._known) > _USERS:
            del self._known[next(iter(self._known))]
        near = dict(nearest(made[0], known, len(known)))
        return {place: near[fact.id] for place, fact in enumerate(facts)}


class UserMemory:
    """The facts of a user of a tenant. Made by `agentkit_py.memory.Memory.of`."""

    def __init__(
        self,
        store: FactStore,
        tenant: str,
        user_id: str,
        *,
        most: int,
        clock: Callable[[], datetime],
        vectors: FactVectors | None = None,
    ) -> None:
        self.tenant: str = tenant
        self.user_id: str = user_id
        self._store = store
        self._most = most
        self._clock = clock
        self._vectors = vectors

    async def facts(self, *, agent: str | None = None, replaced: bool = False) -> list[Fact]:
        """Return the facts, newest first.

        Args:
            agent: Only facts that this agent may see: its own facts and those of all agents.
            replaced: Also those that others have replaced.
        """
        found = await self._store.list_facts(self.tenant, self.user_id, replaced=replaced)
        return [one for one in found if agent is None or one.agent in (None, agent)]

    async def search(self, query: str, k: int = 20, *, agent: str | None = None) -> list[Fact]:
        """Return the facts that a query is about, best first, and after them the newest.

        They are found by words, and by meaning where the memory has an embedder.

        Args:
            query: A question or words.
            k: Facts at the most.
            agent: Only facts that this agent may see.

        Raises:
            ModelError: The embedder failed.
        """
        facts = await self.facts(agent=agent)
        near = {} if self._vectors is None else await self._vectors.likeness(query, facts)
        found = ranked(query, [fact.text for fact in facts], near, weights=FACTS)
        places = dict.fromkeys([*(place for place, _ in found), *range(len(facts))])
        return [facts[place] for place in places][:k]

    async def remember(
        self,
        text: str,
        *,
        agent: str | None = None,
        thread_id: str | None = None,
        message_id: str | None = None,
        replaces: str | None = None,
        key: str | None = None,
    ) -> Fact:
        """Add a fact; the same words again are the fact that is there.

        Args:
            text: The fact.
            agent: The agent that alone knows it; None: all. A fact that replaces
                another has the other's agent.
            thread_id: The thread that it comes from.
            message_id: The message that it comes from.
            replaces: The id of a fact whose place it takes.
            key: Recognises a repeated write; None: the message does, if any.

        Raises:
            ConfigurationError: It is empty or too long, the user's facts are full, or the fact to
                replace is missing.
            ThreadNotFoundError: The thread is not in the store.
        """
        text = " ".join(clean(text).split())
        if not 0 < len(text) <= MAX_CHARS:
            raise ConfigurationError(
                f"A fact has 1 to {MAX_CHARS:,} characters, this fact has {len(text):,}."
            )
        known = await self.facts(agent=agent, replaced=True)
        if replaces is None:
            holding = (one for one in known if one.replaced_by is None)
            same = (f for f in holding if f.text == text and f.agent in (None, agent))
            if (there := next(same, None)) is not None:
                return there
            if len(await self.facts()) >= self._most:
                raise ConfigurationError(
                    f"The memory is full: {self._most} facts are remembered. Forget some first."
                )
        else:
            before = next((one for one in known if one.id == replaces), None)
            if before is None:
                raise ConfigurationError(f"Unknown fact {replaces!r} to replace.")
            agent = before.agent
        now = self._clock()
        source = [text, agent, thread_id, replaces, key or message_id or now.isoformat()]
        digest = hashlib.blake2b(dumps(source).encode("utf-8", "replace"), digest_size=8)
        fact = Fact(
            id=digest.hexdigest(),
            tenant=self.tenant,
            user_id=self.user_id,
            text=text,
            created_at=now,
            agent=agent,
            thread_id=thread_id,
            message_id=message_id,
            replaces=replaces,
        )
        if not await self._store.add_fact(fact):
            raise ConfigurationError(f"The fact {replaces!r} was forgotten meanwhile.")
        return fact

    async def correct(self, fact_id: str, text: str) -> Fact:
        """Put another text in place of a fact; it stays with its thread and agent.

        Raises:
            ConfigurationError: The fact does not exist, or the text is empty or too long.
        """
        found = (one for one in await self.facts() if one.id == fact_id)
        fact = next(found, None)
        if fact is None:
            raise ConfigurationError(f"Unknown fact {fact_id!r}.")
        return await self.remember(
            text, agent=fact.agent, thread_id=fact.thread_id, replaces=fact_id
        )

    async def forget(self, fact_id: str) -> bool:
        """Remove a fact and those it replaced, for good; return False if there was none."""
        gone = await self._store.remove_facts(self.user_id, tenant=self.tenant, fact_id=fact_id)
        return gone > 0

    async def forget_all(self) -> int:
        """Remove all facts of the user in the tenant, for good; return how many."""
        return await self._store.remove_facts(self.user_id, tenant=self.tenant)
