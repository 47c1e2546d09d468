"""A stand-in for Glyph, the uncurated task of PATE 2018, which was never published.

150 characters, rendered from the fonts that matplotlib brings and those it finds on the machine,
each image turned, scaled, sheared and shifted at random; the most frequent class is five times as
frequent as the rarest, and a tenth of all labels is wrong. Nothing of it is anybody's data.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib import font_manager, get_data_path
from matplotlib.ft2font import FT2Font
from numpy.typing import NDArray

from papers.items import Floats, Integers, Workplace
from papers.pate_students import cost_of, summed
from papers.pate_votes import lnmax_epsilon
from tacit.features import HOG
from tacit.mechanisms import NO_ANSWER, ConfidentGNMax, InteractiveGNMax, LNMax, Mechanism
from tacit.noise import InsecureNoise
from tacit.report import INK, new_figure
from tacit.students import LabelSpreadingStudent, label_posterior
from tacit.teachers import KernelRidgeTeachers, Shard

CHARACTERS = (
    "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    "!\"#$%&'()*+,-./:;<=>?@[\\]^_{|}~"
    "ΓΔΘΛΞΠΣΦΨΩαβγδεζηθλμξπρστφχψω"
    "БДЖИЛЦЧШЩЪЫЭЮЯбвджзлфцчшщъыюя"
)[:150]
SIDE, INK_SIZE = 28, 20
IMBALANCE, WRONG = 5.0, 0.1
# The paper's, for 65 million inputs; ours are fewer, and nobody's.
DELTA = 1e-8
BLOCK = 50  # teachers whose records are in memory at a time


class Glyphs(NamedTuple):
    """Images, the labels that came with them, and what they really are."""

    images: NDArray[np.float32]
    labels: Integers
    truth: Integers


@cache
def shapes() -> NDArray[np.float32]:
    """Return each character in each usable font: (fonts, characters, height, width), from 0 to 1.

    A font is used if it has all characters. Each is centred by its ink, as a box around a single
    character would be: where the line was is lost, and with it comma and apostrophe are alike.
    """
    own = sorted(Path(get_data_path(), "fonts", "ttf").glob("*.ttf"))
    found = {path.name: path for path in map(Path, font_manager.findSystemFonts())}
    found |= {path.name: path for path in own}
    drawn = [font for name in sorted(found) if (font := _drawn(found[name])) is not None]
    return np.array(drawn, dtype=np.float32)


def _drawn(path: Path) -> NDArray[np.float32] | None:
    """Return the characters in one font, or None where it lacks one or cannot be read."""
    try:
        font = FT2Font(str(path))
        known = font.get_charmap()
    except (OSError, RuntimeError, UnicodeError):
        return None
    if any(ord(one) not in known for one in CHARACTERS):
        return None
    font.set_size(INK_SIZE, 72)
    canvas = np.zeros((len(CHARACTERS), SIDE, SIDE), dtype=np.float32)
    for page, one in zip(canvas, CHARACTERS, strict=True):
        font.set_text(one)
        font.draw_glyphs_to_bitmap(antialiased=True)
        ink = np.asarray(font.get_image(), dtype=np.float32)[:SIDE, :SIDE] / 255
        top, left = (SIDE - ink.shape[0]) // 2, (SIDE - ink.shape[1]) // 2
        page[top : top + ink.shape[0], left : left + ink.shape[1]] = ink
    return canvas


def sample(count: int, rng: np.random.Generator) -> Glyphs:
    """Draw images with their labels, a tenth of which is wrong."""
    fonts = shapes()
    shares = np.linspace(IMBALANCE, 1, len(CHARACTERS))
    truth = rng.choice(len(CHARACTERS), count, p=shares / shares.sum())
    which = rng.integers(len(fonts), size=count)
    images = np.empty((count, SIDE * SIDE), dtype=np.float32)
    for start in range(0, count, 2000):
        part = slice(start, start + 2000)
        images[part] = _moved(fonts[which[part], truth[part]], rng)
    other = (truth + rng.integers(1, len(CHARACTERS), size=count)) % len(CHARACTERS)
    labels = np.where(rng.random(count) < WRONG, other, truth)
    return Glyphs(images, labels, truth)


def _moved(pages: NDArray[np.float32], rng: np.random.Generator) -> NDArray[np.float32]:
    """Turn, scale, shear and shift each image at random, and add a little noise."""
    n, middle = len(pages), (SIDE - 1) / 2
    turn, shear = rng.normal(0, 0.05, n), rng.normal(0, 0.05, n)
    scale = np.exp(rng.normal(0, 0.05, (2, n)))
    shift = rng.normal(0, 0.7, (2, n))
    cos, sin = np.cos(turn), np.sin(turn)
    y, x = (axis.ravel()[None, :] - middle for axis in np.mgrid[:SIDE, :SIDE].astype(np.float32))
    down = scale[0][:, None] * (cos[:, None] * y + sin[:, None] * x) + shift[0][:, None]
    across = scale[1][:, None] * (cos[:, None] * x - sin[:, None] * y) + shift[1][:, None]
    across += shear[:, None] * down
    padded = np.zeros((n, SIDE + 2, SIDE + 2), dtype=np.float32)
    padded[:, 1:-1, 1:-1] = pages
    at_y = np.clip(down + middle + 1, 0, SIDE + 0.999)
    at_x = np.clip(across + middle + 1, 0, SIDE + 0.999)
    low_y, low_x = at_y.astype(np.int64), at_x.astype(np.int64)
    share_y, share_x = (at_y - low_y).astype(np.float32), (at_x - low_x).astype(np.float32)
    start = low_y * (SIDE + 2) + low_x + np.arange(n)[:, None] * (SIDE + 2) ** 2
    flat = padded.ravel()
    upper = flat[start] * (1 - share_x) + flat[start + 1] * share_x
    below = start + SIDE + 2
    lower = flat[below] * (1 - share_x) + flat[below + 1] * share_x
    image = upper * (1 - share_y) + lower * share_y
    image += rng.normal(0, 0.05, image.shape).astype(np.float32)
    return np.asarray(np.clip(image, 0, 1), dtype=np.float32)


def features(images: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return gradient histograms: a fixed, public view."""
    hog = HOG((SIDE, SIDE), cells=6, orientations=8)
    return np.asarray(hog.fit(images[:1]).transform(images), dtype=np.float32)


