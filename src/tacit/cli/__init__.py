"""The `tacit` command: parse, call, show; and what other commands are made with."""

from tacit.cli.app import main
from tacit.cli.options import add_commands as add_commands
from tacit.cli.show import errors as errors
from tacit.cli.show import print_table as print_table
from tacit.cli.show import screen as screen

__all__ = ["main"]
