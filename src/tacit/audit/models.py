"""Audit of a whole estimator in one run: plant canaries by coin tosses, guess the coins.

Each canary is a public input with a wrong label, or an input that does not occur; a fair coin puts
it among the private records, and its input is among the public queries. Whoever guesses more coins
than (epsilon, delta) allows has refuted the claim (Steinke, Nasr and Jagielski 2023). A claim that
is not refuted is not proved: the released numbers themselves may allow better guesses.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from tacit._checks import Floats, Integers, at_least, one_of, probability, refuse
from tacit._files import write_atomically
from tacit.errors import InvalidArgument
from tacit.ledger import Ledger
from tacit.methods import Queries
from tacit.privacy import one_run_epsilon, one_run_p_value
from tacit.records import refuse_overlap
from tacit.runs import RunConfig, forget_teachers, load_rows, make_classifier

KINDS = ("mislabelled", "strange")
"""Wrong labels for inputs that occur; any labels for inputs that do not."""
GUESSED_SHARES = (1.0, 0.5, 0.25)
"""Shares of the coins that are guessed, fixed before the run; each has its part of the confidence.

All of them, or only those of which the scores are surest."""
FEWEST = 20


@dataclass(frozen=True, slots=True)
class Canaries:
    """Records to plant: inputs, labels, and whether the coin plants each."""

    inputs: NDArray[Any]
    labels: NDArray[Any]
    planted: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.inputs)


@dataclass(frozen=True, slots=True)
class Guesses:
    """Source of the guesses, their number, how many were right, what that proves."""

    seen: str
    guessed: int
    right: int
    proved: float


@dataclass(frozen=True, slots=True)
class AuditResult:
    """What one run proves about epsilon at `delta`, next to the claim.

    Parameters
    ----------
    canaries : int, coins tossed
    guesses : tuple of Guesses, their sources, numbers, right ones, and what each proves
    claim : float, epsilon of the statement that is audited
    delta : float, of the claim and of the lower bound
    confidence_delta : float
        Chance that the bound exceeds the true epsilon, shared equally by the guesses, which were
        fixed before the run.
    """

    canaries: int
    guesses: tuple[Guesses, ...]
    claim: float
    delta: float
    confidence_delta: float

    @property
    def proved(self) -> float:
        """The lower bound on epsilon."""
        return max(each.proved for each in self.guesses)

    @property
    def provable(self) -> float:
        """The largest bound that so many canaries could have proved."""
        part = self.confidence_delta / len(self.guesses)
        return max(
            one_run_epsilon(self.canaries, each.guessed, each.guessed, self.delta, part)
            for each in self.guesses
        )

    @property
    def contradicts(self) -> bool:
        """Whether the claim is refuted. If not, that proves nothing."""
        return self.proved > self.claim

    def as_dict(self) -> dict[str, Any]:
        """Return the fields with `proved`, `provable` and `contradicts`, fit for JSON.

        Returns
        -------
        dict
        """
        summary = {name: getattr(self, name) for name in ("proved", "provable", "contradicts")}
        return {**asdict(self), **summary}


def make_canaries(
    inputs: ArrayLike,
    classes: ArrayLike,
    count: int,
    *,
    labels: ArrayLike | None = None,
    kind: str = "mislabelled",
    random_state: int | None = None,
) -> Canaries:
    """Make canaries from inputs that are public, and toss their coins.

    Parameters
    ----------
    inputs : array of shape (n, features), public
    classes : array, the public label set
    count : int
        How many canaries, 20 at least; "mislabelled" needs as many inputs.
    labels : array of shape (n,), optional, the right labels of the inputs, where known
    kind : str
        "mislabelled": inputs as they are, each with a wrong label; where `labels` are not known,
        with any label. "strange": each number of an input is taken from another input, so that
        columns keep their ranges, with any label.
    random_state : int, optional
        Seeds choice and coins, for tests; without it the operating system tosses.

    Returns
    -------
    Canaries
        `inputs`, `labels`, and `planted`: whether its coin puts each among the private records.

    Examples
    --------
    >>> made = make_canaries(np.eye(30), [0, 1], 20, labels=[0] * 30, random_state=0)
    >>> len(made), set(made.labels.tolist()), made.inputs.shape
    (20, {1}, (20, 30))
    """
    at_least(FEWEST, canaries=count)
    one_of(*KINDS, kind=kind)
    rows, known = np.asarray(inputs), np.unique(np.asarray(classes))
    random = np.random.default_rng(
        secrets.randbits(128) if random_state is None else at_least(0, random_state=random_state)
    )
    planted = random.integers(0, 2, size=count).astype(bool)
    if kind == "strange":
        made = np.stack([random.choice(column, count) for column in rows.T], axis=1)
        return Canaries(made, random.choice(known, count), planted)
    if count > len(rows):
        raise refuse("canaries", count, "at most the number of public inputs to mislabel")
    chosen = random.permutation(len(rows))[:count]
    if labels is None:
        return Canaries(rows[chosen], random.choice(known, count), planted)
    right = np.searchsorted(known, np.asarray(labels)[chosen])
    shifts = random.integers(1, known.size, size=count)
    return Canaries(rows[chosen], known[(right + shifts) % known.size], planted)


def audit_estimator(
    estimator: Any,
    X: ArrayLike,
    y: ArrayLike,
    X_public: ArrayLike | None,
    canaries: Canaries,
    *,
    groups: Sequence[Any] | NDArray[Any] | None = None,
    confidence_delta: float = 0.05,
) -> AuditResult:
    """Fit a copy of the estimator to the records and the planted canaries; guess the coins.

    `proved` <= epsilon with probability 1 - confidence_delta, where epsilon is the true one at the
    claim's delta (`tacit.privacy.one_run_epsilon`). The fit is a release of the private records
    like any other: what it spends on the estimator's ledger is spent. Unit: one record, or one
    person with `groups`. Source: Steinke, Nasr and Jagielski 2023, Theorem 5.2; docs/audit.md.

    Parameters
    ----------
    estimator : classifier, not fitted, and not changed; its ledger pays
    X, y : arrays, private records and their labels
    X_public : array, optional
        Public inputs, for estimators that take them; the canaries' inputs are added to them.
    canaries : Canaries, made by `make_canaries`
    groups : sequence, optional, person of each record; each canary is then a person of its own
    confidence_delta : float, chance that the lower bound is wrong

    Returns
    -------
    AuditResult

    Examples
    --------
    >>> from tacit import InsecureNoise, PrototypeClassifier
    >>> random = np.random.default_rng(0)
    >>> public = random.normal(size=(60, 2))
    >>> model = PrototypeClassifier(classes=[0, 1], n_prototypes=30, noise=InsecureNoise(0))
    >>> canaries = make_canaries(public, [0, 1], 40, random_state=0)
    >>> found = audit_estimator(
    ...     model, random.normal(size=(99, 2)), [0, 1, 1] * 33, public, canaries
    ... )
    >>> round(found.claim, 6), found.contradicts
    (1.0, False)
    """
    probability(confidence_delta=confidence_delta)
    outside, n_public = None, 0
    if X_public is not None:
        inputs = np.asarray(X_public)
        # Here, for the copy will not look: the canaries that join below overlap on purpose.
        if not getattr(estimator, "allow_overlap", False):
            refuse_overlap(np.asarray(X), inputs)
        outside = np.concatenate([inputs, np.asarray(canaries.inputs, dtype=inputs.dtype)])
        n_public = len(inputs)
    model = asked_about(estimator, np.arange(n_public, n_public + len(canaries)))
    if not hasattr(model, "predict_proba"):
        raise InvalidArgument(f"Expected a classifier to audit, got {type(model).__name__}.")
    _refuse_early(model, len(canaries))
    planted = canaries.inputs[canaries.planted]
    records = np.concatenate([np.asarray(X), np.asarray(planted, dtype=np.asarray(X).dtype)])
    labels = np.concatenate([np.asarray(y), canaries.labels[canaries.planted]])
    _fit(model, records, labels, outside, _people(groups, len(planted)))
    statement = model.statement_
    scores = {
        seen: canary_scores(chances, model.classes_, canaries)
        for seen, chances in _seen(model, canaries, n_public).items()
    }
    guesses = guess_coins(scores, canaries.planted, statement.delta, confidence_delta)
    return AuditResult(len(canaries), guesses, statement.epsilon, statement.delta, confidence_delta)


def audit_run(
    config: RunConfig,
    folder: str | Path,
    *,
    canaries: int = 200,
    kind: str = "mislabelled",
    confidence_delta: float = 0.05,
    random_state: int | None = None,
) -> AuditResult:
    """Audit what a configuration describes, in a directory of its own, with a ledger of its own.

    Canaries are made from the held-out rows, whose labels are known, if there are enough of them,
    otherwise from the public inputs; where there are none, it is refused.

    Parameters
    ----------
    config : RunConfig
        The run: data, method and budget. Its private records are read, and spent on.
    folder : path
        A new directory: it gets `audit.toml`, `run.ledger` and `audit.json`, but no student.
    canaries : int, 20 at least; about half of them are planted
    kind : str, "mislabelled" or "strange", as in `make_canaries`
    confidence_delta : float, chance that the lower bound is wrong
    random_state : int, optional
        Seeds the canaries and their coins, for tests; without it the operating system tosses.

    Returns
    -------
    AuditResult, as in `audit.json`
    """
    folder = Path(folder)
    rows = load_rows(config)
    held = rows.held_out if rows.held_out is not None and len(rows.held_out) >= canaries else None
    inputs = rows.public if held is None else held.X
    if inputs is None:
        raise refuse("canaries", canaries, "at most the held-out rows, where no inputs are public")
    planted = make_canaries(
        inputs,
        rows.private.classes,
        canaries,
        labels=None if held is None else held.labels,
        kind=kind,
        random_state=random_state,
    )
    if config.privacy.ledger:
        raise InvalidArgument(
            f"Expected no ledger={config.privacy.ledger!r} in [privacy] of an audit: it trains "
            "many models, on a ledger of its own."
        )
    model = make_classifier(config, rows.private, folder)
    private = rows.private
    with own_folder(folder, config.to_toml()):
        given = private.X, private.labels, rows.public, planted
        result = audit_estimator(
            model, *given, groups=private.groups, confidence_delta=confidence_delta
        )
    text = json.dumps(result.as_dict(), indent=2)
    write_atomically(folder / "audit.json", text.encode("utf-8"))
    return result


@contextlib.contextmanager
def own_folder(folder: Path, settings: str) -> Iterator[None]:
    """Make the audit's directory; remove it if it is refused before it has a ledger."""
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        raise InvalidArgument(
            f"Expected {str(folder)!r} to be new: an audit never overwrites a ledger."
        ) from None
    write_atomically(folder / "audit.toml", settings.encode("utf-8"))
    try:
        yield
    finally:
        forget_teachers(folder)
        if not (folder / "run.ledger").exists():
            shutil.rmtree(folder)


