"""The picture of docs/results/scoreboard.md, drawn from the first table of that page.

python -m benchmarks.scoreboard_picture    # writes docs/images/scoreboard.svg
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from tacit.report import save_figure

DOCS = Path(__file__).parents[1] / "docs"
COLOURS = ["#0b5394", "#b45f06", "#38761d", "#741b47", "#cc0000", "#00838f", "#8a6d00"]
METHODS = ["gd", "dpsgd", "moments", "ridge", "prototype", "knn", "pate"]
LOWEST = {"MNIST": 94, "USPS": 90, "Adult": 74, "CIFAR-10": 75, "Fashion-MNIST": 72}
"""From where a panel shows accuracies: what is far below says nothing of the others."""
ACROSS = 3


def rows_of(page: str) -> tuple[list[float], list[tuple[str, list[tuple[float, float] | None]]]]:
    """Return the epsilons and, for each row, its name and figures with their errors."""
    lines = page[page.index("| accuracy, % |") :].split("\n\n", maxsplit=1)[0].splitlines()
    head, _, *body = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    epsilons = [float(cell) for cell in head[1:7]]
    return epsilons, [(cells[0], [_figure(cell) for cell in cells[1:7]]) for cells in body]


def _figure(cell: str) -> tuple[float, float] | None:
    found = re.match(r"\**([\d.]+)\**(?: \+- ([\d.]+))?", cell)
    return (float(found[1]), float(found[2] or 0)) if found else None


def main() -> None:
    """Draw a panel for each data set: methods as lines, goals as crosses, ceilings as levels."""
    epsilons, rows = rows_of((DOCS / "results" / "scoreboard.md").read_text())
    sets = list(dict.fromkeys(name.split(",")[0] for name, _ in rows if not name.startswith("*")))
    down = -(-len(sets) // ACROSS)
    figure = Figure(figsize=(4.2 * ACROSS, 3.4 * down + 0.4), layout="constrained")
    panels = figure.subplots(down, ACROSS, squeeze=False).ravel()
    for panel in panels[len(sets) :]:
        panel.remove()
    shown: dict[str, Any] = {}
    for panel, title in zip(panels, sets, strict=False):
        for name, figures in rows:
            about, _, what = name.strip("*").partition(", ")
            if about != title:
                continue
            known = [(e, *f) for e, f in zip(epsilons, figures, strict=True) if f is not None]
            at, mean, error = zip(*known, strict=True)
            if what == "goal":
                shown[what] = panel.plot(at, mean, "kx", zorder=3)[0]
            elif what == "not private":
                shown[what] = panel.axhline(mean[0], color="k", linestyle=":")
            else:
                label = what.rsplit("`", 2)[1]
                colour = COLOURS[METHODS.index(label)]
                shown[label] = panel.errorbar(
                    at, mean, error, color=colour, marker="o", markersize=4, linewidth=1.2
                )
        panel.set(title=title, xscale="log", xlabel="epsilon", ylabel="accuracy, %")
        panel.set_xticks(epsilons, [f"{each:g}" for each in epsilons])
        panel.minorticks_off()
        panel.set_ylim(bottom=LOWEST.get(title))
    figure.legend(shown.values(), shown.keys(), loc="outside lower center", ncols=9, fontsize=9)
    save_figure(figure, DOCS / "images" / "scoreboard.svg")


if __name__ == "__main__":
    main()
