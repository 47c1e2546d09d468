"""Comparisons: same rows and budget for all, finished cells kept, failures shown, honest words."""

from __future__ import annotations

import csv
import json
import math
import os
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, ClassifierMixin
from threadpoolctl import threadpool_limits

from tacit.datasets import Dataset, load_digits
from tacit.errors import InvalidArgument
from tacit.estimators.comparing import METHODS, Comparison, Facts, compare, default_rule, running
from tacit.estimators.comparing.advice import advice, learned_nothing, recommended
from tacit.estimators.comparing.cells import (
    FAILED,
    OK,
    REFUSED,
    Cell,
    Outcome,
    cells_of,
    finished,
    read_cell,
    settings_of,
    write_cell,
)
from tacit.estimators.comparing.summary import NOT_PRIVATE, Description, standard_error
from tacit.estimators.comparing.tasks import make_task
from tacit.estimators.comparing.worker import Job, run_job
from tacit.privacy import gaussian_mu

CELL = Cell("pate", 0.5, 1e-5, 0, "task", "settings")
DONE = Outcome(OK, accuracy=0.9, spent=0.5, cpu=1.0, wall=1.0, peak_mib=100.0, baseline_mib=90.0)


def blobs(rows: int = 400, n_train: int | None = None) -> Dataset:
    """Two clouds, the classes; the third feature is the row's number."""
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=rows)
    X = np.column_stack([rng.normal(size=(rows, 2)) + 4 * y[:, None], np.arange(rows)])
    return Dataset(X, y, ("a", "b", "row"), ("no", "yes"), "blobs", n_train=n_train)


class Stub(ClassifierMixin, BaseEstimator):
    """An estimator that counts its fits and notes the rows that it was given."""

    def __init__(self, folder: str = "", trouble: str = "", epsilon: float = 0.0) -> None:
        self.folder = folder
        self.trouble = trouble
        self.epsilon = epsilon

    def fit(self, X, y, X_public=None):
        note = {"private": X[:, 2].tolist(), "public": X_public[:, 2].tolist()}
        name = f"{self.epsilon:g}-{time.time_ns()}-{os.getpid()}.json"
        (Path(self.folder) / name).write_text(json.dumps(note))
        if self.trouble == "die":
            os.kill(os.getpid(), 9)
        if self.trouble == "raise":
            raise RuntimeError("no luck\nat all")
        if self.trouble == "refuse":
            raise InvalidArgument("Expected something else.")
        if self.trouble == "sleep":
            time.sleep(60)
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.where(X[:, 0] > 2, "yes", "no")


def fits(folder: Path) -> list[dict[str, list[float]]]:
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]


