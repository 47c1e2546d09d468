"""What a paper says, item by item, and what came of it here."""

from __future__ import annotations

import csv
import importlib
import os
import time
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.errors import InvalidArgument
from tacit.report import label, legend, line, new_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Verdict = Literal["reproduced", "improved", "refuted", "differs", "not to be had"]
# The papers, each with a table of items beside this module and a page in docs/replication.
PAPERS = {
    "pate": "Scalable Private Learning with PATE (Papernot et al., 2018)",
    "knn": "Private-kNN (Zhu et al., 2020)",
    "masks": "PATE with high-dimensional targets: PCA, autoencoded and Generalized PATE",
    "mac": "DP-MAC (Harder et al., 2019)",
}
# What an item needs that asks for `mnist`.
MNIST = tuple(
    f"mnist/{part}-{what}-idx{dims}-ubyte.gz"
    for part in ("train", "t10k")
    for what, dims in (("images", 3), ("labels", 1))
)


@dataclass(frozen=True, slots=True)
class Item:
    """A numbered figure, table, algorithm, theorem or remark of a paper, and what came of it."""

    name: str  # as the command calls it: "figure-4"
    title: str
    verdict: Verdict  # "improved" is better than printed, "refuted" has a counter-example
    says: str  # the outcome in a sentence
    run: Callable[[Workplace], None] | None = None
    needs: tuple[str, ...] = ()  # files below the folder of the data
    minutes: float = 0.1  # on two cores


@dataclass(frozen=True, slots=True)
class Workplace:
    """Where an item finds its data and leaves its tables and pictures."""

    data: Path | None
    out: Path
    show: Callable[[str, Sequence[str], Sequence[Sequence[str]]], None]  # title, columns, rows
    say: Callable[[str], None] = lambda _: None  # how far a long item has come
    written: list[Path] = field(default_factory=list)  # below `out`, so far

    def path(self, name: str) -> Path:
        """Return a file of the data, which `missing` did not name."""
        assert self.data is not None
        return self.data / name

    def table(self, title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Show a table, numbers with four digits, and keep it as CSV under its title."""
        texts = [[_text(value) for value in row] for row in rows]
        self.show(title, columns, texts)
        words = "".join(c if c.isalnum() else " " for c in title.lower()).split()
        path = self._path(f"{'-'.join(words)[:60]}.csv")
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([list(columns), *texts])

    def records(self, title: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Show rows of the same names as a table."""
        self.table(title, list(rows[0]), [list(row.values()) for row in rows])

    def picture(self, name: str, figure: Figure) -> None:
        """Keep a figure as SVG and PNG."""
        for kind in ("svg", "png"):
            save_figure(figure, self._path(f"{name}.{kind}"))

    def curves(
        self,
        name: str,
        curves: Mapping[str, tuple[ArrayLike, ArrayLike]],
        title: str,
        x: str,
        y: str,
        *,
        log: str = "",
        ticks: Sequence[float] = (),
        size: tuple[float, float] | None = None,
        beside: bool = False,
    ) -> None:
        """Draw named curves, each with places and heights of its own, and keep the picture.

        `log` names the logarithmic axes, whose ticks may be given; `beside` puts the names beside
        the curves, not among them.
        """
        figure = new_figure(title)
        axes = figure.axes[0]
        for place, (what, (places, heights)) in enumerate(curves.items()):
            line(axes, place, np.asarray(places, float), np.asarray(heights, float), name=what)
        axes.set(**{f"{axis}scale": "log" for axis in log})
        label(axes, x=x, y=y)
        legend(axes, "best")
        if ticks:
            axes.set(**{f"{log}ticks": list(ticks), f"{log}ticklabels": [str(t) for t in ticks]})
            axes.minorticks_off()
        if beside:
            axes.legend(frameon=False, fontsize=9, loc="center left", bbox_to_anchor=(1.0, 0.5))
        if size is not None:
            figure.set_size_inches(*size)
        self.picture(name, figure)

    def progress(self, *cells: Any) -> None:
        """Say in a line what was found so far."""
        self.say(", ".join(map(_text, cells)))

    def _path(self, name: str) -> Path:
        self.out.mkdir(parents=True, exist_ok=True)
        self.written.append(self.out / name)
        return self.written[-1]


def _text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def items_of(paper: str) -> tuple[Item, ...]:
    """Return a paper's items, in the paper's own order.

    >>> [item.name for item in items_of("pate")][0]
    'figure-1'
    """
    if paper not in PAPERS:
        raise InvalidArgument(f"Expected PAPER={paper!r} to be one of {', '.join(PAPERS)}.")
    with Path(__file__).with_name(f"{paper}.toml").open("rb") as file:
        return tuple(_item(name, **each) for name, each in tomllib.load(file).items())


def _item(name: str, *, run: str = "", needs: Sequence[str] = (), **about: Any) -> Item:
    files = [path for each in needs for path in (MNIST if each == "mnist" else (each,))]
    return Item(name, run=partial(_run, run) if run else None, needs=tuple(files), **about)


def _run(function: str, place: Workplace) -> None:
    """Run `module.function` of this package, which is not imported before."""
    module, name = function.split(".")
    getattr(importlib.import_module(f"papers.{module}"), name)(place)


def find_item(paper: str, name: str) -> Item:
    """Return one item of a paper."""
    items = {item.name: item for item in items_of(paper)}
    if name not in items:
        raise InvalidArgument(f"Expected ITEM={name!r} to be one of {', '.join(items)}.")
    return items[name]


def data_folder() -> Path | None:
    """Return the folder that the variable TACIT_DATA names, if any."""
    place = os.environ.get("TACIT_DATA")
    return Path(place) if place else None


def missing(item: Item, data: Path | None) -> list[str]:
    """Return which files of an item are not there."""
    return [name for name in item.needs if data is None or not (data / name).exists()]


def replicate(item: Item, workplace: Workplace) -> float:
    """Run an item; return how many seconds it took."""
    if item.run is None:
        raise InvalidArgument(f"Expected {item.name} to be runnable; it is not: {item.says}")
    if absent := missing(item, workplace.data):
        raise InvalidArgument(
            f"Expected {', '.join(absent)} in the folder that the variable TACIT_DATA names; "
            "docs/replication says where each set comes from."
        )
    begun = time.perf_counter()
    item.run(workplace)
    return time.perf_counter() - begun
