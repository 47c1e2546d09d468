"""The picture of docs/results/scoreboard.md, drawn from the first table of that page.

python -m benchmarks.scoreboard_picture    # writes docs/images/scoreboard.svg
"""

from __future__ import annotations

import re
from pathlib import Path

from matplotlib.figure import Figure

from tacit.report import save_figure

DOCS = Path(__file__).parents[1] / "docs"
COLOURS = ["#0b5394", "#b45f06", "#38761d", "#741b47", "#666666"]


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
    figure = Figure(figsize=(4.2 * len(sets), 4.0), layout="constrained")
    panels = figure.subplots(1, len(sets), squeeze=False)[0]
    for panel, title in zip(panels, sets, strict=True):
        colours = iter(COLOURS)
        for name, figures in rows:
            about, _, what = name.strip("*").partition(", ")
            if about != title:
                continue
            known = [(e, *f) for e, f in zip(epsilons, figures, strict=True) if f is not None]
            at, mean, error = zip(*known, strict=True)
            if what == "goal":
                panel.plot(at, mean, "kx", label="goal")
            elif what == "not private":
                panel.axhline(mean[0], color="k", linestyle=":", label="not private")
            else:
                label = what.rsplit("`", 2)[1]
                panel.errorbar(at, mean, error, color=next(colours), marker="o", label=label)
        panel.set(title=title, xscale="log", xlabel="epsilon", ylabel="accuracy, %")
        panel.set_xticks(epsilons, [f"{each:g}" for each in epsilons])
        panel.minorticks_off()
        panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=3, fontsize=8)
    save_figure(figure, DOCS / "images" / "scoreboard.svg")


if __name__ == "__main__":
    main()
