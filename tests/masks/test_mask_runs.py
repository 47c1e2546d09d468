"""Runs of `method = "segmentation"`: what they leave behind, what they never show, refusals."""

from __future__ import annotations

import gzip
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scan_folders import AFFINE, SHAPE, make_hospital, settings, write_folder
from scans_held import ONE_SCAN, counted

from tacit import Ledger
from tacit.errors import InvalidArgument
from tacit.ledger import ONE_RUN, Statement
from tacit.masks import (
    AtlasTeacher,
    generated_volumes,
    level_of_volume,
    load_segmenter,
    load_volumes,
    mask_metrics,
    organ_dice,
)
from tacit.masks.evaluating import _said_alone, drawing
from tacit.masks.runs import ScanOptions, _warn_of_nothing, load_scans, make_segmenter
from tacit.masks.segmenters import SIMULATION
from tacit.runs import RunConfig, RunResult, evaluate_run, run_config, verify_run
from tacit.students import saved_extra

pytest.importorskip("monai")
nibabel = pytest.importorskip("nibabel")


@pytest.fixture(scope="module")
def hospital(tmp_path_factory) -> Path:
    root = make_hospital(tmp_path_factory.mktemp("scans"))
    write_folder(root / "hospital_too", 2, 1, name="other")  # two private scans, renamed
    return root


@pytest.fixture(scope="module")
def result(hospital) -> RunResult:
    return run_config(RunConfig.parse(settings(hospital)), hospital / "run")


def test_the_segmenter_is_told_whether_delta_may_be_large(hospital, tmp_path):
    raw = settings(hospital)
    for allowed in (True, False):
        config = RunConfig.parse(
            {**raw, "privacy": {**raw["privacy"], "allow_large_delta": allowed}}
        )
        scans = load_scans(config.data, ScanOptions.of(config.data))
        model = make_segmenter(config, scans, tmp_path)
        assert model.ledger.allow_large_delta is allowed


class TestWhatIsLeftBehind:
    def test_the_budget_is_spent_for_patients(self, result):
        assert Ledger(result.folder / "run.ledger").unit == "person"
        assert 7.99 < result.statement.epsilon <= 8.0
        written = Statement.from_json((result.folder / "statement.json").read_text())
        assert written == replace(result.statement, head=None)
        assert written.warnings == (ONE_RUN,)

    def test_metrics_are_those_of_the_student_on_its_own_grid(self, result, hospital):
        """Once more by hand: the saved student, resampled there and back, against the files."""
        facts = saved_extra(result.folder / "student.tacit")
        student = load_segmenter(result.folder / "student.tacit")
        assert facts["classes"] == ["background", "front", "back"]
        truth = generated_volumes(4, SHAPE, n_classes=3, seed=4, noise=0.05)
        truth = replace(truth, affines=(AFFINE,) * 4)
        view = truth.normalised().resampled(facts["grid"]).arrays()[0]
        said = truth.restored(student.predict_proba(view))
        metrics = json.loads((result.folder / "metrics.json").read_text())
        alone = metrics["held_out"].pop("public_masks_alone")
        assert metrics["held_out"] == mask_metrics(said, truth, facts["classes"])
        config = RunConfig.parse(settings(hospital))
        masks = load_scans(config.data, ScanOptions.of(config.data)).codec_masks
        often = [np.bincount(voxel).argmax() for voxel in masks.reshape(len(masks), -1).T]
        there = truth.resampled(facts["grid"]).arrays()[1].reshape(4, -1)
        by_hand = organ_dice(np.tile(often, (4, 1)), there).mean()
        assert alone == pytest.approx(by_hand, abs=0.05)  # there it was compared on its own grid
        assert metrics["released"] is None
        assert result.accuracy == metrics["held_out"]["dice"]
        assert result.held_out == 4

    def test_released_masks_lie_on_the_public_scans(self, result):
        files = sorted((result.folder / "released").iterdir())
        assert len(files) == 3
        for path in files:
            mask = nibabel.load(path)
            assert mask.shape == SHAPE
            np.testing.assert_allclose(mask.affine, AFFINE)
            assert set(np.unique(mask.dataobj)) <= {0, 1, 2}

    def test_nothing_private_is_left(self, result, hospital):
        assert not (result.folder / "teachers").exists()
        scan = nibabel.load(next((hospital / "hospital" / "images").iterdir()))
        row = np.asarray(scan.dataobj, dtype=np.float32)[:, 3].tobytes()
        for path in result.folder.rglob("*"):
            content = path.read_bytes() if path.is_file() else b""
            content = gzip.decompress(content) if path.suffix == ".gz" else content
            assert row not in content
            if path.name != "config.toml":
                assert b"hospital" not in content

    def test_the_report_shows_no_teachers_mean_and_truth_only_where_declared(self, result):
        page = (result.folder / "report.html").read_text()
        assert page.count("<image") >= 3 * 3 + 4 * 3
        assert "teachers&#39; mean" not in page
        assert "teachers' mean" not in page
        assert page.count("truth, declared public") == 1  # of the held-out scans
        assert "Dice" in page

    def test_a_finished_run_is_not_overwritten(self, result, hospital):
        with pytest.raises(InvalidArgument, match="new or empty, or this very run"):
            run_config(RunConfig.parse(settings(hospital)), hospital / "run")

    def test_the_resolved_configuration_is_the_same_run(self, result, hospital):
        again = RunConfig.read(result.folder / "config.toml")
        asked = RunConfig.parse(settings(hospital))
        assert (again.settings, again.privacy, again.method) == (
            asked.settings,
            asked.privacy,
            "segmentation",
        )


