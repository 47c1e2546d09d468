"""The import contract that `make floors` keeps: packages are entered through their `__init__`."""

from __future__ import annotations

import grimp
import pytest

from tools.doors import DoorsContract


def check(*imports: tuple[str, str]) -> list[str]:
    """Return what the contract objects to in a house of two packages and a helper."""
    graph = grimp.ImportGraph()
    for module in ("house", "house.a", "house.a.room", "house.b", "house.b.room", "house._helper"):
        graph.add_module(module)
    for importer, imported in imports:
        graph.add_import(importer=importer, imported=imported)
    options = {"container": "house"}
    contract = DoorsContract("doors", session_options={}, contract_options=options)
    outcome = contract.check(graph, verbose=False)
    assert outcome.kept is not bool(outcome.metadata["past"])
    return outcome.metadata["past"]


@pytest.mark.parametrize("importer", ["house", "house._helper", "house.a", "house.a.room"])
def test_a_room_of_another_package_is_not_entered(importer):
    assert check((importer, "house.b.room")) == [f"{importer} -> house.b.room"]


def test_doors_own_rooms_and_helpers_are_open():
    assert not check(
        ("house.a.room", "house.b"),
        ("house.a", "house.a.room"),
        ("house.a.room", "house._helper"),
        ("house.a.room", "house"),
    )
