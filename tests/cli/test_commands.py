"""The other commands: plan, sanitise, analyze, ledger, report, demo, and the root."""

from __future__ import annotations

import json
import re
import stat
import warnings
from pathlib import Path

import numpy as np
import pytest
import typer
from scipy.special import ndtr

from tacit import Budget, ConfidentGNMax, GNMax, Ledger, LNMax, Plan, Statement
from tacit.cli.app import full_app
from tacit.datasets import demo_votes
from tacit.methods.calibration import rounded_up
from tacit.methods.pate import propose_votes
from tacit.privacy import gnmax_rdp_total, lnmax_rdp

RELEASE = (
    *("--mechanism", "confident-gnmax", "--threshold", 150, "--sigma-check", 80),
    *("--sigma-answer", 40, "--max-answers", 120, "--epsilon", 2.5, "--delta", 1e-5),
    *("--ledger", "run.ledger", "--out", "labels.csv"),
)


@pytest.fixture
def released(tacit, votes):
    outcome = tacit("aggregate", votes, *RELEASE)
    assert outcome.code == 0, outcome.err
    return votes


class TestPlan:
    def test_proposals_fit_the_budget_as_printed(self):
        plans = propose_votes(640, Budget(2.0, 0.9e-5), 10, n_teachers=250)
        assert len(plans) == 3
        for plan in plans:
            assert plan.epsilon(0.9e-5) <= 2.0
            assert plan.epsilon(0.9e-5) > 1.99  # and do not waste it

    @pytest.mark.parametrize("sigma", [1.0, 9.9991, 71.33219, 0.0123411, 123456.0])
    def test_rounding_never_lowers_noise(self, sigma):
        assert sigma <= rounded_up(sigma) <= sigma * 1.001

    def test_json_and_plot(self, tacit):
        outcome = tacit(
            "plan", "pate", "--teachers", 250, "--queries", 640, "--delta", 1e-5, "--epsilon", 2,
            "--plot", "plan.png", "--json",
        )  # fmt: skip
        result = json.loads(outcome.out)
        assert {item["mechanism"] for item in result["proposals"]} == {
            "gnmax", "noisy-votes", "confident-gnmax",
        }  # fmt: skip
        assert Path("plan.png").stat().st_size > 10_000

    def test_table(self, tacit):
        outcome = tacit(
            "plan", "pate", "--teachers", 250, "--queries", 640, "--delta", 1e-5, "--epsilon", 2
        )
        assert "--sigma-answer" in outcome.out

    @pytest.mark.parametrize("bad", [("--epsilon", 0), ("--delta", 2), ("--queries", 0)])
    def test_bad_input(self, tacit, bad):
        base = ("--teachers", 250, "--queries", 640, "--delta", 1e-5, "--epsilon", 2)
        outcome = tacit("plan", "pate", *base, *bad)
        assert outcome.code == 2
        assert bad[0].removeprefix("--") in outcome.err


