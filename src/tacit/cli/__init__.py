"""The `tacit` command: parse, call, show; and what packages need that add commands to it.

A package adds commands by a function that it names in its own pyproject.toml. What is imported
there should be light: every call of `tacit`, `--help` too, waits for it.

    [project.entry-points."tacit.commands"]
    greetings = "my_package.commands:add"

    def add(app):
        add_group(app, "greet", "Greetings.", hello)  # `tacit greet hello NAME`

    def hello(name: str) -> Result:
        '''Greet somebody.

        name: Whom to greet.
        '''
        return Result({"greeted": name}, f"Hello, {name}.")
"""

from tacit.cli.app import main
from tacit.cli.options import (
    add_commands,
    add_group,
    parse_mechanism,
    same_ledger,
    text_of,
    writable,
)
from tacit.cli.show import Result, errors, hear, print_json, print_statement, print_table, screen

__all__ = [
    "Result",
    "add_commands",
    "add_group",
    "errors",
    "hear",
    "main",
    "parse_mechanism",
    "print_json",
    "print_statement",
    "print_table",
    "same_ledger",
    "screen",
    "text_of",
    "writable",
]
