"""`tacit predict RUN ROWS`: labels for other rows, by the student that a run published."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Annotated, Any

import typer

from tacit.cli import options
from tacit.cli.show import print_json, screen
from tacit.errors import InvalidArgument


def predict(
    run: Annotated[Path, typer.Argument(help="A run's directory.", show_default=False)],
    rows: Annotated[
        str, typer.Argument(help="Rows without labels, e.g. csv:new.csv.", show_default=False)
    ],
    out: Annotated[Path, typer.Option(help="A new CSV file: a label and its probability a row.")],
    as_json: options.AsJson = False,
) -> None:
    """Write the student's label for each row, and how probable it thinks it is.

    Columns are read as the run's config.toml declares them. This costs no privacy: the student was
    made from releases alone.
    Example: tacit predict runs/first csv:new.csv --out labels.csv
    """
    from tacit._files import write_atomically
    from tacit.datasets import load_public
    from tacit.runs import RunConfig

    if out.exists():
        raise InvalidArgument(f"Expected {str(out)!r} to be new: nothing is overwritten.")
    options.writable(out)
    _refuse_mistaken(run)
    config = RunConfig.of_finished(run)
    if config.method == "segmentation":
        raise InvalidArgument("Expected a run of rows; for scans use tacit segment.")
    labels, chances = labelled(run / "student.tacit", load_public(rows, **config.data.options))
    write_atomically(out, _as_csv(labels, chances).encode("utf-8"))
    if as_json:
        print_json({"rows": len(labels), "out": str(out)})
    else:
        screen().print(f"{len(labels)} rows in {out}")


def _refuse_mistaken(run: Path) -> None:
    """Refuse arguments in another order, and say which is which."""
    if not (run / "config.toml").is_file():
        raise InvalidArgument(
            f"Expected a run's directory, with its configuration, first, got {str(run)!r}; rows "
            "come second: tacit predict RUN csv:new.csv --out labels.csv."
        )


def labelled(model: Path, rows: Any) -> tuple[list[Any], list[float]]:
    """Return the most probable label of each row, in the run's own words, and its probability."""
    from tacit.students import load_student, saved_extra

    student, classes = load_student(model), saved_extra(model).get("classes")
    if classes is None:
        raise InvalidArgument(f"Expected {model.name!r} to know its classes; it has none.")
    chances = student.predict_proba(rows)
    best = chances.argmax(axis=1)
    return [classes[place] for place in best], chances.max(axis=1).tolist()


def _as_csv(labels: list[Any], chances: list[float]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["label", "probability"])
    writer.writerows(
        [label, f"{chance:.4f}"] for label, chance in zip(labels, chances, strict=True)
    )
    return text.getvalue()
