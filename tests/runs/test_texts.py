"""A run on texts: numbers of a column of texts by local files, from the configuration to labels."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from tacit.datasets import load_dataset, load_public
from tacit.errors import InvalidArgument
from tacit.runs.config import RunConfig
from tacit.runs.running import run_config
from tacit.students import load_student

pytest.importorskip("tokenizers")
pytest.importorskip("safetensors")
WORDS = ["good", "fine", "bad", "poor", "film", "actor"]


@pytest.fixture
def files(tmp_path):
    """A tokenizer, vectors, ratings and two tables of texts."""
    from safetensors.numpy import save_file
    from tokenizers import Tokenizer, models, pre_tokenizers

    known = {word: place for place, word in enumerate([*WORDS, "?"])}
    tokenizer = Tokenizer(models.WordLevel(known, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    save_file({"vectors": np.eye(7, dtype=np.float32)}, tmp_path / "table.safetensors")
    (tmp_path / "rated.txt").write_text("good\t2\npoor\t-2\n")
    draw = np.random.default_rng(0)
    for name, count in (("private", 400), ("public", 100), ("held", 100)):
        rows = [_text(draw) for _ in range(count)]
        with open(tmp_path / f"{name}.csv", "w", newline="") as file:
            labels = [] if name == "public" else ["label"]
            csv.writer(file).writerows(
                [["note", *labels], *(row[: 1 + len(labels)] for row in rows)]
            )
    return tmp_path


def _text(draw):
    mood = int(draw.integers(2))
    said = draw.choice(WORDS[2 * mood : 2 * mood + 2], 3)
    return " ".join([*said, *draw.choice(WORDS[4:], draw.integers(1, 9))]), ["yes", "no"][mood]


def options(folder, **more):
    made = {"tokenizer": folder / "tokenizer.json", "table": folder / "table.safetensors"}
    made["lexicons"] = [str(folder / "rated.txt")]
    plain = {key: value if isinstance(value, list) else str(value) for key, value in made.items()}
    return {"text": "note", "target": "label", "classes": ["no", "yes"], **plain, **more}


def test_a_configured_run_reads_texts_and_labels_new_ones(files):
    config = RunConfig.parse(
        {
            "method": "moments",
            "data": {
                "source": f"texts:{files / 'private.csv'}",
                "public_source": f"texts:{files / 'public.csv'}",
                "held_out_source": f"texts:{files / 'held.csv'}",
                "allow_overlap": True,
                "options": options(files),
            },
            "privacy": {"epsilon": 8.0, "delta": 1e-5},
            "moments": {"features": "embeddings", "n_records": 400},
        }
    )
    result = run_config(config, files / "run")
    assert result.accuracy > 0.8  # chance is a half
    (line,) = [each for each in result.statement.warnings if "table.safetensors" in each]
    assert "each from its own record alone" in line
    assert "rated.txt" in line
    new = load_public(f"texts:{files / 'public.csv'}", **config.data.options)
    assert set(load_student(files / "run" / "student.tacit").predict(new)) == {"no", "yes"}


def test_texts_are_vectors_then_ratings_with_labels_or_without(files):
    data = load_dataset(f"texts:{files / 'held.csv'}", **options(files))
    assert data.X.shape == (100, 7 + 4)
    assert set(data.labels.tolist()) == {"no", "yes"}
    without = load_public(f"texts:{files / 'public.csv'}", **options(files))
    assert without.shape == (100, 11)
    assert np.array_equal(without[:, :7].sum(axis=1).round(5), np.ones(100, np.float32))


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"text": "nowhere"}, "nowhere"),
        ({"table": "none.safetensors"}, "none"),
        ({"more": 1}, "more"),
    ],
)
def test_what_is_not_there_is_named(files, wrong, match):
    with pytest.raises(InvalidArgument, match=match):
        load_dataset(f"texts:{files / 'held.csv'}", **options(files, **wrong))
