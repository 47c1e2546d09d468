"""The inputs of a run of `method = "segmentation"`: private, public and held-out scans, in files.

Roles are declared and never guessed (docs/segmentation.md): which folder is private, which classes
and grid there are, which patient each scan is of. Messages quote no case name of a private folder.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit._checks import at_least, flag, refuse, set_checked, word
from tacit._warn import warn
from tacit.datasets import existing_file, read_file
from tacit.errors import InvalidArgument
from tacit.evaluate import Evaluation
from tacit.ledger import Budget, KeptReleases
from tacit.masks.evaluating import drawing, told_by_masks
from tacit.masks.named_codecs import CODECS
from tacit.masks.results import (
    MOST_SCANS,
    mask_figure,
    mask_means,
    mask_metrics,
    mask_scores,
    organ_dice,
)
from tacit.masks.rounds import one_hot_masks
from tacit.masks.segmenters import PATESegmenter, SimulatedSegmenter, one_two_or_four
from tacit.masks.stored_scans import StoredScans, stored_on_grid
from tacit.masks.teachers import AtlasTeacher, UNetTeacher
from tacit.masks.unet import UNetRecipe, UNetStudent, load_segmenter
from tacit.masks.volume_files import (
    VolumeFiles,
    check_file_names,
    open_volumes,
    save_masks,
)
from tacit.masks.volumes import Volumes, drawn_on, resample_labels
from tacit.mechanisms import NoisySum, Plan
from tacit.methods import (
    Count,
    Method,
    Queries,
    Strategy,
    Widths,
    calibrate,
    choices,
    no_forecast,
)
from tacit.records import refuse_overlap
from tacit.report import Section
from tacit.runs import (
    DataConfig,
    RunConfig,
    RunResult,
    forget_teachers,
    learned_by,
    ledger_for,
    releasing,
    section_of,
    write_results,
)

_COLUMNS = ("case", "patient")


@dataclass(frozen=True, slots=True)
class ScanOptions:
    """[data.options] of a segmentation run.

    Parameters
    ----------
    classes : tuple of str
        Their names, the background's first.
    grid : tuple of int
        The public shape to which every scan is resampled.
    masks_source : str
        Public masks for the codec: scans with masks, or a folder of masks alone.
    patients_file : str
        A CSV file with the columns case and patient, which gives each scan's patient.
    patient_pattern : str
        A regular expression whose one group is the patient in a case's name. With neither of the
        two, a scan is a unit.
    public_truth : bool
        The masks beside the public scans are declared public, too: they are compared with what was
        released, and shown. Otherwise they are discarded.
    """

    classes: tuple[str, ...]
    grid: tuple[int, ...]
    masks_source: str
    patients_file: str = ""
    patient_pattern: str = ""
    public_truth: bool = False

    def __post_init__(self) -> None:
        set_checked(self, masks_source=word, patients_file=word, patient_pattern=word)
        set_checked(self, public_truth=flag)
        for key in ("classes", "grid"):
            if not isinstance(getattr(self, key), list | tuple):
                raise refuse(key, getattr(self, key), "a list")
            object.__setattr__(self, key, tuple(getattr(self, key)))
        if not all(isinstance(name, str) for name in self.classes) or len(self.classes) < 2:
            raise refuse("classes", list(self.classes), "names, the background's first")
        if len(self.grid) not in (2, 3):
            raise refuse("grid", list(self.grid), "two or three sides, such as [32, 40, 32]")
        for side in self.grid:
            at_least(4, grid=side)
        if self.patients_file and self.patient_pattern:
            raise InvalidArgument("Expected patients_file or patient_pattern; not both.")

    @classmethod
    def of(cls, data: DataConfig) -> ScanOptions:
        """Read the options of a configuration, before any file is opened."""
        if not data.public_source:
            raise InvalidArgument(
                "Expected public_source, the folder of public scans: scans of one folder are not "
                "split, since one patient could become private and public."
            )
        return section_of(cls, data.options, "data.options")


@dataclass(frozen=True, slots=True, eq=False)
class Scans:
    """The scans of a run, on the public grid and in files. Private ones are secret."""

    options: ScanOptions
    private: StoredScans = field(repr=False)
    patients: list[str] | None = field(repr=False)
    public: StoredScans
    public_files: VolumeFiles
    codec_masks: NDArray[Any]
    held_out: StoredScans | None
    held_out_files: VolumeFiles | None

    def asked(self, places: ArrayLike) -> Volumes:
        """Read public scans as they are; their masks only where these are declared public."""
        found = self.public_files.take(places)
        return found if self.options.public_truth else replace(found, masks=None)


def load_scans(data: DataConfig, options: ScanOptions) -> Scans:
    """Read all inputs of a run; a mistake shows here, before anything is made or spent."""
    data.keep_apart(masks_source=options.masks_source)
    cases, private = _private_scans(data.source, options)
    files = open_volumes(data.public_source, n_classes=len(options.classes))
    if options.public_truth and not files.has_masks:
        raise InvalidArgument("Expected masks in public_source where public_truth = true.")
    check_file_names(files)
    public = stored_on_grid(files, options.grid, "public_source")
    apart, held_out = None, None
    if data.held_out_source:
        apart = open_volumes(data.held_out_source, n_classes=len(options.classes))
        if not apart.has_masks:
            raise InvalidArgument("Expected masks beside the scans of held_out_source.")
        held_out = stored_on_grid(apart, options.grid, "held_out_source", truth=True)
    patients = _patients(options, cases, [*files.cases, *(apart.cases if apart else ())])
    known = _codec_masks(options)
    return Scans(options, private, patients, public, files, known, held_out, apart)


def _private_scans(
    source: str, options: ScanOptions, *, truth: bool = False
) -> tuple[tuple[str, ...], StoredScans]:
    """Read private scans one at a time; no error tells what is wrong with one of them."""
    files: VolumeFiles | None = None
    found: StoredScans | None = None
    # The message about a private file may name a patient: another one takes its place.
    with suppress(InvalidArgument):
        files = open_volumes(source, n_classes=len(options.classes))
        found = stored_on_grid(files, options.grid, "source", truth=truth)
    if files is None or found is None:
        raise InvalidArgument(
            f"Expected source={source!r} to hold scans of {len(options.grid)} dimensions, each "
            f"with a mask of classes 0 .. {len(options.classes) - 1} on its grid. "
            "tacit.masks.load_volumes says which file is wrong."
        )
    if found.masks is None:
        raise InvalidArgument("Expected masks beside the scans of source.")
    return files.cases, found


def _codec_masks(options: ScanOptions) -> NDArray[Any]:
    """Return public masks on the grid: those beside scans, or the files themselves."""
    count = len(options.classes)
    known = []
    for one in open_volumes(options.masks_source, n_classes=count):
        if one.dimensions != len(options.grid):
            raise InvalidArgument(
                f"Expected masks_source of {len(options.grid)} dimensions as the grid has, got "
                f"{one.dimensions}."
            )
        (mask,) = one.masks or (_as_mask(one.images[0], count),)
        known.append(resample_labels(mask, options.grid, n_classes=count))
    return np.stack(known)


def _as_mask(values: NDArray[Any], n_classes: int) -> NDArray[np.uint8]:
    if (values != np.floor(values)).any() or values.min() < 0 or values.max() >= n_classes:
        raise InvalidArgument(
            f"Expected masks_source to hold masks of class indices 0 .. {n_classes - 1}, or scans "
            "with masks beside them."
        )
    return np.asarray(values, dtype=np.uint8)


def _finder(options: ScanOptions) -> Any:
    """Return a function from a case's name to its patient, or None where each scan is a unit."""
    if options.patients_file:
        table = _read_patients(existing_file(options.patients_file))
        return table.get
    if not options.patient_pattern:
        return None
    try:
        pattern = re.compile(options.patient_pattern)
    except re.error as error:
        wrong = f"a regular expression: {error}"
        raise refuse("patient_pattern", options.patient_pattern, wrong) from None
    if pattern.groups != 1:
        raise refuse("patient_pattern", options.patient_pattern, "an expression with one group")
    return lambda case: (found := pattern.match(case)) and found[1]