def test_scans_kept_apart_say_how_good_the_student_is(result, hospital, tmp_path):
    """Each on its own grid, a patient once; the ledger beside the scans pays."""
    folder = tmp_path / "run"
    shutil.copytree(result.folder, folder)
    write_folder(tmp_path / "kept", 60, 9)
    kept = f"nifti:{tmp_path}/kept"
    found = evaluate_run(folder, kept, epsilon=8.0, n_records=30, disjoint=True)
    assert found.found.kind == "masks"
    assert found.ledger.path == str((tmp_path / "kept.ledger").resolve())
    assert found.ledger.unit == "person"
    names = [name for name, _ in found.found.rows()]
    assert "mean Dice of back" in names
    assert "mean Dice" in (folder / "evaluation.html").read_text(encoding="utf-8")
    assert all(check.holds for check in verify_run(folder))
    with pytest.raises(InvalidArgument, match="another file than source"):
        evaluate_run(result.folder, f"nifti:{hospital}/hospital", epsilon=1.0, n_records=9)


def test_of_held_out_scans_and_masks_for_the_codec_one_is_held(hospital, monkeypatch):
    data = RunConfig.parse(settings(hospital)).data
    held = counted(monkeypatch)
    scans = load_scans(data, ScanOptions.of(data))
    assert len(held) == 2 * 12 + 4 + 2 * 4 + 2 * 10  # private, public, held out, for the codec
    assert max(held) <= ONE_SCAN
    assert len(scans.held_out.truth) == 4


def test_of_scans_kept_apart_one_is_held(result, tmp_path, monkeypatch):
    folder = tmp_path / "run"
    shutil.copytree(result.folder, folder)
    write_folder(tmp_path / "kept", 60, 9)
    held = counted(monkeypatch)
    evaluate_run(folder, f"nifti:{tmp_path}/kept", epsilon=8.0, n_records=30, disjoint=True)
    assert len(held) == 2 * 60 + 4
    assert max(held) <= ONE_SCAN


