"""Every item of a paper has a name, a verdict and a reason; quick ones are run."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from papers import items
from papers.items import PAPERS, Item, Workplace, find_item, items_of, missing, replicate
from tacit.errors import InvalidArgument

DATA = Path(os.environ.get("TACIT_DATA", Path(__file__).parents[3] / "shared" / "data"))
ALL = [(paper, item) for paper in PAPERS for item in items_of(paper)]
QUICK = 0.1  # minutes


def place(tmp_path: Path, data: Path | None = None) -> Workplace:
    return Workplace(data, tmp_path / "out", lambda *_: None)


@pytest.mark.parametrize("paper", PAPERS)
def test_names_are_unique_and_every_item_says_what_came_of_it(paper):
    all_of_it = items_of(paper)
    assert len({item.name for item in all_of_it}) == len(all_of_it)
    assert all(item.title and item.says.endswith(".") for item in all_of_it)
    assert all(item.run is not None or not item.needs for item in all_of_it)


@pytest.mark.parametrize("paper", PAPERS)
def test_what_an_item_runs_and_needs_is_there(paper):
    code = {path.stem: path.read_text() for path in Path(items.__file__).parent.glob("*.py")}
    for item in items_of(paper):
        if item.run is not None:
            module, function = item.run.args[0].split(".")
            assert f"\ndef {function}(place: Workplace" in code[module].replace("(\n    ", "(")
        loaded = (*items.MNIST, "adult/adult.data.gz", "adult/adult.test.gz")  # by their folder
        assert all(
            any(path in text for text in code.values()) or path in loaded for path in item.needs
        )


@pytest.mark.parametrize(("paper", "item"), ALL, ids=lambda v: getattr(v, "name", v))
def test_quick_items_run_and_leave_something(paper, item, tmp_path):
    if item.run is None or item.minutes > QUICK:
        pytest.skip("nothing to run, or a benchmark")
    if absent := missing(item, DATA):
        pytest.skip(f"no {absent[0]} (set TACIT_DATA)")
    workplace = place(tmp_path, DATA)
    replicate(item, workplace)
    assert workplace.written
    assert all(path.stat().st_size > 0 for path in workplace.written)


@pytest.mark.parametrize("paper", PAPERS)
def test_the_page_has_every_item_in_its_order_with_its_verdict_command_and_time(paper):
    page = (Path(__file__).parents[2] / "docs" / "replication" / f"{paper}.md").read_text()
    at = 0
    for item in items_of(paper):
        command = f"`python -m papers {paper} {item.name}`"
        opening = f"**{item.verdict}**" + ("" if item.run is None else f" · {command} · ")
        assert opening in page[at:], f"{item.name}: no {opening!r} behind those before it"
        at = page.index(opening, at) + len(opening)
        assert item.run is None or re.match(r"[\d.]+ (s|minutes)\n", page[at:]), item.name


def test_every_command_that_a_page_quotes_names_an_item():
    root = Path(__file__).parents[2]
    pages = [root / "README.md", *(root / "docs").rglob("*.md")]
    quoted = re.findall(r"python -m papers (\w+) ([a-z\d-]+)", "".join(map(Path.read_text, pages)))
    assert len(quoted) > 50
    assert all(find_item(paper, name) for paper, name in quoted)


def test_what_is_missing_is_named(tmp_path):
    item = Item("figure-1", "Figure 1", "reproduced", "Done.", lambda _: None, ("there/is.npz",))
    with pytest.raises(InvalidArgument, match=r"there/is\.npz.*TACIT_DATA"):
        replicate(item, place(tmp_path, tmp_path))


def test_what_cannot_be_run_says_why(tmp_path):
    item = Item("table-9", "Table 9", "not to be had", "The images were never published.")
    with pytest.raises(InvalidArgument, match="never published"):
        replicate(item, place(tmp_path))


def test_unknown_papers_and_items_are_refused():
    with pytest.raises(InvalidArgument, match="PAPER='gan'"):
        items_of("gan")
    with pytest.raises(InvalidArgument, match="ITEM='figure-99'"):
        find_item("pate", "figure-99")
