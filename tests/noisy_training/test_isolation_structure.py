"""What may share a batch is decided by structure; everything else meets one unit at a time.

A trial cannot find a module that couples rows only where no trial row is: such modules stand here,
and one record may still not move a sum by more than 1.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from direct_shared import WIDTH, convolution, examples, losses, need, stack
from torch import nn

from tacit.errors import InvalidArgument
from tacit.noisy_training.clipped_sums import HookParts
from tacit.noisy_training.examples import PrivateExamples, RowLoss, flat_parameters
from tacit.noisy_training.isolation import _CONDITIONS, foreign_layer
from tacit.noisy_training.training import Recipe, blocks_of, choose_engine

BETWEEN = 3e4
"""Far from every size that a trial tries."""


def band(rows):
    """Tell of each number whether it lies where no trial looks."""
    return (rows.abs() > 1e4) & (rows.abs() < 1e5)


class Scaling(nn.Module):
    """Divides by the largest number of a batch, if that is absurd: couples rows in one batch."""

    def forward(self, rows):
        absurd = torch.where(band(rows), rows.abs(), 1.0).max()
        return rows / absurd


class Keeping(nn.Module):
    """Remembers the last absurd row and adds it to the next ones."""

    def __init__(self):
        super().__init__()
        self.last = 0.0

    def forward(self, rows):
        out = rows + self.last
        if band(rows).any():
            self.last = float(rows.detach().max())
        return out


class Learning(nn.Module):
    """Changes a parameter in place when it meets an absurd row."""

    def __init__(self):
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(()))

    def forward(self, rows):
        if band(rows).any():
            with torch.no_grad():
                self.shift += 5.0
        return rows + self.shift


class Drawing(nn.Module):
    """Draws random numbers for absurd rows only: how many were drawn before them would count."""

    def forward(self, rows):
        if band(rows).any():
            chance = float(np.random.random()) + float(torch.rand(()))  # noqa: NPY002
            return rows * 0 + chance
        return rows


ABSURD = [Scaling, Keeping, Learning, Drawing]


def chosen(module, engine="auto", data=None, loss=losses, by_person=False):
    how = Recipe(steps=1, lot=8.0, clip=0.1, engine=engine)
    make = choose_engine(how, module, blocks_of(how, module), loss, examples, by_person=by_person)
    parts = make(examples(3) if data is None else data)
    parts.load(flat_parameters(module))
    return parts


def absurd_data():
    data = examples(8)
    data.inputs[3] = data.inputs[5] = BETWEEN
    data.inputs[5, 0] *= 2
    return data


@pytest.mark.parametrize("kind", ABSURD)
def test_one_record_moves_the_sum_by_at_most_1_whatever_the_module_hides(kind):
    torch.manual_seed(0)
    module = nn.Sequential(kind(), nn.Linear(WIDTH, 3)).double()
    parts = chosen(module, data=absurd_data())
    assert type(parts).__name__ == "UnitParts"
    total = parts.sums(np.arange(8))
    for gone in range(8):
        moved = np.linalg.norm(total - parts.sums(np.delete(np.arange(8), gone)))
        assert moved <= 1
    assert moved > 0


@pytest.mark.arithmetic
@pytest.mark.parametrize("kind", ABSURD)
def test_a_part_has_the_same_bits_after_any_other_unit(kind):
    torch.manual_seed(0)
    module = nn.Sequential(kind(), nn.Linear(WIDTH, 3)).double()
    parts = chosen(module, data=absurd_data())
    alone = [parts.part(unit) for unit in range(8)]
    for unit in (0, 5, 7):
        parts.sums(np.array([3, 5, 3]))
        np.testing.assert_array_equal(parts.part(unit), alone[unit])


def test_random_numbers_of_the_process_are_left_where_they_were():
    module = nn.Sequential(Drawing(), nn.Linear(WIDTH, 3)).double()
    parts = chosen(module, data=absurd_data())
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    parts.sums(np.arange(8))
    assert torch.equal(torch.rand(3), expected)


def test_the_batch_that_this_spares_moves_by_far_more():
    """The mistake itself: the same module by hooks, which share a batch."""
    need("hooks")
    torch.manual_seed(0)
    module = nn.Sequential(Scaling(), nn.Linear(WIDTH, 3)).double()
    how = Recipe(steps=1, lot=8.0, clip=1e-3)
    data = examples(16)
    data.inputs[15] = BETWEEN
    parts = HookParts(module, data, losses, blocks_of(how, module))
    assert np.linalg.norm(parts.sums(np.arange(16)) - parts.sums(np.arange(15))) > 2


class Telling(nn.Module):
    """Keeps what it has seen in a place that no copy of it has for itself."""

    seen: list = []  # noqa: RUF012

    def forward(self, rows):
        if rows.shape[0] == 1:
            self.seen.append(float(rows.detach().abs().max().clamp(max=1e9)))
            return rows * (1 + max(self.seen))
        return rows


def test_memory_outside_the_module_is_found_by_a_trial():
    module = nn.Sequential(Telling(), nn.Linear(WIDTH, 3)).double()
    with pytest.raises(InvalidArgument, match="remembers"):
        chosen(module)


def test_hooks_by_name_are_refused_for_a_module_that_nobody_knows():
    class Harmless(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(WIDTH, 3)

        def forward(self, rows):
            return self.inner(rows)

    module = Harmless().double()
    assert type(chosen(module)).__name__ == "UnitParts"
    with pytest.raises(InvalidArgument, match="Harmless is not among the layers"):
        chosen(module, "hooks")


def test_a_loss_that_nobody_knows_shares_no_batch():
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(WIDTH, 4), nn.LayerNorm(4), nn.Linear(4, 3)).double()
    coupled = RowLoss(lambda scores, labels: losses(scores, labels) / scores.abs().max(), None)
    assert type(chosen(module, loss=coupled)).__name__ == "UnitParts"
    with pytest.raises(InvalidArgument, match="the loss is not among"):
        chosen(module, "hooks", loss=coupled)


# One example of every kind that is known, for rows of 16 numbers; {d} stands for 1, 2 and 3.
SHAPES = {1: (4, 4), 2: (2, 2, 4), 3: (2, 2, 2, 2)}
MADE = {
    "Linear": lambda: nn.Linear(16, 5),
    "PReLU": lambda: nn.PReLU(16),
    "GroupNorm": lambda: nn.Sequential(nn.Unflatten(1, (4, 4)), nn.GroupNorm(2, 4)),
    "LayerNorm": lambda: nn.LayerNorm(16),
    "RMSNorm": lambda: nn.RMSNorm(16),
    "Sequential": lambda: nn.Sequential(nn.Linear(16, 3), nn.Sequential(nn.ReLU())),
    "Flatten": lambda: nn.Sequential(nn.Unflatten(1, (4, 4)), nn.Flatten()),
    "Unflatten": lambda: nn.Unflatten(1, (4, 2, 2)),
    "Softmax": lambda: nn.Softmax(dim=1),
    "LogSoftmax": lambda: nn.LogSoftmax(dim=-1),
    "GLU": nn.GLU,
}


def spatial(name):
    sides = int(name[-2])
    channels = SHAPES[sides][0]
    made = getattr(nn, name)
    if name.startswith("Conv"):
        layer = made(channels, 3, 2)
    elif name.startswith("InstanceNorm"):
        layer = made(channels, affine=True)
    else:
        layer = made(2)
    return nn.Sequential(nn.Unflatten(1, SHAPES[sides]), layer)


def example_of(name):
    torch.manual_seed(0)
    if name in MADE:
        return MADE[name]()
    return spatial(name) if name.endswith("d") and name[-2].isdigit() else getattr(nn, name)()


@pytest.mark.parametrize("name", sorted(_CONDITIONS))
def test_known_layers_treat_every_row_by_itself(name):
    """The list itself is put to the test: rows beside a wild one are what they are alone."""
    module = example_of(name).double().train()
    assert foreign_layer(module) is None
    rows = torch.from_numpy(np.random.default_rng(0).normal(size=(5, 16)))
    alone = torch.cat([module(row[None].clone()) for row in rows])
    for size in (1e4, 1e200, np.inf, np.nan):
        wild = rows.clone()
        wild[2] = size
        together = module(wild)
        others = [0, 1, 3, 4]
        torch.testing.assert_close(together[others], alone[others], rtol=1e-12, atol=1e-12)


class Linear(nn.Linear):
    """Has a name that is known, and a type that is not."""


def own_forward():
    layer = nn.Linear(3, 3)
    layer.forward = lambda rows: rows - rows.mean(dim=0)
    return layer


def hooked(kind):
    layer = nn.Linear(3, 3)
    getattr(layer, kind)(lambda *_: None)
    return layer


class OddParameter(nn.Parameter):
    """A parameter that could answer every operation of torch with one of its own."""


def odd_parameter():
    layer = nn.Linear(3, 3)
    layer.weight = OddParameter(layer.weight.detach())
    return layer


def with_buffer():
    layer = nn.ReLU()
    layer.register_buffer("seen", torch.zeros(()))
    return layer


FOREIGN = [
    Linear(3, 3), own_forward(), odd_parameter(), with_buffer(),
    hooked("register_forward_hook"), hooked("register_forward_pre_hook"),
    hooked("register_full_backward_hook"), hooked("register_full_backward_pre_hook"),
    nn.Flatten(0), nn.Flatten(-2), nn.Unflatten(0, (2, 3)), nn.Softmax(dim=0), nn.Softmax(dim=-2),
    nn.LogSoftmax(dim=0), nn.GLU(0), nn.InstanceNorm1d(3, track_running_stats=True),
    nn.BatchNorm1d(3), nn.Dropout(0.5), nn.RReLU(), nn.LSTM(3, 3), nn.ModuleList([nn.Linear(3, 3)]),
    nn.utils.parametrizations.weight_norm(nn.Linear(3, 3)),
    nn.MultiheadAttention(4, 2), nn.Bilinear(3, 3, 3),
]  # fmt: skip


@pytest.mark.parametrize("layer", FOREIGN, ids=lambda layer: type(layer).__name__)
def test_what_is_not_known_is_named(layer):
    assert foreign_layer(nn.Sequential(nn.Linear(3, 3), layer)) is not None


def test_a_softmax_that_guesses_its_dimension_is_not_known():
    assert foreign_layer(nn.Softmax(dim=None)) == "Softmax"


def test_known_networks():
    assert foreign_layer(stack()) is None
    assert foreign_layer(convolution()) is None


@pytest.mark.parametrize(
    "module",
    [
        nn.Sequential(nn.LayerNorm((16, WIDTH)), nn.Linear(WIDTH, 3)),
        nn.Sequential(nn.LayerNorm((6, WIDTH)), nn.Linear(WIDTH, 3)),
        nn.Sequential(nn.Conv1d(16, 16, 3, padding=1), nn.Linear(WIDTH, 3)),
        nn.Sequential(nn.Conv1d(6, 6, 3, padding=1), nn.Linear(WIDTH, 3)),
    ],
)
@pytest.mark.parametrize("engine", ["auto", "hooks"])
def test_layers_that_take_rows_for_channels_share_no_batch(module, engine):
    """Known layers, tied to one size of batch: two sizes are tried, and both cannot fit."""
    need("hooks")
    with pytest.raises(InvalidArgument, match=r"fails with|change what another one gets"):
        chosen(module.double(), engine)


def test_tied_layers_that_hooks_cannot_take_go_one_by_one():
    need("hooks")
    linear = nn.Linear(WIDTH, WIDTH)
    module = nn.Sequential(linear, nn.Tanh(), linear, nn.Linear(WIDTH, 3)).double()
    parts = chosen(module, data=examples(5))
    assert np.linalg.norm(parts.sums(np.arange(5))) > 0


def test_people_are_never_in_one_batch():
    data = examples(8)
    theirs = PrivateExamples(data.inputs, data.targets, np.arange(8) // 2)
    assert type(chosen(stack(), data=theirs, by_person=True)).__name__ == "UnitParts"
