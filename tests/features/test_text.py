"""Public ratings of words: rules, files, and texts that are none."""

import numpy as np
import pytest

from tacit.errors import InvalidArgument
from tacit.features import LexiconScores

RATED = {"good": 2.0, "great": 3.0, "bad": -2.0}


def sums(*texts):
    """The weighted sum of ratings, words counted out again."""
    made = LexiconScores([RATED]).transform(texts)[:, 0]
    return [float(each) * len(text.split()) ** 0.5 for each, text in zip(made, texts, strict=True)]


def test_negations_turn_and_what_follows_a_but_counts_more():
    plain, negated, far = sums("a Good film", "not a good film", "not a film that is good")
    assert (plain, negated, far) == pytest.approx((2.0, -1.48, 2.0), abs=1e-6)
    assert sums("good but bad", "bad, but good") == pytest.approx([-2.0, 2.0], abs=1e-6)


def test_praise_and_blame_are_told_apart():
    (made,) = LexiconScores([RATED, {"film": 1.0}]).transform(["great bad film film"])
    assert made == pytest.approx([0.5, 1.5, -1.0, 1 / 7, 1.0, 1.0, 0.0, 0.5], abs=1e-6)


def test_a_text_is_rated_by_itself_and_what_is_none_is_nan():
    scores = LexiconScores([RATED])
    together = scores.transform(["good", None, "", "isn\u2019t bad"])
    assert np.isnan(together[1]).all()
    assert (together[2] == 0).all()
    assert np.array_equal(together[3:], scores.transform(["isn't bad"]))


def test_files_say_what_mappings_say(tmp_path):
    (tmp_path / "rated.txt").write_text("Good\t2.0\tmore\ngreat\t3\nno rating\nbad\t-2\n")
    scores = LexiconScores([tmp_path / "rated.txt"]).fit(None)
    texts = ["good and great", "bad"]
    assert np.array_equal(scores.transform(texts), LexiconScores([RATED]).transform(texts))


@pytest.mark.parametrize("content", ["", "good\tvery\n", "good\tnan\n"])
def test_a_lexicon_without_finite_ratings_is_refused(tmp_path, content):
    (tmp_path / "rated.txt").write_text(content)
    with pytest.raises(InvalidArgument, match="finite ratings"):
        LexiconScores([tmp_path / "rated.txt"]).fit(None)
    with pytest.raises(InvalidArgument, match="finite ratings"):
        LexiconScores([{"good": "very"}]).fit(None)


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(InvalidArgument, match="FileNotFoundError"):
        LexiconScores([tmp_path / "none.txt"]).fit(None)
