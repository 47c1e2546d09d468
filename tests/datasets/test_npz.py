"""Archives of inputs and labels."""

from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from refusals import everything_said, read_or_refuse

from tacit.datasets import load_npz
from tacit.errors import InvalidArgument

X = np.random.default_rng(0).random((6, 4))
Y = np.array([0, 1, 2, 1, 0, 2])
CANARY = 918_273_645


def saved(folder, **arrays):
    path = folder / "set.npz"
    np.savez(path, **arrays)
    return path


def test_an_archive_of_one_part_is_read_as_it_is(tmp_path):
    data = load_npz(saved(tmp_path, x=X, y=Y), classes=3)
    np.testing.assert_array_equal(data.X, X)
    np.testing.assert_array_equal(data.y, Y)
    assert (data.name, data.image_shape, data.n_train) == ("set", None, None)


def test_two_parts_and_keys_in_capitals(tmp_path):
    path = saved(tmp_path, X_train=X[:4], Y_train=Y[:4], X_test=X[4:], y_test=Y[4:], extra=X)
    data = load_npz(path, classes=3, name="mine")
    assert (data.name, data.n_train) == ("mine", 4)
    np.testing.assert_array_equal(data.test.X, X[4:])
    np.testing.assert_array_equal(data.train.y, Y[:4])


def test_images_are_flattened_and_bytes_become_fractions(tmp_path):
    pixels = np.arange(6 * 3 * 4).reshape(6, 3, 4).astype(np.uint8)
    data = load_npz(saved(tmp_path, x=pixels, y=Y), classes=3, range=[0, 255])
    assert (data.image_shape, data.X.shape, data.X.dtype) == ((3, 4), (6, 12), np.float32)
    np.testing.assert_allclose(data.X, pixels.reshape(6, 12) / 255, rtol=1e-6)


def test_flat_images_may_have_their_shape_declared(tmp_path):
    path = saved(tmp_path, x=X, y=Y)
    scale = {"range": [0, 1]}
    assert load_npz(path, classes=3, image_shape=(2, 2), **scale).image_shape == (2, 2)
    with pytest.raises(InvalidArgument, match=r"range=\[low, high\]"):
        load_npz(path, classes=3, image_shape=(2, 2))
    for shape in ((3, 2), (4, 1), "22", 4):
        with pytest.raises(InvalidArgument, match=r"image_shape="):
            load_npz(path, classes=3, image_shape=shape, **scale)


@pytest.mark.parametrize(
    ("labels", "classes", "expected"),
    [
        (Y.astype(float), 3, Y),
        (Y.astype(np.uint8)[:, None], 3, Y),
        (Y + 5, [7, 6, 5], 2 - Y),
        (np.array(list("abcbac")), ["a", "b", "c"], Y),
    ],
)
def test_labels_of_any_kind_become_indices(tmp_path, labels, classes, expected):
    data = load_npz(saved(tmp_path, x=X, y=labels), classes=classes)
    assert data.y.tolist() == expected.tolist()


def test_classes_may_stand_in_the_archive_and_the_caller_overrules(tmp_path):
    path = saved(tmp_path, x=X, y=np.array(list("abcbac")), classes=np.array(["c", "b", "a"]))
    assert load_npz(path).y.tolist() == (2 - Y).tolist()
    assert load_npz(path, classes=["a", "b", "c"]).y.tolist() == Y.tolist()


def test_classes_are_never_read_off_the_labels(tmp_path):
    with pytest.raises(InvalidArgument, match=r"classes=\.\.\."):
        load_npz(saved(tmp_path, x=X, y=Y))


@pytest.mark.parametrize("label", [3, -1, 0.5, np.nan, np.inf, CANARY])
def test_labels_that_are_not_declared_are_refused_and_not_quoted(tmp_path, label):
    labels = Y.astype(float)
    labels[2] = label
    with pytest.raises(InvalidArgument, match=r"declared classes") as caught:
        load_npz(saved(tmp_path, x=X, y=labels), classes=3)
    assert str(CANARY) not in everything_said(caught.value)


@pytest.mark.parametrize(
    "arrays",
    [
        {"x": X},
        {"y": Y},
        {"x_train": X, "y_train": Y},
        {"x": X, "y": Y, "x_train": X, "y_train": Y, "x_test": X, "y_test": Y},
        {"inputs": X, "labels": Y},
        {"x": X, "y": Y[:5]},
        {"x": X[:0], "y": Y[:0]},
        {"x": X[0], "y": Y[:4]},
        {"x": X[None, None], "y": Y[:1]},
        {"x": X * 1j, "y": Y},
        {"x": np.full((6, 4), "a"), "y": Y},
        {"x": np.where(X > 0.9, np.nan, X), "y": Y},
        {"x": np.where(X > 0.9, np.inf, X), "y": Y},
        {"x_train": X, "y_train": Y, "x_test": X[:, :3], "y_test": Y},
        {"x": X, "y": Y, "classes": np.array(5.5)},
    ],
    ids=lambda arrays: ",".join(f"{key}{value.shape}" for key, value in arrays.items()),
)
def test_archives_that_hold_something_else_are_refused(tmp_path, arrays):
    assert (X > 0.9).any()
    classes = None if "classes" in arrays else 3
    with pytest.raises(InvalidArgument, match=r"^Expected"):
        load_npz(saved(tmp_path, **arrays), classes=classes)


class Explosive:
    """Raises when unpickled: a reader that opens pickles would set it off."""

    def __reduce__(self):
        return (pytest.fail, ("a pickle was opened",))


def test_pickles_are_refused_and_never_opened(tmp_path):
    path = saved(tmp_path, x=np.array([[Explosive()]], dtype=object), y=np.array([0]))
    with pytest.raises(InvalidArgument, match=r"holds something else"):
        load_npz(path, classes=2)


def test_no_file_an_array_and_a_truncated_archive_are_refused(tmp_path):
    with pytest.raises(InvalidArgument, match=r"there is none"):
        load_npz(tmp_path / "set.npz", classes=3)
    path = saved(tmp_path, x=X, y=Y)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(InvalidArgument, match=r"truncated"):
        load_npz(path, classes=3)
    with path.open("wb") as file:
        np.save(file, X)
    with pytest.raises(InvalidArgument, match=r"holds something else"):
        load_npz(path, classes=3)


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    st.booleans(),
    st.lists(
        st.tuples(st.integers(0, 10**6), st.binary(min_size=1, max_size=4)), min_size=1, max_size=4
    ),
)
def test_no_damage_raises_anything_but_our_own_error(tmp_path, compressed, blows):
    file = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(file, x=X, y=Y)
    content = bytearray(file.getvalue())
    for at, blow in blows:
        place = at % len(content)
        content[place : place + len(blow)] = blow
    path = tmp_path / "set.npz"
    path.write_bytes(content)
    data = read_or_refuse(lambda: load_npz(path, classes=3))
    assert data is None or np.isfinite(data.X).all()


@pytest.mark.data
def test_usps_is_usps(data_dir):
    data = load_npz(data_dir / "usps" / "usps_7291_2007.npz", classes=10, range=[0, 1])
    assert (len(data.train), len(data.test), data.image_shape) == (7291, 2007, (16, 16))
    assert 0 <= data.X.min() < data.X.max() <= 1
