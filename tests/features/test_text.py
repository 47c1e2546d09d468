"""Means of tokens' vectors, public ratings of words: rules, files, and texts that are none."""

import numpy as np
import pytest

from tacit.errors import InvalidArgument
from tacit.features import LexiconScores, StaticTextEncoder

RATED = {"good": 2.0, "great": 3.0, "bad": -2.0}


def text_encoder(folder, words=("good", "bad", "?"), **matrices):
    from safetensors.numpy import save_file
    from tokenizers import Tokenizer, models, pre_tokenizers

    vocabulary = {word: place for place, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    save_file(matrices or {"vectors": np.eye(3, dtype=np.float32)}, folder / "table.safetensors")
    return StaticTextEncoder(folder / "tokenizer.json", table=folder / "table.safetensors")


def test_texts_are_means_of_their_tokens(tmp_path):
    encoder = text_encoder(tmp_path)
    made = encoder.fit(None).transform(["good bad bad bad", "", None])
    assert made[:2].tolist() == [[0.25, 0.75, 0.0], [0.0, 0.0, 0.0]]
    assert np.isnan(made[2]).all()
    with pytest.raises(InvalidArgument, match="tokenizer"):
        StaticTextEncoder(tmp_path / "none.json", table=tmp_path / "table.safetensors").fit(None)


def test_a_table_without_a_vector_for_each_token_is_refused(tmp_path):
    with pytest.raises(InvalidArgument, match="up to 3, got 3 rows"):
        text_encoder(tmp_path, ("good", "bad", "?", "odd")).fit(None)


def test_of_two_matrices_none_is_taken(tmp_path):
    one, line = np.eye(3, dtype=np.float32), np.ones(3, dtype=np.float32)
    assert text_encoder(tmp_path, vectors=one, bias=line).transform(["good"]).shape == (1, 3)
    with pytest.raises(InvalidArgument, match=r"one matrix, got \['turn', 'vectors'\]"):
        text_encoder(tmp_path, vectors=one, turn=one).fit(None)


def test_one_text_instead_of_several_is_refused_and_not_quoted(tmp_path):
    for described in (text_encoder(tmp_path), LexiconScores([RATED])):
        with pytest.raises(InvalidArgument, match="put it into a list") as told:
            described.transform("good bad")
        assert "good" not in str(told.value)


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
    capital = {word.capitalize(): rating for word, rating in RATED.items()}
    assert np.array_equal(scores.transform(texts), LexiconScores([capital]).transform(texts))


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