def _read_patients(path: Path) -> dict[str, str]:
    """Read case and patient, one line a scan; messages give line numbers, never contents."""
    rows = read_file(
        path,
        "CSV file of cases and patients",
        lambda: list(csv.reader(io.StringIO(path.read_text(encoding="utf-8-sig")))),
    )
    header = [name.strip().lower() for name in rows[0]] if rows else []
    if not set(_COLUMNS) <= set(header):
        raise InvalidArgument(f"Expected {path.name!r} to have the columns case and patient.")
    places = [header.index(name) for name in _COLUMNS]
    table: dict[str, str] = {}
    for number, row in enumerate(rows[1:], start=2):
        cells = [row[place].strip() if place < len(row) else "" for place in places]
        if not all(cells) or cells[0] in table:
            raise InvalidArgument(
                f"Expected a case, once, and its patient in line {number} of {path.name!r}."
            )
        table[cells[0]] = cells[1]
    return table


def _patients(
    options: ScanOptions, cases: Sequence[str], others: Sequence[str]
) -> list[str] | None:
    """Return each private scan's patient, or None; one who also has public scans is refused."""
    find = _finder(options)
    if find is None:
        return None
    patients = [find(case) for case in cases]
    if not all(patients):
        raise InvalidArgument(
            "Expected a patient for each private scan; patients_file or patient_pattern leaves "
            "some out."
        )
    if set(patients) & {find(case) for case in others}:
        raise InvalidArgument(
            "Expected no patient both in source and in public_source or held_out_source."
        )
    return patients