class TestSanitise:
    def test_statement_with_the_worst_case_beside_it(self, tacit, released):
        outcome = tacit(
            "sanitise", released, "--labels", "labels.csv", "--ledger", "run.ledger",
            "--out", "statement.json", "--report", "sanitised.html",
        )  # fmt: skip
        assert outcome.code == 0, outcome.err
        statement = Statement.from_json(Path("statement.json").read_text())
        ledger = Ledger("run.ledger")
        assert statement.kind == "sanitised"
        assert statement.delta == 1e-5
        assert statement.worst_case_epsilon == ledger.spent()
        assert statement.head == ledger.head
        assert [entry.kind for entry in ledger.entries()] == ["release", "release", "value"]

    def test_needs_a_reserve(self, tacit, votes):
        tacit("aggregate", votes, *RELEASE, "--reserve-delta", 0)
        outcome = tacit(
            "sanitise", votes, "--labels", "labels.csv", "--ledger", "run.ledger", "--out", "s.json"
        )
        assert outcome.code == 2
        assert "reserve" in outcome.err
        assert len(Ledger("run.ledger")) == 1

    def refused(self, tacit, votes, header, lines, message):
        Path("other.csv").write_text("".join(f"{line}\n" for line in [header, *lines]))
        outcome = tacit(
            "sanitise", votes, "--labels", "other.csv", "--ledger", "run.ledger",
            "--out", "s.json",
        )  # fmt: skip
        assert outcome.code == 2
        assert message in outcome.err
        assert len(Ledger("run.ledger")) == 1
        assert not Path("s.json").exists()

    def test_refuses_labels_that_are_not_the_entrys(self, tacit, released):
        header, *lines = Path("labels.csv").read_text().splitlines()
        assert header == "index,label,entry"
        index, label, paid = lines[0].split(",")
        strangers = [f"{line[:-12]}{'0' * 12}" for line in lines]
        repeated = [f"{index},{label},{paid}"] * len(lines)
        nameless = [line.removesuffix(f",{paid}") for line in lines]
        for changed, message in [
            (lines[1:], "Expected labels for the"),
            (repeated, "each another row"),
            (strangers, "Expected --labels that an entry of the ledger paid for"),
            ([*lines[1:], strangers[0]], "all of one entry"),
            ([line[:-1] for line in lines], "all of one entry"),
            ([], "all of one entry"),
        ]:
            self.refused(tacit, released, header, changed, message)
        self.refused(tacit, released, "index,label", nameless, "all of one entry")

    def test_covers_the_entry_that_paid_and_no_later_one(self, tacit, votes):
        for name in ("labels.csv", "later.csv"):
            assert tacit("aggregate", votes, *RELEASE, "--epsilon", 5, "--out", name).code == 0
        outcome = tacit(
            "sanitise", votes, "--labels", "labels.csv", "--ledger", "run.ledger",
            "--out", "s.json",
        )  # fmt: skip
        assert outcome.code == 0, outcome.err
        first, _, sanitised, _ = Ledger("run.ledger").entries()
        assert sanitised.plan["parameters"]["covers"] == first.hash


class TestAnalyze:
    ARGUMENTS = (
        *("--mechanism", "confident-gnmax", "--threshold", 150, "--sigma-check", 80),
        *("--sigma-answer", 40, "--delta", 1e-5),
    )

    def test_refuses_without_the_word_secret(self, tacit, votes):
        outcome = tacit("analyze", votes, *self.ARGUMENTS)
        assert outcome.code == 2
        assert "--secret" in outcome.err
        assert outcome.out == ""

    def test_files_are_private_and_marked(self, tacit, votes):
        outcome = tacit(
            "analyze", votes, *self.ARGUMENTS, "--queries", 40, "--secret", "--plot", "figures",
            "--out", "analysis.json", "--json",
        )  # fmt: skip
        assert outcome.code == 0, outcome.err
        written = [Path("analysis.json"), *Path("figures").iterdir()]
        assert len(written) == 4
        for path in written:
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert "SECRET" in json.loads(Path("analysis.json").read_text())

    def test_data_dependent_cost_is_the_weighted_sum(self, tacit, votes):
        outcome = tacit(
            "analyze", votes, "--mechanism", "gnmax", "--sigma", 40, "--delta", 1e-5,
            "--queries", 30, "--secret", "--json",
        )  # fmt: skip
        result = json.loads(outcome.out)
        order = result["best_order"]
        rdp = gnmax_rdp_total(demo_votes()[:30], 40, [order])[0]
        by_hand = rdp + np.log1p(-1 / order) - (np.log(1e-5) + np.log(order)) / (order - 1)
        assert result["data_dependent_epsilon"] == pytest.approx(by_hand, rel=1e-9)
        assert result["worst_case_epsilon"] == Plan(GNMax(40), 30).epsilon(1e-5)

    def test_lnmax_is_priced_by_its_own_bounds(self, tacit, votes):
        arguments = ("--mechanism", "lnmax", "--gamma", 0.05, "--delta", 1e-5, "--queries", 30)
        result = json.loads(tacit("analyze", votes, *arguments, "--secret", "--json").out)
        order = result["best_order"]
        rdp = lnmax_rdp(demo_votes()[:30], 0.05, [order])[:, 0].sum()
        by_hand = rdp + np.log1p(-1 / order) - (np.log(1e-5) + np.log(order)) / (order - 1)
        assert result["data_dependent_epsilon"] == pytest.approx(by_hand, rel=1e-9)
        assert result["worst_case_epsilon"] == Plan(LNMax(0.05), 30).epsilon(1e-5)
        assert result["data_dependent_epsilon"] < result["theorem6_epsilon"]
        assert result["sanitised_epsilon_estimate"] is None
        outcome = tacit("analyze", votes, *arguments, "--secret", "--plot", "figures")
        assert "not for this mechanism" in outcome.out
        assert len(list(Path("figures").iterdir())) == 3

    def test_interactive_answers_where_the_student_disagrees(self, tacit, votes):
        counts = demo_votes()[:30]
        np.save("agrees.npy", counts / counts.sum(axis=1, keepdims=True))
        np.save("knows-nothing.npy", np.full(counts.shape, 1 / counts.shape[1]))
        arguments = (
            *("--mechanism", "interactive-gnmax", "--threshold", 75, "--sigma-check", 80),
            *("--sigma-answer", 40, "--confidence", 0.9, "--delta", 1e-5, "--queries", 30),
        )
        assert "--student" in tacit("analyze", votes, *arguments, "--secret").err
        agrees, knows_nothing = (
            json.loads(
                tacit("analyze", votes, *arguments, "--student", f, "--secret", "--json").out
            )
            for f in ("agrees.npy", "knows-nothing.npy")
        )
        assert agrees["expected_answers"] == pytest.approx(30 * ndtr(-75 / 80), rel=1e-12)
        assert knows_nothing["expected_answers"] > 2 * agrees["expected_answers"]
        assert knows_nothing["data_dependent_epsilon"] > agrees["data_dependent_epsilon"]
        assert knows_nothing["data_dependent_epsilon"] < knows_nothing["worst_case_epsilon"]

    def test_other_mechanisms_are_refused(self, tacit, votes):
        outcome = tacit(
            "analyze", votes, "--mechanism", "noisy-votes", "--sigma", 40, "--delta", 1e-5,
            "--secret",
        )  # fmt: skip
        assert outcome.code == 2


