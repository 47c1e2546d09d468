"""`tacit predict --labelled`: how good a student is on rows declared public with their labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tacit.errors import InvalidArgument

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit.runs import RunConfig


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
