"""Private-kNN, 2020: labels, screened or not, and who learns from them. Minutes, not seconds.

Nothing here protects anybody (noise is seeded, no ledger asks) but for the several labels, which
go through the estimator: MNIST and emotions are public.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import f1_score, hamming_loss
from sklearn.neighbors import KNeighborsRegressor
from sklearn.preprocessing import StandardScaler

from papers.items import Floats, Integers, Workplace
from tacit.datasets import load_idx, open_npz, read_votes
from tacit.features import digit_features
from tacit.ledger import Budget
from tacit.mechanisms import NO_ANSWER, GNMax, Plan, Release, SampledMax, count_votes
from tacit.methods import Neighbourly, PrivateKNNMultiLabelClassifier, propose_class_plan
from tacit.neighbours import Neighbourhoods, NeighbourIndex, default_reach
from tacit.noise import InsecureNoise
from tacit.privacy import gaussian_mu
from tacit.report import COLOURS, label, legend, new_figure
from tacit.students import LabelSpreadingStudent, LinearStudent, label_posterior
from tacit.teachers import KernelRidgeTeachers, predict_with_teachers

VOTES = "pate_votes/mnist_250_teachers.npz"
EMOTIONS = "multilabel/emotions.npz"
DELTA = 1e-5
CLASSES = 10
# On so many of the test images there are published votes; of these so many are held out.
VOTED, HELD_OUT = 9000, 1000


class Digits(NamedTuple):
    """Private images ready to be asked, and test images: some public, some held out."""

    private: Floats
    labels: Integers
    records: NeighbourIndex
    rows: Floats
    truth: Integers

    def divided(self, seed: int) -> Division:
        """Return a random division into public and held-out images."""
        order = np.random.default_rng(seed).permutation(VOTED)
        return Division(self, order[HELD_OUT:], order[:HELD_OUT])


class Division(NamedTuple):
    """Which of the test images are public inputs, and which are held out."""

    scene: Digits
    public: Integers
    held_out: Integers

    def around(self, asked: Integers, k: int, rate: float) -> Neighbourhoods:
        """Rank the private images around the public ones at these places. Secret."""
        rows = self.scene.rows[self.public[asked]]
        return self.scene.records.search(rows, default_reach(k, rate))

    def learned(self, asked: Integers, release: Release, voters: int, *students: Any) -> Floats:
        """Return the answers, and in per cent the labels and each student's images right."""
        rows, truth = self.scene.rows, self.scene.truth
        posterior = label_posterior(release, n_classes=CLASSES, n_teachers=voters)
        labels = posterior.argmax(axis=1) if release.labels is None else np.asarray(release.labels)
        told = np.nonzero(labels != NO_ANSWER)[0]
        right = [labels[told] == truth[self.public[asked[told]]]]
        for student in students:
            student.fit(rows[self.public], asked[told], posterior[told])
            right.append(student.predict(rows[self.held_out]) == truth[self.held_out])
        return np.array([told.size, *(100 * one.mean() for one in right)])


def digits(place: Workplace) -> Digits:
    """Return MNIST in public features, its training images indexed."""
    data = load_idx(place.path("mnist"))
    train, test = data.train, data.test
    features = digit_features((28, 28)).fit(train.X[:1])
    private, rows = (features.transform(X).astype(np.float32) for X in (train.X, test.X[:VOTED]))
    keys = np.random.default_rng(0).integers(2**63, size=len(private), dtype=np.uint64)
    records = NeighbourIndex(private, train.y, keys=keys, radius=1.0)
    return Digits(private, train.y, records, rows, test.y[:VOTED])


