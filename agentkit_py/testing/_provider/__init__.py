"""The parts of `FakeProvider`: routing, the rules of each provider, replies, transports.

Nothing here imports the library's own models: the fake provider is an independent oracle of what
the real providers publish, and would be worth nothing if it shared code with what it judges.
"""
