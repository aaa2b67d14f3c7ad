"""What stands behind `FakeProvider`; nothing in here knows the encoders whose requests it judges.

One module per wire format (`chat`, `responses`, `anthropic`, `gemini`) has its rules, replies and
streams. A rule is a row of the table in `rules`: what it says, where that is published and how sure
that is, for which providers and models it holds, and the check that finds the breach.
"""
