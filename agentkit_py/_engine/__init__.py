"""The engine: the loops that run agents and networks, with tools, routers and hooks."""