def test_one_by_one_scans_kept_apart_say_what_they_said_together(result, tmp_path, monkeypatch):
    """The rows that go into the noisy sum, against those from all scans in memory."""
    rows = []

    def noted(draw, truth, n_classes):
        rows.append(_said_alone(draw, truth, n_classes))
        return rows[-1]

    monkeypatch.setattr("tacit.masks.evaluating._said_alone", noted)
    folder = tmp_path / "run"
    shutil.copytree(result.folder, folder)
    write_folder(tmp_path / "kept", 12, 9)
    evaluate_run(folder, f"nifti:{tmp_path}/kept", epsilon=50.0, n_records=6, disjoint=True)
    student = load_segmenter(folder / "student.tacit")
    apart = load_volumes(f"nifti:{tmp_path}/kept", n_classes=3)
    seen, _ = apart.normalised().resampled((16, 16)).arrays()
    drawn = drawing(student, np.zeros_like(seen[:1]), (16, 16), chances=True)

    def draw(place):
        return apart.take([place]).restored(drawn(seen[place : place + 1])[None])[0]

    assert rows[0].any()
    np.testing.assert_array_equal(rows[0], _said_alone(draw, list(apart.masks), 3))


def test_a_simulation_shows_more_and_says_so(hospital, tmp_path):
    """Public scans with masks that are declared public, archives, a patients' file, U-Nets."""
    volumes = generated_volumes(6, SHAPE, n_classes=3, seed=5, noise=0.05)
    np.savez(
        tmp_path / "public.npz",
        image=np.stack(volumes.images),
        label=np.stack(volumes.masks or ()),
        case=[f"open{i}" for i in range(6)],
    )
    lines = [f"hospital{i // 2}_scan{i % 2},patient {i // 2}" for i in range(12)]
    (tmp_path / "patients.csv").write_text("\n".join(["case,patient", *lines]))
    raw = settings(
        hospital,
        data={"public_source": f"npz:{tmp_path}/public.npz", "held_out_source": None},
        options={
            "public_truth": True,
            "patient_pattern": None,
            "patients_file": str(tmp_path / "patients.csv"),
        },
        segmentation={
            "simulation": True,
            "teacher": "unet",
            "teacher_steps": 2,
            "each_alone": False,
            "n_teachers": 3,
            "rounds": 2,
            "patch": [8, 8],
        },
    )
    result = run_config(RunConfig.parse(raw), tmp_path / "run")
    assert SIMULATION in result.statement.warnings
    page = (tmp_path / "run" / "report.html").read_text()
    assert "declared a simulation" in page
    assert "mean, no noise" in page
    assert result.accuracy is None
    assert 0 <= result.metrics["released"]["dice"] <= 1
    assert sum(entry.is_paid for entry in result.ledger.entries()) == 2
    with np.load(tmp_path / "run" / "released.npz") as archive:
        assert len(archive["case"]) == 3


def test_a_stopped_run_goes_on_where_it_was(hospital, tmp_path, monkeypatch):
    asked, answer = [], AtlasTeacher.segment_queries

    def stops(teacher, shard, queries, *, n_classes):
        asked.append(shard.seed)
        if len(asked) == 4:
            raise KeyboardInterrupt
        return answer(teacher, shard, queries, n_classes=n_classes)

    monkeypatch.setattr(AtlasTeacher, "segment_queries", stops)
    config = RunConfig.parse(settings(hospital, data={"held_out_source": None}))
    with pytest.raises(KeyboardInterrupt):
        run_config(config, tmp_path / "run")
    assert len(Ledger(tmp_path / "run" / "run.ledger")) == 0
    assert (tmp_path / "run" / "teachers").stat().st_mode & 0o777 == 0o700
    result = run_config(config, tmp_path / "run")
    assert len(asked) == 6 + 1  # six patients; the fourth was asked twice
    assert sum(entry.is_paid for entry in result.ledger.entries()) == 1
    assert not (tmp_path / "run" / "teachers").exists()


