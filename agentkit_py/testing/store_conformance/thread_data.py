"""Checks of thread data: summaries, vectors, leases, runs and facts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from math import inf
from typing import Any

from agentkit_py.errors import HistoryError, ThreadNotFoundError
from agentkit_py.events.approvals import ApprovalAnswer, ApprovalRequest, Decision
from agentkit_py.history.mail import InboxStore, MailStore
from agentkit_py.history.questions import Question, QuestionStore
from agentkit_py.history.ratings import Rating, RatingStore
from agentkit_py.history.runs import RunRecord, RunStore
from agentkit_py.history.staff import Takeover, TakeoverStore
from agentkit_py.history.staff_desk import StaffDesk
from agentkit_py.history.users import Fact, FactStore
from agentkit_py.messages import ImageContent, TextContent, ToolCall, UserMessage
from agentkit_py.processors.base import Summary, SummaryStore
from agentkit_py.search.vectors import VectorIndex
from agentkit_py.stores import for_user
from agentkit_py.testing.store_conformance.values import fails, holds, raises, same

_SUMMARY = Summary(
    text="a\0b\ud7ff 🐟",
    covered=4,
    anchor="abc",
    tokens=5,
    original_tokens=50,
    created_at=datetime(2024, 1, 2, 3, 4, 5, 6, UTC),
)


async def a_summary_comes_back_and_a_newer_one_takes_its_place(store: Any) -> None:
    """Each key of a thread has a single summary."""
    same(await store.load_summary("t", "k"), None, "a summary that was never made")
    for summary in (_SUMMARY, replace(_SUMMARY, covered=9)):
        holds(await store.lock_summary("t", "k", "me", 60), "lock_summary")
        same(await store.load_summary("t", "other"), None, "a summary under another key")
        holds(await store.save_summary("t", "k", summary, "me"), "save_summary")
        same(await store.load_summary("t", "k"), summary, "the summary")


async def one_at_a_time_makes_a_summary(store: Any) -> None:
    """A summary's lock has a single owner until it is released or expires."""
    holds(await store.lock_summary("t", "k", "me", 60), "the first")
    holds(await store.lock_summary("t", "k", "me", 60), "the first again")
    fails(await store.lock_summary("t", "k", "you", 60), "the second")
    fails(await store.save_summary("t", "k", _SUMMARY, "you"), "saving without the lock")
    await store.unlock_summary("t", "k", "you")
    fails(await store.lock_summary("t", "k", "you", 60), "unlocked by another owner")
    await store.unlock_summary("t", "k", "me")
    holds(await store.lock_summary("t", "k", "you", 0), "after unlocking")
    holds(await store.lock_summary("t", "k", "me", 60), "after the time is over")


async def a_deleted_thread_takes_its_summaries_along(store: Any) -> None:
    """No summary of a deleted thread is left."""
    await store.add_thread("t")
    await store.lock_summary("t", "k", "me", 60)
    await store.save_summary("t", "k", _SUMMARY, "me")
    await store.delete_thread("t")
    same(await store.load_summary("t", "k"), None, "the summary")


async def the_nearest_vectors_are_found(store: Any) -> None:
    """`nearest_vectors` returns the nearest of the given ids, best first."""
    same(await store.missing_vectors("t", "k", ["a", "b"]), ["a", "b"], "missing_vectors")
    vectors = {"a": [1.0, 0.0], "b": [0.0, 2.0], "c": [3.0, 3.0]}
    await store.add_vectors("t", "k", vectors)
    await store.add_vectors("t", "k", {"a": [0.0, 1.0]})
    same(await store.missing_vectors("t", "k", ["a", "x"]), ["x"], "missing_vectors")
    same(await store.missing_vectors("t", "other", ["a"]), ["a"], "under another key")
    found = await store.nearest_vectors("t", "k", [1.0, 0.1], ["a", "b", "c"], 2)
    same([one for one, _ in found], ["a", "c"], "the nearest two")
    found = await store.nearest_vectors("t", "k", [1.0, 0.1], ["b"], 2)
    same([one for one, _ in found], ["b"], "of one")


async def a_deleted_thread_takes_its_vectors_along(store: Any) -> None:
    """No vector of a deleted thread is left."""
    await store.add_thread("t")
    await store.add_vectors("t", "k", {"a": [1.0]})
    await store.delete_thread("t")
    same(await store.missing_vectors("t", "k", ["a"]), ["a"], "missing_vectors")


