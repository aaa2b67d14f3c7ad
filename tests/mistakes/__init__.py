"""Mistakes of developers, generated for every parameter."""
