"""Everything public says what it takes and gives, in NumPy's sections: same names, same order."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from typing import Any

import pytest

import tacit

PACKAGES = [
    *(
        f"tacit.{m.name}"
        for m in pkgutil.iter_modules(tacit.__path__)
        if m.name[0] != "_" and m.name != "cli"
    ),
    "tacit_federation",
]


def public(package: str) -> Iterator[tuple[str, Any]]:
    """Yield what a package's `__all__` offers, and the public methods that it defines."""
    module = importlib.import_module(package)
    for name in getattr(module, "__all__", []):
        found = getattr(module, name)
        if not (inspect.isclass(found) or inspect.isfunction(found)):
            continue
        yield name, found
        for method, function in vars(found).items() if inspect.isclass(found) else ():
            if not inspect.isfunction(function) or method.startswith("_"):
                continue
            if not documented_above(found, method):
                yield f"{name}.{method}", function


def documented_above(kind: type, method: str) -> bool:
    """Whether a method overrides one of the same arguments, which has the sections."""
    own = inspect.signature(vars(kind)[method]).parameters.keys() - {"sizes", "_"}
    return any(
        re.search(r"^ *(Parameters|Returns|Yields)\n", above.__doc__ or "", re.M)
        and own <= inspect.signature(above).parameters.keys()
        for base in kind.__mro__[1:]
        if inspect.isfunction(above := vars(base).get(method))
    )


def arguments(found: Any) -> list[str]:
    if getattr(found, "_is_protocol", False) or inspect.isabstract(found):
        return []  # nobody calls their constructors
    try:
        parameters = inspect.signature(found).parameters.values()
    except ValueError:  # written in C
        return []
    return [p.name for p in parameters if p.name not in ("self", "cls")]


def section(docstring: str, title: str) -> str | None:
    match = re.search(rf"^{title}\n-+\n(.*?)(?=^\w[\w ]*\n-+\n|\Z)", docstring, re.M | re.S)
    return match and match.group(1)


def named(text: str) -> list[str]:
    """Return the names that the lines at the margin of a section explain."""
    lines = [line for line in text.splitlines() if line and not line.startswith((" ", ">>>"))]
    return [name.strip(" *") for line in lines for name in line.split(" : ")[0].split(",")]


def faults(name: str, found: Any) -> Iterator[str]:
    docstring = inspect.cleandoc(found.__doc__ or "")
    expected = arguments(found)
    told = section(docstring, "Parameters")
    if expected and told is None:
        yield f"{name}: no Parameters"
    elif told is not None and named(told) != expected:
        yield f"{name}: Parameters {named(told)}, signature {expected}"
    results = section(docstring, "Returns") or section(docstring, "Yields")
    if inspect.isfunction(found) and gives_something(found) and not results:
        yield f"{name}: no Returns"


def gives_something(function: Any) -> bool:
    given = inspect.signature(function).return_annotation
    return given not in (None, "None", "NoReturn", inspect.Signature.empty)


@pytest.mark.parametrize("package", PACKAGES)
def test_everything_public_says_what_it_takes_and_gives(package):
    assert [fault for name, found in public(package) for fault in faults(name, found)] == []


def test_what_is_wrong_is_noticed():
    def good(a: int, *rest: int) -> int:
        """Say.

        Parameters
        ----------
        a, *rest : int
            Two things.

        Returns
        -------
        int
            One.
        """

    def wrong(b: int) -> int:
        """Say.

        Parameters
        ----------
        a : int
            Another.
        """

    assert list(faults("good", good)) == []
    assert len(list(faults("wrong", wrong))) == 2
