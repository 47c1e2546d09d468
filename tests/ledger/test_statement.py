"""What may be said: the paragraph to sign, the JSON with its schema, and the secret one."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import stat
from decimal import Decimal

import jsonschema
import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tacit
from tacit._registry import MECHANISMS
from tacit.errors import InvalidArgument, SecretDisclosure
from tacit.ledger import STATEMENT_SCHEMA, Budget, Ledger, Statement
from tacit.ledger.chain import NOISE_LEVELS
from tacit.ledger.plain_words import epsilon_text, odds_text
from tacit.ledger.statement import FORMAT, KINDS
from tacit.ledger.warnings import ONE_RUN, PROTECTS_LITTLE
from tacit.mechanisms import GNMax, Plan, assumptions
from tacit.report import render_report

HEAD = "ab" * 32


def make(**changes) -> Statement:
    fields = {
        "kind": "worst-case",
        "epsilon": 1.43111,
        "delta": 1e-5,
        "unit": "person",
        "accountant": "gaussian",
        "noise": "csprng",
        "dataset": "scans",
        "entries": 3,
        "head": HEAD,
        "budget": Budget(2.0, 1e-5),
    }
    return Statement(**{**fields, **changes})


PUBLIC = [
    make(),
    make(kind="sanitised", worst_case_epsilon=7.68, epsilon=1.63, accountant="smooth sensitivity"),
    make(noise="insecure-seeded", warnings=("1 of 3 entries used seeded noise",)),
    make(head=None, budget=None, dataset="", entries=0, epsilon=0.0),
]


@pytest.mark.parametrize(
    "part",
    [
        "'scans'",
        "epsilon = 1.432 at delta = 1e-05",
        "worst case over all data",
        "one person",
        "add or remove one person",
        "group of two",
        "all queries",
        "all answers",
        "including refusals",
        "the student",
        "every checkpoint of the student",
        "computed from the releases",
        "exact composition of Gaussian",
        "epsilon = 2.0",
        "Noise: csprng",
        tacit.__version__,
        "3 entries",
        HEAD,
        "this ledger alone",
    ],
)
def test_a_statement_says_all_that_is_signed(part):
    assert part in str(make())


@pytest.mark.parametrize("statement", [*PUBLIC, make(kind="secret")])
@pytest.mark.parametrize("warnings", [(), (ONE_RUN,)])
def test_the_paragraph_to_sign_is_short_and_plain(statement, warnings):
    """At most 90 words; what it presumes, the adjacency and the accountant stand below it."""
    full = dataclasses.replace(
        statement, warnings=(*statement.warnings, *warnings), assumes=("x is public",)
    )
    paragraph, *below = str(full).split("\n\n")
    assert len(paragraph.split()) <= 90
    assert not {"mu^2", "ledger=", "Renyi", "mechanisms"} & set(paragraph.split())
    assert f"one {full.unit}" in paragraph
    assert f"delta = {full.delta!r}" in paragraph
    assert "It presumes that x is public." in below
    assert below[-1].startswith("For experts. Neighbouring data sets: ")


@pytest.mark.parametrize(("statement", "odds"), [(PUBLIC[0], "4.19"), (PUBLIC[1], "2,165")])
def test_the_paragraph_bounds_the_probability_of_any_outcome(statement, odds):
    """By the worst case beside a sanitised epsilon, which holds ex post alone."""
    assert f"at most {odds} times (e^epsilon) as likely, plus delta" in str(statement)


def test_seeded_noise_bounds_nothing():
    assert "as likely" not in str(PUBLIC[2])


def test_other_bounds_are_named():
    assert "Renyi" in str(make(accountant="rdp"))
    assert "privacy loss distribution" in str(make(accountant="pld"))
    assert "smooth sensitivity" in str(PUBLIC[1])


def test_an_insecure_statement_is_loud_and_claims_nothing():
    text = str(PUBLIC[2])
    assert text.startswith("NOT private: seeded noise")
    assert "are differentially private" not in text
    assert "Warning: 1 of 3 entries used seeded noise." in text


def test_a_sanitised_statement_has_the_worst_case_beside_it():
    text = str(PUBLIC[1])
    assert "ex post" in text
    assert "epsilon = 1.63 at delta = 1e-05" in text
    assert "epsilon = 7.68 at that delta" in text


def test_an_empty_ledger_says_so():
    assert "Nothing was released" in str(make(entries=0, epsilon=0.0))
    assert "from a ledger of 1 entry with" in str(make(entries=1))


def test_without_a_ledger_none_is_mentioned():
    text = str(PUBLIC[3])
    assert "ledger of" not in text
    assert "budget" not in text
    assert "data set '" not in text


@given(st.just(0.0) | st.floats(1e-300, 1e6))
def test_a_printed_epsilon_is_never_too_small_nor_much_too_large(epsilon):
    printed = Decimal(epsilon_text(epsilon))
    assert printed >= Decimal(repr(epsilon))
    assert printed <= Decimal(repr(epsilon)) * Decimal("1.0011")


@pytest.mark.parametrize("statement", PUBLIC)
def test_the_json_fits_its_schema_and_reads_back(statement):
    jsonschema.Draft202012Validator.check_schema(STATEMENT_SCHEMA)
    text = statement.to_json()
    jsonschema.Draft202012Validator(STATEMENT_SCHEMA).validate(json.loads(text))
    assert Statement.from_json(text) == statement
    assert json.loads(text)["epsilon"] == statement.epsilon  # all digits


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "secret"},
        {"epsilon": -1},
        {"epsilon": None},
        {"delta": 1},
        {"delta": 0},
        {"noise": "loud"},
        {"head": "abc"},
        {"entries": -1},
        {"entries": 1.5},
        {"worst_case_epsilon": 3.0},
        {"kind": "sanitised"},
        {"budget": {"epsilon": 1}},
        {"format": "tacit-statement/9"},
        {"secret": 1},
        {"unit": ""},
    ],
)
def test_the_schema_refuses_what_is_no_statement(changes):
    instance = {**make().to_dict(), **changes}
    assert not jsonschema.Draft202012Validator(STATEMENT_SCHEMA).is_valid(instance)


@pytest.mark.parametrize("field", sorted(make(head=None).to_dict()))
def test_the_schema_requires_every_field(field):
    """But the head, which the file of a run leaves to its seal."""
    instance = make().to_dict()
    del instance[field]
    assert not jsonschema.Draft202012Validator(STATEMENT_SCHEMA).is_valid(instance)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "3",
        json.dumps({**make().to_dict(), "format": "other"}),
        json.dumps({**make().to_dict(), "kind": "secret"}),
        json.dumps({**make().to_dict(), "extra": 1}),
        json.dumps({**make().to_dict(), "epsilon": -1}),
        json.dumps({**make().to_dict(), "budget": {"epsilon": 0, "delta": 0.1}}),
    ],
)
def test_other_json_is_not_read_as_a_statement(text):
    with pytest.raises(InvalidArgument, match="JSON of a public statement"):
        Statement.from_json(text)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"kind": "vague"}, "kind='vague'"),
        ({"noise": "quiet"}, "noise='quiet'"),
        ({"epsilon": -0.1}, "epsilon=-0.1"),
        ({"epsilon": float("nan")}, "epsilon=nan"),
        ({"delta": 1.0}, "delta=1.0"),
        ({"entries": -1}, "entries=-1"),
        ({"kind": "sanitised"}, "worst_case_epsilon"),
        ({"worst_case_epsilon": 1.0}, "worst_case_epsilon"),
        ({"kind": "sanitised", "worst_case_epsilon": -1.0}, "worst_case_epsilon=-1.0"),
        ({"unit": None}, "unit=None"),
        ({"adjacency": 3}, "adjacency=3"),
        ({"assumes": "a sentence"}, "assumes='a sentence'"),
        ({"warnings": [3]}, r"warnings=\[3\]"),
        ({"head": 7}, "head=7"),
    ],
)
def test_what_cannot_be_stated_is_refused_by_name(changes, named):
    with pytest.raises(InvalidArgument, match=named):
        make(**changes)


def test_a_statement_cannot_be_edited():
    with pytest.raises(AttributeError):
        make().epsilon = 0.1


def test_a_secret_statement_is_never_written(tmp_path):
    secret = make(kind="secret", epsilon=0.8151623)
    assert str(secret).startswith("SECRET")
    assert "0.8152" in str(secret)
    for attempt in (secret.to_json, secret.to_dict, lambda: secret.write(tmp_path / "out.json")):
        with pytest.raises(SecretDisclosure) as refusal:
            attempt()
        assert "8151" not in str(refusal.value)
    assert list(tmp_path.iterdir()) == []
    assert "8151" not in repr(secret)
    assert "1.43" in repr(make())


def test_a_statement_is_written_in_one_step(tmp_path):
    target = tmp_path / "statement.json"
    make().write(target)
    assert Statement.from_json(target.read_text()) == make()
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(target.stat().st_mode) == 0o644 & ~umask
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("name", sorted(MECHANISMS))
def test_whatever_the_mechanism_choices_are_presumed_to_be_public(name):
    text = str(make(assumes=assumptions([{"mechanism": name}])))
    assert "hyper-parameters" in text
    assert "were chosen without the private records" in text


def test_a_large_epsilon_says_what_it_allows_wherever_it_is_stated():
    """In the paragraph, in the warnings of the JSON, and nobody can leave it out."""
    below, least = make(epsilon=math.nextafter(PROTECTS_LITTLE, 0)), make(epsilon=PROTECTS_LITTLE)
    assert below.warnings == ()
    (warning,) = least.warnings
    assert "protects little" in warning
    assert "any guess about one person" in warning
    assert "22,027 times" in warning
    assert f"Warning: {warning}." in str(least)
    assert json.loads(least.to_json())["warnings"] == [warning]
    assert Statement.from_json(least.to_json()) == least


def test_the_first_format_is_read_and_had_a_head():
    old = {**make().to_dict(), "format": "tacit-statement/1"}
    assert Statement.from_json(json.dumps(old)) == make()
    del old["head"]
    with pytest.raises(InvalidArgument, match="JSON of a public statement"):
        Statement.from_json(json.dumps(old))


def test_without_a_head_the_paragraph_still_names_the_ledger():
    assert "from a ledger of 3 entries; it covers" in str(make(head=None))


def test_a_statement_written_before_there_was_the_warning_gets_it_when_it_is_read():
    old = {**make(epsilon=12.0).to_dict(), "warnings": []}
    assert "protects little" in str(Statement.from_json(json.dumps(old)))


def test_a_small_sanitised_epsilon_does_not_hide_a_large_worst_case():
    both = make(kind="sanitised", epsilon=1.6, worst_case_epsilon=12.0)
    (warning,) = both.warnings
    assert warning.startswith("epsilon = 12 protects little")


@pytest.mark.parametrize("epsilon", [1e6, 1e300, 1.7e308])
def test_no_epsilon_is_too_large_to_be_warned_of(epsilon):
    (warning,) = make(epsilon=epsilon).warnings
    assert "10^" in warning


@given(st.floats(min_value=10, max_value=1e12))
def test_odds_are_never_printed_smaller_than_they_are(epsilon):
    with mpmath.workdps(60):
        text = odds_text(epsilon).replace(",", "")
        logarithm = mpmath.mpf(text[3:]) * mpmath.log(10) if "^" in text else mpmath.log(text)
        assert epsilon <= logarithm <= epsilon + mpmath.log(10) * (1 + epsilon * 1e-11)


def test_a_ledger_of_epsilon_a_million_warns(tmp_path):
    ledger = Ledger(tmp_path / "run.ledger", budget=Budget(1e6, 1e-5), unit="person")
    plan = Plan(GNMax(0.00102), queries=1)
    with ledger.release(plan, purpose="test"):
        pass
    assert ledger.spent() > 9e5
    assert "protects little" in str(ledger.statement())
    assert "protects little" in render_report(ledger)


def test_the_schema_knows_every_word_and_field():
    fields = STATEMENT_SCHEMA["properties"]
    assert set(fields) == {"format", *Statement.__dataclass_fields__}
    assert fields["format"]["const"] == FORMAT
    assert fields["noise"]["enum"] == list(NOISE_LEVELS)
    assert [*fields["kind"]["enum"], "secret"] == list(KINDS)
