"""Agents and networks at work: tools, routers, hooks, and the loops that run them."""
