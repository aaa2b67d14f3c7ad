"""The data of Wayfarer Lane, the demo's travel company: a small SQLite file."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from importlib.resources import files
from pathlib import Path
from threading import Lock
from typing import Any

from agentkit_py.errors import ToolError

TODAY = "2030-06-04"
"""The day on which the demo takes place."""

CHANGE_FEE = 1500
"""The fee for changing a booking, in cents."""


class TravelError(ToolError):
    """A request that cannot be done; the model reads the sentence and informs the customer."""


class TravelData:
    """Customers, departures, bookings, invoices, payments and tickets in a file.

    Args:
        path: The file; it is created from the bundled data at the first use.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._making = Lock()

    @contextmanager
    def _open(self) -> Generator[sqlite3.Connection, None, None]:
        # A connection per call: tools run in worker threads, and two processes use the file.
        with self._making:
            if not self.path.exists():
                _make(self.path)
        with closing(sqlite3.connect(self.path)) as db:
            db.row_factory = sqlite3.Row
            yield db

    @contextmanager
    def _change(self) -> Generator[sqlite3.Connection, None, None]:
        with self._open() as db, db:
            # The checks must still hold at the write, also if two calls run together.
            db.execute("BEGIN IMMEDIATE")
            yield db

    def customer(self, email: str) -> dict[str, Any]:
        """Return the customer with this e-mail address."""
        with self._open() as db:
            return _one(
                db.execute("SELECT * FROM customers WHERE email = ?", (email.strip().lower(),)),
                f"No customer has the e-mail address {email}.",
            )

    def name_of(self, customer_id: str) -> str:
        """Return the name of a customer."""
        with self._open() as db:
            found = db.execute("SELECT name FROM customers WHERE id = ?", (customer_id,))
            return _one(found, f"There is no customer {customer_id}.")["name"]

    def bookings(self, customer_id: str) -> list[dict[str, Any]]:
        """Return a customer's bookings with their departures."""
        query = """
            SELECT b.id AS booking, line, origin, destination, leaves, arrives, travellers, status
            FROM bookings b JOIN departures d ON d.id = b.departure_id
            WHERE customer_id = ? ORDER BY leaves
        """
        with self._open() as db:
            return [dict(row) for row in db.execute(query, (customer_id,))]

    def departures(
        self, origin: str, destination: str, first_day: str, last_day: str
    ) -> list[dict[str, Any]]:
        """Return the timetable between two places, without the number of berths left."""
        query = """
            SELECT id AS departure, line, leaves, arrives FROM departures
            WHERE origin = ? AND destination = ? AND date(leaves) BETWEEN ? AND ? ORDER BY leaves
        """
        with self._open() as db:
            rows = db.execute(query, (origin, destination, first_day, last_day))
            return [dict(row) for row in rows]

    def change_booking(
        self, customer_id: str, booking_id: str, departure_id: str
    ) -> dict[str, Any]:
        """Move a booking to another departure of the same line, for a fee."""
        with self._change() as db:
            booking = _booking(db, customer_id, booking_id)
            target = _one(
                db.execute("SELECT * FROM departures WHERE id = ?", (departure_id,)),
                f"There is no departure {departure_id}.",
            )
            if (target["origin"], target["destination"]) != (
                booking["origin"],
                booking["destination"],
            ):
                raise TravelError(f"{departure_id} does not go where {booking_id} goes.")
            travellers, left = booking["travellers"], target["berths_left"]
            if left < travellers:
                raise TravelError(
                    f"{departure_id} has only {left} of the {travellers} berths that "
                    f"{booking_id} needs."
                )
            invoice = _move(db, booking, target)
            after = _booking(db, customer_id, booking_id)
        shown = {
            name: after[name] for name in ("line", "origin", "destination", "leaves", "arrives")
        }
        return {"booking": booking_id, **shown, "fee": money(CHANGE_FEE), "invoice": invoice}

    def cancel_booking(self, customer_id: str, booking_id: str) -> dict[str, Any]:
        """Cancel a booking and give its berths back."""
        with self._change() as db:
            booking = _booking(db, customer_id, booking_id)
            _give_back(db, booking)
            db.execute("UPDATE bookings SET status = 'cancelled' WHERE id = ?", (booking_id,))
        return {"booking": booking_id, "status": "cancelled"}

    def invoices(self, customer_id: str) -> list[dict[str, Any]]:
        """Return a customer's invoices and how much of each is paid."""
        query = """
            SELECT i.id AS invoice, booking_id AS booking, purpose, i.cents,
                   coalesce((SELECT sum(p.cents) FROM payments p
                             WHERE p.invoice_id = i.id AND refund IS NULL), 0) AS paid
            FROM invoices i JOIN bookings b ON b.id = i.booking_id
            WHERE customer_id = ? ORDER BY i.id
        """
        with self._open() as db:
            rows = [dict(row) for row in db.execute(query, (customer_id,))]
        return [
            {**_without_cents(row), "amount": money(row["cents"]), "paid": money(row["paid"])}
            for row in rows
        ]

    def payments(self, customer_id: str, invoice_id: str) -> list[dict[str, Any]]:
        """Return the payments of an invoice, including refunded payments."""
        query = """
            SELECT p.id AS payment, p.cents, paid_on, refund
            FROM payments p JOIN invoices i ON i.id = p.invoice_id
            JOIN bookings b ON b.id = i.booking_id
            WHERE customer_id = ? AND i.id = ? ORDER BY p.id
        """
        with self._open() as db:
            rows = [dict(row) for row in db.execute(query, (customer_id, invoice_id))]
        if not rows:
            raise TravelError(f"There is no payment for {invoice_id} by this customer.")
        return [{**_without_cents(row), "amount": money(row["cents"])} for row in rows]

    def refund(self, customer_id: str, payment_id: str) -> dict[str, Any]:
        """Refund a payment, if its invoice stays paid without it."""
        query = """
            SELECT p.cents, p.refund, i.id AS invoice, i.cents AS due,
                   (SELECT sum(o.cents) FROM payments o
                    WHERE o.invoice_id = i.id AND o.refund IS NULL) AS paid
            FROM payments p JOIN invoices i ON i.id = p.invoice_id
            JOIN bookings b ON b.id = i.booking_id
            WHERE customer_id = ? AND p.id = ?
        """
        with self._change() as db:
            found = _one(
                db.execute(query, (customer_id, payment_id)), f"There is no payment {payment_id}."
            )
            if found["refund"] is not None:
                raise TravelError(f"{payment_id} was refunded already: {found['refund']}.")
            if found["paid"] - found["cents"] < found["due"]:
                raise TravelError(f"{found['invoice']} is not paid twice; a person must decide.")
            reference = f"RF-{payment_id.removeprefix('P-')}"
            db.execute("UPDATE payments SET refund = ? WHERE id = ?", (reference, payment_id))
        return {"refund": reference, "payment": payment_id, "amount": money(found["cents"])}

    def add_ticket(
        self, customer_id: str, subject: str, details: str, priority: str
    ) -> dict[str, Any]:
        """Leave a ticket for the people at the service desk."""
        with self._change() as db:
            number = db.execute("SELECT 501 + count(*) FROM tickets").fetchone()[0]
            row = (f"T-{number}", customer_id, subject, details, priority)
            db.execute("INSERT INTO tickets VALUES (?, ?, ?, ?, ?)", row)
        answer_within = "1 hour" if priority == "high" else "1 day"
        return {"ticket": f"T-{number}", "priority": priority, "answer_within": answer_within}