Masks = tuple[NDArray[Any], ...]


@dataclass(frozen=True, slots=True)
class SegmentationTable:
    """Teachers of whole masks, queries and student; [data.options] describes the scans.

    Names and defaults of `PATESegmenter`, with those of its U-Nets.

    Parameters
    ----------
    teacher : str
        What each teacher is: a registered mean of its scans, or a small network.
    n_teachers : int
        How many; public and fixed.
    each_alone : bool
        Every patient (or scan) is a teacher of its own, and `n_teachers` the public number by which
        sums are divided.
    codec : str
        Of the public masks: "linear" (principal components), "blocks" (of blocks, for large
        volumes), "autoencoder" or "naive" (voxels), the last two with rounds = 1 only.
    queries : int, optional
        How many public scans are queried; all of them where it is left out.
    strategy : str
        How they are chosen.
    rounds : int
        1, 2 or 4: the same scans are queried again, about what earlier rounds left open.
    channels : tuple of int
        Widths of the U-Nets, from the finest level to the coarsest.
    teacher_steps, student_steps : int
        How long the U-Nets of teachers and of the student are trained.
    patch : tuple of int, optional
        Sides of the patches on which U-Nets are trained, where volumes are large.
    simulation : bool
        The private scans are declared public, as in a benchmark: the report may then show the
        teachers' mean before noise, and the statement states it.
    executor : object
        The run's own key.
    """

    teacher: Annotated[str, choices("atlas", "unet")] = "atlas"
    n_teachers: Count = PATESegmenter.n_teachers
    each_alone: bool = PATESegmenter.each_alone
    codec: Annotated[str, choices(*CODECS)] = "linear"
    queries: Count | None = PATESegmenter._own["queries"].number
    strategy: Strategy = PATESegmenter._own["queries"].strategy
    rounds: Annotated[int, one_two_or_four] = PATESegmenter._own["queries"].rounds
    channels: Widths = (8, 16, 32)
    teacher_steps: Count = 300
    student_steps: Count = 300
    patch: Widths | None = None
    simulation: bool = False
    executor: Any = "serial"


def run_masks(config: RunConfig, folder: Path, again: bool = False) -> RunResult:
    """Carry out a run; one that was stopped resumes from its stored releases."""
    scans = load_scans(config.data, ScanOptions.of(config.data))
    model = make_segmenter(config, scans, folder)
    model._kept = KeptReleases(folder / "releases", again=again)
    private = scans.private
    assert private.masks is not None  # as `_private_scans` asks for
    if scans.held_out is not None and not config.data.allow_overlap:
        refuse_overlap(private.images, scans.held_out.images, "held-out")
    known = {"public_masks": scans.codec_masks, "groups": scans.patients}
    with releasing(folder, config):
        model.fit(private.images, private.masks, scans.public.images, **known)
        forget_teachers(folder)
        model.save(folder / "student.tacit", classes=scans.options.classes)
        asked = scans.asked(model.queries_)
        released = asked.restored(one_hot_masks(model.released_, model.n_classes))
        archive = config.data.public_source.startswith("npz:")  # of a folder go into a folder
        save_masks(folder / ("released.npz" if archive else "released"), released, asked)
        return _measured(config, model, scans, asked, released, folder)


