"""PATE 2018 with students: who learns from the labels, and how well. Minutes, not seconds.

Votes are the published ones of 250 MNIST teachers, or those of teachers trained here. Nothing here
protects anybody (noise is seeded, no ledger asks): MNIST and Adult are public.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier

from papers.items import Floats, Integers, Workplace
from papers.pate_tables import chances
from papers.pate_votes import DELTA, LAPLACE, VOTES, epsilons, lnmax_epsilon
from tacit.datasets import load_adult, load_dataset, read_votes
from tacit.features import Deskew, digit_features
from tacit.mechanisms import (
    NO_ANSWER,
    ConfidentGNMax,
    InteractiveGNMax,
    LNMax,
    Mechanism,
    Plan,
    count_votes,
)
from tacit.noise import InsecureNoise
from tacit.privacy import (
    DEFAULT_ORDERS,
    RdpCurve,
    gaussian_rdp,
    gnmax_rdp_total,
    worst_case_epsilon,
)
from tacit.students import CNNStudent, LabelSpreadingStudent, VATStudent, label_posterior
from tacit.teachers import KernelRidgeTeachers, predict_with_teachers

SIDE = (28, 28)
TABLE_1 = ConfidentGNMax(threshold=200, sigma_check=150, sigma_answer=40)
ADULT_TABLE_1 = ConfidentGNMax(threshold=300, sigma_check=200, sigma_answer=40)
TREES = 30
HELD_OUT = 1000
SPLITS = ("papers' split", "random 0", "random 1")


class Scene(NamedTuple):
    """Public inputs with the votes on them, and held-out images."""

    images: NDArray[Any]
    rows: Floats
    votes: Integers
    truth: Integers
    held_images: NDArray[Any]
    held_rows: Floats
    held_truth: Integers

    @property
    def n_teachers(self) -> int:
        """How many teachers voted."""
        return int(self.votes[0].sum())

    def right(self, predicted: Integers) -> float:
        """Return how many held-out images are labelled right, in per cent."""
        return 100 * float((predicted == self.held_truth).mean())


def scenes(place: Workplace, random: int) -> list[Scene]:
    """Return the papers' split (the last 1,000 test images held out), then random ones.

    There are votes on the first 9,000 images only, so a random split has 8,000 public images.
    """
    data = load_dataset(f"mnist:{place.path('mnist')}")
    images, truth = data.X[data.n_train :], data.y[data.n_train :]
    rows, votes = digit_features(SIDE).fit_transform(images), read_votes(place.path(VOTES))
    splits = [np.split(np.arange(len(images)), [len(votes)])]
    for seed in range(random):
        order = np.random.default_rng(seed).permutation(len(votes))
        splits.append([order[HELD_OUT:], order[:HELD_OUT]])
    return [
        Scene(images[a], rows[a], votes[a], truth[a], images[b], rows[b], truth[b])
        for a, b in splits
    ]


def beliefs(
    mechanism: Mechanism, scene: Scene, asked: Integers, seed: int, **public: Any
) -> tuple[Integers, Floats]:
    """Return released labels and what a student makes of them."""
    release = mechanism.release(scene.votes[asked], InsecureNoise(seed), **public)
    sizes = {"n_classes": scene.votes.shape[1], "n_teachers": scene.n_teachers}
    return np.asarray(release.labels), label_posterior(release, **sizes)


def figure_1(place: Workplace) -> None:
    """Show the student's accuracy against the number of answers: LNMax and Confident-GNMax."""
    numbers = (25, 50, 100, 200, 400)
    kinds = {"LNMax, scale 20": LNMax(1 / LAPLACE), "Confident-GNMax": TABLE_1}
    found: dict[str, list[list[float]]] = {name: [] for name in kinds}
    for seed, scene in enumerate(scenes(place, 2)):
        order = np.random.default_rng(seed).permutation(len(scene.votes))
        for name, mechanism in kinds.items():
            labels, posterior = beliefs(mechanism, scene, order, seed)
            told = np.nonzero(labels != NO_ANSWER)[0]
            found[name].append(
                [_spread(scene, order[told[:n]], posterior[told[:n]]) for n in numbers]
            )
    rows = [
        (name, n, *(f"{run[at]:.1f}" for run in runs), f"{np.mean(runs, axis=0)[at]:.2f}")
        for name, runs in found.items()
        for at, n in enumerate(numbers)
    ]
    columns = ["aggregator", "answers", *SPLITS, "mean"]
    place.table("Figure 1, left: the student's accuracy, %", columns, rows)
    curves = {name: (numbers, np.mean(runs, axis=0)) for name, runs in found.items()}
    title = "Figure 1, left: MNIST student, 250 published teachers"
    place.curves("pate-figure-1", curves, title, "answers", "held-out images right, %")


