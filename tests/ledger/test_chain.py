"""Canonical text, hashes, and every way in which a chain can be broken."""

from __future__ import annotations

import enum
import hashlib
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.errors import InvalidArgument, LedgerDamaged
from tacit.ledger.chain import Chain, Entry, canonical, digest, read_json

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)


class Colour(enum.Enum):
    RED = "red"


@given(PLAIN)
def test_canonical_text_reads_back_and_is_one_for_equal_values(value):
    text = canonical(value)
    assert json.loads(text) == value
    assert canonical(json.loads(text)) == text


def test_key_order_does_not_matter():
    assert canonical({"b": 1, "a": [1.5, None]}) == '{"a":[1.5,null],"b":1}'


def test_parameters_of_every_kind_become_plain(fakes):
    value = {
        "scalar": np.float32(0.5),
        "count": np.int64(3),
        "flag": np.bool_(True),
        "array": np.arange(3),
        "pair": (1, 2),
        "colour": Colour.RED,
        "inner": fakes.Base(0.5),
    }
    assert json.loads(canonical(value)) == {
        "scalar": 0.5,
        "count": 3,
        "flag": True,
        "array": [0, 1, 2],
        "pair": [1, 2],
        "colour": "red",
        "inner": {"mechanism": "base", "parameters": {"square": 0.5}},
    }


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, np.array([math.nan]), {1: 2}, {1, 2}, object(), int, b"bytes"]
)
def test_what_cannot_be_recorded_is_refused(value):
    with pytest.raises(InvalidArgument, match="plain data"):
        canonical({"parameter": value})


def test_the_digest_is_sha_256():
    assert digest("ledger é") == hashlib.sha256("ledger é".encode()).hexdigest()


@pytest.mark.parametrize("text", ["", "{", "[]", "3", None, b"{}", 7])
def test_an_unreadable_line_is_damage(text):
    with pytest.raises(LedgerDamaged, match="not readable"):
        read_json(text)


def rows(count: int) -> tuple[dict, list[dict]]:
    """A header and entries, linked by hand."""
    header = json.dumps({"epsilon": 2.0, "delta": 1e-5})
    previous = hashlib.sha256(header.encode()).hexdigest()
    head = {"one": 1, "payload": header, "hash": previous, "epsilon": 2.0, "delta": 1e-5}
    entries = []
    for sequence in range(1, count + 1):
        line = {
            "sequence": sequence,
            "previous": previous,
            "time": "now",
            "purpose": "test",
            "plan": {},
            "cost": 0.5,
            "noise": "csprng",
            "library": "0",
        }
        text = json.dumps(line)
        previous = hashlib.sha256(text.encode()).hexdigest()
        entries.append({"sequence": sequence, "payload": text, "hash": previous, "cost": 0.5})
    return head, entries


def reseal(row: dict, **changes) -> None:
    """Alter a line and its own hash with it, as a careful forger would."""
    row["payload"] = json.dumps({**json.loads(row["payload"]), **changes})
    row["hash"] = hashlib.sha256(row["payload"].encode()).hexdigest()


def test_an_intact_chain_is_read():
    header, entries = rows(3)
    chain = Chain.verified(header, entries)
    assert [entry.sequence for entry in chain.entries] == [1, 2, 3]
    assert chain.genesis == header["hash"]
    assert chain.head == entries[-1]["hash"]
    assert all(chain.holds(row["hash"]) for row in [header, *entries])
    assert not chain.holds("0" * 64)


def test_the_head_of_an_empty_chain_is_its_header():
    header, _ = rows(0)
    assert Chain.verified(header, []).head == header["hash"]


def test_a_following_line_continues_the_chain():
    header, entries = rows(2)
    chain = Chain.verified(header, entries)
    line = read_json(chain.following({"cost": 0.25, "confidence_delta": 0.0}))
    assert (line["sequence"], line["previous"]) == (3, chain.head)


def cut_first(header, entries):
    del entries[0]


def cut_middle(header, entries):
    del entries[1]


def swap(header, entries):
    entries[0], entries[1] = entries[1], entries[0]


def alter_header(header, entries):
    header["payload"] = header["payload"].replace("2.0", "9.0")


def reseal_header(header, entries):
    reseal(header, epsilon=9.0)
    header["epsilon"] = 9.0


def alter_header_column(header, entries):
    header["epsilon"] = 9.0


def alter_cost(header, entries):
    entries[1]["payload"] = entries[1]["payload"].replace("0.5", "0.1")


def reseal_cost(header, entries):
    reseal(entries[1], cost=0.1)
    entries[1]["cost"] = 0.1


def alter_column(header, entries):
    entries[2]["cost"] = 0.1


def refund(header, entries):
    reseal(entries[2], cost=-0.5)
    entries[2]["cost"] = -0.5


def not_a_number(header, entries):
    reseal(entries[2], cost=math.nan)


def word_for_a_cost(header, entries):
    reseal(entries[2], cost="free")


def unknown_noise(header, entries):
    reseal(entries[2], noise="loud")


def renumber(header, entries):
    reseal(entries[2], sequence=4)
    entries[2]["sequence"] = 4


def drop_field(header, entries):
    line = json.loads(entries[2]["payload"])
    del line["cost"]
    entries[2]["payload"] = json.dumps(line)


@pytest.mark.parametrize(
    "damage",
    [
        cut_first,
        cut_middle,
        swap,
        alter_header,
        reseal_header,
        alter_header_column,
        alter_cost,
        reseal_cost,
        alter_column,
        refund,
        not_a_number,
        word_for_a_cost,
        unknown_noise,
        renumber,
        drop_field,
    ],
)
def test_no_damage_goes_unnoticed(damage):
    header, entries = rows(3)
    damage(header, entries)
    with pytest.raises(LedgerDamaged):
        Chain.verified(header, entries)


def test_a_line_of_schema_1_has_no_confidence_delta():
    header, entries = rows(1)
    entry = Chain.verified(header, entries).entries[0]
    assert isinstance(entry, Entry)
    assert entry.confidence_delta == 0.0