class TestLedger:
    def test_show(self, tacit, released):
        outcome = tacit("ledger", "show", "run.ledger")
        assert outcome.code == 0
        assert "confident-gnmax" in outcome.out
        result = json.loads(tacit("ledger", "show", "run.ledger", "--json").out)
        assert result["spent"] == Ledger("run.ledger").spent()

    def test_show_is_readable_on_a_narrow_screen(self, tacit, monkeypatch):
        book = Ledger("long.ledger", budget=Budget(9.0, 1e-5))
        plan = Plan(ConfidentGNMax(200, 1500, 40), 123456, max_answers=7)
        purpose = "label the public inputs of the second hospital, which came later"
        with book.release(plan, purpose=purpose) as grant:
            del grant
        (entry,) = book.entries()
        for columns, hashes in ((80, False), (120, True)):
            monkeypatch.setenv("COLUMNS", str(columns))
            shown = tacit("ledger", "show", "long.ledger").out.split("Budget")[0]
            assert max(map(len, shown.splitlines())) <= columns
            assert "…" not in shown
            assert (entry.hash[:8] in shown) == hashes
            for whole in ("confident-gnmax", entry.time[:16].replace("T", " "), "123456"):
                assert whole in shown
            words = " ".join(re.findall(r"(?m)^│ (.*?) │", shown)).split()
            assert words == purpose.split()

    def test_a_run_folder_is_not_its_ledger(self, tacit, released):
        Path("run").mkdir()
        for command in (("ledger", "show"), ("ledger", "verify"), ("report",)):
            empty = tacit(*command, "run")
            assert empty.code == 2
            assert "'run'; that is a directory." in empty.err
        Path("run.ledger").rename("run/run.ledger")
        for command in (("ledger", "show"), ("ledger", "verify"), ("report",)):
            said = tacit(*command, "run")
            assert said.code == 2
            assert "did you mean 'run/run.ledger'?" in said.err

    def test_a_unit_may_look_like_markup(self, tacit):
        Ledger("odd.ledger", budget=Budget(1.0, 1e-5), unit="patient [/red]")
        outcome = tacit("ledger", "show", "odd.ledger")
        assert outcome.code == 0
        assert "patient [/red]" in outcome.out

    def test_verify(self, tacit, released):
        head = Ledger("run.ledger").head
        assert tacit("ledger", "verify", "run.ledger", "--head", head).code == 0
        assert tacit("ledger", "verify", "run.ledger", "--head", "0" * 64).code == 4
        assert json.loads(tacit("ledger", "verify", "run.ledger", "--json").out)["verified"]

    def test_damage_is_code_4_and_what_is_missing_code_2(self, tacit, released):
        content = Path("run.ledger").read_bytes()
        Path("run.ledger").write_bytes(content[: len(content) // 2])
        assert tacit("ledger", "show", "run.ledger").code == 4
        Path("text.ledger").write_text("not a ledger at all")
        assert tacit("ledger", "show", "text.ledger").code == 4
        assert tacit("ledger", "show", "missing.ledger").code == 2


class TestReport:
    def test_report_of_a_ledger(self, tacit, released):
        assert tacit("report", "run.ledger", "--out", "again.html").code == 0
        assert Ledger("run.ledger").head in Path("again.html").read_text()
        assert tacit("report", "run.ledger", "--out", "again.html").code == 2


class TestDemo:
    def test_each_run_has_its_own_directory(self, tacit):
        Path("tacit-demo/run-1").mkdir(parents=True)
        Path("tacit-demo/run-1/report.html").write_text("of another run")
        told = json.loads(tacit("demo", "--json").out)
        assert Path(told["folder"]) == Path("tacit-demo/run-2")
        assert Path(told["folder"], "report.html").is_file()
        assert told["statement"]["epsilon"] <= 2.0
        assert Path("tacit-demo/run-1/report.html").read_text() == "of another run"


class TestRoot:
    def test_version_and_help(self, tacit):
        assert tacit("--version").out.startswith("tacit 0.")
        assert "Example:" in tacit("plan", "pate", "--help").out
        for command in ("aggregate", "sanitise", "analyze", "report", "demo"):
            assert "Example:" in tacit(command, "--help").out

    def test_help_shows_every_table_that_it_names(self, tacit):
        """Rich takes [data.options] for markup, and drops it without a word."""
        named = {}
        for path, command in _commands(typer.main.get_command(full_app())):
            texts = [command.help, *(getattr(each, "help", None) for each in command.params)]
            text = " ".join(filter(None, texts)).replace("\\[", "[")
            named[path] = re.findall(r"\[[\w.]+\]", text)
            shown = tacit(*path, "--help").out
            assert [name for name in named[path] if name not in shown] == [], path
        assert "[data.options]" in named[("train",)]
        assert "[data.options]" in named[("compare",)]
        assert ("ledger", "show") in named

    def test_unknown_command_or_option(self, tacit):
        assert tacit("fly").code == 2
        assert tacit("demo", "--nonsense").code == 2


def _commands(command, path=()):
    """Return every command that does something, with the words that call it."""
    inside = getattr(command, "commands", {})
    below = [pair for name, one in inside.items() for pair in _commands(one, (*path, name))]
    return below or [(path, command)]


def test_proposed_check_uses_a_tenth_of_the_budget():
    *_, plan = propose_votes(640, Budget(2.0, 1e-5), 10, n_teachers=250)
    assert isinstance(plan.mechanism, ConfidentGNMax)
    share = plan.queries * plan.mechanism.check.gaussian_cost() / plan.mu_squared()
    assert share == pytest.approx(0.1, rel=0.01)


@pytest.mark.filterwarnings("default")
def test_a_warning_is_one_line_without_a_place_in_the_source(tacit, monkeypatch):
    monkeypatch.setattr(
        "tacit.cli.app.full_app", lambda: lambda: warnings.warn("some [rows]\nare", stacklevel=1)
    )
    outcome = tacit("any")
    assert outcome.code == 0
    assert outcome.err == "Warning: some [rows] are\n"
