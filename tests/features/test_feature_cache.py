"""The cache of features: whose they are, who may write at once, and where it cannot be."""

import threading

import numpy as np
import pytest
import torch

from tacit.errors import InvalidArgument
from tacit.features import FrozenEncoder
from tacit.features.feature_cache import FeatureCache

ROWS = np.random.default_rng(3).normal(size=(80, 6)).astype(np.float32)


def linear(width=5, last=None):
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(6, width), last or torch.nn.Identity())


def kept(path, width):
    with np.load(path) as stored:
        return len(stored[f"keys{width}"])


class Own(torch.nn.Module):
    """Two networks that only their outputs tell apart."""

    def __init__(self, does):
        super().__init__()
        self.linear, self.does = linear(), does

    def forward(self, rows):
        return self.does(self.linear(rows))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (linear(last=torch.nn.Tanh()), linear(last=torch.nn.ReLU())),
        (Own(torch.tanh), Own(torch.relu)),
    ],
    ids=["architecture", "code"],
)
def test_another_network_does_not_get_its_features(one, other, tmp_path):
    path = tmp_path / "features.npz"
    FrozenEncoder(one, cache=path).fit(ROWS).transform(ROWS)
    made = FrozenEncoder(other, cache=path).fit(ROWS).transform(ROWS)
    assert np.array_equal(made, FrozenEncoder(other).fit(ROWS).transform(ROWS))


def test_nobody_loses_what_others_add_at_once(tmp_path):
    path = tmp_path / "features.npz"

    def add(start):
        cache = FeatureCache(path, "a network")
        for k in range(start, start + 20, 5):
            cache.add(ROWS[k : k + 5], ROWS[k : k + 5])

    threads = [threading.Thread(target=add, args=(start,)) for start in (0, 20, 40, 60)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    known = FeatureCache(path, "a network").read(ROWS, 6)
    assert np.array_equal([known[k] for k in range(80)], ROWS)


def test_other_widths_share_the_file_and_a_row_is_kept_once(tmp_path):
    path = tmp_path / "features.npz"
    five, seven = (FrozenEncoder(linear(width), cache=path).fit(ROWS) for width in (5, 7))
    five.transform(np.repeat(ROWS[:1], 10, axis=0))
    seven.transform(ROWS[:3])
    five.transform(ROWS[:2])
    assert (kept(path, 5), kept(path, 7)) == (2, 3)


def test_nothing_is_left_when_it_is_forgotten(tmp_path):
    encoder = FrozenEncoder(linear(), cache=tmp_path / "features.npz").fit(ROWS)
    encoder.transform(ROWS)
    encoder.forget()
    encoder.forget()
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_missing_is_refused_before_anything_is_computed(tmp_path):
    for path in (tmp_path / "none" / "features.npz", tmp_path):
        with pytest.raises(InvalidArgument, match="make the folder"):
            FrozenEncoder(linear(), cache=path).fit(ROWS)
