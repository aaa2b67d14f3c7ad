"""The code of docs/guides/tracing.md."""

# ruff: noqa: E402 - each section shows its own imports

# --8<-- [start:setup]
import asyncio

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

from agentkit_py import Agent, Network, ToolContext
from agentkit_py.testing import ScriptedModel, tool_call
from agentkit_py.tracing import instrument


def line(span: ReadableSpan) -> str:
    """One line per span, when it ends."""
    facts = span.attributes or {}
    tokens = facts.get("gen_ai.usage.output_tokens", "")
    return f"{span.name:<28} {facts.get('gen_ai.request.model', ''):<8} {tokens}\n"


provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(formatter=line)))
instrument(tracer_provider=provider)  # all runs of this process, from now on


def find_order(order: str) -> str:
    """Find an order."""
    return f"{order} was shipped to ada@example.com"


model = ScriptedModel(tool_call("find_order", {"order": "A1"}), "It is on its way.")
desk = Agent(name="desk", system="You help.", tools=[find_order], model=model, max_iter=2)
support = Network(
    name="support", agents=[desk], router=lambda ctx: desk if ctx.call_count == 0 else None
)
asyncio.run(support.run("Where is A1?"))
# --8<-- [end:setup]

# --8<-- [start:content]
from agentkit_py.processors import Redactor
from agentkit_py.tracing import Tracing

careful = Tracing(tracer_provider=provider, content=True, redactor=Redactor(["email"]))
model.reply(tool_call("find_order", {"order": "A1"}), "It is on its way.")
asyncio.run(support.run("Where is A1?", tracing=careful))  # this run, in place of `instrument`
# --8<-- [end:content]

# --8<-- [start:tools]
tracer = provider.get_tracer("shop")


async def cancel_order(order: str, ctx: ToolContext) -> str:
    """Cancel an order."""
    with tracer.start_as_current_span("UPDATE orders"):  # part of the tool's span
        ctx.state.data["cancelled"] = order
    return f"{order} is cancelled"


# --8<-- [end:tools]

# --8<-- [start:durable]
import inngest
from opentelemetry import propagate

from agentkit_py.inngest import create_functions

client = inngest.Inngest(app_id="shop", is_production=False)
functions = create_functions(client, networks=[support])


async def ask(text: str) -> None:
    """Start the function as part of the trace of whoever asks."""
    data = {"input": text}
    propagate.inject(data)  # adds "traceparent"
    await client.send(inngest.Event(name="shop/network-support", data=data))


# --8<-- [end:durable]

from agentkit_py.testing.executor import ReplayExecutor


async def durable() -> None:
    """Run `ask` with the executor for tests in place of the server."""
    carrier: dict[str, str] = {}
    with tracer.start_as_current_span("POST /ask"):
        propagate.inject(carrier)
    model.reply(tool_call("find_order", {"order": "A1"}), "It is on its way.")
    executor = ReplayExecutor(client, functions, transport=model.fake.transport)
    run = await executor.run("shop/network-support", {"input": "Where is A1?", **carrier})
    assert run.status == "completed"


asyncio.run(durable())
