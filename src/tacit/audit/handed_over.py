"""Examination of a finished model, with rows whose membership the examiner knows.

Each row's score is how much likelier the model finds its own label than other wrong ones; members
with higher scores are remembered. That proves something about epsilon only where a fair coin
decided, before the training, which rows became members. Everything here depends on private rows and
is secret: to publish it discloses something that no ledger has paid for.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit._checks import Floats, probability
from tacit.audit.models import FEWEST, Canaries, Guesses, canary_scores, guess_coins
from tacit.datasets import Dataset, load_dataset
from tacit.errors import InvalidArgument
from tacit.ledger import Statement
from tacit.privacy import one_run_p_value
from tacit.records import refuse_overlap
from tacit.runs import RunConfig, verify_run
from tacit.students import load_student

_NO_LABEL_NEEDED = ("groups", "ignored")  # roles that the examiner's rows need not have


@dataclass(frozen=True, slots=True, repr=False)
class Examination:
    """Result of an examination. Secret: it depends on private rows.

    Parameters
    ----------
    members, others : int, rows that were in the training data, or not
    advantage : float
        Chance that a member scores above a non-member, ties half: 0.5 is guessing.
    within : float, confidence radius of the advantage over rows like these
    guesses : tuple of Guesses, empty where no coins were tossed
    claim : float, epsilon of the statement
    delta : float, of the claim and of the lower bound
    confidence_delta : float, chance that the lower bound exceeds the truth
    """

    members: int
    others: int
    advantage: float
    within: float
    guesses: tuple[Guesses, ...]
    claim: float
    delta: float
    confidence_delta: float

    def __repr__(self) -> str:
        return "Examination(secret)"

    @property
    def proved(self) -> float | None:
        """The lower bound on epsilon; None where no coins were tossed: then nothing is proved."""
        return max((each.proved for each in self.guesses), default=None)

    @property
    def contradicts(self) -> bool:
        """Whether the claim is refuted. If not, that proves nothing."""
        return self.proved is not None and self.proved > self.claim

    def secret_dict(self) -> dict[str, Any]:
        """Return everything as plain data, with `proved` and `contradicts`. Secret.

        Returns
        -------
        dict, fit for JSON in a file that only its owner can read
        """
        plain = {name: getattr(self, name) for name in self.__slots__ if name != "guesses"}
        guesses = [
            {name: getattr(each, name) for name in ("seen", "guessed", "right", "proved")}
            for each in self.guesses
        ]
        return {
            **plain,
            "guesses": guesses,
            "proved": self.proved,
            "contradicts": self.contradicts,
        }


def examine_model(
    chances: Callable[[NDArray[Any]], ArrayLike],
    classes: ArrayLike,
    members: tuple[ArrayLike, ArrayLike],
    others: tuple[ArrayLike, ArrayLike],
    *,
    claim: float,
    delta: float,
    tossed: bool = False,
    confidence_delta: float = 0.05,
) -> Examination:
    """Compare a model's scores of its training rows with those of others. Secret.

    It spends nothing and trains nothing. With coins, `proved` <= epsilon with probability
    1 - confidence_delta (`tacit.privacy.one_run_epsilon`), where each row is a unit of its own.
    Without, the advantage measures how well these members can be distinguished, and nothing about
    epsilon: it lies within sqrt(log(2/confidence_delta) / (2 min(members, others))) of its
    expectation (Hoeffding 1963 for two-sample U-statistics), if rows were drawn independently.
    Source: Steinke, Nasr and Jagielski 2023, Theorem 5.2; docs/audit.md.

    Parameters
    ----------
    chances : callable
        Returns probabilities (rows, classes): `student.predict_proba`, or of onnxruntime.
    classes : array, the labels of the columns
    members : pair of arrays
        Rows that were in the training data, and their labels, as they were there. Secret.
    others : pair of arrays, rows that were not, and their labels
    claim : float, epsilon of the statement
    delta : float, its delta
    tossed : bool
        True: a fair coin decided for each of these rows, by itself and before the training, whether
        it became a member. Only then a bound on epsilon follows, and the examiner vouches for the
        coins.
    confidence_delta : float, chance that the lower bound is wrong

    Returns
    -------
    Examination

    Examples
    --------
    >>> rows = np.linspace(0, 1, 40)[:, None]
    >>> forgetful = lambda X: np.full((len(X), 2), 0.5)
    >>> found = examine_model(
    ...     forgetful, [0, 1], (rows[::2], [0] * 20), (rows[1::2], [1] * 20), claim=1.0, delta=1e-5
    ... )
    >>> found.advantage, found.contradicts, found
    (0.5, False, Examination(secret))
    """
    probability(confidence_delta=confidence_delta)
    known = np.asarray(classes)
    inside, outside = (_scores(chances, known, *pair) for pair in (members, others))
    total, fewest = inside.size + outside.size, min(inside.size, outside.size)
    guesses: tuple[Guesses, ...] = ()
    if tossed:
        if total < FEWEST:
            raise InvalidArgument(f"Expected at least {FEWEST} rows whose coins were tossed.")
        one_run_p_value(total, total, 0, 0.0, delta)  # refuses a delta at which nothing is proved
        # In an order that knows nothing of the coins: it decides between equal scores.
        order = np.random.default_rng(secrets.randbits(128)).permutation(total)
        planted = (np.arange(total) < inside.size)[order]
        seen = {"student": np.concatenate([inside, outside])[order]}
        guesses = guess_coins(seen, planted, delta, confidence_delta)
    return Examination(
        members=inside.size,
        others=outside.size,
        advantage=_advantage(inside, outside),
        within=math.sqrt(math.log(2 / confidence_delta) / (2 * fewest)),
        guesses=guesses,
        claim=float(claim),
        delta=float(delta),
        confidence_delta=float(confidence_delta),
    )


def examine_run(
    folder: str | Path,
    members: str,
    others: str,
    *,
    tossed: bool = False,
    confidence_delta: float = 0.05,
) -> Examination:
    """Examine the student of a finished run, read as `tacit predict` reads it. Secret.

    Parameters
    ----------
    folder : path
        The run's; it must verify (`verify_run`), or its claim is not this model's.
    members : str
        Labelled rows that were in the training data, as [data] names them: "in.csv". Secret.
    others : str, labelled rows that were not
    tossed : bool, whether a fair coin decided which of these rows became members
    confidence_delta : float, chance that the lower bound is wrong

    Returns
    -------
    Examination
    """
    folder = Path(folder)
    if broken := [check for check in verify_run(folder) if not check.holds]:
        raise InvalidArgument(
            f"Expected a run that holds together; {broken[0].what}: {broken[0].says}."
        )
    config = RunConfig.of_finished(folder)
    if config.method == "segmentation":
        raise InvalidArgument("Expected a run of rows to examine, not of scans.")
    student = load_student(folder / "student.tacit")
    if getattr(student, "classes_", None) is None:
        raise InvalidArgument("Expected 'student.tacit' to know its classes; it has none.")
    options = {k: v for k, v in config.data.options.items() if k not in _NO_LABEL_NEEDED}
    inside, outside = (_rows(source, options, student) for source in (members, others))
    refuse_overlap(inside.X, outside.X, "other")
    statement = Statement.from_json((folder / "statement.json").read_text(encoding="utf-8"))
    return examine_model(
        student.predict_proba,
        student.classes_,
        (inside.X, inside.labels),
        (outside.X, outside.labels),
        claim=statement.epsilon,
        delta=statement.delta,
        tossed=tossed,
        confidence_delta=confidence_delta,
    )


def _rows(source: str, options: dict[str, Any], student: Any) -> Dataset:
    data = load_dataset(source, **options)
    if data.X.shape[1] != student.n_features_in_:
        raise InvalidArgument("Expected rows with the features that the model takes.")
    return data


def _scores(chances: Any, classes: NDArray[Any], rows: ArrayLike, labels: ArrayLike) -> Floats:
    """Return log-odds of each row's own label against other wrong ones, by the model. Secret."""
    inputs, own = np.asarray(rows), np.asarray(labels)
    if len(inputs) != len(own) or not len(inputs):
        raise InvalidArgument("Expected a label for each row, and at least one row on either side.")
    order = np.argsort(classes)
    if not np.isin(own, classes).all():
        raise InvalidArgument("Expected labels that the model knows.")
    said = np.asarray(chances(inputs), dtype=np.float64)
    if said.shape != (len(inputs), classes.size) or not np.isfinite(said).all():
        raise InvalidArgument("Expected a probability of each class for every row.")
    asked = Canaries(inputs, own, np.zeros(len(own), dtype=bool))
    return canary_scores(said[:, order], classes[order], asked)


def _advantage(inside: Floats, outside: Floats) -> float:
    """Return the share of pairs in which the member scores higher, ties half."""
    ordered = np.sort(outside)
    below = np.searchsorted(ordered, inside, side="left")
    not_above = np.searchsorted(ordered, inside, side="right")
    return float((below + not_above).mean() / (2 * outside.size))
