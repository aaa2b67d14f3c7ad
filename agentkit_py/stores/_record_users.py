"""Facts about users, and the counters of their spending, as records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from agentkit_py.history.users import Fact, RefusedSpending, Spending
from agentkit_py.stores.records import Record, Records, RecordViews, key
from agentkit_py.stores.rows import at_most, encode_json

_FACT, _COUNTER = "fact", "counter"
"""Kinds of records."""


class FactRecords(RecordViews):
    """Implements `FactStore`."""

    async def add_fact(self, fact: Fact) -> bool:
        encode_json(fact.to_dict(), f"The fact {fact.id!r} cannot be kept")

        def work(records: Records) -> bool:
            mine = records.find(_FACT, group=key(fact.tenant, fact.user_id))
            chains = {record.data["id"]: record.data["chain"] for record in mine}
            if fact.id in chains:
                return True
            if fact.replaces is not None and fact.replaces not in chains:
                return False
            chain = fact.id if fact.replaces is None else chains[fact.replaces]
            for record in mine:
                stored = record.data
                if stored["chain"] == chain and stored["replacedBy"] is None:
                    text = encode_json({**stored, "replacedBy": fact.id}, "The fact")
                    records.put(_FACT, replace(record, json=text))
            records.put(_FACT, _fact_record(fact, chain))
            return True

        if fact.thread_id is None:
            return await self.transact(work)
        return await self._about(fact.thread_id, work)

    async def list_facts(
        self, tenant: str, user_id: str, *, replaced: bool = False, limit: int | None = None
    ) -> list[Fact]:
        most = at_most(limit)
        group = key(tenant, user_id)
        found = await self.transact(lambda records: records.find(_FACT, group=group))
        facts = [_fact(record) for record in reversed(found)]
        return [fact for fact in facts if replaced or fact.replaced_by is None][:most]

    async def remove_facts(
        self, user_id: str, *, tenant: str | None = None, fact_id: str | None = None
    ) -> int:
        def work(records: Records) -> int:
            stored = {r.key: r.data for r in records.find(_FACT, status=key(user_id))}
            mine = {k: fact for k, fact in stored.items() if tenant in (None, fact["tenant"])}
            chains = {
                (fact["tenant"], fact["chain"])
                for fact in mine.values()
                if fact_id in (None, fact["id"])
            }
            gone = [k for k, fact in mine.items() if (fact["tenant"], fact["chain"]) in chains]
            return sum(records.delete(_FACT, key=k) for k in gone)

        return await self.transact(work)


def _fact_record(fact: Fact, chain: str) -> Record:
    stored = {
        "id": fact.id,
        "tenant": fact.tenant,
        "user": fact.user_id,
        "chain": chain,
        "replacedBy": None,
        "fact": fact.to_dict(),
    }
    return Record(
        key=key(fact.tenant, fact.user_id, fact.id),
        thread=fact.thread_id,
        group=key(fact.tenant, fact.user_id),
        status=key(fact.user_id),
        json=encode_json(stored, f"The fact {fact.id!r} cannot be kept"),
    )


def _fact(record: Record) -> Fact:
    stored = record.data
    return Fact.from_dict(
        stored["fact"],
        id=stored["id"],
        tenant=stored["tenant"],
        user_id=stored["user"],
        thread_id=record.thread,
        replaced_by=stored["replacedBy"],
    )


class SpendingRecords(RecordViews):
    """Implements `SpendingStore`."""

    async def spend(self, spendings: Sequence[Spending]) -> RefusedSpending | None:
        def work(records: Records) -> RefusedSpending | None:
            changed = dict[str, Record]()
            for spending in spendings:
                place = key(spending.scope, spending.kind, spending.period)
                known = changed.get(place) or records.get(_COUNTER, place)
                used = 0.0 if known is None else float(known.data["used"])
                total = used + spending.amount
                if spending.most is not None and total > spending.most:
                    return RefusedSpending(spending, used)
                changed[place] = _counter_record(spending, place, total)
            for spending in spendings:
                _remove_ended(records, spending)
            for record in changed.values():
                records.put(_COUNTER, record)
            return None

        return await self.transact(work)

    async def spent(self, scope: str) -> Mapping[tuple[str, str], float]:
        found = await self.transact(lambda records: records.find(_COUNTER, group=key(scope)))
        stored = [record.data for record in found]
        return {(one["kind"], one["period"]): float(one["used"]) for one in stored}

    async def remove_spending(self, scope: str) -> None:
        """Remove the counters of a scope."""
        await self.transact(lambda records: records.delete(_COUNTER, group=key(scope)))


def _counter_record(spending: Spending, place: str, used: float) -> Record:
    stored = {"kind": spending.kind, "period": spending.period, "used": used}
    return Record(
        key=place, group=key(spending.scope), json=encode_json(stored, f"The counter {place}")
    )


def _remove_ended(records: Records, spending: Spending) -> None:
    """Remove counters of earlier periods of the same length: they are not read any more."""
    if records.get(_COUNTER, key(spending.scope, spending.kind, spending.period)) is not None:
        return
    for record in records.find(_COUNTER, group=key(spending.scope)):
        stored, period = record.data, spending.period
        is_alike = stored["kind"] == spending.kind and len(stored["period"]) == len(period)
        if is_alike and stored["period"] < period:
            records.delete(_COUNTER, key=record.key)
