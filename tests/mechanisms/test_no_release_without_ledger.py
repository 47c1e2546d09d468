"""Nothing is released without the ledger: when it refuses, no path returns a label or a number.

The ledger's store is patched so that no entry reaches the disk. Then every way from secret to
public is tried: the ledger's own door, every command, the estimator, and the source tree itself.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from knn_reference import Reference
from summary_cases import spoken

import tacit
import tacit_federation
from tacit.cli import main
from tacit.cli.runs import demo_config
from tacit.errors import BudgetExceeded, GrantError, LedgerDamaged, LedgerUnavailable
from tacit.ledger import Budget, Ledger
from tacit.ledger.store import Store
from tacit.mechanisms import (
    ConfidentGNMax,
    GNMax,
    InteractiveGNMax,
    LNMax,
    NoisyScreening,
    NoisySteps,
    NoisySum,
    NoisyVotes,
    Plan,
    SampledLabels,
    SampledMax,
    SampledMean,
    SampledMedian,
    SampledVotes,
    Sanitise,
    ScoredRecords,
    ScoreHistogram,
    ScreeningCheck,
    SecretCost,
    ThresholdCheck,
    secret_cost_of,
)
from tacit.mechanisms.noisy_steps import Counting
from tacit.methods import PATEClassifier
from tacit.noise import GrantedNoise, InsecureNoise, SecureNoise

SOURCES = Path(tacit.__file__).parent
FEDERATION = Path(tacit_federation.__file__).parent
VOTES = np.tile([[40, 7, 3], [10, 35, 5]], (3, 1))
STUDENT = np.full((6, 3), 1 / 3)
COST = SecretCost(0.5, 0.01, 8.0, 0.02)
CASES = [
    (Plan(GNMax(20.0), 6), VOTES, {}),
    (Plan(LNMax(0.05), 6), VOTES, {}),
    (Plan(NoisyVotes(20.0), 6), VOTES, {}),
    (Plan(ThresholdCheck(30.0, 20.0), 6, n_teachers=50, n_classes=3), VOTES, {}),
    (Plan(ConfidentGNMax(30.0, 20.0, 20.0), 6, n_teachers=50, n_classes=3), VOTES, {}),
    (
        Plan(InteractiveGNMax(30.0, 20.0, 20.0, 0.2), 6, n_teachers=50),
        VOTES,
        {"student": STUDENT},
    ),
    (Plan(Sanitise(8.0, 0.02, 5.0, 0.1, 1e-7, 1e-7, covers="c" * 64), 1), COST, {}),
    (Plan(SampledMax(20.0, 3, 0.5), 6, n_classes=2), Reference([0, 1, 1, 0], 6), {}),
    (Plan(SampledVotes(20.0, 3, 0.5), 6, n_classes=2), Reference([0, 1, 1, 0], 6), {}),
    (Plan(ScreeningCheck(2.0, 9.0, 3, 0.5), 6, n_classes=2), Reference([0, 1, 1], 6), {}),
    (Plan(NoisyScreening(2.0, 9.0, 20.0, 3, 0.5), 6, n_classes=2), Reference([0, 1, 1], 6), {}),
    (Plan(SampledLabels(20.0, 3, 0.5), 6), Reference([[0, 1], [1, 1]], 6), {}),
    (Plan(SampledMean(0.5, 3, 0.5), 6), Reference([0.25, 0.5], 6), {}),
    (Plan(SampledMedian(0.1, 3, 0.5), 6), Reference([0.25, 0.5], 6), {}),
    (Plan(NoisySteps(20.0, 0.5), 6), Counting(3, steps=6), {}),
    (Plan(NoisySum(20.0, 2, 3), 1), spoken(np.eye(2), np.ones((2, 3))), {}),
    (Plan(ScoreHistogram(20.0, 2, 3), 1), ScoredRecords(np.arange(2), np.arange(2)), {}),
]
EVERY = pytest.mark.parametrize(
    ("plan", "answers", "public"), CASES, ids=[case[0].mechanism.name for case in CASES]
)


class NoiseDrawn(AssertionError):
    """Somebody drew noise although no entry was written."""


class Tripwire(InsecureNoise):
    """Noise that must not be touched."""

    def _draw(self, draw):
        raise NoiseDrawn


def disk_full(store, draft, *asked, **options):
    raise LedgerUnavailable("The disk is full.")


def over_budget(store, draft, *asked, **options):
    raise BudgetExceeded("Nothing is left.")


def interrupted(store, draft, *asked, **options):
    raise KeyboardInterrupt


def silent(store, draft, *asked, **options):
    """The worst kind: returns as if all were well, without an entry."""
    return None


@pytest.fixture(
    params=[
        (disk_full, LedgerUnavailable),
        (over_budget, BudgetExceeded),
        (interrupted, KeyboardInterrupt),
        (silent, LedgerUnavailable),
    ],
    ids=lambda case: case[0].__name__,
)
def refusing(request, monkeypatch):
    """Make every ledger one on which nothing can be written; return what using it must raise."""
    append, error = request.param

    def trip(self):
        raise NoiseDrawn

    def refuse():
        monkeypatch.setattr(Store, "append", append)
        monkeypatch.setattr(SecureNoise, "__init__", trip)
        monkeypatch.setattr(InsecureNoise, "_draw", Tripwire._draw)
        return error

    return refuse


def new_ledger(folder):
    """With room for everything in this file."""
    return Ledger(
        folder / "run.ledger",
        budget=Budget(200.0, 1e-5),
        accountant="rdp",
        reserved_delta=1e-6,
    )


@EVERY
@pytest.mark.parametrize("noise", [None, Tripwire(0)], ids=["secure", "seeded"])
def test_a_refusing_ledger_lends_no_grant(plan, answers, public, noise, refusing, tmp_path):
    ledger = new_ledger(tmp_path)
    error = refusing()
    released = []
    with (
        pytest.raises(error),
        ledger.release(plan, purpose="should fail", noise=noise) as grant,
    ):
        released.append(grant.release(answers, **public))
    assert released == []
    assert len(ledger) == 0


@EVERY
def test_the_same_plans_are_released_by_an_honest_ledger(plan, answers, public, tmp_path):
    """Otherwise the test above would show nothing."""
    ledger = new_ledger(tmp_path)
    with ledger.release(plan, purpose="works") as grant:
        assert len(grant.release(answers, **public)) > 0
    assert len(ledger) == 1


@EVERY
def test_the_entry_is_on_disk_before_noise_is_drawn(plan, answers, public, tmp_path):
    ledger, seen = new_ledger(tmp_path), []

    class Watching(InsecureNoise):
        def _draw(self, draw):
            seen.append(len(Ledger(tmp_path / "run.ledger")))
            return super()._draw(draw)

    with ledger.release(plan, purpose="watched", noise=Watching(0)) as grant:
        assert seen == []
        grant.release(answers, **public)
    assert seen
    assert set(seen) == {1}


@EVERY
def test_a_kept_grant_releases_nothing(plan, answers, public, tmp_path):
    ledger = new_ledger(tmp_path)
    with ledger.release(plan, purpose="not used") as grant:
        pass
    with pytest.raises(GrantError):
        grant.release(answers, **public)


# Commands ------------------------------------------------------------------------------------

PARAMETERS = {
    "gnmax": ("--sigma", "40"),
    "noisy-votes": ("--sigma", "40"),
    "lnmax": ("--gamma", "0.05"),
    "confident-gnmax": ("--threshold", "30", "--sigma-check", "40", "--sigma-answer", "40"),
    "interactive-gnmax": (
        *("--threshold", "30", "--sigma-check", "40", "--sigma-answer", "40"),
        *("--confidence", "0.2", "--student", "student.npy"),
    ),
}
BUDGET = ("--epsilon", "50", "--delta", "1e-5")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("votes.npz", votes=VOTES)
    np.save("student.npy", STUDENT)
    return tmp_path


@pytest.fixture
def command(monkeypatch, capfd):
    """Run `tacit ...` in this process: exit code and everything it printed."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["tacit", *arguments])
        capfd.readouterr()
        try:
            main()
        except SystemExit as stop:
            return int(stop.code or 0), "".join(capfd.readouterr())
        return 0, "".join(capfd.readouterr())

    return run