BAD = {
    "no public folder": ({"data": {"public_source": None, "held_out_source": None}}, "public"),
    "no classes": ({"options": {"classes": None}}, "classes"),
    "one class": ({"options": {"classes": ["organ"]}}, "classes"),
    "classes that are no list": ({"options": {"classes": "organ"}}, "classes"),
    "too few classes": ({"options": {"classes": ["background", "organ"]}}, "0 .. 1"),
    "no grid": ({"options": {"grid": None}}, "grid"),
    "a grid of three": ({"options": {"grid": [16, 16, 16]}}, "dimensions"),
    "a tiny grid": ({"options": {"grid": [16, 2]}}, "grid"),
    "a grid of words": ({"options": {"grid": "16"}}, "grid"),
    "a grid of one": ({"options": {"grid": [16]}}, "grid"),
    "no codec": ({"options": {"masks_source": None}}, "masks_source"),
    "a codec of numbers": ({"options": {"masks_source": 5}}, "masks_source"),
    "a codec of scans": ({"options": {"masks_source": "nifti:{root}/public"}}, "masks_source"),
    "truth that is not there": ({"options": {"public_truth": True}}, "public_truth"),
    "truth of words": ({"options": {"public_truth": "yes"}}, "public_truth"),
    "misspelt": ({"options": {"pattern": "x"}}, "pattern"),
    "two ways to patients": ({"options": {"patients_file": "x.csv"}}, "not both"),
    "no such file": (
        {"options": {"patients_file": "x.csv", "patient_pattern": None}},
        "x.csv",
    ),
    "no expression": ({"options": {"patient_pattern": "("}}, "expression"),
    "no group": ({"options": {"patient_pattern": "[a-z]+"}}, "one group"),
    "a patient is missing": ({"options": {"patient_pattern": "(hospital[0-3])_"}}, "leaves"),
    "private and public": ({"options": {"patient_pattern": ".*(scan[01])"}}, "no patient both"),
    "scans without masks": (
        {"data": {"source": "nifti:{root}/public", "public_source": "nifti:{root}/test"}},
        "masks beside",
    ),
    "one folder twice": ({"data": {"source": "nifti:{root}/public"}}, "public_source=.*another"),
    "private masks in the codec": (
        {"options": {"masks_source": "nifti:{root}/hospital"}},
        "masks_source=.*another file",
    ),
    "no private folder": ({"data": {"source": "nifti:{root}/absent"}}, "absent"),
    "another teacher": ({"segmentation": {"teacher": "oracle"}}, "teacher"),
    "another codec": ({"segmentation": {"codec": "fractal"}}, "codec"),
    "an autoencoder in rounds": ({"segmentation": {"codec": "autoencoder", "rounds": 2}}, "rounds"),
    "three rounds": ({"segmentation": {"rounds": 3}}, "rounds"),
    "each_alone of words": ({"segmentation": {"each_alone": "no"}}, "each_alone"),
    "channels of words": ({"segmentation": {"channels": "8"}}, "channels"),
    "one level": ({"segmentation": {"channels": [8]}}, "channels"),
    "a patch of three": ({"segmentation": {"patch": [8, 8, 8]}}, "patch"),
    "more queries than scans": (
        {"segmentation": {"queries": 9}},
        "at most the number of public inputs",
    ),
    "a private scan among those held out": (
        {"data": {"held_out_source": "nifti:{root}/hospital_too"}},
        "equals a held-out one",
    ),
    "a private scan among the public ones": (
        {"data": {"public_source": "nifti:{root}/hospital_too"}},
        "equals a public one",
    ),
    "private masks for the codec": (
        {"options": {"masks_source": "nifti:{root}/hospital_too"}},
        "equals a public one",
    ),
    "a large delta": ({"privacy": {"delta": 0.5}}, "delta"),
}


@pytest.mark.parametrize(("changes", "message"), BAD.values(), ids=BAD)
def test_mistakes_are_named_and_cost_nothing(hospital, tmp_path, changes, message):
    here = json.loads(json.dumps(changes).replace("{root}", str(hospital)))
    with pytest.raises(InvalidArgument, match=message) as caught:
        run_config(RunConfig.parse(settings(hospital, **here)), tmp_path / "run")
    assert "hospital0" not in str(caught.value)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name,who\na,b\n", "columns case and patient"),
        ("", "columns case and patient"),
        ("case,patient\nhospital0_scan0,\n", "line 2"),
        ("case,patient\na,b\na,c\n", "line 3"),
        ("case,patient\na,b\n", "leaves some out"),
    ],
)
def test_a_patients_file_that_is_not_whole(hospital, tmp_path, text, message):
    (tmp_path / "patients.csv").write_text(text)
    changes = {"patients_file": str(tmp_path / "patients.csv"), "patient_pattern": None}
    with pytest.raises(InvalidArgument, match=message) as caught:
        run_config(RunConfig.parse(settings(hospital, options=changes)), tmp_path / "run")
    assert "hospital0" not in str(caught.value)