def make_segmenter(config: RunConfig, scans: Scans, folder: Path) -> PATESegmenter:
    """Return the unfitted estimator that the configuration describes."""
    section = SegmentationTable(**config.settings)
    count = len(scans.options.classes)
    sizes: dict[str, Any] = {"channels": section.channels, "patch": section.patch}
    recipe = UNetRecipe(steps=section.teacher_steps, **sizes)
    kind = SimulatedSegmenter if section.simulation else PATESegmenter
    return kind(
        UNetTeacher(recipe) if section.teacher == "unet" else AtlasTeacher(),
        section.codec,
        student=UNetStudent(count, steps=section.student_steps, random_state=config.seed, **sizes),
        n_teachers=section.n_teachers,
        each_alone=section.each_alone,
        n_classes=count,
        epsilon=config.privacy.epsilon,
        delta=config.privacy.delta,
        allow_overlap=config.data.allow_overlap,
        queries=Queries(section.queries, section.strategy, section.rounds),
        executor=config.executor,
        checkpoint=folder / "teachers",
        ledger=ledger_for(config, folder, config.data.title),
        random_state=config.seed,
    )


def _measured(
    config: RunConfig,
    model: PATESegmenter,
    scans: Scans,
    asked: Volumes,
    released: Masks,
    folder: Path,
) -> RunResult:
    names = scans.options.classes
    metrics: dict[str, Any] = {"held_out": None, "released": None}
    sections, figures = [], [_asked_figure(model, scans, asked, released[:MOST_SCANS])]
    if asked.masks is not None:
        metrics["released"] = mask_metrics(released, asked, names)
        where = "the public scans that were asked, declared public with their masks"
        sections.append(_section("How good the released masks are", metrics["released"], where))
    if scans.held_out is not None and scans.held_out_files is not None:
        metrics["held_out"], said = _held_out(model, scans, scans.held_out)
        _warn_of_nothing(metrics["held_out"])
        where = "held-out scans, declared public with their masks"
        sections.append(_section("How good the student is", metrics["held_out"], where))
        caption = "Held-out scans, declared public with their masks."
        shown = scans.held_out_files.take(range(len(said)))
        figures.append((caption, _figure(shown, {"student": said}, names)))
    learned = learned_by(config, names, metrics)
    statement = write_results(folder, model, metrics, learned, sections=sections, figures=figures)
    held_out = metrics["held_out"]
    dice, count = (None, 0) if held_out is None else (held_out["dice"], held_out["scans"])
    return RunResult(folder, statement, dice, count, model.ledger_, metrics)


def _warn_of_nothing(found: dict[str, Any]) -> None:
    """Warn that a student found nothing: its mean Dice may still look good."""
    if found["empty_predicted"] == found["scans"] > found["empty_truth"]:
        warn(
            "The student predicts an empty mask for every held-out scan: it learned nothing. Where "
            "what is sought has no common place, as lesions have not, registered atlases cannot "
            'tell it; teacher = "unet" may.'
        )


def _held_out(
    model: PATESegmenter, scans: Scans, held_out: StoredScans
) -> tuple[dict[str, Any], Masks]:
    """Return the student's scores, and its masks of the first scans; one is in memory at a time."""
    shown: list[NDArray[Any]] = []
    scores = []
    for image, truth, spacing in zip(
        held_out.images, held_out.truth, held_out.spacings, strict=True
    ):
        said = drawn_on(model.predict_proba(image[None])[0], truth.shape)
        scores.append(mask_scores(said, truth, spacing, n_classes=model.n_classes))
        shown += [said][: MOST_SCANS - len(shown)]
    found = mask_means(scores, scans.options.classes)
    return {**found, "public_masks_alone": _public_masks_alone(scans, held_out)}, tuple(shown)


def _public_masks_alone(scans: Scans, held_out: StoredScans) -> float:
    """Return the Dice that needs no private scan: of the public masks' most frequent class."""
    classes = range(len(scans.options.classes))
    often = np.stack([(scans.codec_masks == each).mean(axis=0) for each in classes])
    pairs = ((drawn_on(often, theirs.shape), theirs) for theirs in held_out.truth)
    return float(np.mean([organ_dice(ours[None], theirs[None])[0] for ours, theirs in pairs]))


def _predicted(model: PATESegmenter, scans: Scans, volumes: Volumes) -> Masks:
    """Return the student's masks of public scans, on each scan's own grid."""
    seen, _ = volumes.normalised().resampled(scans.options.grid).arrays()
    return volumes.restored(model.predict_proba(seen))