def files(folder):
    """Every file but ledgers, which hold no labels."""
    return {path for path in folder.rglob("*") if path.is_file() and ".ledger" not in path.name}


def aggregate(command, name, *more):
    return command(
        *("aggregate", "votes.npz", "--mechanism", name, *PARAMETERS[name], *BUDGET),
        *("--ledger", "run.ledger", "--out", "labels.csv", "--report", "report.html", *more),
    )


@pytest.mark.parametrize("name", PARAMETERS)
@pytest.mark.parametrize("more", [(), ("--insecure-seed", "1"), ("--json",)])
def test_aggregate_writes_nothing(name, more, folder, command, refusing):
    before = files(folder)
    refusing()
    code, said = aggregate(command, name, *more)
    assert code != 0
    assert files(folder) == before
    assert "Released" not in said
    assert '"labels"' not in said


def test_sanitise_writes_nothing(folder, command, refusing):
    assert aggregate(command, "gnmax")[0] == 0
    before = files(folder)
    refusing()
    code, said = command(
        *("sanitise", "votes.npz", "--labels", "labels.csv", "--ledger", "run.ledger"),
        *("--out", "statement.json", "--report", "sanitised.html"),
    )
    assert code != 0
    assert files(folder) == before
    assert "ex post" not in said


@pytest.mark.parametrize(
    ("arguments", "place"),
    [(("demo", "--out", "here"), "here/run-1"), (("train", "run.toml", "--out", "there"), "there")],
    ids=["demo", "train"],
)
def test_a_run_publishes_nothing(arguments, place, folder, command, refusing):
    """Configuration, secrets of teachers and files, a marker of what was begun: no release."""
    Path("run.toml").write_text(demo_config().to_toml())
    refusing()
    code, said = command(*arguments)
    assert code != 0
    left = {path.relative_to(folder / place).parts[0] for path in files(folder / place)}
    assert left <= {"config.toml", "begun-with.secret", "teachers", "releases"}
    assert {path.suffix for path in files(folder / place / "releases")} <= {".begun"}
    assert "right" not in said
    assert "accuracy" not in said


