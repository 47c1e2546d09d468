"""Write the reference pages of run.toml and of the commands, from the code itself.

    python -m tools.reference     # writes run-toml.md, commands.md and federation.md there

A method's keys, types and defaults are its constructor's (`tacit.methods.settings.table_of`), what
each means is the constructor's docstring; commands are what `tacit --help` says. A test compares.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main

from tacit._registry import DATASETS, METHODS, found
from tacit.cli.app import full_app
from tacit.masks.runs import ScanOptions
from tacit.methods import method_named
from tacit.methods.settings import Key, Words, table_of
from tacit.runs import DataConfig, PrivacyConfig, RunConfig
from tacit_federation import Policy, ServerSettings

PAGES = Path(__file__).parents[1] / "docs" / "reference"
_OF_THE_RUN = {
    *("epsilon", "delta", "ledger", "allow_overlap", "noise", "random_state", "classes"),
    *("executor", "checkpoint", "target_range"),
}


def run_toml() -> str:
    """Return the page of every key of run.toml."""
    parts = [
        "# Every key of run.toml",
        "Written by `python -m tools.reference` from the code. A key that is not here is refused, "
        "by name, before anything is spent. A method's table is its constructor: same names, same "
        "defaults.",
        "## At the top",
        _table(_fields(RunConfig, "data", "privacy", "settings")),
        "## [data]",
        _table(_fields(DataConfig)),
        *_options(),
        "## [privacy]",
        _table(_fields(PrivacyConfig)),
    ]
    for name in METHODS:
        parts += [f"## [{name}]", f'With `method = "{name}"`.', _table(_keys(name))]
    return "\n\n".join(parts) + "\n"


def _options() -> Iterator[str]:
    """Describe [data.options] for each source that has any: the loader's own arguments."""
    for kind, place in DATASETS.items():
        loader = found(place)
        paths = [
            each.name
            for each in inspect.signature(loader).parameters.values()
            if each.kind is not each.KEYWORD_ONLY
        ]
        if rows := list(_fields(loader, *paths)):
            yield f"## [data.options] of {kind}:"
            yield _table(iter(rows))
    yield "## [data.options] of scans"
    yield 'With `method = "segmentation"`.'
    yield _table(_fields(ScanOptions))


def federation() -> str:
    """Return the page of federation.toml and policy.toml."""
    parts = [
        "# federation.toml and policy.toml",
        "Written by `python -m tools.reference` from the code. A key that is not here is refused.",
        "## federation.toml, of a coordinator",
        _table(_fields(ServerSettings)),
        "## policy.toml, of a site",
        "What a site refuses before a person is asked. It is read anew for each study.",
        _table(_fields(Policy)),
    ]
    return "\n\n".join(parts) + "\n"


def commands() -> str:
    """Return the page of all commands."""
    parts = ["# Every command", "Written by `python -m tools.reference` from `tacit --help`."]
    group = typer.main.get_command(full_app())
    parts += list(_described("tacit", group))
    return "\n\n".join(parts) + "\n"


def _described(path: str, command: Any) -> Iterator[str]:
    if hasattr(command, "commands"):
        for name, each in command.commands.items():
            yield from _described(f"{path} {name}", each)
        return
    yield f"## {path}"
    yield "\n".join(_line(line) for line in inspect.cleandoc(command.help or "").splitlines())
    rows = [
        (
            f"`{each.name.upper()}`" if each.param_type_name == "argument" else f"`{each.opts[0]}`",
            " ".join((getattr(each, "help", None) or "").split()),
        )
        for each in command.params
        if each.name != "help"
    ]
    yield "\n".join(["| argument or option | what it is |", "|---|---|", *map(_row, rows)])


def _line(line: str) -> str:
    text = line.replace("\\[", "[")
    shown = text.removeprefix("Example: ")
    return text if shown == text else f"\nExample: `{shown}`"


def _fields(kind: Any, *without: str) -> Iterator[tuple[str, ...]]:
    told = _told(kind)
    for each in inspect.signature(kind).parameters.values():
        if each.name not in without:
            default = "required" if each.default is each.empty else _value(each.default)
            yield f"`{each.name}`", default, told.get(each.name, "")


def _keys(name: str) -> Iterator[tuple[str, ...]]:
    method = method_named(name)
    told = _told(method.estimator)
    for key, about in table_of(method.estimator).items():
        if about.argument not in _OF_THE_RUN:
            meant = told.get(key) or _told_of_part(method.estimator, about)
            meant = meant or told.get(about.argument, "")
            yield f"`{key}`", _value(about.default), f"{meant} {_words(about)}".strip()


def _told_of_part(kind: type[Any], about: Key) -> str:
    return _told(type(kind._own[about.argument])).get(about.part or "", "") if about.part else ""


def _words(about: Key) -> str:
    check = about.check
    known = ", ".join(f'`"{word}"`' for word in check.known) if isinstance(check, Words) else ""
    return f"One of {known}." if known else ""


def _told(kind: Any) -> dict[str, str]:
    """Return what a class's docstring says of each of its parameters."""
    text = inspect.getdoc(kind) or ""
    found = re.search(r"^Parameters\n-+\n(.*?)(?=^\w[\w ]*\n-+\n|\Z)", text, re.M | re.S)
    told: dict[str, str] = {}
    names: list[str] = []
    for line in found.group(1).splitlines() if found else ():
        if line and not line.startswith(" "):
            names = [name.strip() for name in line.split(" : ")[0].split(",")]
        else:
            for name in names:
                told[name] = f"{told.get(name, '')} {line.strip()}".strip()
    return told


def _value(default: Any) -> str:
    if default is None or default == "" or "factory" in repr(default):
        return ""
    if isinstance(default, str):
        return f'`"{default}"`'
    if isinstance(default, tuple):
        return f"`{list(default)}`"
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def _table(rows: Iterator[tuple[str, ...]]) -> str:
    return "\n".join(["| key | default | what it means |", "|---|---|---|", *map(_row, rows)])


def _row(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


WRITTEN = {"run-toml.md": run_toml, "commands.md": commands, "federation.md": federation}


if __name__ == "__main__":
    PAGES.mkdir(exist_ok=True)
    for name, made in WRITTEN.items():
        (PAGES / name).write_text(made(), encoding="utf-8")
        print(f"Wrote docs/reference/{name}.")
