"""`tacit evaluate`: records kept apart say once how good a run's student is; then for free.

Of rows declared public with their labels, `tacit predict --labelled` says it, too.
"""

from __future__ import annotations

from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.cli import show
from tacit.errors import InvalidArgument

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit.ledger import Budget
    from tacit.runs import RunConfig


def evaluate(
    run: Path,
    holdout: str | None = None,
    *,
    epsilon: float | None = None,
    records: str | None = None,
    share: float | None = None,
    threshold: float | None = None,
    positive: str | None = None,
    disjoint: bool = False,
    ledger: Path | None = None,
    again: bool = False,
) -> show.Result:
    """Let private records kept apart say, once, through the ledger, how good the student is.

    Figures come with bands of 95 % that cover sampling and noise. What so many records cannot tell
    at this price is refused beforehand. The file evaluation.json then tells any threshold for free.
    Example: tacit evaluate runs/first kept-apart.csv --epsilon 0.5 --records 2000

    Later: tacit evaluate runs/first --threshold 0.2

    Labels, numbers (R^2, mean absolute error, residuals) and masks (Dice), as the run learned.

    run: A finished run's directory.
    holdout: Labelled records kept apart, with the columns of the run's source; or scans with masks.
    epsilon: What this may cost by itself, at the run's delta.
    records: How many records (or people) there are, as publicly declared. from_data counts them,
        which no cost covers.
    share: Of the outcome, as declared or released; else what public inputs suggest. Of masks, of
        scans with something to find; 1 by default.
    threshold: Say the outcome from this probability on; 0.5 by default.
    positive: Which of two classes is the outcome; the one declared second by default.
    disjoint: Declare that nobody there taught the model: a ledger of their own pays, beside the
        records, the same whichever run they judge.
    ledger: Where that ledger is, if not HOLDOUT.ledger; made if missing.
    again: Pay once more for a release that was paid for and lost, where the ledger has room for it.
    """
    from tacit.evaluate import Evaluation
    from tacit.runs import evaluate_run

    if holdout is None:
        path = run / "evaluation.json"
        if not run.is_dir():
            raise InvalidArgument(f"Expected the folder of a run at {str(run)!r}; no such folder.")
        if not path.is_file():
            raise InvalidArgument(
                f"Expected HOLDOUT, the records kept apart: {str(run)!r} was not evaluated yet."
            )
        return _told_again(Evaluation.read(path), threshold)
    if epsilon is None or records is None:
        raise InvalidArgument(
            "Expected --epsilon, what it may cost, and --records, how many there are."
        )
    result = evaluate_run(
        run,
        holdout,
        epsilon=epsilon,
        n_records=_number(records),
        share=share,
        threshold=0.5 if threshold is None else threshold,
        positive=positive,
        disjoint=disjoint,
        ledger=ledger,
        again=again,
    )

    def shown() -> None:
        _show(result.found)
        show.print_statement(result.ledger, result.statement)
        show.print_head(result.head)
        show.screen().print(f"Run: {run}, report with the evaluation: {run / 'report.html'}")

    said = {"statement": result.statement.to_dict(), "head": result.head}
    return show.Result({**_plain(result.found), **said}, shown)


def _number(records: str) -> int | str:
    if records == "from_data":
        return records
    try:
        return int(records.replace(",", ""))
    except ValueError:
        raise InvalidArgument(
            f"Expected --records {records!r} to be a whole number, or from_data."
        ) from None


def _show(found: Any) -> None:
    from tacit.evaluate import number, range_of

    rows = [(name, number(band.value), range_of(band)) for name, band in found.rows()]
    title = f"By records kept apart, epsilon {found.epsilon:g} at delta {found.delta:g}"
    show.print_table(title, ("figure", "value", "95 % band"), rows)
    if missing := found.refused():
        show.screen().print(f"[yellow]Not told: {', '.join(missing)}: too few records.[/]")


