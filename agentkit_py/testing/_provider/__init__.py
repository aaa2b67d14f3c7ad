"""The parts of `FakeProvider`; none of them knows the encoders whose requests it judges.

One module per wire format (`chat`, `responses`, `anthropic`, `gemini`) has its rules, replies and
streams. A rule is a row of the table in `rules`: its check, where it is published and how sure that
is, for which providers and models it holds. Rules are applied in the order in which they stand, and
rely on the shapes that earlier ones have established.
"""
