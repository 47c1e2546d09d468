"""A saved student comes back bit for bit; a damaged or dishonest file is refused in one line."""

from __future__ import annotations

import hashlib
import io
import json
import pickle
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from saved_files import rewrite
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from students_shared import Lesson, certain

from tacit.errors import InvalidArgument, MissingExtra
from tacit.features import (
    HOG,
    Categorical,
    Deskew,
    Numeric,
    PublicBins,
    PublicKernel,
    PublicPatches,
    PublicWhitening,
    digit_features,
)
from tacit.students import (
    CNNStudent,
    LabelSpreadingStudent,
    NearestStudent,
    SupervisedStudent,
    VATStudent,
    load_student,
    saved_extra,
)

NATIVE: dict[str, Callable[[], Any]] = {
    "nearest": lambda: NearestStudent(n_neighbors=2),
    "spreading": lambda: LabelSpreadingStudent(n_neighbors=5, alpha=0.9, sharpness=2.0),
    "cnn": lambda: CNNStudent((8, 8), epochs=1, batch_size=16, views=3),
    "vat": lambda: VATStudent(steps=5, batch_size=16),
    "vat-images": lambda: VATStudent(image_shape=(8, 8), steps=5, batch_size=16),
}


def fit(student: Any, lesson: Lesson) -> Any:
    return student.fit(lesson.X_public, lesson.indices, lesson.posterior)


def assert_same(one: Any, other: Any, lesson: Lesson) -> None:
    assert type(one) is type(other)
    np.testing.assert_array_equal(
        one.predict_proba(lesson.X_new), other.predict_proba(lesson.X_new)
    )


@pytest.fixture
def saved(tmp_path: Path, clouds: Lesson) -> Path:
    fit(NATIVE["spreading"](), clouds).save(tmp_path / "student.tacit")
    return tmp_path / "student.tacit"


