"""The parts of `FakeProvider`; none of them knows the encoders whose requests it judges.

One module per wire format (`chat`, `responses`, `anthropic`, `gemini`) has its rules, replies and
streams. A rule is a row of the table in `rules`: its check, its source and how certain that is, and
the providers and models it holds for. Rules run in table order and rely on the shapes that
earlier rules have established.
"""