def _spread(scene: Scene, asked: Integers, posterior: Floats) -> float:
    student = LabelSpreadingStudent().fit(scene.rows, asked, posterior)
    return scene.right(student.predict(scene.held_rows))


def figure_4_teachers(place: Workplace) -> None:
    """Show epsilon against label accuracy for MNIST ensembles of several sizes."""
    data = load_dataset(f"mnist:{place.path('mnist')}")
    features = digit_features(SIDE).fit(data.X[:1])
    queries = 1000
    inside = features.transform(data.X[: data.n_train])
    asked = features.transform(data.X[data.n_train :][:queries])
    truth = data.y[data.n_train :][:queries]
    rows, curves = [], {}
    for teachers in (100, 250, 1000, 2000):
        shards = np.random.default_rng(0).permutation(len(inside)) % teachers
        labels = predict_with_teachers(
            KernelRidgeTeachers(),
            inside,
            data.y[: data.n_train],
            shards,
            teachers,
            asked,
            n_classes=10,
        )
        votes = count_votes(labels, 10)
        for share in (0.04, 0.08, 0.12, 0.16, 0.24):
            sigma = share * teachers
            noisy = votes + np.random.default_rng(1).normal(0, sigma, (20, *votes.shape))
            right = 100 * float((noisy.argmax(axis=2) == truth).mean())
            paper, tight = epsilons("GNMax", votes, sigma)
            worst = worst_case_epsilon(DELTA, 2 * queries / sigma**2).epsilon
            rows.append((teachers, f"{sigma:g}", paper, tight, float(worst), f"{right:.1f}"))
        own = [row for row in rows if row[0] == teachers]
        curves[f"{teachers} teachers"] = [row[2] for row in own], [float(row[5]) for row in own]
    columns = ["teachers", "sigma", "epsilon, theorem6", "tight", "worst case", "labels right, %"]
    place.table("Figure 4, right: 1,000 queries to MNIST teachers of our own", columns, rows)
    title = "Figure 4, right: larger ensembles, 1,000 MNIST queries"
    x, y = "epsilon at delta 1e-5 (theorem6)", "labels right, %"
    place.curves("pate-figure-4-teachers", curves, title, x, y, log="x")


def vat_student(place: Workplace) -> None:
    """Train several students on the answers of Table 1's MNIST row."""
    students: dict[str, Callable[[int], tuple[Any, bool]]] = {
        "VAT on images": lambda seed: (VATStudent(image_shape=SIDE, random_state=seed), True),
        "VAT on features": lambda seed: (VATStudent(random_state=seed), False),
        "label spreading": lambda _: (LabelSpreadingStudent(), False),
        "network and graph": lambda seed: (
            CNNStudent(
                SIDE, features=digit_features(SIDE), preprocess=Deskew(SIDE), random_state=seed
            ),
            True,
        ),
    }
    found: dict[str, list[float]] = {name: [] for name in students}
    told = []
    for seed, scene in enumerate(scenes(place, 2)):
        asked = np.random.default_rng(seed).choice(len(scene.votes), 640, replace=False)
        labels, posterior = beliefs(TABLE_1, scene, asked, seed)
        told.append(int((labels != NO_ANSWER).sum()))
        for name, make in students.items():
            student, on_images = make(seed)
            student.fit(scene.images if on_images else scene.rows, asked, posterior)
            held = scene.held_images if on_images else scene.held_rows
            found[name].append(scene.right(student.predict(held)))
    rows = [
        (name, *(f"{one:.1f}" for one in own), f"{np.mean(own):.2f}") for name, own in found.items()
    ]
    columns = ["student", *(f"{s} ({n} answers)" for s, n in zip(SPLITS, told, strict=True))]
    place.table("Section 5.3: students of Table 1's MNIST row, % right", [*columns, "mean"], rows)