def _told_again(found: Any, threshold: float | None) -> show.Result:
    from tacit.evaluate import number, range_of

    if threshold is None:
        return show.Result(_plain(found), lambda: _show(found))
    _, edge = found.nearest_edge(threshold)
    bands, matrix = found.at(threshold), found.confusion(threshold)
    ends = {name: [float(end) for end in band] for name, band in bands.items()}
    rows = [(name.replace("_", " "), number(b.value), range_of(b)) for name, b in bands.items()]
    cells = [
        (f"is {label}", *(f"{cell:.0f}" for cell in row))
        for label, row in zip(found.classes, matrix, strict=True)
    ]
    columns = ("records, with noise", *(f"said {label}" for label in found.classes))

    def shown() -> None:
        show.print_table(f"At {edge:.4g}, the nearest told", ("figure", "value", "95 % band"), rows)
        show.print_table("Confusion matrix", columns, cells)

    return show.Result({"threshold": edge, "figures": ends, "confusion": matrix.tolist()}, shown)


def _plain(found: Any) -> dict[str, Any]:
    from tacit.evaluate import without_open_ends

    figures = {name: [float(end) for end in band] for name, band in found.rows()}
    return {
        "figures": without_open_ends(figures),
        "not_told": found.refused(),
        "epsilon": found.epsilon,
    }


def show_forecast(
    budget: Budget,
    records: int,
    share: float | None,
    *,
    of: str = "labels",
    classes: int = 2,
) -> show.Result:
    """Print how wide the bands of an evaluation would be, for `tacit plan evaluation`."""
    from tacit._checks import one_of

    one_of("labels", "numbers", "masks", of=of)
    if of == "labels" and share is None:
        raise InvalidArgument("Expected --share of positives, with --of labels.")
    if of != "labels" and share is not None:
        raise InvalidArgument(f"Expected --share with --of labels only; this is --of {of}.")
    seen, given = _forecast(of, records, share, budget, classes)
    widths = {name: None if isnan(half) else half for name, half in seen.half_widths.items()}
    rows = [
        (name, "not told" if half is None else f"+- {half:.3f}") for name, half in widths.items()
    ]
    title = f"{records} records kept apart, epsilon {budget.epsilon:g} at delta {budget.delta:g}"

    def shown() -> None:
        show.print_table(title, ("figure", "95 % band"), rows)
        show.screen().print(f"[dim]{given}[/]")

    return show.Result({"plan": seen.plan.as_dict(), "half_widths": widths}, shown)


def _forecast(
    of: str, records: int, share: float | None, budget: Budget, classes: int
) -> tuple[Any, str]:
    """Return widths, and for what they are told."""
    from tacit import evaluate as known

    if of == "numbers":
        given = (
            f"For an R^2 of {known.TYPICAL_R_SQUARED} and targets with a deviation of "
            f"{known.TYPICAL_SPREAD} of half of their range; the error in halves of the range."
        )
        return known.forecast_numbers(records, budget), given
    if of == "masks":
        mean, spread = known.TYPICAL_DICE
        given = f"For Dice scores of mean {mean} and deviation {spread}, of {classes} classes."
        return known.forecast_masks(records, budget, n_classes=classes), given
    assert share is not None
    given = f"For an area under the ROC curve of {known.TYPICAL_AUC}."
    return known.forecast(records, share, budget), given


def figures_on(
    rows: str, config: RunConfig, student: Any, inputs: NDArray[Any], cut: float | None
) -> dict[str, dict[str, Any]]:
    """Return every figure with its band and what chance reaches, by the name that people read.

    Parameters
    ----------
    rows : str
        Where the rows are, with what was learned.
    config : RunConfig
        The run's; a file that is its private source is refused.
    student : student
        The run's.
    inputs : array of shape (rows, features)
        The rows as they were read without labels.
    cut : float, optional
        Of two classes, a further threshold at which recall and precision are told.

    Returns
    -------
    dict of str to dict
        `value`, `low`, `high` and `chance` of each figure.
    """
    import numpy as np

    from tacit.datasets import load_dataset
    from tacit.evaluate import measure, measure_numbers

    config.data.keep_apart(rows=rows)
    data = load_dataset(rows, **config.data.options)
    if len(data) != len(inputs):
        raise InvalidArgument("Expected what was learned in every row of a labelled file.")
    if data.target_range is not None:
        said = np.clip(student.predict(inputs), *data.target_range)
        found = measure_numbers(said, np.clip(data.y, *data.target_range))
    else:
        order = np.searchsorted(student.classes_, np.asarray(data.classes))
        further = {} if cut is None else {f"{cut:g}": cut}
        chances = np.asarray(student.predict_proba(inputs))[:, order]
        found = measure(chances, data.y, thresholds=further)
    return {name: figure.plain() for name, figure in found.items()}