def algorithm_1(place: Workplace) -> None:
    """Show screening, plurality and histogram at equal epsilon: answers, right ones, students."""
    scene = digits(place)
    k, rate, queries, runs = 300, 0.15, 400, 3
    divisions = [scene.divided(seed) for seed in range(runs)]
    asked = np.arange(queries)  # the public images are in random order already
    near = [division.around(asked, k, rate) for division in divisions]
    rows = []
    for epsilon in (0.1, 0.2, 0.4, 0.8):
        for name in ("noisy-screening", "sampled-max", "sampled-votes"):
            neighbourly = Neighbourly(k, rate, 1, CLASSES)
            plan = propose_class_plan(name, neighbourly, queries, Budget(epsilon, DELTA))
            mechanism: Any = plan.mechanism
            cap = {} if plan.max_answers is None else {"max_answers": plan.max_answers}
            found = []
            for seed, division in enumerate(divisions):
                noise = InsecureNoise(seed)
                release = mechanism.release(near[seed], noise, n_classes=CLASSES, **cap)
                students = LabelSpreadingStudent(), LinearStudent()
                found.append(division.learned(asked, release, k, *students))
            answers, *right = np.mean(found, axis=0)
            ours = (f"{answers:.0f}", *(f"{value:.1f}" for value in right))
            rows.append((epsilon, name, f"{mechanism.sigma:.0f}", *ours))
    columns = ["epsilon", "mechanism", "sigma", "answered", "labels right, %"]
    columns += ["label spreading, %", "linear student, %"]
    place.table("Algorithm 1: 400 queries, k 300, rate 0.15", columns, rows)


# Sigma over how many vote: 25, 50, 100 and 200 for k = 300.
NOISE = (1 / 12, 1 / 6, 1 / 3, 2 / 3)
NUMBERS = (100, 300, 1000)
SAMPLES = ((300, 0.05), (300, 0.15), (300, 0.25), (2000, 1.0))


def figure_4(place: Workplace) -> None:
    """Show a student's accuracy against epsilon over rates, noise and queries, beside GNMax."""
    scene = digits(place)
    division = scene.divided(0)
    asked = np.arange(max(NUMBERS))
    teachers = {
        "PATE: GNMax, 250 published": read_votes(place.path(VOTES))[division.public[asked]],
        "PATE: GNMax, 2,000 of ours": _votes_of(scene, 2000, division.public[asked]),
    }
    rows: list[tuple[Any, ...]] = []
    for k, rate in SAMPLES:
        name = f"k {k:,}, rate {rate:g}"
        near = division.around(asked, k, rate)
        for share in NOISE:
            mechanism = SampledMax(sigma=share * k, k=k, sampling_rate=rate)
            release = mechanism.release(near, InsecureNoise(0), n_classes=CLASSES)
            rows += _by_number(division, release, k, name)
    for name, votes in teachers.items():
        voters = int(votes[0].sum())
        for share in NOISE:
            release = GNMax(sigma=share * voters).release(votes, InsecureNoise(0))
            rows += _by_number(division, release, voters, name)
    columns = ["who votes", "sigma", "queries", "epsilon", "labels right, %", "student, %"]
    texts = [(*row[:4], f"{row[4]:.1f}", f"{row[5]:.1f}") for row in rows]
    place.table("Figure 4: rate, noise and queries on MNIST", columns, texts)
    names = list(dict.fromkeys(row[0] for row in rows))
    reached = []
    for name in names:
        own = [row for row in rows if row[0] == name]
        least = [min([row[3] for row in own if row[5] >= goal], default=math.nan) for goal in GOALS]
        reached.append((name, *(f"{value:.3g}" for value in least)))
    columns = ["who votes", *(f"student of {goal:g} %" for goal in GOALS)]
    place.table("Figure 4: least epsilon of the sweep for", columns, reached)
    _picture_4(place, rows, names)


GOALS = (95.0, 98.0, 98.5)


def _votes_of(scene: Digits, teachers: int, asked: Integers) -> Integers:
    """Return what kernel-ridge teachers of our own vote on these test images. Secret."""
    shards = np.random.default_rng(0).permutation(len(scene.private)) % teachers
    private = scene.private.astype(np.float64), scene.labels, shards, teachers
    queries = scene.rows[asked].astype(np.float64)
    labels = predict_with_teachers(KernelRidgeTeachers(), *private, queries, n_classes=CLASSES)
    return count_votes(labels, CLASSES)


