"""RedactingFilter: nothing that is masked gets into a log."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from agentkit_py import Agent, tool
from agentkit_py.processors import RedactingFilter, Redactor
from agentkit_py.testing import ScriptedModel, tool_call

MAIL = "ada@example.com"


class Lines(logging.StreamHandler[io.StringIO]):
    """A handler that keeps what it writes, and the records."""

    def __init__(self) -> None:
        super().__init__(io.StringIO())
        self.records: list[logging.LogRecord] = []
        self.setFormatter(logging.Formatter("%(name)s %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)
        super().emit(record)

    @property
    def text(self) -> str:
        return self.stream.getvalue()


@pytest.fixture
def handler() -> Iterator[Lines]:
    """A handler on the tests' logger that keeps its records."""
    made = Lines()
    log = logging.getLogger("agentkit_py.test")
    log.addHandler(made)
    log.setLevel(logging.INFO)
    yield made
    log.removeHandler(made)
    log.setLevel(logging.NOTSET)


LOG = logging.getLogger("agentkit_py.test")


def test_message_and_arguments_are_masked(handler: Lines) -> None:
    """Together: patterns see what is written."""
    handler.addFilter(RedactingFilter(["email"]))
    LOG.info("from %s at %s", "ada", "example")
    LOG.info("of %s@%s", "ada", "example.com")
    LOG.info("as %(mail)s", {"mail": MAIL})
    LOG.info(MAIL)
    names = [line.partition(" ")[2] for line in handler.text.splitlines()]
    assert names == ["from ada at example", "of [email]", "as [email]", "[email]"]
    assert handler.records[0].args == ("ada", "example")


@dataclass
class Customer:
    """An object whose text contains personal data."""

    mail: str


def test_fields_are_masked_whatever_they_are(handler: Lines) -> None:
    """Values of all types are masked in the text that JSON formatters would write."""
    handler.addFilter(RedactingFilter(["email", "card"]))
    fine = {"count": 3, "of": ["parcel"], "when": None}
    extra = {
        "mail": MAIL,
        "deep": {"to": [MAIL, 4111111111111111], MAIL: 1},
        "who": Customer(MAIL),
        "both": (MAIL, 7),
        "fine": fine,
    }
    LOG.info("hi", extra=extra)
    found: dict[str, Any] = vars(handler.records[0])
    assert found["mail"] == "[email]"
    assert found["deep"] == {"to": ["[email]", "[card]"], "[email]": 1}
    assert found["who"] == "Customer(mail='[email]')"
    assert found["both"] == ["[email]", 7]
    assert found["fine"] is fine
    assert MAIL not in json.dumps(found, default=str)


def test_exceptions_are_masked_with_their_traceback(handler: Lines) -> None:
    """The exception itself is removed, so that no later handler can write it."""
    handler.addFilter(RedactingFilter(["email"]))
    try:
        int(MAIL)
    except ValueError:
        LOG.exception("it failed", stack_info=True)
    assert "ValueError: invalid literal for int() with base 10: '[email]'" in handler.text
    assert "Traceback" in handler.text
    assert "Stack (most recent call last)" in handler.text
    assert MAIL not in handler.text
    assert handler.records[0].exc_info is None


def test_a_message_that_does_not_fit_its_arguments_is_masked_too() -> None:
    """Logging prints both in that case."""
    for args in ((MAIL,), {"mail": MAIL}):
        record = logging.LogRecord("a", 20, __file__, 1, "%d of " + MAIL, (args,), None)
        assert RedactingFilter(["email"]).filter(record)
        assert record.msg == "%d of [email]"
        assert MAIL not in repr(record.args)


def test_only_the_loggers_that_are_meant_are_masked(handler: Lines) -> None:
    """All records pass."""
    handler.addFilter(RedactingFilter(Redactor(["email"]), "other"))
    LOG.info(MAIL)
    assert MAIL in handler.text
    handler.addFilter(RedactingFilter(Redactor(["email"]), "agentkit_py"))
    LOG.info(MAIL)
    assert "[email]" in handler.text


async def test_log_lines_of_the_library_go_through_it(
    handler: Lines, make_loud: Callable[[str], None]
) -> None:
    """The figures of what the model saw, for a network whose names are personal."""
    make_loud("agentkit_py.context")

    @tool
    def find(mail: str) -> str:
        """Find."""
        return mail

    logging.getLogger("agentkit_py.context").addHandler(handler)
    handler.addFilter(RedactingFilter(["email"], "agentkit_py"))
    model = ScriptedModel(tool_call("find", {"mail": MAIL}), "Found.")
    agent = Agent(name=MAIL, system="S", model=model, tools=[find], max_iter=2)
    await agent.run("hi")
    logging.getLogger("agentkit_py.context").removeHandler(handler)
    assert "agentkit_py.context" in handler.text
    assert "[email]" in handler.text
    assert MAIL not in handler.text


@pytest.fixture
def make_loud() -> Iterator[Callable[[str], None]]:
    """Lets a logger write at INFO."""
    made: list[logging.Logger] = []

    def loud(name: str) -> None:
        made.append(logging.getLogger(name))
        made[-1].setLevel(logging.INFO)

    yield loud
    for log in made:
        log.setLevel(logging.NOTSET)