def _make(path: Path) -> None:
    script = files("agentkit_py.cli.demo").joinpath("travel.sql").read_text(encoding="utf-8")
    with closing(sqlite3.connect(path)) as db:
        db.executescript(f"BEGIN; {script} COMMIT;")


def money(cents: int) -> str:
    """Return an amount in euros as text."""
    return f"€{cents / 100:.2f}"


def _without_cents(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "cents"}


def _one(found: sqlite3.Cursor, otherwise: str) -> dict[str, Any]:
    row = found.fetchone()
    if row is None:
        raise TravelError(otherwise)
    return dict(row)


def _booking(db: sqlite3.Connection, customer_id: str, booking_id: str) -> dict[str, Any]:
    query = """
        SELECT b.*, line, origin, destination, leaves, arrives
        FROM bookings b JOIN departures d ON d.id = b.departure_id
        WHERE b.id = ? AND customer_id = ? AND status = 'confirmed'
    """
    found = db.execute(query, (booking_id, customer_id))
    return _one(found, f"This customer has no confirmed booking {booking_id}.")


def _move(db: sqlite3.Connection, booking: dict[str, Any], target: dict[str, Any]) -> str:
    """Move the booking and charge the fee; return the invoice."""
    _give_back(db, booking)
    db.execute(
        "UPDATE departures SET berths_left = berths_left - ? WHERE id = ?",
        (booking["travellers"], target["id"]),
    )
    db.execute("UPDATE bookings SET departure_id = ? WHERE id = ?", (target["id"], booking["id"]))
    last = db.execute("SELECT max(CAST(substr(id, 5) AS INTEGER)) FROM invoices").fetchone()[0]
    invoice = f"INV-{last + 1}"
    purpose = f"Change of {booking['id']} to {target['leaves'][:10]}"
    db.execute(
        "INSERT INTO invoices VALUES (?, ?, ?, ?)", (invoice, booking["id"], purpose, CHANGE_FEE)
    )
    return invoice


def _give_back(db: sqlite3.Connection, booking: dict[str, Any]) -> None:
    db.execute(
        "UPDATE departures SET berths_left = berths_left + ? WHERE id = ?",
        (booking["travellers"], booking["departure_id"]),
    )