def private_labels(place: Workplace) -> None:
    """Compare as many private answers, noiseless pluralities and true labels."""
    numbers = (50, 100, 250)
    kinds = ("private: Confident-GNMax", "plurality without noise", "true labels")
    shown = [f"spreading, {n}" for n in numbers] + [f"VAT, {numbers[-1]}"]
    found: dict[tuple[str, str], list[float]] = {(kind, s): [] for kind in kinds for s in shown}
    quality: dict[str, list[float]] = {kind: [] for kind in kinds}
    for seed, scene in enumerate(scenes(place, 4)[1:]):
        order = np.random.default_rng(seed).permutation(len(scene.votes))
        labels, posterior = beliefs(TABLE_1, scene, order, seed)
        plurality = scene.votes[order].argmax(axis=1)
        lists = {
            kinds[0]: (np.nonzero(labels != NO_ANSWER)[0], labels),
            kinds[1]: (np.arange(order.size), plurality),
            kinds[2]: (np.arange(order.size), scene.truth[order]),
        }
        for kind, (rows, classes) in lists.items():
            chosen = rows[: max(numbers)]
            quality[kind].append(float((classes[chosen] == scene.truth[order[chosen]]).mean()))
            for n in numbers:
                sure = posterior[rows[:n]] if kind == kinds[0] else np.eye(10)[classes[rows[:n]]]
                found[kind, f"spreading, {n}"].append(_spread(scene, order[rows[:n]], sure))
            student = VATStudent(random_state=seed).fit(scene.rows, order[rows[:n]], sure)
            found[kind, shown[-1]].append(scene.right(student.predict(scene.held_rows)))
    lines = [
        (
            kind,
            f"{100 * np.mean(quality[kind]):.1f}",
            *(f"{np.mean(found[kind, s]):.2f} ({min(found[kind, s]):.1f})" for s in shown),
        )
        for kind in kinds
    ]
    columns = ["labels", "labels right, %", *shown]
    place.table("Section 6: as many labels, private or not; students, mean (min)", columns, lines)


def interactive(place: Workplace) -> None:
    """Run Confident-GNMax, then Interactive-GNMax with the first student, as section 5.3 does."""
    asked_each = 640
    second = InteractiveGNMax(threshold=175, sigma_check=100, sigma_answer=80, confidence=0.95)
    found: dict[str, list[tuple[float, ...]]] = {"two rounds": [], "Confident alone": []}
    for seed, scene in enumerate(scenes(place, 2)):
        order = np.random.default_rng(seed).permutation(len(scene.votes))[: 2 * asked_each]
        one, two = order[:asked_each], order[asked_each:]
        labels, posterior = beliefs(TABLE_1, scene, one, seed)
        student = LabelSpreadingStudent().fit(scene.rows, one, posterior)
        opinion = student.predict_proba(scene.rows[two])
        more, believed = beliefs(second, scene, two, seed + 100, student=opinion)
        costs = cost_of(TABLE_1, scene.votes[one]), cost_of(second, scene.votes[two], opinion)
        both = np.concatenate([labels, more]), np.concatenate([posterior, believed])
        alone = beliefs(TABLE_1, scene, order, seed)
        found["two rounds"].append(_outcome(scene, order, summed(*costs), *both))
        spent = summed(cost_of(TABLE_1, scene.votes[order]))
        found["Confident alone"].append(_outcome(scene, order, spent, *alone))
    columns = ["run", "teachers' answers", "epsilon, the paper's", "tight", "worst case"]
    rows = [
        (name, *(f"{value:.2f}" for value in np.mean(runs, axis=0))) for name, runs in found.items()
    ]
    place.table(
        "Section 5.3: Confident, then Interactive, 640 MNIST queries each",
        [*columns, "labels right, %", "student, %"],
        rows,
    )


class Cost(NamedTuple):
    """What a run costs: expected answers, RDP by the paper and tight, and the plan."""

    answers: float
    paper: Floats
    tight: Floats
    plan: Plan


