"""`tacit audit RUN`: a finished model, examined with rows whose membership is known."""

from __future__ import annotations

import json
import stat

import numpy as np
import pytest


class TestExamine:
    CONFIG = """
method = "prototype"
[data]
source = "csv:private.csv"
public_source = "csv:public.csv"
[data.options]
target = "side"
classes = ["left", "right"]
numeric = ["place", "height"]
[privacy]
epsilon = 8.0
delta = 1e-4
[prototype]
n_prototypes = 10
votes = 1
"""

    @pytest.fixture
    def run(self, tmp_path, tacit):
        draw = np.random.default_rng(0)
        for name, count in (("private", 300), ("public", 40), ("in", 40), ("out", 50)):
            place, height = draw.normal(size=(2, count))
            sides = np.where(place > 0, "right", "left")
            lines = [f"{p},{h},{s}" for p, h, s in zip(place, height, sides, strict=True)]
            (tmp_path / f"{name}.csv").write_text("\n".join(["place,height,side", *lines]))
        (tmp_path / "run.toml").write_text(self.CONFIG)
        assert tacit("train", "run.toml", "--out", "run").code == 0
        return tmp_path / "run"

    ROWS = ("audit", "run", "--members", "in.csv", "--others", "out.csv")

    def test_it_says_what_it_spends_and_shows_secrets_only_if_asked(self, run, tacit, tmp_path):
        before = {path.name: path.read_bytes() for path in run.iterdir() if path.is_file()}
        refused = tacit(*self.ROWS)
        assert refused.code == 2
        assert "Expected --secret" in refused.err
        assert "0." not in refused.out
        done = tacit(*self.ROWS, "--secret", "--out", "found.json")
        assert done.code == 0
        assert "spends nothing" in done.err
        assert "proves nothing" in done.out
        assert "nothing is proved about epsilon" in done.out
        assert stat.S_IMODE((tmp_path / "found.json").stat().st_mode) == 0o600
        assert json.loads((tmp_path / "found.json").read_text())["secret"] is True
        tacit(*self.ROWS, "--secret", "--tossed", "--out", "found.md")
        assert stat.S_IMODE((tmp_path / "found.md").stat().st_mode) == 0o600
        told = (tmp_path / "found.md").read_text()
        assert told.startswith("# Secret")
        assert "| epsilon proved with confidence 0.95, at least |" in told
        assert "No coins" not in told
        with_coins = tacit(*self.ROWS, "--secret", "--tossed", "--json")
        assert json.loads(with_coins.out)["proved"] is not None
        assert before == {path.name: path.read_bytes() for path in run.iterdir() if path.is_file()}

    def test_mistakes_are_refused(self, run, tacit, tmp_path):
        for more, said in (
            (("--members", "in.csv", "--others", "in.csv"), "equals"),
            (("--members", "in.csv"), "--others"),
            (("--members", "in.csv", "--others", "out.csv", "--out", "run/x.json"), "outside"),
            (("--members", "in.csv", "--others", "out.csv", "--canaries", "50"), "--canaries"),
        ):
            done = tacit("audit", "run", "--secret", *more)
            assert done.code == 2
            assert said in done.err
        (run / "student.tacit").write_bytes(b"another")
        done = tacit(*self.ROWS, "--secret")
        assert done.code == 2
        assert "holds together" in done.err

    def test_a_retrained_audit_says_first_what_it_will_spend(self, run, tacit):
        done = tacit("audit", "run.toml", "--canaries", "20", "--out", "audited")
        assert "spends up to epsilon = 8 at delta = 0.0001" in done.err
        assert done.code == 0