async def one_run_at_a_time_has_a_thread(store: Any) -> None:
    """A thread's lease has a single owner until it is released or expires."""
    holds(await store.lock_thread("t", "me", 60), "the first")
    holds(await store.lock_thread("t", "me", 60), "the first again")
    fails(await store.lock_thread("t", "you", 60), "the second")
    holds(await store.lock_thread("other", "you", 60), "another thread")
    await store.unlock_thread("t", "you")
    fails(await store.lock_thread("t", "you", 60), "unlocked by another owner")
    await store.unlock_thread("t", "me")
    holds(await store.lock_thread("t", "you", 0), "after unlocking")
    holds(await store.lock_thread("t", "me", 60), "after the lease is over")


async def runs_in_line_come_one_after_another(store: Any) -> None:
    """A lease that ends is passed on to the first in line, and cannot be overtaken."""
    holds(await store.wait_in_line("t", "a", 60), "a free thread")
    for owner in ("b", "c", "b"):
        fails(await store.wait_in_line("t", owner, 60), owner)
    fails(await store.lock_thread("t", "d", 60), "an owner that does not wait")
    same(await store.unlock_thread("t", "c"), None, "leaving the line")
    fails(await store.wait_in_line("t", "c", 60), "at its end again")
    same(await store.unlock_thread("t", "a"), "b", "the next")
    fails(await store.lock_thread("t", "c", 60), "the second in line")
    holds(await store.lock_thread("t", "b", 0), "the next")
    fails(await store.lock_thread("t", "d", 60), "overtaking when the lease is over")
    holds(await store.lock_thread("t", "c", 60), "the first when the lease is over")
    same(await store.unlock_thread("t", "c"), None, "an empty line")


async def a_stopped_execution_gets_no_lease_and_keeps_no_notes(store: Any) -> None:
    """`stop_execution` returns the threads of its owners with their notes, in order."""
    for thread_id in ("t", "u"):
        await store.add_thread(thread_id)
    notes = {"z": {"n": 1, "s": "\0\ud800"}, "a": {}}
    holds(await store.lock_thread("t", "run/1", 60), "the lease")
    holds(await store.note_calls("t", "run/1", notes), "notes")
    holds(await store.note_calls("t", "run/1", {"z": {"n": 2}}), "a note in place of another")
    holds(await store.note_calls("u", "run/2", {"x": {}}), "notes on another thread")
    same(list(await store.notes_of("t", "run/1")), ["z", "a"], "the notes of an owner")
    await store.drop_notes("u", "run/2")
    same(dict(await store.notes_of("u", "run/2")), {}, "dropped notes")
    await store.lock_thread("u", "other/1", 60)
    fails(await store.wait_in_line("u", "run/2", 60), "a place in line")
    holds(await store.note_calls("u", "other/1", {"y": {}}), "notes of another execution")
    fails(await store.is_stopped("run"), "before")
    for _ in range(2):
        found = {one.thread_id: one for one in await store.stop_execution("run")}
        same(sorted(found), ["t", "u"], "threads")
        same((found["t"].owner, found["u"].owner), ("run/1", "run/2"), "owners")
        same(list(found["t"].notes), ["z", "a"], "keys of notes")
        same(found["t"].notes["z"], {"n": 2}, "a note")
        same(dict(found["u"].notes), {}, "no notes")
    holds(await store.is_stopped("run"), "after")
    fails(await store.lock_thread("t", "run/1", 60), "its lease again")
    fails(await store.note_calls("t", "run/1", {"q": {}}), "a note")
    same(await store.unlock_thread("t", "run/1"), None, "an empty line")
    fails(await store.wait_in_line("t", "run/3", 60), "another lease")
    holds(await store.lock_thread("t", "other/1", 60), "the thread is free")


_NOW = datetime(2024, 1, 2, 3, 4, 5, 6, UTC)
_QUESTION = Question(
    request=ApprovalRequest(
        id="q\0",
        agent="clerk",
        calls=(ToolCall("c1", "pay", {"amount": 5, "to": "a\0🐟"}),),
        message="Really?",
        timeout=(datetime(9000, 1, 1, tzinfo=UTC) - _NOW).total_seconds(),
        asked_at=_NOW,
    ),
    thread_id="t",
    run_id="m1",
    execution="run",
)