def cost_of(
    mechanism: ConfidentGNMax | InteractiveGNMax, votes: Integers, student: Floats | None = None
) -> Cost:
    """Price a run on its votes, each answer times its chance of being given."""
    teachers, classes = int(votes[0].sum()), votes.shape[1]
    chance = chances(mechanism, votes if student is None else votes - teachers * student)
    paper, tight = (
        gnmax_rdp_total(votes, mechanism.sigma_answer, DEFAULT_ORDERS, bound, weights=chance)
        for bound in ("theorem6", "tight")
    )
    checks = len(votes) * gaussian_rdp(mechanism.sigma_check, DEFAULT_ORDERS)
    exact = mechanism.check.cost(DEFAULT_ORDERS, n_teachers=teachers, n_classes=classes)
    plan = Plan(mechanism, len(votes), n_teachers=teachers, n_classes=classes)
    return Cost(float(chance.sum()), paper + checks, tight + len(votes) * exact.values, plan)


def summed(*costs: Cost, delta: float = DELTA) -> tuple[float, float, float, float]:
    """Return expected answers and three epsilons of runs one after another."""
    answers, papers, tights, plans = zip(*costs, strict=True)
    paper, tight, worst = (
        RdpCurve(DEFAULT_ORDERS, np.sum(parts, axis=0))
        for parts in (papers, tights, [p.cost(DEFAULT_ORDERS).total().values for p in plans])
    )
    epsilons = paper.epsilon(delta, "classic"), tight.epsilon(delta), worst.epsilon(delta)
    return sum(answers), *map(float, epsilons)


def _outcome(
    scene: Scene, asked: Integers, costs: tuple[float, ...], labels: Integers, posterior: Floats
) -> tuple[float, ...]:
    """Return what a run cost, and in per cent which labels and images of a student are right."""
    told = labels != NO_ANSWER
    right = 100 * float((labels[told] == scene.truth[asked[told]]).mean())
    return *costs, right, _spread(scene, asked, posterior)


def adult_forests(place: Workplace) -> None:
    """Run Adult's rows of Table 1 with forests as teachers and as the student."""
    data = load_adult(place.path("adult"))
    train, test = data.X[: data.n_train], data.X[data.n_train :]
    y, truth = data.y[: data.n_train], data.y[data.n_train :]
    half = len(test) // 2
    shards = np.random.default_rng(0).permutation(len(train)) % 250
    teacher = RandomForestClassifier(TREES, random_state=0)
    public = test[:half]
    labels = predict_with_teachers(teacher, train, y, shards, 250, public, n_classes=2)
    scene = Scene(
        public, public, count_votes(labels, 2), truth[:half], test[half:], test[half:], truth[half:]
    )
    baseline = RandomForestClassifier(200, min_samples_leaf=3, random_state=0).fit(train, y)
    rows = [
        _forest_row("LNMax, 500 answers", LNMax(1 / LAPLACE), scene, 500, ("2.66", "83.0")),
        _forest_row("Confident, 1,500 asked", ADULT_TABLE_1, scene, 1500, ("1.90", "83.7")),
        ("no privacy", "", "", "", "85.0", f"{scene.right(baseline.predict(scene.held_rows)):.1f}"),
    ]
    columns = ["run", "answers", "epsilon, paper", "ours", "student, paper, %", "ours, %"]
    place.table("Table 1, Adult: 250 forests teach a forest", columns, rows)


def _forest_row(
    name: str, mechanism: LNMax | ConfidentGNMax, scene: Scene, asked: int, printed: tuple[str, str]
) -> Sequence[str]:
    """Return one run: the mean of five students, each of other rows and other noise."""
    epsilons, right, told = [], [], []
    for seed in range(5):
        rows = np.random.default_rng(seed).choice(len(scene.votes), asked, replace=False)
        labels, _ = beliefs(mechanism, scene, rows, seed)
        answered = labels != NO_ANSWER
        student = RandomForestClassifier(200, min_samples_leaf=3, random_state=seed)
        student.fit(scene.rows[rows[answered]], labels[answered])
        right.append(scene.right(student.predict(scene.held_rows)))
        told.append(int(answered.sum()))
        if isinstance(mechanism, LNMax):
            spent = lnmax_epsilon(scene.votes[rows], mechanism.gamma)
        else:
            spent = summed(cost_of(mechanism, scene.votes[rows]))[1]
        epsilons.append(float(spent))
    own = f"{np.mean(right):.1f} ({min(right):.1f})"
    return name, f"{np.mean(told):.0f}", printed[0], f"{np.mean(epsilons):.2f}", printed[1], own