def test_the_commands_do_write_when_the_ledger_agrees(folder, command):
    for name in PARAMETERS:
        for place in ("run.ledger", "run.ledger-head", "labels.csv", "report.html"):
            Path(place).unlink(missing_ok=True)
        assert aggregate(command, name)[0] == 0, name
        assert len(Path("labels.csv").read_text().splitlines()) == 7
    assert command("demo", "--out", "here")[0] == 0
    assert (folder / "here/run-1/student.tacit").exists()


# The estimator -------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", ["noisy-votes", "gnmax", "confident-gnmax"])
def test_the_estimator_learns_nothing(mechanism, refusing, tmp_path):
    random = np.random.default_rng(0)
    X, y = random.normal(size=(60, 2)), np.tile([0, 1], 30)
    public = random.normal(size=(20, 2)) + 9.0
    model = PATEClassifier(
        n_teachers=5,
        queries=4,
        epsilon=50.0,
        delta=1e-3,
        classes=[0, 1],
        mechanism=mechanism,
        ledger=tmp_path / "run.ledger",
        random_state=0,
    )
    error = refusing()
    with pytest.raises(error):
        model.fit(X + 3 * y[:, None], y, X_public=public)
    assert not hasattr(model, "student_")
    assert getattr(model, "releases_", []) == []


# The source ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def makers():
    """Modules of the packages whose code, not its examples, calls a name."""
    found = defaultdict(set)
    files = [(path, SOURCES) for path in SOURCES.rglob("*.py")]
    files += [(path, FEDERATION.parent) for path in FEDERATION.rglob("*.py")]
    for path, root in files:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                called = getattr(node.func, "id", None) or getattr(node.func, "attr", None)
                found[called].add(path.relative_to(root).as_posix())
    return found


def test_only_the_ledger_makes_noise_and_grants(makers):
    for name in ("SecureNoise", "GrantedNoise", "Grant"):
        assert makers[name] == {"ledger/ledger.py"}, name


def test_only_mechanisms_make_releases(makers):
    """And what reads them back, with the entry that paid."""
    made = {module for module in makers["Release"] if Path(module).parent.name != "mechanisms"}
    assert made == {
        "ledger/kept_releases.py",
        "tacit_federation/releasing.py",  # of signed bytes, at the site and the analyst
        "tacit_federation/sums.py",  # the same, of two aggregators
    }


def test_seeded_noise_is_made_by_the_option_that_says_so(makers):
    assert makers["InsecureNoise"] == {"cli/votes.py"}


def test_a_forged_grant_names_an_entry_that_no_ledger_holds(tmp_path):
    """Python cannot forbid `GrantedNoise(...)` by hand; whoever asks the ledger finds out."""
    release = GNMax(20.0).release(VOTES, GrantedNoise(SecureNoise(), entry="f" * 64))
    with pytest.raises(LedgerDamaged):
        new_ledger(tmp_path).verify(head=release.entry)


def test_sanitising_needs_the_ledger_too(folder, refusing):
    ledger = new_ledger(folder)
    with ledger.release(CASES[0][0], purpose="labels") as grant:
        labels = grant.release(VOTES)
    secret = secret_cost_of(GNMax(20.0), VOTES, labels, 8.0, 0.02)
    error = refusing()
    made = Sanitise(8.0, 0.02, 5.0, 0.1, 1e-7, 1e-7, covers=labels.entry)
    published = []
    with (
        pytest.raises(error),
        ledger.release(Plan(made, 1), purpose="cost") as grant,
    ):
        published.append(grant.release(secret))
    assert published == []
