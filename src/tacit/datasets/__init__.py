"""Loaders for open formats; what they read stays where it is, and no message quotes it."""

from tacit.datasets.votes import demo_votes, read_rows, read_votes

__all__ = ["demo_votes", "read_rows", "read_votes"]