class TestTask:
    def test_the_rule_of_a_set_with_a_test_part_holds_out_a_tenth_of_it(self):
        rule = default_rule(blobs(400, n_train=300))
        assert (rule.public, rule.held_out, rule.shuffled) == (90, 10, True)

    def test_adult_has_the_rows_of_every_page_of_results(self):
        data = replace(blobs(12_000, n_train=500), name="adult")
        rule = default_rule(data)
        assert (rule.public, rule.held_out, rule.shuffled) == (11_000, 500, False)

    @given(seed=st.integers(0, 2**31), own=st.booleans())
    def test_parts_are_disjoint_and_seeded(self, seed, own):
        task = make_task(blobs(120, n_train=60 if own else None))
        parts = task.parts(seed)
        rows = [set(part.X[:, 2].astype(int)) for part in parts]
        assert not rows[0] & rows[1]
        assert not rows[0] & rows[2]
        assert not rows[1] & rows[2]
        again = task.parts(seed)
        assert all((a.X == b.X).all() for a, b in zip(parts, again, strict=True))

    def test_held_out_rows_count_each_row_once(self):
        task = make_task(blobs(120))
        rows = [set(task.parts(seed).held_out.X[:, 2]) for seed in range(3)]
        assert task.held_out_rows(3) == len(set.union(*rows))

    def test_another_label_is_another_task(self):
        data = blobs()
        other = replace(data, y=1 - data.y)
        assert make_task(data).fingerprint() == make_task(blobs()).fingerprint()
        assert make_task(data).fingerprint() != make_task(other).fingerprint()
        assert make_task(data, public=10).fingerprint() != make_task(data).fingerprint()

    def test_people_with_several_rows_are_refused(self):
        data = replace(blobs(), groups=np.arange(400) // 2)
        with pytest.raises(InvalidArgument, match="groups"):
            make_task(data)

    def test_too_many_public_rows_are_refused(self):
        with pytest.raises(InvalidArgument):
            make_task(blobs(), public=399)


class TestMethods:
    @pytest.mark.parametrize("name", METHODS)
    @pytest.mark.parametrize("kind", ["images", "table", "numbers"])
    def test_every_method_gets_exactly_the_budget(self, name, kind):
        from tacit.features import Numeric

        columns = (Numeric("age", [30, 60]),) if kind == "table" else None
        shape = (8, 8) if kind == "images" else None
        facts = Facts(kind, 5000, 900, 64 if shape else 1, ("a", "b"), shape, columns)
        model = METHODS[name].build(facts, 0.7, 1e-6, 3)
        params = model.get_params()
        assert (params["epsilon"], params["delta"], params["random_state"]) == (0.7, 1e-6, 3)
        assert params["classes"] == ("a", "b")
        assert params["noise"] is None
        assert METHODS[name].rule

    def test_the_rules_reproduce_what_was_chosen_on_usps(self):
        """docs/results: 1,000 and 2,000 teachers at 0.5 and 0.1, k 1,200 and 2,400 at 0.2, 0.1."""
        mnist = Facts("images", 60_000, 9_000, 784, tuple(range(10)), (28, 28))
        pate = {e: METHODS["pate"].build(mnist, e, 1e-5, 0) for e in (0.5, 0.1)}
        assert {e: m.n_teachers for e, m in pate.items()} == {0.5: 1000, 0.1: 2000}
        assert all(model.queries == 100 for model in pate.values())
        k = {e: METHODS["knn"].build(mnist, e, 1e-5, 0).k for e in (0.2, 0.1)}
        assert abs(k[0.2] / 1200 - 1) < 0.1
        assert abs(k[0.1] / 2400 - 1) < 0.1
        prototypes = {
            e: METHODS["prototype"].build(mnist, e, 1e-5, 0).n_prototypes for e in (0.1, 0.02)
        }
        assert prototypes == {0.1: 300, 0.02: 100}

    @given(n=st.integers(200, 10**6), epsilon=st.floats(0.01, 10), classes=st.integers(2, 20))
    def test_votes_stay_clear_of_the_noise_or_queries_are_few(self, n, epsilon, classes):
        facts = Facts("numbers", n, 500, 4, tuple(range(classes)))
        model = METHODS["pate"].build(facts, epsilon, 1e-9, 0)
        noise = math.sqrt(2 * model.queries) / float(gaussian_mu(epsilon, 1e-9))
        assert model.n_teachers / noise >= 0.95 * 4.5 or model.queries == 2 * classes
        assert 2 <= model.n_teachers <= n

    def test_settings_do_not_depend_on_where_objects_live(self):
        assert settings_of(object()) == settings_of(object())
        mnist = Facts("images", 60_000, 9_000, 784, tuple(range(10)), (28, 28))
        a, b = (METHODS["pate"].build(mnist, e, 1e-5, 0) for e in (0.5, 0.5))
        assert settings_of(a) == settings_of(b)
        assert settings_of(a) != settings_of(b.set_params(queries=99))


class TestCells:
    def test_a_written_cell_is_read_as_it_was(self, tmp_path):
        write_cell(tmp_path, CELL, DONE)
        assert read_cell(tmp_path / CELL.file_name) == (CELL, DONE)
        assert finished(tmp_path, CELL) == DONE
        assert cells_of(tmp_path, "task") == [(CELL, DONE)]
        assert cells_of(tmp_path, "other") == []

    def test_other_settings_are_another_cell(self, tmp_path):
        write_cell(tmp_path, CELL, DONE)
        assert finished(tmp_path, replace(CELL, settings="changed")) is None

    @given(cut=st.floats(0, 0.999))
    def test_half_a_file_is_no_cell(self, cut, tmp_path_factory):
        folder = tmp_path_factory.mktemp("cells")
        write_cell(folder, CELL, DONE)
        path = folder / CELL.file_name
        text = path.read_bytes()
        path.write_bytes(text[: int(cut * len(text))])
        assert read_cell(path) is None
        assert cells_of(folder, "task") == []

    @pytest.mark.parametrize(
        "text",
        ["{}", "[]", "null", '{"format": "tacit-comparison-cell/1"}', "\x00", '{"format": 1}'],
    )
    def test_other_files_are_no_cells(self, tmp_path, text):
        (tmp_path / CELL.file_name).write_text(text)
        assert read_cell(tmp_path / CELL.file_name) is None

    def test_success_without_accuracy_is_no_cell(self, tmp_path):
        write_cell(tmp_path, CELL, replace(DONE, accuracy=None))
        assert finished(tmp_path, CELL) is None


class Stating(Stub):
    """Claims what it is told to claim."""

    claim: tuple[float, float, str, str] = (1.0, 1e-5, "record", "csprng")

    @property
    def statement_(self):
        from tacit import Statement

        epsilon, delta, unit, noise = self.claim
        return Statement(
            kind="worst-case",
            epsilon=epsilon,
            delta=delta,
            unit=unit,
            accountant="gaussian",
            noise=noise,
        )


class TestWorker:
    def job(self, model, epsilon=1.0):
        private, public, held = make_task(blobs()).parts(0)
        return Job(model, epsilon, 1e-5, private.X, private.labels, public.X, held.X, held.labels)

    def test_a_claim_within_the_budget_counts(self, tmp_path):
        outcome = run_job(self.job(Stating(str(tmp_path))))
        assert outcome.status == OK
        assert outcome.spent == 1.0
        assert outcome.accuracy > 0.95
        assert outcome.peak_mib >= outcome.baseline_mib > 0

    @pytest.mark.parametrize(
        "claim",
        [
            (1.01, 1e-5, "record", "csprng"),
            (1.0, 1e-4, "record", "csprng"),
            (1.0, 1e-5, "teacher", "csprng"),
            (1.0, 1e-5, "record", "insecure-seeded"),
        ],
    )
    def test_another_claim_does_not(self, tmp_path, claim):
        model = Stating(str(tmp_path))
        model.claim = claim
        outcome = run_job(self.job(model))
        assert outcome.status == FAILED
        assert outcome.accuracy is None
        assert outcome.reason

    def test_refusals_and_errors_are_outcomes_of_one_line(self, tmp_path):
        refused = run_job(self.job(Stub(str(tmp_path), "refuse")))
        assert (refused.status, refused.reason) == (REFUSED, "Expected something else.")
        failed = run_job(self.job(Stub(str(tmp_path), "raise")))
        assert (failed.status, failed.reason) == (FAILED, "RuntimeError: no luck at all")


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run cells in this process: an interpreter for each takes a second to start."""

    def measure(job, limit, stopped):
        with threadpool_limits(1):
            return run_job(job)

    monkeypatch.setattr(running, "in_a_process", measure)


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the references out: they would be learned again in every test."""
    monkeypatch.setattr(running, "REFERENCES", {})


class TestCompare:
    def run(self, tmp_path, **changes):
        notes = tmp_path / "notes"
        notes.mkdir(exist_ok=True)
        settings = {
            "methods": [],
            "epsilon": [1.0],
            "seeds": 1,
            "out": tmp_path / "out",
            "estimators": {"stub": Stub(str(notes), changes.pop("trouble", ""))},
        } | changes
        return compare(blobs(), **settings), notes

    @pytest.mark.usefixtures("here", "alone")
    def test_finished_cells_are_kept_and_new_ones_added(self, tmp_path):
        _, notes = self.run(tmp_path)
        assert len(fits(notes)) == 1
        kept = (tmp_path / "out/cells/stub--1--0.json").read_bytes()
        result, _ = self.run(tmp_path, epsilon=[1.0, 2.0], seeds=2)
        assert len(fits(notes)) == 4
        assert (tmp_path / "out/cells/stub--1--0.json").read_bytes() == kept
        assert result.row("stub", 2.0).runs == 2
        # Every repetition has rows of its own, the same for every method.
        task = make_task(blobs())
        rows = {tuple(task.parts(seed).private.X[:, 2]) for seed in (0, 1)}
        assert {tuple(note["private"]) for note in fits(notes)} == rows

    @pytest.mark.usefixtures("here", "alone")
    def test_a_damaged_cell_is_done_again(self, tmp_path):
        _, notes = self.run(tmp_path)
        path = tmp_path / "out/cells/stub--1--0.json"
        path.write_bytes(path.read_bytes()[:40])
        result, _ = self.run(tmp_path)
        assert len(fits(notes)) == 2
        assert result.row("stub", 1.0).accuracy > 0.95

    @pytest.mark.usefixtures("here", "alone")
    def test_changed_settings_are_run_again_and_old_ones_not_shown(self, tmp_path):
        self.run(tmp_path)
        result, notes = self.run(tmp_path, trouble="refuse")
        assert len(fits(notes)) == 2
        row = result.row("stub", 1.0)
        assert row.accuracy is None
        assert row.reasons == ("refused: Expected something else.",)
        assert "Expected something else." in (tmp_path / "out/comparison.md").read_text()

    @pytest.mark.usefixtures("alone")
    def test_a_crash_is_shown_and_retried_only_on_demand(self, tmp_path):
        result, notes = self.run(tmp_path, trouble="die")
        assert "SIGKILL" in result.row("stub", 1.0).reasons[0]
        assert "failed" in (tmp_path / "out/comparison.md").read_text()
        self.run(tmp_path, trouble="die")
        assert len(fits(notes)) == 1
        self.run(tmp_path, trouble="die", retry_failed=True)
        assert len(fits(notes)) == 2

    @pytest.mark.usefixtures("alone")
    def test_a_cell_that_takes_too_long_is_stopped(self, tmp_path):
        start = time.monotonic()
        result, _ = self.run(tmp_path, trouble="sleep", limit=8.0)
        assert time.monotonic() - start < 55
        assert "stopped after 8 seconds" in result.row("stub", 1.0).reasons[0]

    @pytest.mark.usefixtures("here", "alone")
    def test_a_folder_of_other_data_is_refused(self, tmp_path):
        self.run(tmp_path)
        with pytest.raises(InvalidArgument, match="same data"):
            self.run(tmp_path, delta=1e-6)
        with pytest.raises(InvalidArgument, match="same data"):
            compare("digits", methods=["pate"], seeds=1, out=tmp_path / "out")

    @pytest.mark.usefixtures("here")
    def test_references_and_notice_are_always_there(self, tmp_path):
        result, _ = self.run(tmp_path)
        assert result.row("non-private").accuracy > 0.95
        share = result.row("majority").accuracy
        private, _, held_out = make_task(blobs()).parts(0)
        most = int(private.y.mean() > 0.5)
        assert share == pytest.approx((held_out.y == most).mean())
        page = (tmp_path / "out/comparison.md").read_text()
        assert NOT_PRIVATE in page
        assert "stub makes no statement" in page
        assert json.loads((tmp_path / "out/results.json").read_text())["private"] is False
        with open(tmp_path / "out/results.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        assert {row["method"] for row in rows} == {"stub", "non-private", "majority"}
        for name in ("comparison.png", "comparison.svg"):
            assert (tmp_path / "out" / name).stat().st_size > 5000

    @pytest.mark.parametrize(
        "bad",
        [
            {"methods": ["magic"]},
            {"epsilon": []},
            {"epsilon": [0]},
            {"seeds": 0},
            {"delta": 2},
            {"jobs": 0},
            {"methods": [], "estimators": None},
            {"estimators": {"majority": Stub()}, "methods": None},
        ],
    )
    def test_mistakes_are_refused_before_anything_runs(self, tmp_path, bad):
        with pytest.raises(InvalidArgument):
            self.run(tmp_path, **bad)
        assert not list(tmp_path.glob("out/cells/*.json"))


def made(scores: dict[tuple[str, float | None], list[float]], rows: int = 10_000) -> Comparison:
    """A comparison of given accuracies; a method's CPU-seconds are its name's length."""
    results = tuple(
        (
            Cell(method, epsilon, 1e-5, seed, "task", ""),
            replace(DONE, accuracy=score, cpu=float(len(method))),
        )
        for (method, epsilon), found in scores.items()
        for seed, score in enumerate(found)
    )
    about = Description("made", "split", 1e-5, "numbers", rows, {}, {}, ("non-private", "majority"))
    return Comparison(about, results)


FLOOR = {("majority", None): [0.5], ("non-private", None): [0.97]}


class TestWords:
    def test_the_error_is_the_larger_of_two(self):
        scores = np.array([0.8, 0.9, 1.0])
        assert standard_error(scores, 10**9) == pytest.approx(0.1 / math.sqrt(3))
        assert standard_error(scores, 9) == pytest.approx(math.sqrt(0.09 / 9))
        assert standard_error(np.array([0.5]), 100) == pytest.approx(0.05)

    def test_equals_are_not_told_apart_and_a_much_quicker_one_is_named(self):
        result = made({("slow-one", 1.0): [0.91], ("one", 1.0): [0.909], **FLOOR})
        assert [row.method for row in result.tied(1.0)] == ["slow-one", "one"]
        assert recommended(result, 1.0).method == "slow-one"
        first = advice(result)[0]
        assert "not told apart from it: one 90.9 %" in first
        assert "one takes 3.0 CPU-s instead of 8.0" in first
        almost = made({("slow-one", 1.0): [0.91], ("quick", 1.0): [0.909], **FLOOR})
        assert "instead of" not in advice(almost)[0]

    def test_a_clear_winner_is_named_alone(self):
        result = made({("slow-one", 1.0): [0.95], ("quick", 1.0): [0.9], **FLOOR})
        assert recommended(result, 1.0).method == "slow-one"
        first = advice(result)[0]
        assert "slow-one, 95.0 %; next is quick, 90.0 %" in first

    def test_nothing_is_recommended_where_nothing_was_learned(self):
        result = made({("quick", 1.0): [0.504], **FLOOR})
        assert recommended(result, 1.0) is None
        assert learned_nothing(result, result.row("quick", 1.0))
        assert "no method was better" in advice(result)[0]
        assert any("No better than the most frequent label" in line for line in advice(result))

    def test_the_words_claim_no_more_than_was_measured(self):
        result = made({("quick", 1.0): [0.9], ("quick", 8.0): [0.97], **FLOOR})
        text = " ".join(advice(result))
        assert "from 8 on" in text
        assert "nothing about other data" in text
        assert "epsilon 2" not in text

    @given(scores=st.dictionaries(st.sampled_from("abcde"), st.floats(0, 1), min_size=1))
    def test_the_best_mean_is_always_among_the_equals(self, scores):
        result = made({(name, 1.0): [score] for name, score in scores.items()})
        tied = {row.method for row in result.tied(1.0)}
        best = max(scores.values())
        assert {name for name, score in scores.items() if score == best} <= tied
        for row in result.tied(1.0):
            assert best - row.accuracy <= 0.5 / math.sqrt(10_000) + 1e-12


@pytest.mark.usefixtures("alone")
def test_digits_are_compared_from_python():
    result = compare(load_digits(), methods=["prototype"], epsilon=[8], seeds=1)
    row = result.row("prototype", 8.0)
    assert row.stated
    assert row.spent <= 8.0
    assert row.accuracy > 0.85
    assert row.memory > 50
