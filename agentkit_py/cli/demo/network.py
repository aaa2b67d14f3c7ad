"""The demo's support network: triage, billing, bookings, and a way to a person.

Each agent sees the history that is meant for it: its own tool calls, and all texts without contact
details. This module is an example of how such a network is written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

from agentkit_py.agent import Agent, System
from agentkit_py.cli.demo.travel import TODAY, TravelData, TravelError
from agentkit_py.lifecycle import AgentContext, Lifecycle, Start, StartContext
from agentkit_py.messages import Message, TextMessage
from agentkit_py.models.base import Model
from agentkit_py.network import Network
from agentkit_py.processors.base import HistoryProcessor, Processor, ProcessorContext
from agentkit_py.processors.tokenizers import CustomTokenizer
from agentkit_py.processors.tool_results import ToolCallFilter
from agentkit_py.processors.windowing import TokenLimiter
from agentkit_py.routing import RouterContext
from agentkit_py.state import State
from agentkit_py.stores.sqlite import SqliteHistory
from agentkit_py.tools import ToolContext

HandoffTarget: TypeAlias = Literal["billing", "bookings", "handoff"]
"""The agents that triage can hand over to."""

Tools: TypeAlias = Sequence[Callable[..., Any]]

HISTORY_TOKENS = 1000
"""Tokens of the conversation that any model sees at most."""

_HOUSE = f"Wayfarer Lane sells night trains and ferries in northern Europe. Today is {TODAY}."

_TRIAGE = f"""You are triage at the support desk of Wayfarer Lane. {_HOUSE}
Find out who the customer is (find_customer) and what they want, then hand over (hand_over):
billing knows invoices, payments and refunds; bookings finds, changes and cancels bookings; handoff
is the way to a person, for whatever the others cannot do. Hand over every question about a
journey or money, follow-up questions too; do not answer it yourself."""

_DESKS = {
    "billing": "You look after invoices, payments and refunds. Look before you refund.",
    "bookings": """You find, change and cancel bookings. If a departure is full, try the next one
that suits the customer.""",
    "handoff": """You leave a ticket for a colleague with everything they need to know
(create_ticket), and tell the customer what happens next.""",
}


@dataclass
class SupportState:
    """State that the agents of a run share; `hand_over` fills it, the router reads it."""

    desk: HandoffTarget | None = None
    """The agent that answers after triage."""

    customer_id: str = ""
    customer: str = ""
    reason: str = ""
    """Why triage handed over, for the next agent."""


def _customer(ctx: ToolContext) -> str:
    """Return the run's customer: models name bookings and invoices, but not whose they are."""
    found: str = ctx.state.data.customer_id
    if not found:
        raise TravelError("Triage has not identified the customer.")
    return found


class SupportTools:
    """The tools of all agents, over the travel company's data."""

    def __init__(self, data: TravelData) -> None:
        self._data = data
        self.of: dict[str, Tools] = {
            "triage": (self.find_customer, self.hand_over),
            "billing": (self.list_invoices, self.list_payments, self.refund_payment),
            "bookings": (
                self.find_bookings,
                self.find_departures,
                self.change_booking,
                self.cancel_booking,
            ),
            "handoff": (self.create_ticket,),
        }

    def find_customer(self, email: str) -> dict[str, Any]:
        """Look a customer up by e-mail address."""
        return self._data.customer(email)

    def hand_over(
        self, desk: HandoffTarget, customer_id: str, reason: str, ctx: ToolContext
    ) -> str:
        """Hand the conversation over to another desk, which then answers the customer.

        Args:
            desk: The desk.
            customer_id: The customer, as find_customer gave it.
            reason: The customer's request, in a sentence.
            ctx: The run.
        """
        name = self._data.name_of(customer_id)
        ctx.state.data = SupportState(desk, customer_id, name, reason)
        return f"{desk} takes over."

    def list_invoices(self, ctx: ToolContext) -> list[dict[str, Any]]:
        """List the customer's invoices: purpose, amount and payments."""
        return self._data.invoices(_customer(ctx))

    def list_payments(self, invoice_id: str, ctx: ToolContext) -> list[dict[str, Any]]:
        """List the payments of an invoice, with the references of refunds."""
        return self._data.payments(_customer(ctx), invoice_id)

    def refund_payment(self, payment_id: str, ctx: ToolContext) -> dict[str, Any]:
        """Give back a payment of an invoice that was paid twice."""
        return self._data.refund(_customer(ctx), payment_id)

    def find_bookings(self, ctx: ToolContext) -> list[dict[str, Any]]:
        """List the customer's bookings with their departures."""
        return self._data.bookings(_customer(ctx))

    def find_departures(
        self, origin: str, destination: str, first_day: str, last_day: str
    ) -> list[dict[str, Any]]:
        """Read the timetable. Free berths are only known when a booking is changed.

        Args:
            origin: City, e.g. Hamburg.
            destination: City.
            first_day: YYYY-MM-DD.
            last_day: YYYY-MM-DD.
        """
        return self._data.departures(origin, destination, first_day, last_day)

    def change_booking(self, booking: str, departure: str, ctx: ToolContext) -> dict[str, Any]:
        """Move a booking to another departure of the same line. It costs a fee."""
        return self._data.change_booking(_customer(ctx), booking, departure)

    def cancel_booking(self, booking: str, ctx: ToolContext) -> dict[str, Any]:
        """Cancel a booking."""
        return self._data.cancel_booking(_customer(ctx), booking)

    def create_ticket(
        self,
        subject: str,
        details: str,
        ctx: ToolContext,
        priority: Literal["normal", "high"] = "normal",
    ) -> dict[str, Any]:
        """Leave a ticket for a colleague, who will get back to the customer.

        Args:
            subject: What it is about, in a few words.
            details: Everything the colleague needs to know.
            ctx: The run.
            priority: high where the journey depends on it.
        """
        return self._data.add_ticket(_customer(ctx), subject, details, priority)


