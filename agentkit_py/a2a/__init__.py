"""A2A, the protocol between agents of different makers, by its own SDK; needs the extra ``a2a``.

`create_a2a_app` serves a network or an agent with the users and rights of the HTTP API; `A2AAgent`
is an agent elsewhere, for a network, a handoff or a tool::

    billing = A2AAgent(name="billing", url="https://billing.example", description="Knows invoices.")
    clerk = Agent(name="clerk", system="…", tools=[billing.as_tool()])
"""

from agentkit_py._core.lazy import missing_package
from agentkit_py.errors import MissingDependencyError

if _missing := missing_package("a2a", "starlette", "sse_starlette"):
    raise MissingDependencyError(_missing, "a2a", "agentkit_py.a2a")

# After the check, which names the extra: these import the packages.
from agentkit_py.a2a.calling import A2AAgent, A2ATaskError
from agentkit_py.a2a.serving import MOST_TASKS, PATH, PushUrlCheck, create_a2a_app

__all__ = ["MOST_TASKS", "PATH", "A2AAgent", "A2ATaskError", "PushUrlCheck", "create_a2a_app"]
