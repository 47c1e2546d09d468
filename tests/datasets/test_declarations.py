"""Declarations proposed from a public file, and those that public inputs contradict."""

from __future__ import annotations

import tomllib

import numpy as np
import pytest

from tacit.datasets import contradictions, load_public, proposed_columns
from tacit.errors import InvalidArgument
from tacit.features import Categorical, Numeric

COLUMNS = (Numeric("age", [18, 65]), Categorical("sex", ["Female", "Male"]))


@pytest.fixture
def survey(tmp_path):
    draw = np.random.default_rng(0)
    lines = [
        f"{age:.2f};{place};{kids};note {number};"
        for number, (age, place, kids) in enumerate(
            zip(
                draw.normal(50, 15, 200),
                draw.choice(["ward", "clinic"], 200),
                draw.integers(0, 3, 200),
                strict=True,
            )
        )
    ]
    path = tmp_path / "survey.csv"
    path.write_text("\n".join(["age;seen at;kids;note;empty", *lines]).replace(".", ","))
    return path


def test_what_is_proposed_reads_the_file_it_was_made_from(survey):
    how = {"delimiter": ";", "decimal": ","}
    options = tomllib.loads(proposed_columns(survey, **how))["data"]["options"]
    assert set(options["categorical"]["seen at"]) == {"ward", "clinic"}
    assert options["numeric"]["kids"] == [0.5, 1.5]
    assert options["ignored"] == ["note", "empty"]
    assert {key: options[key] for key in how} == how
    edges = options["numeric"]["age"]
    assert edges == sorted(set(edges))
    assert all(edge == round(edge) for edge in edges)
    X = load_public(f"csv:{survey}", **options)
    assert X.shape == (200, 3)
    columns = [*(Numeric(*each) for each in options["numeric"].items())]
    columns += [Categorical(*each) for each in options["categorical"].items()]
    assert contradictions(columns, X) == []


def test_public_inputs_that_fit_say_nothing():
    assert contradictions(COLUMNS, np.array([[10, 0], [40, 1], [70, 2]])) == []


def test_values_in_one_bin_and_categories_that_never_occur_are_told():
    bins, absent = contradictions(COLUMNS, np.array([[20.0, 1], [30, 1]]))
    assert "'age' lie in one of the declared bins" in bins
    assert "no public input has 'Female' in column 'sex'" in absent


def test_a_column_none_of_whose_categories_occurs_is_refused():
    with pytest.raises(InvalidArgument, match=r"'sex' in the public inputs; none of"):
        contradictions(COLUMNS, np.array([[10.0, 2], [70, 2]]))