@pytest.mark.parametrize("name", NATIVE)
def test_a_loaded_student_predicts_the_same_bits(name: str, clouds: Lesson, tmp_path: Path) -> None:
    student = fit(NATIVE[name](), clouds)
    student.save(tmp_path / "one")
    loaded = load_student(tmp_path / "one")
    assert_same(student, loaded, clouds)
    assert loaded.get_params() == student.get_params()
    loaded.save(tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_no_member_is_a_pickle(clouds: Lesson, tmp_path: Path) -> None:
    fit(NATIVE["cnn"](), clouds).save(tmp_path / "student")
    with zipfile.ZipFile(tmp_path / "student") as archive:
        names = archive.namelist()
        assert all(name.endswith((".npy", ".json")) for name in names)
        for name in names:
            if name.endswith(".npy"):
                np.load(io.BytesIO(archive.read(name)), allow_pickle=False)
            else:
                json.loads(archive.read(name))


def test_extra_is_kept_and_must_be_plain(clouds: Lesson, tmp_path: Path) -> None:
    student = fit(NATIVE["spreading"](), clouds)
    student.save(tmp_path / "student", extra={"classes": ["no", "yes"], "epsilon": 0.5})
    assert saved_extra(tmp_path / "student") == {"classes": ["no", "yes"], "epsilon": 0.5}
    for strange in ({"x": object()}, {"x": float("nan")}):
        with pytest.raises(InvalidArgument, match="plain data"):
            student.save(tmp_path / "other", extra=strange)
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("labels", [["no", "yes"], [3, 7], [False, True], [0.5, 1.5], [1, "a"]])
def test_labels_that_are_saved_are_what_it_predicts(
    labels: list[Any], clouds: Lesson, tmp_path: Path
) -> None:
    student = fit(NATIVE["spreading"](), clouds)
    student.save(tmp_path / "one", extra={"classes": labels})
    loaded = load_student(tmp_path / "one")
    places = student.predict(clouds.X_new)
    assert student.classes_ is None
    assert loaded.classes_.tolist() == labels
    assert loaded.predict(clouds.X_new).tolist() == [labels[place] for place in places]
    assert set(map(type, loaded.predict(clouds.X_new).tolist())) <= set(map(type, labels))
    loaded.save(tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert fit(loaded, clouds).classes_ is None  # of another lesson, whose classes nobody named


@pytest.mark.parametrize(
    "extra", [None, {"classes": ["one"]}, {"classes": "ab"}, {"classes": [[1], [2]]}, {"x": 1}]
)
def test_without_a_label_for_each_class_it_predicts_indices(
    extra: Any, clouds: Lesson, tmp_path: Path
) -> None:
    """Also students of 0.1, whose extra may say anything."""
    student = fit(NATIVE["spreading"](), clouds)
    student.save(tmp_path / "student", extra=extra)
    loaded = load_student(tmp_path / "student")
    assert loaded.classes_ is None
    np.testing.assert_array_equal(loaded.predict(clouds.X_new), student.predict(clouds.X_new))


@pytest.mark.parametrize(
    "features",
    [
        HOG((8, 8), cells=2),
        digit_features((8, 8)),
        PublicBins([Numeric(f"p{i}", [-0.5, 0.5]) for i in range(63)] + [Categorical("q", ["a"])]),
        make_pipeline(PublicWhitening(9), PublicKernel(20), PublicWhitening(3)),
        make_pipeline(
            PublicPatches((8, 8), cells=(2,), pixels=0, patch=3, atoms=4), PublicWhitening(3)
        ),
    ],
    ids=["hog", "pipeline", "bins", "learned", "patches"],
)
def test_tacits_own_features_are_saved_by_name(
    features: Any, clouds: Lesson, tmp_path: Path
) -> None:
    student = fit(LabelSpreadingStudent(features), clouds)
    student.save(tmp_path / "student")
    assert_same(student, load_student(tmp_path / "student"), clouds)
    with zipfile.ZipFile(tmp_path / "student") as archive:
        assert "features.skops" not in archive.namelist()


def test_a_networks_preprocessing_is_saved_with_it(clouds: Lesson, tmp_path: Path) -> None:
    student = fit(CNNStudent((8, 8), preprocess=Deskew((8, 8)), epochs=1, batch_size=16), clouds)
    student.save(tmp_path / "student")
    assert_same(student, load_student(tmp_path / "student"), clouds)


def test_other_estimators_go_through_skops(clouds: Lesson, tmp_path: Path) -> None:
    pytest.importorskip("skops")
    student = fit(SupervisedStudent(LogisticRegression(), features=StandardScaler()), clouds)
    student.save(tmp_path / "student")
    assert_same(student, load_student(tmp_path / "student"), clouds)


def test_a_student_of_one_class_needs_no_skops(
    clouds: Lesson, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "skops.io", None)
    student = SupervisedStudent(LogisticRegression())
    student.fit(clouds.X_public, [0, 1], certain(np.array([1, 1]), 2))
    student.save(tmp_path / "student")
    assert_same(student, load_student(tmp_path / "student"), clouds)


def test_untrusted_types_are_named_and_refused(clouds: Lesson, tmp_path: Path) -> None:
    pytest.importorskip("skops")
    student = fit(LabelSpreadingStudent(FunctionTransformer()), clouds)
    student.features_ = FunctionTransformer(hashlib.sha256)
    student.save(tmp_path / "student")
    with pytest.raises(InvalidArgument, match="sha256"):
        load_student(tmp_path / "student")


def test_without_skops_the_error_names_the_extra(
    clouds: Lesson, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    student = fit(SupervisedStudent(LogisticRegression()), clouds)
    monkeypatch.setitem(sys.modules, "skops.io", None)
    with pytest.raises(MissingExtra, match=r"tacit\[export\]"):
        student.save(tmp_path / "student")
    assert not (tmp_path / "student").exists()


def test_an_unfitted_or_foreign_student_is_not_saved(clouds: Lesson, tmp_path: Path) -> None:
    from sklearn.exceptions import NotFittedError

    class Mine(LabelSpreadingStudent):
        pass

    with pytest.raises(NotFittedError):
        LabelSpreadingStudent().save(tmp_path / "student")
    with pytest.raises(InvalidArgument, match="Mine"):
        fit(Mine(), clouds).save(tmp_path / "student")


def refused(path: Path) -> str:
    """The message, which must be one line, of a refusal to load."""
    with pytest.raises(InvalidArgument) as caught:
        load_student(path)
    message = str(caught.value)
    assert "\n" not in message
    assert caught.value.__cause__ is None
    return message


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.9, 0.999])
def test_a_truncated_file_is_refused(share: float, saved: Path) -> None:
    data = saved.read_bytes()
    saved.write_bytes(data[: int(share * len(data))])
    assert "damaged" in refused(saved)


def test_a_changed_byte_is_refused_or_changes_nothing(saved: Path, clouds: Lesson) -> None:
    data, student = saved.read_bytes(), load_student(saved)
    places = np.random.default_rng(0).choice(len(data), 150, replace=False)
    refusals = 0
    for place in places:
        changed = bytearray(data)
        changed[place] ^= 0x41
        saved.write_bytes(changed)
        try:
            loaded = load_student(saved)
        except InvalidArgument:
            refusals += 1
        else:
            assert_same(student, loaded, clouds)
    assert refusals > 120


@pytest.mark.parametrize("content", [b"", b"not a zip", pickle.dumps({"a": 1})])
def test_another_kind_of_file_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(content)
    assert "damaged" in refused(tmp_path / "file")


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    assert "no such file" in refused(tmp_path / "absent")


def npy(array: Any, allow_pickle: bool = False) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=allow_pickle)
    return buffer.getvalue()


