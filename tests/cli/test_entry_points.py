"""Commands that other packages add by an entry point of the group `tacit.commands`."""

from __future__ import annotations

import json
import sys

import pytest
import typer

from tacit.cli import app as command
from tacit.cli import options

GREETINGS = '''
from tacit.cli import Result, add_commands, add_group

def hello(name: str) -> Result:
    """Greet somebody.

    name: Whom to greet.
    """
    return Result({"greeted": name}, f"Hello, {name}.")

def add(app):
    add_group(app, "greet", "Greetings.", hello)

def add_twice(app):
    add_group(app, "ledger", "Greetings.", hello)
'''


@pytest.fixture
def installed(tmp_path, monkeypatch, tacit):
    """Install a package with this entry point, and no other that adds commands."""
    monkeypatch.setattr(command, "app", typer.Typer())
    options.add_group(command.app, "ledger", "A group of ours.", command.ledger.verify)
    own = tmp_path / "installed"
    monkeypatch.syspath_prepend(own)

    def install(value):
        about = own / "greetings-1.0.dist-info"
        about.mkdir(parents=True)
        (own / "greetings.py").write_text(GREETINGS)
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: greetings\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text(f"[tacit.commands]\ngreet = {value}\n")
        found = command.entry_points
        monkeypatch.setattr(
            command,
            "entry_points",
            lambda group: [each for each in found(group=group) if each.name == "greet"],
        )

    command.full_app.cache_clear()
    yield install
    command.full_app.cache_clear()
    sys.modules.pop("greetings", None)


def test_a_package_adds_a_group(installed, tacit):
    installed("greetings:add")
    outcome = tacit("greet", "hello", "Ada", "--json")
    assert (outcome.code, outcome.err) == (0, "")
    assert json.loads(outcome.out) == {"greeted": "Ada"}


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("greetings_that_are_not_there:add", "No module named 'greetings_that_are_not_there'"),
        ("greetings:nothing", "'nothing'"),
        ("greetings:add_twice", "tacit has ledger already"),
    ],
)
def test_one_that_cannot_be_loaded_is_one_warning(installed, tacit, value, why):
    installed(value)
    outcome = tacit("ledger", "--help")
    assert outcome.code == 0
    assert "A group of ours." in outcome.out
    assert outcome.err.startswith(f"Warning: The commands of {value} are missing: ")
    assert why in outcome.err
    assert outcome.err.count("\n") == 1


@pytest.mark.parametrize("arguments", [("join", "a.invitation", "--epsilon", 2), ("--help",)])
def test_what_federation_would_bring_is_named(installed, tacit, arguments):
    installed("greetings:add")
    outcome = tacit("site", *arguments)
    assert outcome.code == 2
    assert outcome.err == (
        "Error: Expected the package tacit-federation for `tacit site`; install "
        "tacit[federation].\n"
    )
    assert "site" not in tacit("--help").out