def asked_about(estimator: Any, rows: Integers) -> Any:
    """Return a copy that queries these public inputs, if it queries any.

    They are canaries: some are private records, too, which the copy allows.
    """
    model = clone(estimator)
    model._faults_of_run = getattr(estimator, "_faults_of_run", ())
    known = model.get_params(deep=False)
    if "allow_overlap" in known:
        model.set_params(allow_overlap=True)
    if "queries" in known:
        rounds = at_least(1, rounds=Queries.of(queries=known["queries"]).rounds or 1)
        rows = rows[: rows.size // rounds * rounds]
        model.set_params(queries=Queries(strategy=rows, rounds=rounds))
    elif "strategy" in known:
        model.set_params(strategy=rows)
    return model


def canary_scores(chances: ArrayLike, classes: ArrayLike, canaries: Canaries) -> Floats:
    """Return log-odds of each canary's own label against other wrong ones: higher where planted.

    log p(own) - mean log p(j) over the other labels but the likeliest, mostly the right one, whose
    chance differs from input to input anyway. With two classes: the plain log-odds.

    >>> canaries = Canaries(np.zeros((1, 1)), np.array([1]), np.array([True]))
    >>> canary_scores([[0.6, 0.3, 0.1]], [0, 1, 2], canaries).round(3).tolist()
    [1.099]
    """
    logs = np.log(np.maximum(np.asarray(chances, dtype=np.float64), np.finfo(np.float64).tiny))
    own = np.searchsorted(np.asarray(classes), canaries.labels)[:, None]
    others = np.ones(logs.shape, dtype=bool)
    np.put_along_axis(others, own, False, axis=1)
    rest = np.sort(logs[others].reshape(len(logs), -1), axis=1)
    rest = rest if rest.shape[1] == 1 else rest[:, :-1]
    return np.asarray(np.take_along_axis(logs, own, axis=1)[:, 0] - rest.mean(axis=1))


def guess_coins(
    scores: Mapping[str, Floats], planted: NDArray[np.bool_], delta: float, confidence_delta: float
) -> tuple[Guesses, ...]:
    """Guess "planted" for the highest scores, "not" for as many lowest; count right guesses.

    Each of the scores with each of `GUESSED_SHARES` has an equal part of `confidence_delta`.

    >>> planted = np.arange(100) < 50
    >>> found = guess_coins({"student": 1.0 * planted}, planted, 0.0, 0.05)
    >>> [(each.guessed, each.right) for each in found]
    [(100, 100), (50, 50), (24, 24)]
    """
    part = confidence_delta / (len(scores) * len(GUESSED_SHARES))
    results = []
    for seen, numbers in scores.items():
        order = np.argsort(-numbers, kind="stable")
        for share in GUESSED_SHARES:
            half = max(1, int(planted.size * share) // 2)
            right = int(planted[order[:half]].sum() + (~planted[order[-half:]]).sum())
            proved = one_run_epsilon(planted.size, 2 * half, right, delta, part)
            results.append(Guesses(seen, 2 * half, right, proved))
    return tuple(results)


def _refuse_early(model: Any, count: int) -> None:
    """Refuse, before the fit spends anything, a delta at which so many coins prove nothing."""
    delta = model.ledger.budget.delta if isinstance(model.ledger, Ledger) else model.delta
    one_run_p_value(count, count, 0, 0.0, delta)


def _seen(model: Any, canaries: Canaries, n_public: int) -> dict[str, Floats]:
    """Return what may be seen of the canaries' labels: by the student, and by the releases."""
    seen = {"student": np.asarray(model.predict_proba(canaries.inputs), dtype=np.float64)}
    for asked, told in (("queries_", "posteriors_"), ("prototypes_", "posterior_")):
        if hasattr(model, asked) and hasattr(model, told):
            rows = np.asarray(getattr(model, asked)) - n_public
            chances = np.full(seen["student"].shape, 1 / seen["student"].shape[1])
            chances[rows] = np.concatenate(list(getattr(model, told))).reshape(len(rows), -1)
            seen["releases"] = chances
    return seen


def _fit(model: Any, records: Any, labels: Any, outside: Any, groups: Any) -> None:
    """Fit, with public inputs and people where the estimator takes them."""
    taken = signature(model.fit).parameters
    if groups is not None and "groups" not in taken:
        raise InvalidArgument(f"Expected no groups for {type(model).__name__}.")
    offered = {"X_public": outside, "groups": groups}
    given = {name: offered[name] for name in taken if offered.get(name) is not None}
    model.fit(records, labels, **given)


def _people(groups: Any, n_planted: int) -> list[Any] | None:
    """Return the person of each record; each canary has a unique one."""
    if groups is None:
        return None
    mark = secrets.token_hex(8)
    return [*groups, *(f"canary {mark} {number}" for number in range(n_planted))]
