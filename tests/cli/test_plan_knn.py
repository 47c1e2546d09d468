"""`tacit plan knn` and `method = "knn"` in `tacit train`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tacit import Budget, Ledger
from tacit.cli.plan import compare_rates
from tacit.errors import InvalidArgument
from tacit.methods.knn import propose_neighbours
from tacit.methods.method import method_named
from tacit.runs.config import RunConfig
from tacit.students import load_student, saved_extra

BASE = ("plan", "knn", "--k", 100, "--queries", 50, "--epsilon", 1, "--delta", 1e-5)
CONFIG = """
method = "knn"
seed = 3

[data]
source = "digits"
private = 1200
public = 200

[privacy]
epsilon = 2.0
delta = 1e-5

[knn]
k = 60
queries = 20
features = "digits"
"""


class TestPlan:
    @pytest.mark.parametrize("rate", [1.0, 0.25])
    def test_proposals_fit_the_budget_as_printed(self, rate):
        plans = propose_neighbours(50, Budget(1.0, 1e-5), 10, k=100, sampling_rate=rate)
        assert len(plans) == 3
        for plan in plans:
            assert 0.99 < plan.epsilon(1e-5) <= 1.0
            printed = {"sigma", "sigma_screen"} & set(plan.as_dict()["parameters"])
            assert printed
            for name in printed:
                value = plan.as_dict()["parameters"][name]
                assert value == float(f"{value:.4g}")

    def test_sampling_buys_nothing_at_equal_reach(self):
        rows = compare_rates(400, 100, Budget(1.0, 1e-5), 10)
        assert [row["k"] / row["sampling_rate"] for row in rows] == [400] * 4
        least = min(rows, key=lambda row: row["noise_of_k"])
        assert least["sampling_rate"] == 1.0

    def test_table_and_json(self, tacit):
        shown = tacit(*BASE)
        assert shown.code == 0, shown.err
        for word in ("sampled-max", "sampled-votes", "noisy-screening", "sigma_screen="):
            assert word in shown.out
        assert "is least at rate 1." in shown.out
        result = json.loads(tacit(*BASE, "--json").out)
        assert [item["mechanism"] for item in result["proposals"]] == [
            "sampled-max", "sampled-votes", "noisy-screening",
        ]  # fmt: skip
        assert all(item["epsilon"] <= 1 for item in result["proposals"])

    @pytest.mark.parametrize(
        ("extra", "complaint"),
        [
            (("--teachers", 5), "--teachers"),
            (("--plot", "x.png"), "--plot"),
            (("--sampling-rate", 0), "sampling_rate"),
            (("--sampling-rate", 1.5), "sampling_rate"),
            (("--k", 0), "k=0"),
            (("--epsilon", 0), "epsilon"),
        ],
    )
    def test_bad_options(self, tacit, extra, complaint):
        outcome = tacit(*BASE, *extra)
        assert outcome.code == 2
        assert complaint in outcome.err

    def test_what_is_missing_is_named(self, tacit):
        without = [value for value in BASE if value not in ("--k", 100)]
        assert "--k" in tacit(*without).err
        common = ("--queries", 5, "--epsilon", 1, "--delta", 1e-5)
        assert "--teachers" in tacit("plan", "pate", *common).err
        assert "--k" in tacit("plan", "pate", *common, "--teachers", 5, "--k", 5).err

    def test_help_has_an_example(self, tacit):
        assert "tacit plan knn --k 300" in " ".join(tacit("plan", "knn", "--help").out.split())


class TestTrain:
    def test_a_run_of_neighbours(self, tacit):
        Path("run.toml").write_text(CONFIG)
        outcome = tacit("train", "run.toml", "--out", "run", "--json")
        assert outcome.code == 0, outcome.err
        result = json.loads(outcome.out)
        assert result["accuracy"] > 0.8
        entries = [entry for entry in Ledger("run/run.ledger").entries() if entry.is_paid]
        assert [entry.plan["mechanism"] for entry in entries] == ["sampled-votes"]
        assert load_student("run/student.tacit").n_classes_ == 10
        assert saved_extra("run/student.tacit")["classes"] == list(range(10))
        assert RunConfig.read("run/config.toml") == RunConfig.read("run.toml")
        assert "[pate]" not in Path("run/config.toml").read_text()

    def test_a_cluster_has_nothing_to_do(self, tacit):
        Path("run.toml").write_text(CONFIG)
        outcome = tacit("train", "run.toml", "--out", "run", "--cluster", "tcp://nowhere:1")
        assert outcome.code == 2
        assert "executor" in outcome.err
        assert not Path("run").exists()

    def test_defaults_survive_toml(self, tmp_path):
        text = CONFIG.split("[knn]", maxsplit=1)[0]
        (tmp_path / "run.toml").write_text(text)
        config = RunConfig.read(tmp_path / "run.toml")
        assert config.settings == method_named("knn").read({})
        (tmp_path / "again.toml").write_text(config.to_toml())
        assert RunConfig.read(tmp_path / "again.toml") == config

    @pytest.mark.parametrize(
        ("before", "after", "complaint"),
        [
            ("k = 60", "k = 0", "k=0"),
            ("k = 60", "sampling_rate = 0.0", "sampling_rate"),
            ("k = 60", "mechanism = 'gnmax'", "mechanism"),
            ("k = 60", "teachers = 5", "teachers"),
            ("k = 60", "student = 'parrot'", "student"),
            ("queries = 20", "queries = 0", "queries"),
            ("queries = 20", "rounds = 0", "rounds"),
            ("queries = 20", "strategy = 'best'", "strategy"),
            ("[knn]", "[pate]", r"no \[pate\]"),
            ('method = "knn"', 'method = "pate"', r"no \[knn\]"),
        ],
    )
    def test_bad_configurations_name_what_is_wrong(self, tmp_path, before, after, complaint):
        (tmp_path / "run.toml").write_text(CONFIG.replace(before, after, 1))
        with pytest.raises(InvalidArgument, match=complaint):
            RunConfig.read(tmp_path / "run.toml")