def _asked(**changes: Any) -> Question:
    """Return the question with other fields of its request."""
    return replace(_QUESTION, request=replace(_QUESTION.request, **changes))


def _close(answer: ApprovalAnswer | None) -> Callable[[Question], Question | None]:
    return lambda known: known.closed(answer, _NOW) if known.status == "open" else None


async def questions_are_kept_with_their_answers(store: Any) -> None:
    """A question is asked once, and the first answer to it counts."""
    await raises(ThreadNotFoundError, store.save_question(_QUESTION), "save_question")
    await store.add_thread("t", user_id="ada")
    same(await store.load_question("q\0"), None, "a question that was never asked")
    asked = replace(_QUESTION, user_id="ada")
    for question in (_QUESTION, _asked(message="again")):
        await store.save_question(question)
        same(await store.load_question("q\0"), asked, "the question")
        same(await store.list_questions(), [asked], "open questions")
    same(await store.change_question("nope", _close(None)), None, "a question that is not there")
    data = {"answeredBy": "boss", "n": 1}
    answer = ApprovalAnswer(approved=True, reason="ok", calls={0: Decision(False, "no")}, data=data)  # noqa: FBT003 - a decision
    closed = replace(_QUESTION.closed(answer, _NOW), user_id="ada")
    same(await store.change_question("q\0", _close(answer)), closed, "the first answer")
    same(await store.change_question("q\0", _close(None)), closed, "the second")
    same(await store.load_question("q\0"), closed, "the answer")
    same((closed.answered_by, closed.reason), ("boss", "ok"), "who and why")
    same(await store.list_questions(), [], "open questions after that")
    same((await store.thread_data("t")).questions, (closed,), "thread_data")


async def questions_are_found_by_thread_user_and_status(store: Any) -> None:
    """Open ones are those that have not expired."""
    for thread, user in (("t", "ada"), ("u", "bob"), ("v", None)):
        await store.add_thread(thread, user_id=user)
        await store.save_question(replace(_asked(id=f"q-{thread}"), thread_id=thread))
    old = _asked(id="old", timeout=0)
    await store.save_question(old)
    await store.save_question(replace(_asked(id="lasting", timeout=inf), execution=None))

    async def ids(**filters: Any) -> list[str]:
        return [question.id for question in await store.list_questions(**filters)]

    same(await ids(), ["q-t", "q-u", "q-v", "lasting"], "all that are open")
    same(await ids(status=None), ["q-t", "q-u", "q-v", "old", "lasting"], "all")
    same(await ids(limit=2), ["q-t", "q-u"], "the oldest")
    same(await ids(thread_id="t"), ["q-t", "lasting"], "those of a thread")
    same(await ids(user_id="bob"), ["q-u"], "those of a user")
    mine: Any = for_user(store, "bob")
    same([one.id for one in await mine.list_questions()], ["q-u"], "for_user")
    same(await mine.load_question("q-t"), None, "for_user and another's")
    yes = ApprovalAnswer(approved=True)
    await store.change_question("q-v", _close(yes))
    same(await ids(status="undelivered"), ["q-v"], "an answer that the run does not have yet")
    await store.stop_execution("run")
    same(await ids(status="undelivered"), [], "answers of a stopped run")
    same(await ids(status="answered"), ["q-v"], "the answer stays")
    same(await ids(), ["lasting"], "the open questions")
    same(len(await ids(status="stopped")), 3, "those of a stopped run")
    left: Any = await store.change_question("old", _close(None))
    same(left.status, "stopped", "a question of a stopped run")
    same(await mine.change_question("q-t", _close(None)), None, "for_user and another's")
    await store.delete_thread("t")
    same(await ids(status=None), ["q-u", "q-v"], "without a deleted thread")


def _unchanged(_: Takeover) -> Takeover | None:
    return None


