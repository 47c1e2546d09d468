"""`tacit train` on tables: roles of columns, files private and public, and what is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from tacit import Ledger
from tacit.ledger import Statement
from tacit.ledger.warnings import LARGE_DELTA
from tacit.runs.config import RunConfig
from tacit.runs.running import load_rows
from tacit.students import load_student, saved_extra

CONFIG = """
[data]
source = "csv:private.csv"
public_source = "csv:public.csv"
held_out_source = "csv:held_out.csv"
name = "people"

[data.options]
target = "rich"
classes = ["no", "yes"]
groups = "person"
ignored = ["note"]
missing = -1

[data.options.numeric]
age = [20, 30, 40, 50, 60]
"hours a week" = [10, 20, 30, 40]

[data.options.categorical]
work = ["farm", "office"]

[privacy]
epsilon = 4.0
delta = 1e-4

[pate]
n_teachers = 40
teacher = "kernel-ridge"
queries = 100
features = "bins"
student = "logistic"
"""
CANARY = "c4n4ry"


def write_table(path: str, rows: int, seed: int, *, labelled: bool = True) -> None:
    """Half of the people, the older ones, are rich; `person` has two rows each."""
    rng = np.random.default_rng(seed)
    lines = ["person,note,work,age,hours a week,rich" if labelled else "work,hours a week,age"]
    for row in range(rows):
        work = str(rng.choice(["farm", "office", "sea"]))
        age, hours = rng.uniform(15, 70), rng.uniform(0, 50)
        hours_cell = "?" if row % 50 == 0 else f"{hours:.3f}"
        rich = "yes" if age > 42 else "no"
        public = f"{work},{hours_cell},{age:.3f}"
        line = f"{CANARY}{row // 2},{CANARY},{work},{age:.3f},{hours_cell},{rich}"
        lines.append(line if labelled else public)
    Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.fixture
def tables(tacit):
    write_table("private.csv", 1600, 0)
    write_table("public.csv", 200, 1, labelled=False)
    write_table("held_out.csv", 300, 2)
    Path("run.toml").write_text(CONFIG, encoding="utf-8")
    return tacit


def test_a_table_of_people_becomes_a_student(tables):
    outcome = tables("train", "run.toml", "--out", "run", "--json")
    assert outcome.code == 0, outcome.err
    result = json.loads(outcome.out)
    assert result["held_out"] == 300
    assert result["accuracy"] > 0.7  # chance is a half
    assert "person" in result["statement"]["unit"]
    assert Ledger("run/run.ledger").unit == "person"
    assert result["statement"]["epsilon"] <= 4.0
    assert saved_extra("run/student.tacit")["classes"] == ["no", "yes"]
    student = load_student("run/student.tacit")
    assert student.predict([[65, 20, 1], [25, 20, 0]]).tolist() == ["yes", "no"]


def test_a_run_keeps_no_cell_of_the_private_table(tables):
    assert tables("train", "run.toml", "--out", "run").code == 0
    age = Path("private.csv").read_text().splitlines()[1].split(",")[3]
    for path in (path for path in Path("run").rglob("*") if path.is_file()):
        assert CANARY.encode() not in path.read_bytes()
        assert age.encode() not in path.read_bytes()


def test_the_resolved_configuration_runs_again(tables):
    assert tables("train", "run.toml", "--out", "run").code == 0
    assert RunConfig.read("run/config.toml") == RunConfig.read("run.toml")
    assert tables("train", "run/config.toml", "--out", "again").code == 0


def test_without_held_out_rows_there_is_no_accuracy(tables):
    Path("run.toml").write_text(CONFIG.replace('held_out_source = "csv:held_out.csv"\n', ""))
    outcome = tables("train", "run.toml", "--out", "run")
    assert outcome.code == 0, outcome.err
    assert "no rows were held out" in outcome.out
    metrics = json.loads(Path("run/metrics.json").read_text())
    assert set(metrics.pop("thresholds")) == {"prevalence", "balanced"}
    assert metrics == {
        "accuracy": None,
        "most_frequent": None,
        "held_out": 0,
    }


class TestOneFileIsSplit:
    """By the hashes of its people, or of its rows; how many fall on a side is told nowhere."""

    SHARES = "private = 0.6\npublic = 0.25\ndeclare_public = true\nsplit_rule = 2"

    def settings(self, split: str, *, people: bool = True) -> str:
        text = CONFIG.replace('public_source = "csv:public.csv"', split)
        text = text.replace('held_out_source = "csv:held_out.csv"\n', "")
        return text if people else text.replace('groups = "person"\n', "")

    @pytest.mark.parametrize("people", [True, False])
    def test_the_statement_says_what_is_protected_and_what_is_public(self, tables, people):
        Path("run.toml").write_text(self.settings(self.SHARES, people=people))
        outcome = tables("train", "run.toml", "--out", "run", "--json")
        assert outcome.code == 0, outcome.err
        result = json.loads(outcome.out)
        assert result["accuracy"] > 0.7  # chance is a half
        ledger = Ledger("run/run.ledger")
        assert ledger.unit == ("person" if people else "record")
        assert ledger.dataset == "about 60 % of people, by keyed hash, rule 2"
        first, fault = result["statement"]["warnings"]
        assert "one run or fit alone" in first
        assert "the other rows of people were declared public" in fault
        assert ledger.statement().warnings == (first, fault)
        assert RunConfig.read("run/config.toml") == RunConfig.read("run.toml")

    def test_no_number_of_rows_is_told(self, tables):
        config = self.settings(self.SHARES)
        Path("run.toml").write_text(config)
        rows = load_rows(RunConfig.read("run.toml"))
        sides = {len(rows.private), len(rows.public), len(rows.held_out)}
        assert sum(sides) == 1600
        people = {np.unique(side.groups).size for side in (rows.private, rows.held_out)}
        outcome = tables("train", "run.toml", "--out", "run")
        assert outcome.code == 0, outcome.err
        texts = [outcome.out, outcome.err]
        told = ("metrics.json", "report.html", "statement.json", "config.toml")
        texts += [Path("run", name).read_text() for name in told]
        for count in sides | people:
            for text in texts:
                assert not re.search(rf"(?<![\w.#]){count}(?![\w.])", text)
        metrics = json.loads(Path("run/metrics.json").read_text())
        assert metrics["held_out"] is None
        assert metrics["accuracy"] == round(metrics["accuracy"], 3)
        # Nor by the width of a band, which tells it to a few per cent, or by many fractions.
        assert metrics["figures"]["ROC AUC"].keys() == {"value", "chance"}
        assert metrics["confusion"] == []
        assert all("band" not in text for text in texts)

    @pytest.mark.parametrize(
        ("split", "message"),
        [
            ("private = 1200\npublic = 200", "private = 0.6 and public = 0.2 with declare_public"),
            ("private = 0.6\npublic = 0.25", "declare_public = true in [data]"),
            ("private = 0.6\npublic = 200\ndeclare_public = true", "public=200 to be a share"),
            ("private = 0.6\npublic = 0.5\ndeclare_public = true", "at most 1"),
            ("private = 1.0\npublic = 0.0\ndeclare_public = true", "private=1.0 to be a share"),
            ("private = nan\npublic = 0.2\ndeclare_public = true", "private=nan to be a share"),
            ("private = 1e-9\npublic = 0.2\ndeclare_public = true\nsplit_rule = 2", "too few rows"),
            ("private = 0.6\npublic = 1e-9\ndeclare_public = true\nsplit_rule = 2", "too few rows"),
            ("private = 0.6\npublic = 0.2\ndeclare_public = true", "split_rule in [data]"),
            ("declare_public = true", "only with shares"),
            ("private = 0.6\npublic = 0.2\ndeclare_public = 1", "true or false"),
        ],
    )
    def test_what_is_refused(self, tables, split, message):
        Path("run.toml").write_text(self.settings(split))
        outcome = tables("train", "run.toml", "--out", "run")
        assert outcome.code == 2
        assert message in " ".join(outcome.err.split())
        assert not Path("run").exists()

    def test_a_set_that_ships_with_the_package_is_split_by_numbers(self, tables):
        config = self.settings(self.SHARES).replace("csv:private.csv", "digits")
        Path("run.toml").write_text(config.replace('name = "people"', 'name = ""'))
        outcome = tables("train", "run.toml", "--out", "run")
        assert outcome.code == 2
        assert "a number of rows of 'digits'" in outcome.err


class TestAPrivateRowIsNotPublic:
    """Equal rows refuse the run before anything is spent, unless nobody is to look for them."""

    @pytest.mark.parametrize(("name", "kind"), [("public", "public"), ("held_out", "held-out")])
    def test_an_equal_row_is_refused_without_number_or_place(self, tables, name, kind):
        with Path(f"{name}.csv").open("a") as file:
            for line in Path("private.csv").read_text().splitlines()[7:9]:
                _, _, work, age, hours, _ = line.split(",")
                public = f"{work},{float(hours):.5f},{age}"
                file.write(f"{public if name == 'public' else line}\n")
        outcome = tables("train", "run.toml", "--out", "run")
        assert outcome.code == 2
        said = " ".join(outcome.err.split())
        assert f"no private row that equals a {kind} one" in said
        assert "allow_overlap = true in [data]" in said
        assert not any(character.isdigit() for character in said)
        assert not Path("run").exists()
        Path("run.toml").write_text(
            CONFIG.replace('name = "people"', 'name = "people"\nallow_overlap = true')
        )
        outcome = tables("train", "run.toml", "--out", "run")
        assert outcome.code == 0, outcome.err
        for shown in (outcome, tables("ledger", "show", "run/run.ledger")):
            assert "equal rows were allowed, not looked for" in " ".join(shown.out.split())


def test_networks_need_no_public_file(tables):
    """The people of one file, and rows held out in another; no inputs are public."""
    head, section = CONFIG.split("[pate]")
    text = head.replace('public_source = "csv:public.csv"\n', "")
    network = "hidden = [16]\nepochs = 10\nbatch_size = 200\nn_records = 800\nfeatures = 'bins'\n"
    Path("run.toml").write_text(f"method = 'dpsgd'\n{text}[dpsgd]\n{network}")
    outcome = tables("train", "run.toml", "--out", "run", "--json")
    assert outcome.code == 0, outcome.err
    result = json.loads(outcome.out)
    assert result["accuracy"] > 0.7  # chance is a half
    assert Ledger("run/run.ledger").unit == "person"
    assert tables("predict", "run", "csv:public.csv", "--out", "labels.csv").code == 0
    Path("run.toml").write_text(f"{text}[pate]{section}")
    refused = tables("train", "run.toml", "--out", "other")
    assert refused.code == 2
    assert "Expected public inputs" in refused.err


def test_an_undeclared_category_is_other_unless_that_is_refused(tables):
    Path("run.toml").write_text(CONFIG.replace("missing = -1", "missing = -1\nother = false"))
    outcome = tables("train", "run.toml", "--out", "run")
    assert outcome.code == 2
    assert "declared categories" in outcome.err
    assert "sea" not in outcome.err
    assert not Path("run").exists()


BAD = {
    "unknown column": ("age = [20, 30, 40, 50, 60]", "height = [150]", "'height'"),
    "unknown target": ('target = "rich"', 'target = "poor"', "'poor'"),
    "unknown person column": ('groups = "person"', 'groups = "family"', "'family'"),
    "unknown ignored column": ('["note"]', '["remark"]', "'remark'"),
    "no target": ('target = "rich"\n', "", "target"),
    "no classes": ('classes = ["no", "yes"]\n', "", "classes"),
    "undeclared class": ('["no", "yes"]', '["no", "maybe"]', "declared classes"),
    "missing number": ("missing = -1\n", "", "missing=..."),
    "numeric column of words": ('"hours a week" = [10', "work = [10", "'work'"),
    "two roles": ('["note"]', '["age"]', "'age'"),
    "target as input": ('work = ["farm", "office"]', 'rich = ["no", "yes"]', "'rich'"),
    "edges in disorder": ("[20, 30", "[30, 20", "increasing"),
    "no categories": ('["farm", "office"]', "[]", "categories"),
    "misspelt option": ("ignored", "ignore", "ignore"),
    "no public file": ("csv:public.csv", "csv:absent.csv", "absent.csv"),
    "no private file": ("csv:private.csv", "csv:absent.csv", "absent.csv"),
    "no held-out file": ("csv:held_out.csv", "csv:absent.csv", "absent.csv"),
    "no public rows": ('public_source = "csv:public.csv"\n', "", "public_source"),
    "public twice": ('name = "people"', "public = 100", "not both"),
    "sources of another kind": ('"csv:public.csv"', "5", "public_source"),
    "more teachers than people": ("n_teachers = 40", "n_teachers = 801", "n_teachers"),
    "delta too large": ("delta = 1e-4", "delta = 0.01", "delta"),
    "more queries than rows": ("queries = 100", "queries = 201", "201"),
    "features of images": ('"bins"', '"digits"', "images"),
}


@pytest.mark.parametrize(("old", "new", "complaint"), BAD.values(), ids=BAD)
def test_mistakes_are_one_line_and_cost_nothing(tables, old, new, complaint):
    assert old in CONFIG
    Path("run.toml").write_text(CONFIG.replace(old, new, 1), encoding="utf-8")
    outcome = tables("train", "run.toml", "--out", "run")
    assert outcome.code == 2
    assert complaint in outcome.err
    assert outcome.err.count("\n") == 1
    assert CANARY not in outcome.err
    assert outcome.out == ""
    assert not Path("run").exists()


def test_a_row_without_its_person_is_refused(tables):
    lines = Path("private.csv").read_text().splitlines()
    lines[3] = lines[3].replace(f"{CANARY}1,", ",", 1)
    Path("private.csv").write_text("\n".join(lines))
    outcome = tables("train", "run.toml", "--out", "run")
    assert outcome.code == 2
    assert "line 4" in outcome.err
    assert not Path("run").exists()


def test_the_corrected_run_may_use_the_directory(tables):
    Path("run.toml").write_text(CONFIG.replace("n_teachers = 40", "n_teachers = 801"))
    assert tables("train", "run.toml", "--out", "run").code == 2
    Path("run.toml").write_text(CONFIG)
    assert tables("train", "run.toml", "--out", "run").code == 0


def test_a_large_delta_is_taken_if_it_is_allowed_and_the_statement_warns(tables):
    large = CONFIG.replace("delta = 1e-4", "delta = 0.01")
    Path("run.toml").write_text(large)
    refused = tables("train", "run.toml", "--out", "run")
    assert "allow_large_delta = true in [privacy]" in refused.err
    Path("run.toml").write_text(large.replace("0.01", "0.01\nallow_large_delta = true"))
    outcome = tables("train", "run.toml", "--out", "run", "--json")
    assert outcome.code == 0, outcome.err
    assert LARGE_DELTA in json.loads(outcome.out)["statement"]["warnings"]
    written = Statement.from_json(Path("run/statement.json").read_text())
    assert written.warnings.count(LARGE_DELTA) == 1
    assert "delta was not compared" in Path("run/report.html").read_text()
    assert "allow_large_delta = true" in Path("run/config.toml").read_text()


def interrupt(*arguments, **named):
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("where", "ledger"),
    [
        ("runs.running.load_rows", False),
        ("runs.running._claimed", False),
        ("methods.pate.count_votes", True),
    ],
)
def test_an_interrupted_run_says_so_and_goes_on(tables, monkeypatch, where, ledger):
    with monkeypatch.context() as patched:
        patched.setattr(f"tacit.{where}", interrupt)
        outcome = tables("train", "run.toml", "--out", "run")
    assert outcome.code == 130
    assert outcome.out == ""
    (line,) = outcome.err.splitlines()
    assert line.startswith("Interrupted")
    assert "nothing was charged" in line
    assert Path("run/run.ledger").exists() == ledger
    assert ("run/teachers is secret" in line) == Path("run/teachers").exists() == ledger
    again = tables("train", "run.toml", "--out", "run")
    assert again.code == 0, again.err


def test_an_interrupt_after_the_release_says_so_and_goes_on(tables, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr("tacit.methods.pate.label_posterior", interrupt)
        outcome = tables("train", "run.toml", "--out", "run")
    assert outcome.code == 130
    assert re.search(r"released at \d\d:\d\d UTC on .*kept.* The same command goes on", outcome.err)
    (paid,) = Ledger("run/run.ledger").entries()
    assert tables("train", "run.toml", "--out", "run").code == 0
    assert [each for each in Ledger("run/run.ledger").entries() if each.is_paid] == [paid]


@pytest.mark.parametrize(
    ("place", "complaint"),
    [(".", "at '.'; that is a directory"), ("absent.toml", "at 'absent.toml'; there is none")],
)
def test_what_is_no_configuration_is_named(tables, place, complaint):
    outcome = tables("train", place, "--out", "run")
    assert outcome.code == 2
    assert complaint in outcome.err


def test_paths_are_relative_to_the_current_directory(tables):
    """As `tacit train --help` says."""
    Path("elsewhere").mkdir()
    Path("run.toml").rename("elsewhere/run.toml")
    assert "relative to the current directory" in tables("train", "--help").out
    assert tables("train", "elsewhere/run.toml", "--out", "run").code == 0


def test_a_file_is_no_place_for_a_run(tables):
    outcome = tables("train", "run.toml", "--out", "public.csv")
    assert outcome.code == 2
    assert "'public.csv' to be a directory for the run; there is a file" in outcome.err
