"""A data set by one word."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.datasets import load_dataset, load_public
from tacit.errors import InvalidArgument


def test_digits_need_no_place():
    assert load_dataset("digits").name == "digits"


def test_files_are_loaded_with_their_options(tmp_path):
    np.savez(tmp_path / "set.npz", x=np.eye(3), y=[0, 1, 1])
    assert load_dataset(f"npz:{tmp_path / 'set.npz'}", classes=2).y.tolist() == [0, 1, 1]
    (tmp_path / "set.csv").write_text("age,rich\n3,no\n", encoding="utf-8")
    data = load_dataset(
        f"csv:{tmp_path / 'set.csv'}", target="rich", classes=["no", "yes"], numeric=["age"]
    )
    assert data.X.tolist() == [[3]]


def test_public_inputs_are_loaded_without_their_labels(tmp_path):
    np.savez(tmp_path / "set.npz", x=np.eye(3), y=[0, 1, 1])
    assert load_public(f"npz:{tmp_path / 'set.npz'}", classes=2).tolist() == np.eye(3).tolist()
    for word in ("", "csv", "csv:", "cifar:x", None):
        with pytest.raises(InvalidArgument, match=r"adult:DIR, affairs, csv:FILE, digits"):
            load_public(word)


def test_a_place_may_hold_colons(tmp_path):
    folder = tmp_path / "a:b"
    folder.mkdir()
    np.savez(folder / "set.npz", x=np.eye(3), y=[0, 1, 1])
    assert len(load_dataset(f"npz:{folder / 'set.npz'}", classes=2)) == 3


@pytest.mark.parametrize(
    "specification",
    ["", "mnist", "mnist:", "cifar:dir", "digits:", "digits:x", ":x", "MNIST:x", None, 5],
)
def test_other_words_are_refused(specification):
    with pytest.raises(InvalidArgument, match=r"adult:DIR, affairs, csv:FILE, digits"):
        load_dataset(specification)


@pytest.mark.parametrize(
    ("specification", "options"),
    [
        ("digits", {"classes": 3}),
        ("csv:file", {}),
        ("npz:file", {"colour": 1}),
        ("adult:x", {"name": "y"}),
    ],
)
def test_options_that_do_not_fit_are_refused(specification, options):
    with pytest.raises(InvalidArgument, match=r"^Expected options"):
        load_dataset(specification, **options)


CSV_OPTIONS = {
    *("target", "classes", "numeric", "categorical", "groups", "ignored"),
    *(
        "missing",
        "other",
        "dates",
        "target_range",
        "delimiter",
        "decimal",
        "encoding",
        "name",
        "unreadable",
    ),
}


@pytest.mark.parametrize("load", [load_dataset, load_public])
@pytest.mark.parametrize(
    ("specification", "known"),
    [
        ("csv:file", CSV_OPTIONS),
        ("parquet:file", CSV_OPTIONS),
        ("npz:file", {"classes", "image_shape", "name", "range"}),
        ("mnist:folder", {"classes", "name"}),
        ("digits", {"none"}),
        ("affairs", {"none"}),
    ],
)
def test_an_unknown_option_is_answered_with_those_there_are(load, specification, known):
    for wrong in ("separator", "path"):
        with pytest.raises(InvalidArgument, match=rf"not '{wrong}'; known are ") as caught:
            load(specification, **{wrong: ";"})
        listed = str(caught.value).rstrip(".").partition("known are ")[2]
        assert set(listed.split(", ")) == known


@pytest.mark.parametrize("kind", ["mnist", "adult", "npz"])
def test_a_place_that_is_not_there(tmp_path, kind):
    with pytest.raises(InvalidArgument, match=r"there is none"):
        load_dataset(f"{kind}:{tmp_path / 'absent'}")
