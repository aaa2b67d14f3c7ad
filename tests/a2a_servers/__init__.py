"""Tests of A2A."""
