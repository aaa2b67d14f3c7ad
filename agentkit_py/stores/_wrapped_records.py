"""Records as a store of one user has them, and records that are masked when they are written."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from agentkit_py.errors import HistoryError
from agentkit_py.stores.records import Record, Records, key
from agentkit_py.stores.rows import encode_json
from agentkit_py.stores.thread_records import UNMASKED


class _OtherRecords(Records):
    """The records of a store, passed on."""

    def __init__(self, records: Records) -> None:
        self._records = records

    def get(self, kind: str, key: str) -> Record | None:
        return self._records.get(kind, key)

    def put(self, kind: str, record: Record) -> None:
        self._records.put(kind, record)

    def find(
        self,
        kind: str,
        *,
        thread: str | None = None,
        group: str | None = None,
        status: str | None = None,
        last: int | None = None,
    ) -> list[Record]:
        return self._records.find(kind, thread=thread, group=group, status=status, last=last)

    def delete(
        self,
        kind: str | None,
        *,
        key: str | None = None,
        thread: str | None = None,
        group: str | None = None,
    ) -> int:
        return self._records.delete(kind, key=key, thread=thread, group=group)


class OwnRecords(_OtherRecords):
    """The records of a user: those whose group is the user's id."""

    def __init__(self, records: Records, user_id: str) -> None:
        super().__init__(records)
        self._group = key(user_id)

    def get(self, kind: str, key: str) -> Record | None:
        record = super().get(kind, key)
        return record if record is not None and record.group == self._group else None

    def put(self, kind: str, record: Record) -> None:
        """Add or replace a record of the user.

        Raises:
            HistoryError: It is another user's, or takes the place of another user's record.
        """
        known = super().get(kind, record.key)
        replaced = self._group if known is None else known.group
        if not record.group == replaced == self._group:
            raise HistoryError(f"The record {record.key} of kind {kind!r} is of another user.")
        super().put(kind, record)

    def find(
        self,
        kind: str,
        *,
        thread: str | None = None,
        group: str | None = None,
        status: str | None = None,
        last: int | None = None,
    ) -> list[Record]:
        if group not in (None, self._group):
            return []
        return super().find(kind, thread=thread, group=self._group, status=status, last=last)

    def delete(
        self,
        kind: str | None,
        *,
        key: str | None = None,
        thread: str | None = None,
        group: str | None = None,
    ) -> int:
        if kind is None:  # the store removes them with their thread, which may be another user's
            return 0
        found = self.find(kind, thread=thread, group=group)
        keys = [record.key for record in found if key in (None, record.key)]
        return sum(super(OwnRecords, self).delete(kind, key=one) for one in keys)


class MaskedRecords(_OtherRecords):
    """Records that are masked when they are written, except the members in `UNMASKED`."""

    def __init__(self, records: Records, mask: Callable[[Any], Any]) -> None:
        super().__init__(records)
        self._mask = mask

    def put(self, kind: str, record: Record) -> None:
        plain, stored = UNMASKED.get(kind, frozenset[str]()), json.loads(record.json)
        masked = self._mask({name: one for name, one in stored.items() if name not in plain})
        unmasked = {name: stored[name] for name in plain & stored.keys()}
        text = encode_json({**masked, **unmasked}, f"The record {record.key} cannot be saved")
        super().put(kind, replace(record, json=text))
