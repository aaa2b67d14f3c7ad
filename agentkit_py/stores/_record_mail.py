"""Mail and the inboxes of threads, as records."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from agentkit_py._core.json import JsonObject
from agentkit_py.codec import user_message_from_dict, user_message_to_dict
from agentkit_py.history.mail import MAIL_SECONDS, inbox_name
from agentkit_py.messages import UserMessage
from agentkit_py.stores.records import Record, Records, RecordViews, key
from agentkit_py.stores.rows import encode_json

_MAIL = "mail"
"""The kind of the records."""

_FREE = key()
"""The status of mail without a taker; otherwise it is the taker's key."""


class MailRecords(RecordViews):
    """Implements `MailStore` and `InboxStore`."""

    async def put_mail(
        self, box: str, mail_id: str, content: JsonObject, *, thread_id: str | None = None
    ) -> None:
        record = _mail_record(box, mail_id, content, thread_id)
        await self.transact(lambda records: _put(records, record))

    async def take_mail(self, box: str, taker: str) -> JsonObject | None:
        found = await self.transact(lambda records: _take(records, box, taker, most=1))
        return found[0] if found else None

    async def list_mail(self, box: str) -> list[tuple[str, JsonObject]]:
        found = await self.transact(lambda records: _free(records, box))
        stored = [record.data for record in found]
        return [(mail["id"], mail["content"]) for mail in stored]

    async def remove_mail(self, box: str, mail_id: str | None = None) -> bool:
        def work(records: Records) -> int:
            if mail_id is None:
                return records.delete(_MAIL, group=key(box))
            return records.delete(_MAIL, key=key(box, mail_id))

        return await self.transact(work) > 0

    async def remove_ended_mail(self) -> None:
        """Remove the mail of all boxes whose time is over."""

        def work(records: Records) -> None:
            for record in records.find(_MAIL):
                if _is_over(record):
                    records.delete(_MAIL, key=record.key)

        await self.transact(work)

    async def put_message(
        self, thread_id: str, message: UserMessage, *, interrupts: bool = False
    ) -> None:
        content = {"message": user_message_to_dict(message), "interrupts": interrupts}
        record = _mail_record(inbox_name(thread_id), message.id or "", content, thread_id)
        await self._about(thread_id, lambda records: _put(records, record))

    async def take_messages(
        self, thread_id: str, taker: str, *, at_work: bool = False
    ) -> list[UserMessage] | None:
        def interrupts(content: JsonObject) -> bool:
            return at_work and bool(content["interrupts"])

        box = inbox_name(thread_id)
        found = await self.transact(lambda records: _take(records, box, taker, unless=interrupts))
        if found is None:
            return None
        where = f"The inbox of {thread_id!r}"
        return [user_message_from_dict(content["message"], where=where) for content in found]


def _mail_record(box: str, mail_id: str, content: JsonObject, thread_id: str | None) -> Record:
    return Record(
        key=key(box, mail_id),
        thread=thread_id,
        group=key(box),
        status=_FREE,
        until=time.time() + MAIL_SECONDS,
        json=encode_json({"id": mail_id, "content": content}, f"Mail {mail_id!r} cannot be kept"),
    )


def _put(records: Records, record: Record) -> None:
    """Add mail that is not there yet, and remove the mail of the box whose time is over."""
    for known in records.find(_MAIL, group=record.group):
        if _is_over(known):
            records.delete(_MAIL, key=known.key)
    if records.get(_MAIL, record.key) is None:
        records.put(_MAIL, record)


def _is_over(record: Record) -> bool:
    return record.until is not None and record.until <= time.time()


def _free(records: Records, box: str) -> list[Record]:
    found = records.find(_MAIL, group=key(box), status=_FREE)
    return [record for record in found if not _is_over(record)]


def _take(
    records: Records,
    box: str,
    taker: str,
    *,
    most: int | None = None,
    unless: Callable[[JsonObject], bool] = lambda _: False,
) -> list[JsonObject] | None:
    """Return the taker's mail, or give it the oldest that is free; None: some is refused."""
    mine = records.find(_MAIL, group=key(box), status=key(taker))
    if mine:
        return [record.data["content"] for record in mine[:most]]
    free = _free(records, box)[:most]
    contents: list[JsonObject] = [record.data["content"] for record in free]
    if any(map(unless, contents)):
        return None
    for record in free:
        records.put(_MAIL, replace(record, status=key(taker)))
    return contents
