"""The guide's table of failures: each row names what a test shows."""

from __future__ import annotations

from pathlib import Path

HELD = {
    "Function: the worker dies before a call acts": "durable/test_kills.py::"
    "test_a_kill_anywhere_changes_nothing",
    "Function: the worker dies after a call has acted": "durable/test_small_states.py::"
    "test_a_call_holds_whatever_happens_once",
    "Function: the same, and the run is cancelled": "durable/test_small_states.py::"
    "test_a_fault_that_is_put_back_is_found",
    "The task or scope of a direct run is cancelled": "engine/test_what_was_done.py::"
    "test_a_run_that_is_cancelled_in_its_first_call_keeps_the_reply",
    "The API, an event or the dashboard cancels": "durable/test_stopping.py::"
    "test_a_run_that_is_stopped_anywhere_frees_its_thread",
    "A tool's error ends the run": "engine/test_what_was_done.py::"
    "test_the_next_message_reads_the_calls_of_a_failed_run",
    "Function: the store fails before a call acts": "durable/test_small_states.py::"
    "test_a_small_program_holds_whatever_happens",
    "Function: the store fails after a call has acted": "durable/test_what_was_done.py::"
    "test_a_call_whose_end_cannot_be_noted_is_made_once",
    "The store fails when results are saved": "durable/test_errors.py::"
    "test_a_store_that_fails_for_a_moment_gets_its_rows_once",
    "The same message is delivered again": "durable/test_one_message.py::"
    "test_a_message_that_comes_again_while_its_run_waits_is_answered_once",
    "Function: the same, and its run was away": "durable/test_taken_over.py::"
    "test_a_run_whose_message_another_run_took_over_makes_no_more_calls",
    "Another text comes under an answered message's id": "engine/test_message_ids.py::"
    "test_another_text_under_an_answered_messages_id_is_a_conflict",
    "Nobody answers in time": "durable/test_questions.py::test_an_unanswered_question_expires",
    "A second person answers": "durable/test_questions.py::test_answer_question_answers_a_run_once",
    "An answer's event is lost": "durable/test_questions.py::"
    "test_an_answer_that_could_not_be_sent_is_sent_by_the_next_look",
    "A deploy that the run can go on with": "durable/test_deploys.py::"
    "test_deploys_in_the_middle_of_a_run_double_nothing",
    "A deploy that it cannot go on with": "durable/test_what_was_done.py::"
    "test_calls_of_a_run_that_ends_before_it_makes_them_are_in_the_thread",
    "A router, hook, processor or guardrail fails": "devserver/test_ends.py::"
    "test_a_router_that_a_cancellation_of_its_own_leaves_fails_the_run_once",
    "Function: a router decides otherwise in each replay": "devserver/test_storms.py::"
    "test_in_a_storm_the_thread_says_what_the_ledger_has",
    "The state that a program passes is no JSON": "engine/test_what_was_done.py::"
    "test_a_state_that_is_no_json_is_refused_before_a_model_is_asked",
    "The thread is deleted meanwhile": "engine/test_deleted_threads.py::"
    "test_the_run_ends_with_one_clear_line",
}
"""The beginnings of rows, each with the test that shows it."""

NOT_SHOWN = "A process dies with a direct run in it"
"""The row that says what is lost: no test could find it again."""


def test_each_row_of_the_table_of_failures_has_a_test_that_exists(root: Path) -> None:
    """A row that nobody checks would be a promise by word only."""
    guide = (root / "docs/guides/errors.md").read_text(encoding="utf-8")
    table = guide.partition("| What happens |")[2].partition("\n\n")[0]
    rows = [line.split("|")[1].strip() for line in table.splitlines()[2:]]
    assert len(rows) == len(HELD) + 1
    for beginning in (*HELD, NOT_SHOWN):
        assert sum(row.startswith(beginning) for row in rows) == 1, beginning
    for test in HELD.values():
        file, name = test.split("::")
        assert f"def {name}(" in (root / "tests" / file).read_text(encoding="utf-8"), test
