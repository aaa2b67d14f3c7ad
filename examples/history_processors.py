"""The code of docs/guides/history-processors.md."""

# ruff: noqa: E402 - each section shows its own imports

# --8<-- [start:levels]
import asyncio

from agentkit_py import Agent, Network, SqliteHistory, TokenLimiter, ToolCallFilter, tool
from agentkit_py.testing import ScriptedModel, tool_call


@tool
def list_invoices(customer: str) -> list[str]:
    """List a customer's invoices."""
    return [f"{customer}-1", f"{customer}-2"]


billing = Agent(
    name="billing",
    system="You answer questions on invoices.",
    tools=[list_invoices],
    max_iter=5,
    processors=[ToolCallFilter(include="own")],  # 3. this agent
)
concierge = Agent(
    name="concierge",
    system="You say goodbye.",
    processors=[ToolCallFilter()],  # 3. this one sees no tool calls at all
)
model = ScriptedModel(tool_call("list_invoices", {"customer": "ada"}), "There are two.", "Goodbye.")
network = Network(
    name="support",
    agents=[billing, concierge],
    router=lambda ctx: [[billing], [concierge], []][ctx.call_count],
    default_model=model,
    history=SqliteHistory("support.db", processors=[TokenLimiter(100_000)]),  # 1. the store
    processors=[TokenLimiter(16_000)],  # 2. the network
)
# --8<-- [end:levels]

# --8<-- [start:own]
from collections.abc import Sequence
from dataclasses import replace

from agentkit_py import HistoryProcessor, Message, TextMessage
from agentkit_py.processors import ProcessorContext


class HideNumbers(HistoryProcessor):
    """Hides card numbers from everybody but billing."""

    @property
    def reason(self) -> str:
        """The reason in reports."""
        return "card numbers hidden"

    async def process(
        self, messages: Sequence[Message], context: ProcessorContext
    ) -> Sequence[Message]:
        """A new list; messages are replaced, never changed."""
        if context.agent == "billing":
            return messages
        return [
            replace(message, content=message.text.replace("4111 1111 1111 1111", "[card]"))
            if isinstance(message, TextMessage)
            else message
            for message in messages
        ]


def newest_twenty(messages: Sequence[Message]) -> Sequence[Message]:
    """A plain function will do, too."""
    return messages[-20:]


careful = Agent(name="careful", system="…", processors=[HideNumbers(), newest_twenty])
# --8<-- [end:own]

# --8<-- [start:chosen]
from agentkit_py import State
from agentkit_py.lifecycle import AgentContext
from agentkit_py.processors import MessageWindow, Processor


def policy(context: AgentContext) -> list[Processor]:
    """Customers of the free plan are sent less; the tenant is `tenant` of the state's data."""
    return [MessageWindow(2)] if context.tenant == "free" else []


plans = Agent(name="plans", system="You help.", processors=policy)
# --8<-- [end:chosen]

# --8<-- [start:apply]
from agentkit_py.messages import ToolCall, ToolCallMessage, ToolResultMessage
from agentkit_py.processors import apply_processors

call = ToolCall("call_1", "search", {"query": "parcel 17"})
history: list[Message] = [
    TextMessage("user", "Where is parcel 17?"),
    ToolCallMessage([call]),
    ToolResultMessage(call, {"data": "Linz"}),
    TextMessage("assistant", "It is in Linz."),
]


async def by_hand() -> None:
    """Processors are ordinary objects: try them on a list of messages."""
    left = await apply_processors(history, [ToolCallFilter(), newest_twenty])
    assert [message.type for message in left] == ["text", "text"]

    told = await apply_processors(history, [ToolCallFilter(persist_results=True)])
    assert isinstance(told[1], TextMessage)
    assert told[1].text == "Used **search** tool"
    # --8<-- [end:apply]


# --8<-- [start:limiter]
from agentkit_py.processors import ApproximateTokenizer

limiters = [
    TokenLimiter(8_000),  # tiktoken's o200k_base, or an estimate where it cannot be loaded
    TokenLimiter(8_000, encoding="cl100k_base"),  # another encoding of tiktoken
    TokenLimiter(8_000, use_tiktoken=False),  # always the estimate
    TokenLimiter(8_000, tokenizer=ApproximateTokenizer(chars_per_token=3)),
    TokenLimiter(8_000, tokenizer=lambda text: len(text.split())),  # your own way of counting
]
# --8<-- [end:limiter]

# --8<-- [start:on_start]
from agentkit_py import Lifecycle
from agentkit_py.lifecycle import Start, StartContext


def with_a_hint(ctx: StartContext) -> Start:
    """Runs after all processors, before each inference; sees the prompt, too."""
    hint = TextMessage("system", "Answer in one sentence.")
    return Start(prompt=[*ctx.prompt[:1], hint, *ctx.prompt[1:]], history=ctx.history)


brief = Agent(name="brief", system="You are helpful.", lifecycle=Lifecycle(on_start=with_a_hint))
# --8<-- [end:on_start]


# --8<-- [start:report]
async def main() -> None:
    """Run the network, and see what each agent saw."""
    run = await network.run("What do I owe you?")
    for report in run.context:  # one for each model call
        print(f"{report.agent}: {len(report.history)} messages, {report.tokens_before} tokens")
        for entry in report.entries:  # one for each processor
            print(f"  {entry.level}: {entry.name} {entry.messages_before}->{entry.messages_after}")
            print(f"  calls removed: {entry.tool_call_ids}, because: {entry.reason}")
        print(f"  sent with the prompt: {len(report.sent)}, {report.tokens_after} tokens")
    # --8<-- [end:report]
    model.assert_not_saw("list_invoices")
    model.assert_finished()
    await by_hand()
    answer = ScriptedModel("Yes.")
    await brief.run("Is it open?", model=answer)
    answer.assert_saw("You are helpful.", "Answer in one sentence.", "Is it open?")
    await careful.run("Hello", model=ScriptedModel("Hello."))
    state = State({"tenant": "free"}, messages=history)
    result = await plans.run("Hello", state=state, model=ScriptedModel("Hello."))
    assert result.context is not None
    assert result.context.entries[0].name == "MessageWindow"


if __name__ == "__main__":
    asyncio.run(main())