def _section(title: str, metrics: dict[str, Any], where: str) -> Section:
    """Describe each class, for the report."""
    rows = [("all that is not background", f"{metrics['dice']:.3f}", "")]
    for name, one in metrics["classes"].items():
        apart = one["surface_distance_mm"]
        distance = "never found" if apart is None else f"{apart:.2f} mm"
        rows.append((name, f"{one['dice']:.3f}", distance))
    said = f"On {metrics['scans']} {where}. Dice is 1 where masks agree, 0 where they do not meet."
    if metrics["empty_truth"] or metrics["empty_predicted"]:
        there = metrics["dice_where_there_is"]
        found = "" if there is None else f" Where there is something to find, Dice is {there:.3f}."
        said += (
            f" {metrics['empty_truth']} of them have nothing to find, and "
            f"{metrics['empty_predicted']} masks are empty; empty against empty counts as 1, so "
            f"that the empty mask alone would have {metrics['empty_mask_alone']:.3f}.{found}"
        )
    columns = ("class", "Dice", "mean distance of surfaces")
    return Section(title=title, paragraphs=[said], columns=columns, rows=rows)


def _asked_figure(
    model: PATESegmenter, scans: Scans, asked: Volumes, released: Masks
) -> tuple[str, Any]:
    """Draw some queried public scans; truth and teachers' mean only where declared public."""
    shown = asked.take(slice(0, len(released)))
    columns: dict[str, Any] = {}
    if isinstance(model, SimulatedSegmenter):
        mean = one_hot_masks(model.teachers_mean_[: len(released)], model.n_classes)
        columns["teachers' mean, no noise"] = shown.restored(mean)
    columns |= {"released": released, "student": _predicted(model, scans, shown)}
    caption = "Public scans that were asked: what was released of each, and what the student says."
    return caption, _figure(shown, columns, scans.options.classes)


def _figure(volumes: Volumes, columns: dict[str, Any], names: tuple[str, ...]) -> Any:
    """Draw scans, the first channel of each, with masks and what is declared true."""
    if volumes.masks is not None:
        columns["truth, declared public"] = volumes.masks
    pictures = [x if x.ndim == volumes.dimensions else x[0] for x in volumes.images]
    return mask_figure(pictures, columns, names=names)


def evaluate_mask_run(
    config: RunConfig, folder: Path, holdout: str, asked: dict[str, Any]
) -> Evaluation:
    """Evaluate the student of a run on private scans, each on its own grid, as held-out ones."""
    options = ScanOptions.of(config.data)
    cases, apart = _private_scans(holdout, options, truth=True)
    public = open_volumes(config.data.public_source, n_classes=len(options.classes))
    outside = stored_on_grid(public, options.grid, "public_source")
    patients = _patients(options, cases, public.cases)
    if not asked["allow_overlap"]:
        refuse_overlap(apart.images, outside.images)
    student = load_segmenter(folder / "student.tacit")
    drawn = drawing(student, np.zeros_like(apart.images[:1]), tuple(options.grid), chances=True)

    def draw(place: int) -> NDArray[Any]:
        return drawn_on(drawn(apart.images[place : place + 1]), apart.truth[place].shape)

    if not asked["disjoint"]:  # the run's own ledger pays: that this is the model's is known here
        student.ledger_ = asked["ledger"]
    return told_by_masks(
        draw,
        apart.truth,
        list(options.classes),
        model=student,
        groups=patients,
        **asked,
    )


NO_FORECAST = no_forecast(
    "what noise on the mean of codes does to masks depends on the codec, and so on public masks. "
    "Twice the teachers halve it."
)


def _outline(budget: Budget, classes: int, n_records: int | None) -> list[tuple[str, Plan]]:
    """Return the one release, in units of how far one teacher's code can move the sum."""
    (plan,) = calibrate(lambda noise: [Plan(NoisySum(noise, 1, 1), 1)], budget)
    return [("sum of the teachers' mask codes, all public scans together", plan)]


METHOD = Method(
    outline=_outline,
    forecast=lambda budget, classes, n_records: NO_FORECAST,
    name="segmentation",
    summary="PATE for masks: teachers, each with private scans of its own, draw the public scans; "
    "the noisy mean of their masks' codes is released, and a student learns from it.",
    estimator=SegmentationTable,
    run=run_masks,
    evaluate=evaluate_mask_run,
)
