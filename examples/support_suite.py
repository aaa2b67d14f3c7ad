"""Cases for the demo's support network: ``agentkit eval support_suite:suite``.

Offline: the model is the demo's script behind a strict fake provider.
"""

from __future__ import annotations

import atexit
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from uuid import uuid4

from agentkit_py import Network, openai
from agentkit_py.cli.demo.network import support_network
from agentkit_py.cli.demo.script import QUESTIONS, scripted_model
from agentkit_py.cli.demo.travel import TravelData
from agentkit_py.evals import (
    Case,
    Suite,
    answered_by,
    called,
    contains,
    no_contamination,
    not_called,
    not_saw,
    saw,
    within,
)
from agentkit_py.processors.tokenizers import ApproximateTokenizer
from agentkit_py.testing import FakeProvider

NORA = "I am Nora, nora.lindqvist@example.com."
TOMASZ = "Tomasz here, tomasz.wilk@example.com."
INES = "This is Ines, ines.carvalho@example.com."
TWICE = f"{NORA} Was I charged twice?"
LATER = "Could we take the train one night later instead?"


@cache
def folder() -> Path:
    """Return the folder of the cases' data, which is removed when the process ends."""
    made = tempfile.TemporaryDirectory(prefix="agentkit-evals-")
    atexit.register(made.cleanup)
    return Path(made.name)


def network() -> Network:
    """Return the network with data and a model of its own, as each run of a case needs them."""
    provider = FakeProvider(scripted_model)
    model = openai("gpt-4.1", api_key="sk-demo", settings={"parallel_tool_calls": True})
    return support_network(
        TravelData(folder() / uuid4().hex),
        replace(model, transport=provider.transport),
        tokenizer=ApproximateTokenizer(),
    )


# --8<-- [start:cases]
billing, bookings, handoff = (
    answered_by("triage", desk) for desk in ("billing", "bookings", "handoff")
)

cases = [
    Case(
        name="double charge is refunded",
        input=TWICE,
        evaluators=[
            billing,
            called("refund_payment", payment_id="P-8802", times=1),
            contains("INV-3307", "€318", "1 June"),
        ],
    ),
    Case(
        name="full train: the night after",
        input=LATER,
        before=[TWICE],
        evaluators=[
            bookings,
            called("change_booking", departure="D-412"),
            called("change_booking", departure="D-413"),
            contains("Saturday 14 September", "ferry"),
        ],
    ),
    Case(
        name="billing does not see the timetable",
        input="Is there a fee for that change, and is my refund on its way?",
        before=[TWICE, LATER],
        evaluators=[billing, not_saw("billing", "find_departures"), contains("refund")],
    ),
    # --8<-- [end:cases]
    Case(
        name="wheelchair goes to a person",
        input=QUESTIONS[3],
        before=QUESTIONS[:3],
        evaluators=[handoff, called("create_ticket", priority="high"), contains("ticket")],
    ),
    Case(
        name="booking number after the change",
        input="What is my booking number, and when does the train leave?",
        before=[TWICE, LATER],
        evaluators=[bookings, contains("WL-2041", "20:35"), not_called("change_booking")],
    ),
    Case(
        name="no address: triage asks for it",
        input="Hello, where is my train?",
        evaluators=[answered_by("triage"), contains("e-mail"), not_called("hand_over")],
    ),
    Case(
        name="unknown address",
        input="I am nobody@example.com, what have I booked?",
        evaluators=[
            answered_by("triage"),
            called("find_customer", email="nobody@example.com"),
            contains("sorry"),
        ],
    ),
    Case(
        name="unknown address, then the right one",
        input=f"{TOMASZ} What have I booked?",
        before=["I am nobody@example.com, what have I booked?"],
        evaluators=[bookings, contains("WL-1988")],
    ),
    Case(
        name="one payment is no double charge",
        input=f"{TOMASZ} Was I charged twice?",
        evaluators=[billing, contains("exactly once"), not_called("refund_payment")],
    ),
    Case(
        name="one payment of a ferry is no double charge",
        input=f"{INES} Did you charge me twice?",
        evaluators=[billing, contains("exactly once"), not_called("refund_payment")],
    ),
    Case(
        name="second question about the refund pays nothing out again",
        input="Is my refund on its way?",
        before=[TWICE],
        evaluators=[billing, not_called("refund_payment"), contains("three days")],
    ),
    Case(
        name="ferry is cancelled",
        input=f"{NORA} Please cancel WL-2057.",
        evaluators=[
            bookings,
            called("cancel_booking", booking="WL-2057", times=1),
            contains("WL-2057 is cancelled"),
        ],
    ),
    Case(
        name="booking of somebody else is not cancelled",
        input=f"{TOMASZ} Please cancel WL-2041.",
        evaluators=[bookings, called("cancel_booking"), not_saw("bookings", "C-1042")],
    ),
    Case(
        name="cancelled booking is shown as such",
        input="What have I booked?",
        before=[f"{NORA} Please cancel WL-2057."],
        evaluators=[bookings, contains("WL-2057", "(cancelled)")],
    ),
    Case(
        name="person is asked for",
        input=f"{INES} I want to talk to a person.",
        evaluators=[handoff, called("create_ticket", times=1), contains("ticket")],
    ),
    Case(
        name="colleague is asked for",
        input=f"{TOMASZ} Can a colleague call me?",
        evaluators=[handoff, called("create_ticket", times=1)],
    ),
    Case(
        name="handoff knows what billing did, not how",
        input="Could a person look at it?",
        before=[TWICE],
        evaluators=[handoff, saw("handoff", "refund_payment")],
    ),
    *(
        Case(
            name=f"bookings of {name}",
            input=f"{hello} What have I booked?",
            evaluators=[bookings, called("find_bookings", times=1), contains(*numbers)],
        )
        for name, hello, numbers in (
            ("Nora", NORA, ("WL-2041", "WL-2057")),
            ("Tomasz", TOMASZ, ("WL-1988",)),
            ("Ines", INES, ("WL-2060",)),
        )
    ),
    *(
        Case(
            name=f"invoices of {name}",
            input=f"{hello} Is there an invoice that I have not paid?",
            evaluators=[billing, called("list_invoices"), not_called("refund_payment")],
        )
        for name, hello in (("Nora", NORA), ("Tomasz", TOMASZ), ("Ines", INES))
    ),
    *(
        Case(
            name=f"contact details of {name} are hidden later",
            input="And what have I booked?",
            before=[hello + " Is everything paid?"],
            evaluators=[bookings, not_saw("bookings", address)],
        )
        for name, hello, address in (
            ("Nora", NORA, "nora.lindqvist@"),
            ("Tomasz", TOMASZ, "tomasz.wilk@"),
            ("Ines", INES, "ines.carvalho@"),
        )
    ),
]


def make_suite(target: Callable[[], Network] = network) -> Suite:
    """Return the suite over a network, e.g. a changed one."""
    checks = [no_contamination(), within(inferences=12)]
    return Suite(name="support desk", target=target, cases=cases, evaluators=checks)


suite = make_suite()
