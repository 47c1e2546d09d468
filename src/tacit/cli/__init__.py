"""The `tacit` command: parse, call, show."""

from tacit.cli.app import main

__all__ = ["main"]
