"""The `tacit` command: parse, call, show; and what other commands are made with."""

from tacit.cli.app import main
from tacit.cli.options import add_commands
from tacit.cli.show import errors, print_table, screen

__all__ = ["add_commands", "errors", "main", "print_table", "screen"]