def figure_3(place: Workplace) -> None:
    """Draw examples with their labels, the wrong ones marked."""
    drawn = sample(40, np.random.default_rng(4))
    figure = new_figure("Stand-in for Glyph: image and label (* wrong)", size=(6.2, 4.4))
    figure.axes[0].set_axis_off()
    grid = figure.axes[0].inset_axes((0, 0, 1, 1))
    grid.set_axis_off()
    grid.set_xlim(0, 8)
    grid.set_ylim(5, 0)
    for number, (image, said, true) in enumerate(zip(*drawn, strict=True)):
        row, column = divmod(number, 8)
        box = (column + 0.1, column + 0.8, row + 0.72, row + 0.02)
        grid.imshow(image.reshape(SIDE, SIDE), cmap="gray_r", extent=box, aspect="auto")
        mark = CHARACTERS[said] + ("*" if said != true else "")
        at = column + 0.45, row + 0.94
        grid.text(*at, mark, ha="center", color=INK, fontsize=9, parse_math=False)
    place.picture("pate-figure-3", figure)
    fonts = len(shapes())
    place.table(
        "Figure 3: the stand-in",
        ["classes", "fonts found", "most to rarest class", "labels wrong"],
        [(len(CHARACTERS), fonts, f"{IMBALANCE:g} to 1", f"{WRONG:.0%}")],
    )


def ensemble_votes(
    teachers: int, records: int, queries: NDArray[np.float32], seed: int
) -> Integers:
    """Train teachers on images of their own, a few at a time, and count their votes."""
    votes = np.zeros((len(queries), len(CHARACTERS)), dtype=np.int64)
    rows = np.arange(len(queries))
    for shards in _blocks(teachers, records, seed):
        labels = KernelRidgeTeachers().predict_shards(shards, queries, n_classes=len(CHARACTERS))
        for row in labels:
            votes[rows, row] += 1
    return votes


def _blocks(teachers: int, records: int, seed: int) -> Iterator[list[Shard]]:
    rng = np.random.default_rng(seed)
    for first in range(0, teachers, BLOCK):
        count = min(BLOCK, teachers - first)
        drawn = sample(count * records, rng)
        rows = features(drawn.images)
        yield [
            Shard(rows[part], drawn.labels[part], seed=first)
            for part in np.split(np.arange(count * records), count)
        ]


class Task(NamedTuple):
    """Public images with votes on the first of them, and held-out images."""

    rows: NDArray[np.float32]
    public: Glyphs
    held_rows: NDArray[np.float32]
    held: Glyphs
    votes: Integers


def uncurated(
    place: Workplace,
    teachers: int = 5000,
    records: int = 400,
    queries: int = 2000,
    held_out: int = 3000,
) -> None:
    """Run the paper's three aggregators on the stand-in, and look at them class by class."""
    rng = np.random.default_rng(1)
    public, held = sample(2 * queries, rng), sample(held_out, rng)
    rows = features(public.images)
    votes = ensemble_votes(teachers, records, rows[:queries], seed=2)
    task = Task(rows, public, features(held.images), held, votes)
    top = votes.max(axis=1) / teachers
    right = votes.argmax(axis=1) == public.truth[:queries]
    spread = [f"{np.quantile(top, level):.2f}" for level in (0.1, 0.5, 0.9)]
    place.table(
        f"Uncurated stand-in: {teachers} teachers of {records} images",
        ["votes for the winner: 10 %", "median", "90 %", "plurality is the character, %"],
        [(*spread, f"{100 * right.mean():.1f}")],
    )
    _compared(place, task, teachers)


