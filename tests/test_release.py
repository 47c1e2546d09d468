"""What a release must agree on: versions, licence, and what the archives hold."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import tacit
import tacit_federation
from tools import check_dist

ROOT = Path(__file__).parents[1]


def test_one_version_everywhere():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"version: {tacit.__version__}\n" in citation
    federation = tomllib.loads((ROOT / "federation/pyproject.toml").read_text(encoding="utf-8"))
    assert f"tacit=={tacit.__version__}" in federation["project"]["dependencies"]
    assert tacit_federation.__version__ == tacit.__version__
    assert (ROOT / "federation/LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    released = tacit.__version__.partition(".dev")[0]  # its changes are written down before it is
    assert re.search(rf"^## {re.escape(released)}\b", changes, re.MULTILINE)


def test_the_source_archive_takes_what_is_checked():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    kept = settings["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    for end in check_dist.SOURCES_HOLD:
        assert (ROOT / end.removeprefix("/")).is_file()
        assert any(end.removeprefix("/").startswith(part) for part in kept)
    assert all((ROOT / part).exists() for part in kept)
    assert settings["project"]["license-files"] == ["LICENSE"]


@pytest.mark.parametrize(
    ("names", "complaint"),
    [
        (["tacit/py.typed", "tacit/cli/app.py"], "missing"),
        ([*check_dist.WHEEL_HOLDS, "tacit/__pycache__/x.pyc"], "not wanted"),
        ([*check_dist.WHEEL_HOLDS, "tacit/run.ledger"], "not wanted"),
    ],
)
def test_an_archive_with_something_wrong_is_refused(names, complaint):
    with pytest.raises(SystemExit, match=complaint):
        check_dist.check_names("wheel", names, check_dist.WHEEL_HOLDS)


def test_the_threat_model_names_what_is_not_protected():
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8").lower()
    for subject in ("side channels", "malicious aggregator", "floating point", "several ledgers",
                    "seeds", "report"):  # fmt: skip
        assert subject in text