class Bomb:
    """Unpickling this would be noticed."""

    def __reduce__(self) -> Any:
        return pytest.fail, ("a pickle was executed",)


def lie_about_shape(members: dict[str, bytes]) -> None:
    header = npy(np.zeros((2, 2))).replace(b"(2, 2)", b"(9999999, 99999)")
    members["spread.npy"] = header


EDITS: dict[str, Callable[[dict[str, Any], dict[str, bytes]], Any]] = {
    "unchanged is fine": lambda m, a: None,
    "another format": lambda m, a: m.update(format="somebody's"),
    "version not a number": lambda m, a: m.update(version=0.5),
    "another class": lambda m, a: m.update(student="Popen"),
    "a method as class": lambda m, a: m.update(student="__getattr__"),
    "unknown parameter": lambda m, a: m["parameters"].update(shell=True),
    "missing parameters": lambda m, a: m.pop("parameters"),
    "classes do not fit": lambda m, a: m.update(n_classes=3),
    "classes not a number": lambda m, a: m.update(n_classes=[1]),
    "foreign feature": lambda m, a: m["parameters"].update(
        features={"feature": "importlib", "parameters": {}}
    ),
    "manifest is a list": lambda m, a: m.update(parameters=[]),
    "missing array": lambda m, a: a.pop("spread.npy"),
    "pickled array": lambda m, a: a.update(
        {"spread.npy": npy(np.array([Bomb()], dtype=object), allow_pickle=True)}
    ),
    "lying header": lambda m, a: lie_about_shape(a),
    "array of words": lambda m, a: a.update({"spread.npy": npy(np.array(["a"]))}),
    "not a posterior": lambda m, a: a.update({"spread.npy": npy(np.full((40, 2), 0.9))}),
    "not finite": lambda m, a: a.update({"points.npy": npy(np.full((40, 64), np.nan))}),
    "too few rows": lambda m, a: a.update({"points.npy": npy(np.zeros((39, 64)))}),
}


@pytest.mark.parametrize("edit", EDITS)
def test_a_rewritten_file_is_refused(edit: str, saved: Path, clouds: Lesson) -> None:
    student = load_student(saved)
    rewrite(saved, EDITS[edit])
    if edit == "unchanged is fine":
        assert_same(student, load_student(saved), clouds)
    else:
        refused(saved)


def other_points(members: dict[str, bytes]) -> None:
    points = np.load(io.BytesIO(members["points.npy"]))
    members["points.npy"] = npy(points + 1)


@pytest.mark.parametrize(
    "edit",
    [
        lambda manifest, members: other_points(members),
        lambda manifest, members: members.update({"more.npy": npy(np.zeros(3))}),
        lambda manifest, members: manifest["members"].update({"gone.npy": "0" * 64}),
    ],
    ids=["changed", "added", "gone"],
)
def test_members_that_do_not_fit_their_hashes_are_refused(edit: Any, saved: Path) -> None:
    rewrite(saved, edit, hashes=False)
    assert "damaged" in refused(saved)


@pytest.mark.parametrize("name", ["cnn", "vat"])
def test_weights_of_another_network_are_refused(name: str, clouds: Lesson, tmp_path: Path) -> None:
    fit(NATIVE[name](), clouds).save(tmp_path / "student")

    def shrink(manifest: dict[str, Any], members: dict[str, bytes]) -> None:
        key = next(name for name in members if name.endswith("weight.npy"))
        members[key] = npy(np.zeros((2, 2), dtype=np.float32))

    rewrite(tmp_path / "student", shrink)
    assert "saved weights" in refused(tmp_path / "student")


def test_a_newer_version_asks_for_a_newer_tacit(saved: Path) -> None:
    rewrite(saved, lambda manifest, members: manifest.update(version=3))
    assert "newer tacit" in refused(saved)


def test_a_compressed_member_is_refused(saved: Path) -> None:
    rewrite(saved, lambda manifest, members: None, compression=zipfile.ZIP_DEFLATED)
    assert "damaged" in refused(saved)


def test_a_failed_write_leaves_the_old_file(saved: Path, clouds: Lesson) -> None:
    before = saved.read_bytes()
    with pytest.raises(InvalidArgument):
        fit(NATIVE["vat"](), clouds).save(saved, extra={"x": object()})
    assert saved.read_bytes() == before