async def staff_on_a_thread_are_kept_until_they_leave(store: Any) -> None:
    """Each change sees the previous change; a thread without staff has no row."""
    desk = StaffDesk(store)
    await raises(ThreadNotFoundError, desk.ask("t\0", "help"), "ask")
    await store.add_thread("t\0", user_id="ada")
    same(await store.load_takeover("t\0"), None, "no takeover")
    asked = await desk.ask("t\0", "a\0🐟", agent="clerk")
    same((asked.user_id, asked.status, asked.reason), ("ada", "asked", "a\0🐟"), "asked")
    same(await desk.ask("t\0", "again"), asked, "asked for once")
    for number in range(2):
        await desk.join("t\0", by=f"p\x00{number}", name=f"Mia {number}")
        await desk.join("t\0", by=f"p\x00{number}", name="again")
    found: Any = await store.load_takeover("t\0")
    same([one.name for one in found.people], ["Mia 0", "Mia 1"], "the staff on it")
    same((found.asked_by, found.asked_at), ("clerk", asked.asked_at), "who asked, and when")
    same((await store.thread_data("t\0")).takeover, found, "thread_data")
    same(await store.change_takeover("t\0", _unchanged), found, "no change")
    said = await desk.say("t\0", "Hello", by="p\x000", message_id="s1")
    await desk.say("t\0", "Hello", by="p\x000", message_id="s1")
    note = "He may keep it."
    await desk.hand_back("t\0", by="p\x000", note=note)
    await desk.hand_back("t\0", by="p\x001")
    same(await store.load_takeover("t\0"), None, "handed back")
    kept = await store.load("t\0")
    same([one.staff and one.staff.to for one in kept], ["user", "agents", "agents"], "entries")
    same((kept[0].staff, kept[0].text), (said.staff, "Hello"), "the entry")
    same(len(await store.search("hello")), 1, "the search for a reply")
    same(await store.search("keep"), [], "the search for a note")


async def staff_are_found_by_state_and_user_and_go_with_the_thread(store: Any) -> None:
    """The oldest comes first; another user's are not found."""
    desk = StaffDesk(store)
    for thread, user in (("t", "ada"), ("u", "bob"), ("v", None)):
        await store.add_thread(thread, user_id=user)
        await desk.ask(thread, "help")
    await desk.join("u", by="mia")

    async def ids(**filters: Any) -> list[str]:
        return [one.thread_id for one in await store.list_takeovers(**filters)]

    same(await ids(), ["t", "u", "v"], "all")
    same(await ids(limit=2), ["t", "u"], "the oldest")
    same((await ids(status="asked"), await ids(status="taken")), (["t", "v"], ["u"]), "by state")
    same(await ids(user_id="bob"), ["u"], "those of a user")
    mine: Any = for_user(store, "bob")
    same([one.thread_id for one in await mine.list_takeovers()], ["u"], "for_user")
    same((await mine.load_takeover("u")).people[0].id, "mia", "for_user and the user's own")
    await raises(ThreadNotFoundError, mine.load_takeover("t"), "for_user and another's")
    await store.delete_thread("t")
    await store.delete_user("bob")
    same(await ids(), ["v"], "without deleted threads")
    await store.add_thread("t", user_id="ada")
    same(await store.load_takeover("t"), None, "a recreated thread")


def _rating(thread_id: str, answer: str, score: float, comment: str = "") -> Rating:
    time = datetime(2024, 1, 2, 3, 4, 5, 6, UTC)
    return Rating(
        thread_id=thread_id, answer_id=answer, score=score, rated_at=time, comment=comment
    )


async def an_answer_has_one_rating_that_goes_with_its_thread(store: Any) -> None:
    """A later rating replaces the earlier rating; both are deleted with the thread."""
    await raises(ThreadNotFoundError, store.save_rating(_rating("t\0", "a", 1)), "no thread")
    for thread in ("t\0", "u"):
        await store.add_thread(thread, user_id="ada")
    same(await store.list_ratings(), [], "no ratings")
    first, other = _rating("t\0", "b\0", 0.5, "c\0🐟"), _rating("u", "a\0", 1)
    for rating in (_rating("t\0", "a\0", 1), first, _rating("t\0", "a\0", 0), other):
        await store.save_rating(rating)
    kept = [replace(one, user_id="ada") for one in (other, first, _rating("t\0", "a\0", 0))]
    same(await store.list_ratings(), kept, "all ratings")
    same(await store.list_ratings(thread_id="t\0"), kept[1:], "ratings of a thread")
    same(await store.list_ratings(limit=1), kept[:1], "the latest")
    found = [(one.answer_id, one.score) for one in (await store.thread_data("t\0")).ratings]
    same(found, [("a\0", 0), ("b\0", 0.5)], "thread_data")
    await store.delete_thread("t\0")
    await store.add_thread("t\0", user_id="ada")
    same(await store.list_ratings(), kept[:1], "without a deleted thread")


