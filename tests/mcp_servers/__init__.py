"""Servers that are real: processes of their own, over pipes and HTTP."""
