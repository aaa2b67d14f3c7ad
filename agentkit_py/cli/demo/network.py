"""The demo's support network: triage, billing, bookings, and a way to a person.

Each agent sees the history that is meant for it: its own tool calls, and what everybody said,
without contact details. Read this module as the example of how such a network is written.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from agentkit_py.agent import Agent, System
from agentkit_py.cli.demo.tools import (
    BillingTools,
    BookingTools,
    HandoffTools,
    SupportState,
    Tools,
    TriageTools,
    names_of,
)
from agentkit_py.cli.demo.travel import TODAY, TravelData
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

HISTORY_TOKENS = 1000
"""As much of the conversation as any model is shown."""

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


class HideContacts(HistoryProcessor):
    """Hides e-mail addresses and phone numbers in what was said before: once is enough."""

    _CONTACT = re.compile(r"[\w.+-]+@[\w-]+\.[\w.]+\w|\+\d[\d ]{7,}\d")

    @property
    def reason(self) -> str:
        """What it does."""
        return "contact details hidden"

    async def process(
        self,
        messages: Sequence[Message],
        context: ProcessorContext,  # noqa: ARG002 - the same for every agent
    ) -> Sequence[Message]:
        """The messages, texts with contact details rewritten."""
        return [self._hidden(message) for message in messages]

    def _hidden(self, message: Message) -> Message:
        if not isinstance(message, TextMessage) or not self._CONTACT.search(message.text):
            return message
        return replace(message, content=self._CONTACT.sub("[hidden]", message.text))


def route(context: RouterContext) -> str | None:
    """Triage first; then the desk it handed over to; then the customer again."""
    if context.call_count == 0:
        return "triage"
    state: SupportState = context.network.state.data
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
) -> Network:
    """The network.

    Args:
        data: What its tools read and write.
        model: The model of all agents.
        threads: The SQLite file of its threads; None: whoever runs the network gives it a store.
        tokenizer: How reports and limits count; None: as the library does by default.
    """
    history = None
    if threads is not None:
        history = SqliteHistory(threads, processors=[TokenLimiter(HISTORY_TOKENS)])
    triage = TriageTools(data).all
    desks: dict[str, Tools] = {
        "billing": BillingTools(data).all,
        "bookings": BookingTools(data).all,
        "handoff": HandoffTools(data).all,
    }
    return Network(
        name="wayfarer-lane",
        agents=[
            Agent(
                name="triage",
                system=_TRIAGE,
                tools=triage,
                max_iter=4,
                processors=[ToolCallFilter(include=names_of(triage))],
                lifecycle=Lifecycle(on_start=stop_after_hand_over),
                token_counter=tokenizer,
            ),
            *(_desk(name, tools, tokenizer) for name, tools in desks.items()),
        ],
        router=route,
        default_model=model,
        default_state=State(SupportState()),
        history=history,
        processors=[HideContacts()],
    )


def _desk(name: str, tools: Tools, tokenizer: CustomTokenizer | None) -> Agent:
    # Whoever writes a ticket needs to know that things were done, not how: a line per call.
    seen: Processor = ToolCallFilter(include=names_of(tools))
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