async def ratings_of_other_users_are_not_found(store: Any) -> None:
    """`for_user` neither finds nor replaces them."""
    for thread, user in (("t", "ada"), ("u", "bob"), ("v", None)):
        await store.add_thread(thread, user_id=user)
        await store.save_rating(_rating(thread, "a", 1))
    mine: Any = for_user(store, "bob")
    same([one.thread_id for one in await store.list_ratings(user_id="bob")], ["u"], "by user")
    same([one.thread_id for one in await mine.list_ratings()], ["u"], "for_user")
    same(await mine.list_ratings(thread_id="t"), [], "for_user and another's thread")
    same(await mine.list_ratings(user_id="ada"), [], "for_user and another user")
    await raises(ThreadNotFoundError, mine.save_rating(_rating("t", "a", 0)), "another's thread")
    await mine.save_rating(_rating("u", "a", 0))
    scores = {one.thread_id: one.score for one in await store.list_ratings()}
    same(scores, {"t": 1, "u": 0, "v": 1}, "the scores")


async def mail_is_taken_once_and_again_by_who_took_it(store: Any) -> None:
    """`take_mail` returns the oldest unclaimed mail of a box; `list_mail` claims none."""
    same(await store.take_mail("box", "me"), None, "an empty box")
    for mail_id, number in (("b", 1), ("a\0", 2), ("b", 3)):
        await store.put_mail("box", mail_id, {"n": number, "s": "\0\ud800"})
    await store.put_mail("other", "b", {})
    for taker, number in (("me", 1), ("you", 2), ("me", 1)):
        same(await store.take_mail("box", taker), {"n": number, "s": "\0\ud800"}, f"of {taker}")
    same(await store.take_mail("box", "them"), None, "mail claimed by others")
    await store.put_mail("box", "c", {"n": 4})
    await store.put_mail("box", "d\0", {"n": 5, "s": "\0"})
    mine: Any = for_user(store, "ada")
    same(await mine.take_mail("other", "x"), {}, "for_user")
    free = [("c", {"n": 4}), ("d\0", {"n": 5, "s": "\0"})]
    for one in (store, mine):
        same(list(await one.list_mail("box")), free, "unclaimed mail")
    gone = [await mine.remove_mail("box", key) for key in ("c", "c", "b", "d\0")]
    same(gone, [True, False, True, True], "the removed mail")
    same(list(await store.list_mail("box")), [], "after that")
    for thread, user in (("t\0", "ada"), ("u", "bob")):
        await store.add_thread(thread, user_id=user)
        await store.put_mail("box", thread, {"of": user}, thread_id=thread)
    with_thread = mine.put_mail("box", "x", {}, thread_id="u")
    await raises(ThreadNotFoundError, with_thread, "another user's thread")
    await store.delete_user("ada")
    same(await store.list_mail("box"), [("u", {"of": "bob"})], "with its thread deleted")


async def messages_of_an_inbox_are_taken_once_in_order_and_whole(store: Any) -> None:
    """`take_messages` claims all messages; a message that interrupts is left for the next run."""
    for thread, user in (("t", "ada"), ("u", "bob")):
        await store.add_thread(thread, user_id=user)
    picture = ImageContent("AP8=", media_type="image/png")
    first = UserMessage(
        (TextContent("a\0\ud800"), picture), "m\0", state={"k": "\0"}, client_timestamp=_NOW
    )
    second, third = UserMessage("b", "n"), UserMessage("c", "o", system_prompt="p")
    same(await store.take_messages("t", "me"), [], "an empty inbox")
    for message in (first, second, replace(first, content="again")):
        await store.put_message("t", message)
    for taker, found in (("me", [first, second]), ("you", []), ("me", [first, second])):
        same(await store.take_messages("t", taker, at_work=True), found, f"of {taker}")
    await store.put_message("t", third, interrupts=True)
    await store.put_message("t", replace(second, id="p"))
    same(await store.take_messages("t", "you", at_work=True), None, "a message that interrupts")
    same(await store.take_messages("t", "you"), [third, replace(second, id="p")], "the next run's")
    mine: Any = for_user(store, "bob")
    await mine.put_message("u", first)
    await raises(ThreadNotFoundError, mine.put_message("t", first), "another user's inbox")
    await raises(ThreadNotFoundError, mine.take_messages("t", "you"), "another user's messages")
    await raises(ThreadNotFoundError, store.put_message("none", first), "an unknown thread")
    await store.delete_user("bob")
    await store.add_thread("u", user_id="ada")
    same(await store.take_messages("u", "me"), [], "a recreated thread")


