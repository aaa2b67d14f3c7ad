"""Refusals of the demo's tools, and replies of its scripted model off the script."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentkit_py.cli.demo.play import DemoOptions, open_desk
from agentkit_py.cli.demo.travel import TravelData, TravelError

NORA, TOMASZ = "C-1042", "C-1077"


REFUSALS: list[tuple[Callable[[TravelData], object], str]] = [
    (lambda d: d.customer("nobody@example.com"), "No customer has the e-mail address"),
    (lambda d: d.name_of("C-1"), "There is no customer C-1."),
    (lambda d: d.payments(NORA, "INV-3244"), "There is no payment for INV-3244"),
    (lambda d: d.refund(NORA, "P-8815"), "INV-3319 is not paid twice"),
    (lambda d: d.refund(TOMASZ, "P-8802"), "There is no payment P-8802."),
    (lambda d: d.change_booking(TOMASZ, "WL-2041", "D-412"), "no confirmed booking WL-2041"),
    (lambda d: d.change_booking(NORA, "WL-2041", "D-1"), "There is no departure D-1."),
    (lambda d: d.change_booking(NORA, "WL-2041", "D-530"), "does not go where WL-2041 goes"),
    (lambda d: d.change_booking(NORA, "WL-2041", "D-412"), "only 1 of the 2 berths"),
]


@pytest.fixture
def data(tmp_path: Path) -> TravelData:
    """The data as bundled."""
    return TravelData(tmp_path / "travel.db")


@pytest.mark.parametrize(("attempt", "sentence"), REFUSALS)
def test_the_data_refuses_nonsense(
    data: TravelData, attempt: Callable[[TravelData], object], sentence: str
) -> None:
    """A sentence for the model; and nothing is changed."""
    before = (data.bookings(NORA), data.invoices(NORA))
    with pytest.raises(TravelError, match=sentence):
        attempt(data)
    assert (data.bookings(NORA), data.invoices(NORA)) == before


def test_a_payment_is_given_back_once(data: TravelData) -> None:
    """The first refund leaves the invoice paid exactly."""
    assert data.refund(NORA, "P-8802")["refund"] == "RF-8802"
    with pytest.raises(TravelError, match="was refunded already: RF-8802"):
        data.refund(NORA, "P-8802")
    with pytest.raises(TravelError, match="is not paid twice"):
        data.refund(NORA, "P-8801")


def test_a_cancelled_booking_cannot_be_changed(data: TravelData) -> None:
    """It is no confirmed booking any more."""
    data.cancel_booking(NORA, "WL-2041")
    with pytest.raises(TravelError, match="no confirmed booking WL-2041"):
        data.change_booking(NORA, "WL-2041", "D-413")


async def talk(folder: Path, *lines: str) -> list[str]:
    """Return the support desk's replies to these lines, in one thread."""
    said: list[str] = []
    with open_desk(DemoOptions(), folder / "threads.db", "t") as desk:
        for line in lines:
            run = await desk.network.run(line, thread_id="t")
            said.append(run.text)
        await desk.history.close()
        assert desk.provider is not None
        assert desk.provider.rejections == []
    return said


async def test_triage_asks_for_the_customer_and_reports_an_unknown_customer(tmp_path: Path) -> None:
    """No agent gets the customer before that."""
    said = await talk(
        tmp_path,
        "Hello, what did I book?",
        "nobody@example.com",
        "tomasz.wilk@example.com, I mean. Which booking is it?",
    )
    assert said[0].endswith("Which e-mail address did you book with?")
    assert "No customer has the e-mail address nobody@example.com" in said[1]
    assert "WL-1988, night train Oslo to Bodø, Tuesday 2 July at 23:00" in said[2]


async def test_other_questions_are_answered_from_the_data_too(tmp_path: Path) -> None:
    """The stand-in is no tape: another order of questions has other answers."""
    said = await talk(
        tmp_path,
        "ines.carvalho@example.com here. Was I charged twice?",
        "Which invoice is open?",
        "Then cancel WL-2060, please.",
        "And cancel WL-2041, it is not mine.",
        "What have I booked now?",
    )
    assert said[0] == "I checked all your invoices: each was paid exactly once."
    assert said[1] == "All your invoices are paid."
    assert said[2] == "Your booking WL-2060 is cancelled."
    assert said[3] == "This customer has no confirmed booking WL-2041."
    assert "(cancelled)" in said[4]


async def test_a_train_that_is_full_on_every_day_is_not_changed(tmp_path: Path) -> None:
    """The reply names the last refusal."""
    said = await talk(
        tmp_path,
        "nora.lindqvist@example.com. Could we take the train later?",
        "Even later, please?",
    )
    assert "I tried the next night first" in said[0]
    data = TravelData(tmp_path / "threads.db.travel-t")
    booked: list[dict[str, Any]] = data.bookings(NORA)
    assert [b["leaves"] for b in booked] == ["2030-09-14 20:35", "2030-09-15 20:10"]
