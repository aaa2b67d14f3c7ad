"""RecordStore: the base class of stores that keep all data except threads as records."""

from __future__ import annotations

from datetime import timedelta

from agentkit_py.history.ratings import Rating
from agentkit_py.history.users import spending_scope
from agentkit_py.stores._record_leases import QUESTION, RUN, LeaseRecords, run_of
from agentkit_py.stores._record_mail import MailRecords
from agentkit_py.stores._record_people import (
    TAKEOVER,
    QuestionRecords,
    TakeoverRecords,
    question_of,
    takeover_of,
)
from agentkit_py.stores._record_summaries import (
    SUMMARY,
    VECTOR,
    SummaryRecords,
    VectorRecords,
    summaries_of,
    vectors_of,
)
from agentkit_py.stores._record_users import FactRecords, SpendingRecords
from agentkit_py.stores.base import HistoryStore
from agentkit_py.stores.records import Record, Records
from agentkit_py.stores.thread_data import ThreadData
from agentkit_py.stores.thread_records import ThreadRecords, ratings_in


class RecordStore(
    LeaseRecords,
    QuestionRecords,
    TakeoverRecords,
    MailRecords,
    FactRecords,
    SpendingRecords,
    SummaryRecords,
    VectorRecords,
    ThreadRecords,
    HistoryStore,
):
    """A store with leases, approvals, staff, mail, facts, budgets, summaries and vectors.

    A store for another database is a subclass with eleven methods: the six of `HistoryStore`,
    `transact`, and the four of `Records`, which ``transact`` gives to its work. `remove_thread`
    removes the thread's records as well, with ``records.delete(None, thread=thread_id)``, in the
    same transaction.

    Times are those of the processes: the clocks of all workers have to agree within a second or
    two, or a lease ends early.
    """

    async def thread_data(self, thread_id: str) -> ThreadData:
        """Return the thread's summaries, vectors, runs, questions and staff, for exports."""
        kinds = (SUMMARY, VECTOR, RUN, QUESTION, TAKEOVER)

        def work(records: Records) -> tuple[list[list[Record]], tuple[Rating, ...]]:
            found = [records.find(kind, thread=thread_id) for kind in kinds]
            return found, ratings_in(records, thread_id)

        (summaries, vectors, runs, questions, takeovers), ratings = await self.transact(work)
        return ThreadData(
            summaries=summaries_of(summaries),
            vectors=vectors_of(vectors),
            runs=tuple(run_of(thread_id, record) for record in runs),
            questions=tuple(question_of(record) for record in questions),
            ratings=ratings,
            takeover=takeover_of(takeovers[0]) if takeovers else None,
        )

    async def clean(self, older_than: timedelta, *, most: int | None = None) -> int:
        """Delete threads that have not changed for some time, and mail whose time is over.

        Returns:
            The number of threads; see `HistoryStore.clean`.
        """
        await self.remove_ended_mail()
        return await super().clean(older_than, most=most)

    async def delete_user(self, user_id: str) -> int:
        """Remove all threads of a user with all data, facts and counters; return their number."""
        count = await super().delete_user(user_id)
        await self.remove_spending(spending_scope("user", user_id))
        return count