class HideContacts(HistoryProcessor):
    """Hides e-mail addresses and phone numbers in earlier messages."""

    _CONTACT = re.compile(r"[\w.+-]+@[\w-]+\.[\w.]+\w|\+\d[\d ]{7,}\d")

    @property
    def reason(self) -> str:
        """The reason in reports."""
        return "contact details hidden"

    async def process(
        self,
        messages: Sequence[Message],
        context: ProcessorContext,
    ) -> Sequence[Message]:
        """Rewrite texts with contact details."""
        return [self._hidden(message) for message in messages]

    def _hidden(self, message: Message) -> Message:
        if not isinstance(message, TextMessage) or not self._CONTACT.search(message.text):
            return message
        return replace(message, content=self._CONTACT.sub("[hidden]", message.text))


def route(context: RouterContext) -> str | None:
    """Triage first; then the agent it handed over to; then the customer again."""
    state: SupportState = context.network.state.data
    if context.call_count == 0:
        state.desk = None  # the state is the thread's: triage decides again about each message
        return "triage"
    last = context.last_result
    return state.desk if last is not None and last.agent_name == "triage" else None


def stop_after_hand_over(context: StartContext) -> Start | None:
    """End triage's turn once it has handed over: the other desk talks to the customer."""
    state: SupportState = context.state.data
    return Start(context.prompt, context.history, stop=True) if state.desk else None


def support_network(
    data: TravelData,
    model: Model,
    *,
    threads: Path | None = None,
    tokenizer: CustomTokenizer | None = None,
) -> Network[Any, Any]:
    """Return the network; without a file for threads it gets its store later."""
    history = None
    if threads is not None:
        history = SqliteHistory(threads, processors=[TokenLimiter(HISTORY_TOKENS)])
    tools = SupportTools(data).of
    return Network(
        name="wayfarer-lane",
        agents=[
            Agent(
                name="triage",
                system=_TRIAGE,
                tools=tools["triage"],
                max_iter=4,
                processors=[ToolCallFilter(include="own")],
                lifecycle=Lifecycle(on_start=stop_after_hand_over),
                token_counter=tokenizer,
            ),
            *(_desk(name, tools[name], tokenizer) for name in _DESKS),
        ],
        router=route,
        default_model=model,
        default_state=State(SupportState()),
        history=history,
        processors=[HideContacts()],
    )


def _desk(name: str, tools: Tools, tokenizer: CustomTokenizer | None) -> Agent[Any, Any]:
    # A ticket needs to say that things were done, not how: a line per call.
    seen: Processor = ToolCallFilter(include="own")
    if name == "handoff":
        seen = ToolCallFilter(persist_results=True)
    return Agent(
        name=name,
        system=_system(name),
        tools=tools,
        max_iter=8,
        parallel_tools=True,
        processors=[seen],
        token_counter=tokenizer,
    )


def _system(name: str) -> System:
    def system(context: AgentContext) -> str:
        state: SupportState = context.state.data
        return (
            f"You are {name} at the support desk of Wayfarer Lane. {_HOUSE}\n{_DESKS[name]}\n"
            "Answer in a few friendly sentences, and only what you know from your tools or from "
            f"the conversation.\nThe customer is {state.customer}. Triage says: {state.reason}"
        )

    return system