@pytest.mark.parametrize("codec", ["blocks", "autoencoder", "naive"])
def test_the_codec_is_the_one_that_was_asked_for(hospital, tmp_path, codec):
    """Each run ends with a statement, releases and a student; the file says which codec it was."""
    raw = settings(hospital, segmentation={"codec": codec, "channels": [4, 8], "student_steps": 1})
    found = run_config(RunConfig.parse(raw), tmp_path / "run")
    assert 7.99 < found.statement.epsilon <= 8.0
    assert len(list((tmp_path / "run" / "released").iterdir())) == 3
    assert f'codec = "{codec}"' in (tmp_path / "run" / "config.toml").read_text()


def test_masks_alone_will_do_for_the_codec(hospital, tmp_path):
    """A folder of labels only, and each scan its own unit: refused late, by the ledger's terms."""
    from tacit.masks.runs import ScanOptions, load_scans

    write_folder(tmp_path / "only", 5, 3, scans=False)
    changes = {"masks_source": f"nifti:{tmp_path}/only/labels", "patient_pattern": None}
    data = RunConfig.parse(settings(hospital, options=changes)).data
    scans = load_scans(data, ScanOptions.of(data))
    assert scans.codec_masks.shape == (5, 16, 16)
    assert set(np.unique(scans.codec_masks)) == {0, 1, 2}
    assert scans.patients is None


class TestMetrics:
    def test_a_class_that_is_missed_has_no_distance(self):
        truth = generated_volumes(2, (12, 12), n_classes=3, seed=1)
        nothing = [np.zeros((12, 12), np.uint8)] * 2
        found = mask_metrics(nothing, truth, ["background", "front", "back"])
        assert found["dice"] == 0
        assert found["classes"]["front"] == {
            "dice": 0.0,
            "surface_distance_mm": None,
            "hausdorff95_mm": None,
            "missed": 2,
        }
        assert json.dumps(found, allow_nan=False)

    def test_empty_masks_are_counted_and_named(self):
        """Empty against empty is 1: a student that finds nothing would look like something."""
        truth = generated_volumes(2, (12, 12), seed=1)
        truth = replace(truth, masks=(truth.masks[0], np.zeros((12, 12), np.uint8)))
        nothing = [np.zeros((12, 12), np.uint8)] * 2
        found = mask_metrics(nothing, truth, ["background", "organ"])
        assert found["dice"] == found["empty_mask_alone"] == 0.5
        assert (found["empty_truth"], found["empty_predicted"]) == (1, 2)
        assert found["dice_where_there_is"] == 0
        with pytest.warns(UserWarning, match="empty mask for every held-out scan"):
            _warn_of_nothing(found)
        _warn_of_nothing(mask_metrics(truth.masks, truth, ["background", "organ"]))

    def test_the_level_of_a_volume_may_be_low(self):
        """Means of masks that never meet are low everywhere: a floor would cut all of it away."""
        soft = np.zeros((4, 100))
        soft[:, :10] = np.linspace(0.08, 0.17, 10)
        assert (soft > level_of_volume(soft, 7.0)).sum() == 28
        assert level_of_volume(soft, 1000.0) == pytest.approx(0.01)

    def test_distances_are_in_millimetres(self):
        mask = np.zeros((9, 9), np.uint8)
        mask[2:5, 2:5] = 1
        moved = np.roll(mask, 2, axis=0)
        volumes = generated_volumes(1, (9, 9))
        truth = replace(volumes, masks=(mask,), affines=(np.diag([0.5, 4.0, 1.0, 1.0]),))
        found = mask_metrics([moved], truth, ["background", "organ"])["classes"]["organ"]
        assert found["hausdorff95_mm"] == pytest.approx(1.0)
