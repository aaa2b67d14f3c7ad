"""Keys, models and threads of one customer of yours stay with that customer."""

# --8<-- [start:recipe]
from agentkit_py import Agent, MemoryHistory, Network, openai
from agentkit_py.lifecycle import AgentContext
from agentkit_py.routing import once
from agentkit_py.stores import for_user

KEYS = {"acme": "sk-of-acme", "globex": "sk-of-globex"}


def key_of(context: AgentContext) -> str:
    """Called for each request; no step, thread or log keeps what it returns."""
    return KEYS[context.state.data["tenant"]]


desk = Agent(name="desk", system="You help.", model=openai("gpt-4.1", api_key=key_of))
store = MemoryHistory()  # or PostgresHistory("postgresql://…")


def network_of(user_id: str) -> Network:
    """A network that opens threads of this user and no others."""
    history = for_user(store, user_id)
    return Network(name="desk", agents=[desk], router=once(desk), history=history)


# --8<-- [end:recipe]
print(network_of("acme:ada").name)
