"""The classes under the TypeScript package's names: the same signatures."""

from __future__ import annotations

from agentkit_py.engine.agent import Agent, RoutingAgent
from agentkit_py.engine.network import Network

create_agent = Agent
create_routing_agent = RoutingAgent
create_network = Network