def _fact(key: str, text: str = "x", **fields: Any) -> Fact:
    owner: dict[str, Any] = {"tenant": "acme", "user_id": "ada", "created_at": _NOW, **fields}
    return Fact(id=key, text=text, **owner)


async def facts_are_kept_newest_first_and_once(store: Any) -> None:
    """A fact of an id that the user has already changes nothing; other users have their own."""
    await store.add_thread("t", user_id="ada")
    told = _fact("f\0", "a\0\ud800🐟", agent="desk", thread_id="t", message_id="m\0")
    for fact in (told, _fact("g"), replace(told, text="again")):
        holds(await store.add_fact(fact), "add_fact")
    for other in ({"tenant": "other"}, {"user_id": "bob"}):
        holds(await store.add_fact(_fact("f\0", "theirs", **other)), "add_fact of another")
    same(await store.list_facts("acme", "ada"), [_fact("g"), told], "facts")
    same(await store.list_facts("acme", "ada", limit=1), [_fact("g")], "the newest")
    same(await store.list_facts("other", "bob"), [], "facts of an unknown user")
    lost = _fact("h", thread_id="nope")
    await raises(ThreadNotFoundError, store.add_fact(lost), "a fact of no thread")
    mine: Any = for_user(store, "bob")
    same(await mine.list_facts("acme", "ada"), [], "for_user and another's")
    same(len(await mine.list_facts("acme", "bob")), 1, "for_user")
    same(await mine.remove_facts("ada"), 0, "for_user and another's")
    await raises(HistoryError, mine.add_fact(_fact("h")), "for_user and another's")
    theirs = _fact("h", user_id="bob", thread_id="t")
    await raises(ThreadNotFoundError, mine.add_fact(theirs), "for_user and another's thread")


async def a_fact_takes_the_place_of_another(store: Any) -> None:
    """Only the last fact of a chain of replacements holds; repeated writes restore no other."""
    await store.add_fact(_fact("a", user_id="bob"))
    fails(await store.add_fact(_fact("b", replaces="a")), "replacing another user's")
    for fact in (_fact("a"), _fact("b", replaces="a"), _fact("c", replaces="a")):
        holds(await store.add_fact(fact), "add_fact")
    holds(await store.add_fact(_fact("b", replaces="a")), "a repeated write")
    same(await store.list_facts("acme", "ada"), [_fact("c", replaces="a")], "the current facts")
    found = await store.list_facts("acme", "ada", replaced=True)
    same([(one.id, one.replaced_by) for one in found], [("c", None), ("b", "c"), ("a", "b")], "all")
    same(len(await store.list_facts("acme", "bob")), 1, "another user's")


async def facts_are_removed_with_thread_user_and_by_id(store: Any) -> None:
    """A fact that is removed takes along those that it replaced, and nothing of anybody else."""
    for thread in ("t", "u"):
        await store.add_thread(thread, user_id="ada")
    for whose in ({}, {"tenant": "other"}, {"user_id": "bob"}):
        for fact in (_fact("a", **whose), _fact("b", replaces="a", **whose), _fact("c", **whose)):
            await store.add_fact(fact)
    await store.add_fact(_fact("d", thread_id="t"))
    await store.add_fact(_fact("e", thread_id="u"))
    await store.delete_thread("t")
    same([one.id for one in await store.list_facts("acme", "ada")], ["e", "c", "b"], "the thread's")
    same(await store.remove_facts("ada", tenant="acme", fact_id="nope"), 0, "an unknown fact")
    same(
        await store.remove_facts("ada", tenant="acme", fact_id="b"), 2, "a fact and its predecessor"
    )
    found = await store.list_facts("acme", "ada", replaced=True)
    same([one.id for one in found], ["e", "c"], "the rest")
    same(len(await store.list_facts("other", "ada")), 2, "another tenant's")
    await store.delete_user("ada")
    for tenant in ("acme", "other"):
        same(await store.list_facts(tenant, "ada", replaced=True), [], "facts of a deleted user")
    same(len(await store.list_facts("acme", "bob")), 2, "another user's")