def _compared(place: Workplace, task: Task, teachers: int) -> None:
    """Show answers, epsilon, labels and student of each aggregator; then by class."""
    asked = np.arange(len(task.votes))
    confident = ConfidentGNMax(
        threshold=0.2 * teachers, sigma_check=0.1 * teachers, sigma_answer=0.02 * teachers
    )
    runs = {
        "LNMax": _plain(task, LNMax(1 / (0.02 * teachers)), asked),
        "Confident-GNMax": _selective(task, confident, asked),
        "Confident, then Interactive": _two_rounds(task, confident, asked, teachers),
        "true labels, not private": _truth(task, asked),
    }
    shown = [
        (name, run.answers, run.epsilon, _per_cent(run.labels_right), *run.students(task))
        for name, run in runs.items()
    ]
    columns = ["labels", "told", "epsilon, the papers'", "labels right, %"]
    columns += ["student, characters, %", "student, given labels, %"]
    place.table("Uncurated stand-in: aggregators, delta 1e-8", columns, shown)
    _by_class(place, task, runs["Confident-GNMax"])


class Told(NamedTuple):
    """What a run told: labels (-1 where none), and the student that learned from them."""

    labels: Integers
    epsilon: str
    labels_right: float
    predicted: Integers

    @property
    def answers(self) -> int:
        """How many queries have a label."""
        return int((self.labels != NO_ANSWER).sum())

    def students(self, task: Task) -> tuple[str, str]:
        """Return how often the student is right: of the characters, and of the given labels."""
        truths = (task.held.truth, task.held.labels)
        first, second = (_per_cent(float((self.predicted == one).mean())) for one in truths)
        return first, second


def _per_cent(share: float) -> str:
    return f"{100 * share:.1f}"


def _told(task: Task, labels: Integers, posterior: Floats, epsilon: str) -> Told:
    known = labels != NO_ANSWER
    right = float((labels[known] == task.public.truth[: len(labels)][known]).mean())
    student = LabelSpreadingStudent().fit(task.rows, np.arange(len(labels)), posterior)
    return Told(labels, epsilon, right, student.predict(task.held_rows))


def _released(task: Task, mechanism: Mechanism, rows: Integers, **public: Any) -> tuple[Any, Any]:
    release = mechanism.release(task.votes[rows], InsecureNoise(int(rows[0])), **public)
    sizes = {"n_classes": len(CHARACTERS), "n_teachers": int(task.votes[0].sum())}
    return np.asarray(release.labels), label_posterior(release, **sizes)


def _plain(task: Task, mechanism: LNMax, asked: Integers) -> Told:
    epsilon = lnmax_epsilon(task.votes, mechanism.gamma, delta=DELTA)
    return _told(task, *_released(task, mechanism, asked), f"{epsilon:.2f}")


def _selective(task: Task, mechanism: ConfidentGNMax, asked: Integers) -> Told:
    epsilon = summed(cost_of(mechanism, task.votes[asked]), delta=DELTA)[1]
    return _told(task, *_released(task, mechanism, asked), f"{epsilon:.2f}")


def _two_rounds(task: Task, first: ConfidentGNMax, asked: Integers, teachers: int) -> Told:
    """Ask a third of the queries by the first, the others where the first student disagrees."""
    one, two = np.split(asked, [len(asked) // 3])
    second = InteractiveGNMax(
        threshold=0.2 * teachers,
        sigma_check=0.15 * teachers,
        sigma_answer=0.04 * teachers,
        confidence=0.9,
    )
    labels, posterior = _released(task, first, one)
    student = LabelSpreadingStudent().fit(task.rows, one, posterior)
    opinion = student.predict_proba(task.rows[two])
    more, believed = _released(task, second, two, student=opinion)
    costs = cost_of(first, task.votes[one]), cost_of(second, task.votes[two], opinion)
    epsilon = summed(*costs, delta=DELTA)[1]
    both = np.concatenate([labels, more]), np.concatenate([posterior, believed])
    return _told(task, *both, f"{epsilon:.2f}")


def _truth(task: Task, asked: Integers) -> Told:
    labels = task.public.truth[asked]
    return _told(task, labels, np.eye(len(CHARACTERS))[labels], "-")


def _by_class(place: Workplace, task: Task, run: Told) -> None:
    """Show yield and accuracy by how frequent a class is, in fifths of the classes."""
    truth = task.public.truth[: len(run.labels)]
    rows = []
    for number, part in enumerate(np.split(np.arange(len(CHARACTERS)), 5)):
        own, held = np.isin(truth, part), np.isin(task.held.truth, part)
        known = own & (run.labels != NO_ANSWER)
        rows.append(
            (
                f"{30 * number + 1} to {30 * number + 30}",
                own.sum(),
                _per_cent(known.sum() / own.sum()),
                _per_cent(float((run.labels[known] == truth[known]).mean())),
                _per_cent(float((run.predicted[held] == task.held.truth[held]).mean())),
            )
        )
    columns = ["classes, most frequent first", "queries", "answered, %", "labels right, %"]
    place.table("Uncurated stand-in: Confident-GNMax by class", [*columns, "student, %"], rows)
