"""Compiled loops: the bits of the chains beside them, and a run that does without numba."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tacit import DPSGDClassifier, InsecureNoise, _loops
from tacit.features.whole_numbers import WholeMatrix, WholeRows, whole_rows
from tacit.noisy_training.exact_rows import tanh
from tacit.noisy_training.training import Adam

pytestmark = pytest.mark.arithmetic
ANY = st.floats(width=64, allow_nan=True, allow_infinity=True)
ROWS = arrays(np.float64, st.tuples(st.integers(1, 5), st.integers(1, 9)), elements=ANY)


@pytest.fixture(scope="module", params=["as they are", "within bounds"])
def compiled(request) -> Iterator[None]:
    """Compile every loop, and take them away again: other tests see what others see."""
    numba = pytest.importorskip("numba")
    before = [each.compiled for each in _loops._known]
    if request.param == "as they are":
        assert _loops.use_loops(_loops.WORTH_IT)
    else:  # what reads or writes beyond an array is an IndexError then
        for each in _loops._known:
            checked = numba.njit(each.signature, boundscheck=True, error_model="numpy")
            each.compiled = checked(each.plain)
    yield
    for each, was in zip(_loops._known, before, strict=True):
        each.compiled = was


def both_ways(function):
    """Return what a function returns with loops, and without."""
    with_loops = function()
    kept = [each.compiled for each in _loops._known]
    try:
        for each in _loops._known:
            each.compiled = None
        return with_loops, function()
    finally:
        for each, was in zip(_loops._known, kept, strict=True):
            each.compiled = was


def same_bits(first: np.ndarray, second: np.ndarray) -> bool:
    """Tell whether two arrays have the same bits; one NaN is as good as another."""
    gone = np.isnan(first)
    same = first.view(np.int64) == second.view(np.int64)
    return bool((gone == np.isnan(second)).all() and same[~gone].all())


@pytest.mark.usefixtures("compiled")
@given(ROWS)
@settings(deadline=None)
def test_rows_are_rounded_to_the_same_steps(rows):
    with np.errstate(all="ignore"):
        one, other = both_ways(lambda: whole_rows(rows.copy()))
        assert same_bits(one.steps, other.steps)
        assert same_bits(one.units, other.units)
        one, other = both_ways(whole_rows(rows.copy()).norms)
        assert same_bits(one, other)


@pytest.mark.usefixtures("compiled")
@given(st.integers(0, 2**32), st.booleans())
@settings(deadline=None, max_examples=25)
def test_products_with_a_bias_have_the_same_bits(seed, turned):
    draw = np.random.default_rng(seed)
    matrix, bias = draw.normal(size=(7, 5)), draw.normal(size=5)
    matrix = np.asfortranarray(matrix) if turned else matrix
    rows = whole_rows(draw.normal(size=(6, 7)))
    one, other = both_ways(lambda: WholeMatrix(matrix).times(rows, bias=bias))
    assert same_bits(one, other)
    assert np.allclose(one, rows.values() @ matrix + bias, atol=1e-4)


@pytest.mark.usefixtures("compiled")
def test_lengths_of_wide_rows_are_exact():
    steps = np.random.default_rng(0).integers(-(2**21), 2**21, size=(3, 783)).astype(np.float64)
    rows = WholeRows(steps, np.ones((3, 1)))
    exact = [sum(int(step) ** 2 for step in row) for row in steps]
    assert rows.norms()[:, 0].tolist() == np.sqrt(np.array(exact, dtype=np.float64)).tolist()


@pytest.mark.usefixtures("compiled")
@given(arrays(np.float64, st.integers(1, 40), elements=ANY))
@settings(deadline=None)
def test_tanh_and_its_slope_have_the_same_bits(values):
    with np.errstate(all="ignore"):
        one, other = both_ways(lambda: tanh(values))
    assert same_bits(one[0], other[0])
    assert same_bits(one[1], other[1])


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "dilation"), [(3, 1, 0, 1), (4, 2, 3, 1), (2, 3, 1, 2)]
)
def test_a_convolution_has_the_same_bits_forth_and_back(kernel, stride, padding, dilation):
    from torch import manual_seed, nn

    from tacit.noisy_training.exact_pieces import Convolution

    manual_seed(0)
    layer = nn.Conv2d(2, 3, kernel, stride, padding=padding, dilation=dilation)
    flat = np.concatenate([part.detach().double().numpy().ravel() for part in layer.parameters()])
    images = np.random.default_rng(1).normal(size=(4, 2 * 9 * 9))
    images[1] = np.nan

    def through():
        piece = Convolution(layer, (2, 9, 9))
        piece.load(flat, first=False)
        outputs, kept = piece.forward(images.copy())
        deltas = whole_rows(np.cos(np.arange(outputs.size)).reshape(outputs.shape))
        found = piece.gradients(kept, deltas)
        total = np.zeros(flat.size)
        found.add(total, np.array([[1.0], [0.0], [0.5], [0.25]]))
        return np.concatenate(
            [each.ravel() for each in (outputs, piece.back(kept, deltas), found.norms, total)]
        )

    assert same_bits(*both_ways(through))


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("rates", [0.1, np.linspace(0.01, 1.0, 50)], ids=["one", "each its own"])
def test_adam_takes_the_same_steps(rates):
    def moved():
        draw, adam = np.random.default_rng(3), Adam(50, 0.1)
        adam.rate = rates
        parameters = draw.normal(size=50)
        for _ in range(7):
            adam.step(parameters, draw.normal(size=50))
        return np.concatenate([parameters, adam.state()["mean"], adam.state()["square"]])

    assert same_bits(*both_ways(moved))


@pytest.mark.usefixtures("compiled")
def test_what_does_not_fit_is_refused_by_numpy_and_written_nowhere():
    with pytest.raises(ValueError, match="broadcast"):
        Adam(50, 0.1).step(np.zeros(60), np.zeros(60))
    with pytest.raises(ValueError, match="broadcast"):
        WholeMatrix(np.ones((2, 3))).times(whole_rows(np.ones((4, 2))), bias=np.ones(2))
    with pytest.raises(ValueError):  # noqa: PT011 - NumPy's words for it
        whole_rows(np.ones((4, 2)), out=np.ones((3, 2)))


@pytest.mark.usefixtures("compiled")
@given(st.integers(0, 2**32), st.floats(-18, 38))
@settings(deadline=None, max_examples=40)
def test_noise_has_the_same_steps_from_the_same_words(seed, log_ratio):
    def drawn():
        return InsecureNoise(seed).rounded_gaussian_steps(2.0**log_ratio, 1.0, 20_000)

    one, other = both_ways(drawn)
    assert (one == other).all()


@pytest.mark.usefixtures("compiled")
def test_words_that_are_not_certain_are_refined_by_loops_too():
    from tacit.noise import exact

    # The smallest tail, one just certified, the largest, a rounding boundary of ratio 1: Q(1/2).
    boundary = round(0.30853753872598688 * 2.0**64)
    words = np.array([0, 1, 2**45, 2**64 - 1, boundary << 1 & (2**64 - 1)], dtype=np.uint64)

    def unsure():
        steps = np.zeros(words.size, dtype=np.int64)
        return exact._fast_steps(words, 1.0, steps)

    one, other = both_ways(unsure)
    assert one == other
    assert {0, 1} <= set(one)


@pytest.mark.usefixtures("compiled")
def test_nothing_is_compiled_for_other_types_later():
    """Compiling beside private records could fail there: signatures are fixed before."""
    for each in _loops._known:
        assert len(each.compiled.signatures) == 1
        assert not each.compiled._can_compile


@pytest.mark.usefixtures("compiled")
def test_a_whole_run_learns_the_same_bits():
    draw = np.random.default_rng(0)
    X, y = draw.normal(size=(200, 6)), draw.integers(2, size=200)

    def learned():
        noise = InsecureNoise(5)
        model = DPSGDClassifier(
            epsilon=2.0,
            classes=[0, 1],
            noise=noise,
            hidden=(64,),
            n_records=200,
            random_state=0,
        )
        return model.fit(X, y).predict_proba(X)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that little can be learned of so few
        assert same_bits(*both_ways(learned))


def test_a_small_run_does_not_load_numba():
    assert not _loops.use_loops(_loops.WORTH_IT - 1)


def test_without_numba_runs_go_on_as_before(monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", None)
    assert not _loops.use_loops(_loops.WORTH_IT)


def test_where_nothing_can_be_kept_loops_are_compiled_all_the_same():
    numba = pytest.importorskip("numba")

    def njit(*given, cache=False, **how):
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return numba.njit(*given, **how)

    each = _loops.Loop(lambda values: values.sum(), "float64(float64[::1])")
    assert _loops._compiled(each, njit)(np.ones(3)) == 3.0