async def paused_runs_go_on_once(store: Any) -> None:
    """`change_run` gives a paused run to a single claimant."""
    await store.add_thread("t")
    paused = RunRecord(id="a\0", status="paused", journal={"steps": {"s\0": [1, "\ud800"]}})
    await store.save_run("t", paused)
    same(await store.load_run("t", "a\0"), paused, "a paused run")
    claimed: list[str] = []

    def claim(run: RunRecord) -> RunRecord | None:
        claimed.append(run.status)
        return replace(run, status="running") if run.status == "paused" else None

    same(await store.change_run("t", "b", claim), None, "a run that is not there")
    for _ in range(2):
        found = await store.change_run("t", "a\0", claim)
        same(found, replace(paused, status="running"), "the claimed run")
    # The database may have called it again.
    same(list(dict.fromkeys(claimed)), ["paused", "running"], "the earlier records")


async def runs_are_remembered(store: Any) -> None:
    """`load_run` returns a run by its id, or the newest with a state."""
    await store.add_thread("t")
    same(await store.load_run("t"), None, "the newest of none")
    first = RunRecord(id="a\0", status="running")
    await store.save_run("t", first)
    same(await store.load_run("t", "a\0"), first, "a running run")
    same(await store.load_run("t"), None, "the newest with a state")
    ended = replace(
        first, status="completed", state={"n": 1, "s": "\0\ud800"}, results=("r1",), stop_reason="x"
    )
    for run in (ended, RunRecord(id="b", status="running")):
        await store.save_run("t", run)
    same(await store.load_run("t", "a\0"), ended, "a run that has ended")
    same(await store.load_run("t"), ended, "the newest with a state")
    same(await store.load_run("t", "nope"), None, "a run that is not there")
    await raises(ThreadNotFoundError, store.save_run("nope", first), "save_run")


async def a_deleted_thread_takes_its_runs_along(store: Any) -> None:
    """No run and no lease of a deleted thread is left."""
    await store.add_thread("t")
    await store.save_run("t", RunRecord(id="a", status="completed", state={}))
    await store.lock_thread("t", "run/me", 60)
    await store.wait_in_line("t", "somebody", 60)
    await store.note_calls("t", "run/me", {"call": {}})
    await store.delete_thread("t")
    await store.add_thread("t")
    same(await store.load_run("t", "a"), None, "the run")
    holds(await store.lock_thread("t", "you", 60), "the lease")
    same(await store.stop_execution("run"), [], "the notes")


async def thread_data_of_other_users_is_not_found(store: Any) -> None:
    """`for_user` raises ThreadNotFoundError for runs and leases of other users' threads."""
    mine: Any = for_user(store, "me")
    await store.add_thread("t", user_id="them")
    for call in (
        mine.load_run("t"),
        mine.save_run("t", RunRecord(id="a", status="running")),
        mine.lock_thread("t", "me", 60),
    ):
        await raises(ThreadNotFoundError, call, "a call for another user's thread")


CHECKS: Mapping[type[Any], Sequence[Callable[[Any], Awaitable[None]]]] = {
    SummaryStore: (
        a_summary_comes_back_and_a_newer_one_takes_its_place,
        one_at_a_time_makes_a_summary,
        a_deleted_thread_takes_its_summaries_along,
    ),
    VectorIndex: (the_nearest_vectors_are_found, a_deleted_thread_takes_its_vectors_along),
    RunStore: (
        one_run_at_a_time_has_a_thread,
        runs_in_line_come_one_after_another,
        a_stopped_execution_gets_no_lease_and_keeps_no_notes,
        runs_are_remembered,
        a_deleted_thread_takes_its_runs_along,
        thread_data_of_other_users_is_not_found,
    ),
    QuestionStore: (
        questions_are_kept_with_their_answers,
        questions_are_found_by_thread_user_and_status,
        paused_runs_go_on_once,
    ),
    TakeoverStore: (
        staff_on_a_thread_are_kept_until_they_leave,
        staff_are_found_by_state_and_user_and_go_with_the_thread,
    ),
    RatingStore: (
        an_answer_has_one_rating_that_goes_with_its_thread,
        ratings_of_other_users_are_not_found,
    ),
    MailStore: (mail_is_taken_once_and_again_by_who_took_it,),
    InboxStore: (messages_of_an_inbox_are_taken_once_in_order_and_whole,),
    FactStore: (
        facts_are_kept_newest_first_and_once,
        a_fact_takes_the_place_of_another,
        facts_are_removed_with_thread_user_and_by_id,
    ),
}
"""The checks by the class that a store needs for them."""
