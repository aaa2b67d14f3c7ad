"""What the demo's agents can do: one class of tools per desk, over `TravelData`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from agentkit_py.cli.demo.travel import TravelData, TravelError
from agentkit_py.tools import ToolContext

Desk: TypeAlias = Literal["billing", "bookings", "handoff"]
"""The agents that triage can hand over to."""

Tools: TypeAlias = Sequence[Callable[..., Any]]


@dataclass
class SupportState:
    """What the agents of one run share; `hand_over` fills it, the router reads it."""

    desk: Desk | None = None
    """Who answers after triage."""

    customer_id: str = ""
    customer: str = ""
    reason: str = ""
    """Why triage handed over, for whoever takes over."""


def names_of(tools: Tools) -> list[str]:
    """The names by which processors know the tools."""
    return [tool.__name__ for tool in tools]


def _customer(ctx: ToolContext) -> str:
    """The customer of this run: models name bookings and invoices, but not whose they are."""
    found: str = ctx.state.data.customer_id
    if not found:
        raise TravelError("Triage has not said who the customer is.")
    return found


class TriageTools:
    """Who is it, and who can help?"""

    def __init__(self, data: TravelData) -> None:
        self._data = data

    def find_customer(self, email: str) -> dict[str, Any]:
        """Look a customer up by e-mail address."""
        return self._data.customer(email)

    def hand_over(self, desk: Desk, customer_id: str, reason: str, ctx: ToolContext) -> str:
        """Hand the conversation over to another desk, which then answers the customer.

        Args:
            desk: Who takes over.
            customer_id: The customer, as find_customer gave it.
            reason: What the customer wants, in one sentence.
            ctx: The run.
        """
        name = self._data.name_of(customer_id)
        ctx.state.data = SupportState(desk, customer_id, name, reason)
        return f"{desk} takes over."

    @property
    def all(self) -> Tools:
        """The tools."""
        return (self.find_customer, self.hand_over)


class BillingTools:
    """Invoices, payments and refunds of the run's customer."""

    def __init__(self, data: TravelData) -> None:
        self._data = data

    def list_invoices(self, ctx: ToolContext) -> list[dict[str, Any]]:
        """List the customer's invoices: what for, how much, and how much is paid."""
        return self._data.invoices(_customer(ctx))

    def list_payments(self, invoice_id: str, ctx: ToolContext) -> list[dict[str, Any]]:
        """List the payments of one invoice; a refunded one has the refund's reference."""
        return self._data.payments(_customer(ctx), invoice_id)

    def refund_payment(self, payment_id: str, ctx: ToolContext) -> dict[str, Any]:
        """Give back a payment of an invoice that was paid twice."""
        return self._data.refund(_customer(ctx), payment_id)

    @property
    def all(self) -> Tools:
        """The tools."""
        return (self.list_invoices, self.list_payments, self.refund_payment)


class BookingTools:
    """Bookings of the run's customer, and the timetable."""

    def __init__(self, data: TravelData) -> None:
        self._data = data

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

    @property
    def all(self) -> Tools:
        """The tools."""
        return (self.find_bookings, self.find_departures, self.change_booking, self.cancel_booking)


class HandoffTools:
    """The way to a person."""

    def __init__(self, data: TravelData) -> None:
        self._data = data

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

    @property
    def all(self) -> Tools:
        """The tools."""
        return (self.create_ticket,)