def _by_number(
    division: Division, release: Release, voters: int, name: str
) -> list[tuple[Any, ...]]:
    """Return epsilon and accuracy of the first 100, 300 and 1,000 labels of a release."""
    mechanism: Any = release.mechanism
    sizes = {"n_teachers": voters} if isinstance(mechanism, GNMax) else {}
    labels = np.asarray(release.labels)
    rows = []
    for n in NUMBERS:
        epsilon = Plan(mechanism, n, n_classes=CLASSES, **sizes).epsilon(DELTA)
        first = Release(mechanism, labels=labels[:n], secure=False)
        _, right, student = division.learned(np.arange(n), first, voters, LabelSpreadingStudent())
        rows.append((name, float(mechanism.sigma), n, epsilon, right, student))
    return rows


def _picture_4(place: Workplace, rows: list[tuple[Any, ...]], names: list[str]) -> None:
    figure = new_figure("Figure 4: MNIST student over rate, noise and queries", size=(6.6, 4.2))
    axes = figure.axes[0]
    for place_of, name in enumerate(names):
        own = [row for row in rows if row[0] == name]
        marker = "osD^vP"[place_of]
        look: dict[str, Any] = {"color": COLOURS[place_of], "marker": marker, "s": 28}
        wrong = [100 - row[5] for row in own]
        axes.scatter([row[3] for row in own], wrong, label=name, alpha=0.85, **look)
    axes.set_xscale("log")
    axes.set_yscale("log")
    ticks = (1, 2, 5, 10, 20, 50)
    axes.set_yticks(ticks, [str(tick) for tick in ticks])
    axes.minorticks_off()
    label(axes, x="worst-case epsilon (delta 1e-5)", y="held-out images wrong, %")
    legend(axes, "upper right")
    place.picture("knn-figure-4", figure)


TAU, PLAIN_K, ASKED, MOST_K, RUNS = 2.0, 20, 100, 150, 10


def emotions(place: Workplace) -> None:
    """Show F1 by label on emotions, without privacy and at two epsilons."""
    with open_npz(place.path(EMOTIONS)) as file:
        X, y = file["x_train"], file["y_train"]
        public, held_out = file["x_test"][::2], file["x_test"][1::2]
        truth, names = file["y_test"][1::2], file["label_names"]
    scaler = StandardScaler().fit(public)
    plain = KNeighborsRegressor(PLAIN_K).fit(scaler.transform(X), y)
    runs = {"20-NN, not private": [plain.predict(scaler.transform(held_out)) >= 0.5]}
    for epsilon in (2.0, 8.0):
        noise = math.sqrt(2 * TAU * ASKED) / gaussian_mu(epsilon, DELTA)
        k = int(min(math.ceil(10 * noise), MOST_K))
        for norm in ("l1", "l2"):
            model = PrivateKNNMultiLabelClassifier(
                k=k,
                labels=tuple(str(name) for name in names),
                clip=(norm, TAU),
                threshold="matched",
                epsilon=epsilon,
                delta=DELTA,
                queries=ASKED,
                features=StandardScaler(),
                random_state=0,
            )
            runs[f"epsilon {epsilon:g}, {norm}, k {k}"] = [
                model.fit(X, y, X_public=public).predict(held_out) for _ in range(RUNS)
            ]
    always = np.ones_like(truth)
    runs = {"every label always": [always], **runs}
    columns = ["label", "how often", *runs]
    by_label = {
        name: np.mean(
            [f1_score(truth, one, average=None, zero_division=0) for one in found], axis=0
        )
        for name, found in runs.items()
    }
    rows: list[tuple[Any, ...]] = [
        (str(names[at]), f"{truth[:, at].mean():.2f}", *(f"{by_label[n][at]:.3f}" for n in runs))
        for at in range(len(names))
    ]
    for title, score in (("micro-F1", _micro), ("Hamming loss", hamming_loss)):
        means = (np.mean([score(truth, one) for one in found]) for found in runs.values())
        rows.append((title, "", *(f"{value:.3f}" for value in means)))
    place.table("Section C: emotions, F1 by label", columns, rows)


def _micro(truth: Integers, predicted: Integers) -> float:
    return float(f1_score(truth, predicted, average="micro", zero_division=0))
