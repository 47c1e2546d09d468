"""Commands that make a run, and those that use its student: train, demo, predict, segment."""

from __future__ import annotations

import functools
import json
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tacit._files import write_atomically
from tacit._progress import at_work
from tacit._warn import warn
from tacit.cli import show
from tacit.cli.options import INTERRUPTED, refuse_given, writable
from tacit.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from tacit.masks import VolumeFiles, Volumes
    from tacit.runs import RunConfig, RunResult

TEACHERS, QUERIES = 100, 20
MOST_NAMED = 3

RANKS_WELL = 0.6
"""From this lower end of the area under the ROC curve on, a model that says one label learned."""


def train(
    config: Path,
    *,
    out: Path,
    data: str | None = None,
    ledger: Path | None = None,
    cluster: str | None = None,
    again: bool = False,
) -> show.Result:
    r"""Let private records label public inputs and train the student: all in one directory.

    method = "pate" trains teachers on them, method = "knn" lets them vote as neighbours.
    method = "prototype", "moments" or "ridge" lets each speak once, over public inputs.
    method = "segmentation" takes folders of scans and masks (NIfTI); then see tacit segment.
    A table needs \[data.options]: target, classes, numeric, categorical, groups (whose record).
    method = "dpsgd", "gd" or "mac" trains on the records, with or without public inputs.
    Paths in the configuration are relative to the current directory, not to the file.
    A run that was interrupted goes on with the same command: what it had released is kept. Other
    content under the same path is refused: what was released is of those it began with.
    Example: tacit train run.toml --out runs/first

    config: The configuration, TOML.
    out: The run's directory: new, or empty.
    data: Another source of data, e.g. mnist:DIR.
    ledger: A ledger that all runs on these data share (tacit ledger create makes one).
    cluster: Train teachers on the Dask cluster at this address.
    again: Pay once more for a release that was paid for and lost: on a ledger with room for it, a
        shared one. A run's own has none; then begin anew in another folder, and add both epsilons.
    """
    from tacit.runs import RunConfig, run_config

    try:
        settings = RunConfig.read(config)
        if data is not None:
            settings = replace(settings, data=replace(settings.data, source=data))
        if ledger is not None:
            settings = replace(settings, privacy=replace(settings.privacy, ledger=str(ledger)))
        if cluster is not None:
            settings = replace(settings, executor=cluster)
        result = run_config(settings, out, again=again)
    except KeyboardInterrupt:
        show.errors().print(_interrupted(out), soft_wrap=True, highlight=False, markup=False)
        raise typer.Exit(INTERRUPTED) from None

    def shown() -> None:
        rows = _rows_of_masks(result) if result.metrics else _rows(result)
        _show_run("The student", rows, result)
        for note in result.notes:
            show.screen().print(note, soft_wrap=True, highlight=False, markup=False)
        _warn_of_chance(result)
        show.screen().print(f"Run: {result.folder}, report: {result.folder / 'report.html'}")

    return show.Result(_plain(result), shown)


def _interrupted(out: Path) -> str:
    """Say what an interrupt left, and what to do.

    Teachers' answers stay for the run that goes on: whoever copies the directory must know.
    """
    from tacit.runs import what_happened

    if not (out / "releases").exists():
        done = "nothing was charged. The same command goes on."
    else:
        done = f"{what_happened(out)} The same command goes on."
    secret = f" {out / 'teachers'} is secret." if (out / "teachers").exists() else ""
    return f"Interrupted: {done}{secret}"


def _plain(result: RunResult) -> dict[str, object]:
    """Return the result for machines."""
    if result.metrics:
        shown = {"dice": result.accuracy, "held_out": result.held_out, **result.metrics}
    else:
        accuracy = {"accuracy": result.accuracy, "most_frequent": result.most_frequent}
        shown = {**accuracy, "held_out": result.held_out}
        shown |= {"figures": result.figures, "confusion": result.confusion}
        shown |= {"thresholds": result.thresholds}
        shown |= {"numbers": result.numbers} if result.numbers else {}
    said = {"notes": list(result.notes), "statement": result.statement.to_dict()}
    return {"folder": str(result.folder), "head": result.statement.head, **shown, **said}


def _show_run(title: str, rows: list[tuple[str, str]], result: RunResult) -> None:
    show.print_table(title, ("what", "result"), rows)
    show.print_statement(result.ledger, result.statement)
    show.print_head(result.statement.head)


def _warn_of_chance(result: RunResult) -> None:
    """Say where a model learned nothing: it looks like any other, and costs as much."""
    chance = result.most_frequent
    if result.metrics and result.metrics["held_out"] is not None:
        chance = result.metrics["held_out"]["public_masks_alone"]
    better = result.accuracy is None or chance is None or result.accuracy > chance
    if not better or (result.numbers and result.numbers["r2"] <= 0):
        area = result.figures.get("ROC AUC", {"value": 0.0})
        if area.get("low", area["value"]) > RANKS_WELL:
            warn(
                "At 0.5 the student says the most frequent label and no more, but it ranks rows "
                "well: say the rarer one earlier (tacit predict --threshold balanced)."
            )
            return
        warn(
            "The student is no better than what needs no private record. More records, a larger "
            "epsilon or another method (tacit compare, on public data) may help."
        )


def _rows(result: RunResult) -> list[tuple[str, str]]:
    if result.numbers:
        return _rows_of_numbers(result)
    what = "accuracy on held-out rows, declared public"
    if result.accuracy is None:
        return [(what, "no rows were held out")]
    rows = [
        (what, f"{result.accuracy:.1%}"),
        ("  of their most frequent label alone", f"{result.most_frequent:.1%}"),
        *(_figure_row(*each) for each in result.figures.items() if each[0] != "accuracy"),
    ]
    return rows if result.held_out is None else [*rows, ("held-out rows", str(result.held_out))]


def _figure_row(name: str, figure: dict[str, Any]) -> tuple[str, str]:
    chance = "" if figure["chance"] is None else f", chance {figure['chance']:.3f}"
    band = f" ({figure['low']:.3f} to {figure['high']:.3f})" if "low" in figure else ""
    return name, f"{figure['value']:.3f}{band}{chance}"


def _rows_of_numbers(result: RunResult) -> list[tuple[str, str]]:
    found = result.numbers
    error, of_mean = (found[f"mean_absolute_error{end}"] for end in ("", "_of_mean"))
    rows = [
        ("R^2 on held-out rows, declared public", f"{found['r2']:.3f}"),
        ("  of their mean alone", "0"),
        ("mean absolute error", f"{error:.4g}"),
        ("  of their mean alone", f"{of_mean:.4g}"),
    ]
    return rows if result.held_out is None else [*rows, ("held-out rows", str(result.held_out))]


def _rows_of_masks(result: RunResult) -> list[tuple[str, str]]:
    held_out = result.metrics["held_out"]
    if held_out is None:
        return [("Dice", "no scans were held out")]
    names = list(held_out["classes"])
    of_what = " + ".join(names) if len(names) <= MOST_NAMED else f"all {len(names)} classes"
    rows = [
        (f"Dice of {of_what}, held-out scans", f"{held_out['dice']:.3f}"),
        ("  of the public masks alone", f"{held_out['public_masks_alone']:.3f}"),
    ]
    if held_out["empty_truth"] or held_out["empty_predicted"]:
        many = f"{held_out['empty_truth']} of the truth, {held_out['empty_predicted']} predicted"
        rows.append(("empty masks", many))
        rows.append(("  Dice of the empty mask alone", f"{held_out['empty_mask_alone']:.3f}"))
    for name, one in held_out["classes"].items():
        apart = one["surface_distance_mm"]
        distance = "" if apart is None else f", surfaces {apart:.2f} mm apart"
        rows.append((f"  {name}", f"{one['dice']:.3f}{distance}"))
    return [*rows, ("held-out scans", str(held_out["scans"]))]


def student(
    run: Path,
    *,
    student: str,
    features: str | None = None,
    name: str | None = None,
    ledger: Path | None = None,
) -> show.Result:
    """Train another student from what a run released: it costs nothing.

    It goes to RUN/students/NAME with a statement of its own, which tacit verify and tacit predict
    take as a run. Questions and releases stay those of the run.
    Example: tacit student runs/first --student logistic

    run: The run's folder.
    student: What kind, as run.toml names it.
    features: The student's own features, as run.toml names them; the run's by default.
    name: What its folder is called; the kind by default.
    ledger: Where the run's ledger is, if not where its configuration says.
    """
    from tacit.runs import train_student

    result = train_student(run, student=student, features=features, name=name, ledger=ledger)

    def shown() -> None:
        title = "Another student of the same releases: nothing was charged"
        _show_run(title, _rows(result), result)
        show.screen().print(f"Student: {result.folder}, report: {result.folder / 'report.html'}")

    return show.Result(_plain(result), shown)


def demo(*, out: Path = Path("tacit-demo")) -> show.Result:
    """Train 100 teachers on private digits, release their votes, train and publish a student.

    Example: tacit demo

    out: Where runs are kept.
    """
    from tacit.mechanisms import GNMax, Plan
    from tacit.runs import run_config

    config = demo_config()
    # The next number: a ledger is never overwritten.
    folder = next(path for n in count(1) if not (path := out / f"run-{n}").exists())
    with at_work("Training teachers, asking them, training the student"):
        result = run_config(config, folder)
        baseline = non_private_accuracy(config)
    statement = result.statement
    plain = {"folder": str(folder), "accuracy": result.accuracy, "non_private_accuracy": baseline}
    verdict = "refused" if result.ledger.would_exceed(Plan(GNMax(40), 100)) else "allowed"
    rows = [
        ("teachers, each on about 12 private digits", str(TEACHERS)),
        ("public digits they were asked about", str(QUERIES)),
        ("worst-case epsilon at delta 1e-5", f"{statement.epsilon:.3f}"),
        ("student, which may be published", f"{result.accuracy:.1%} right"),
        # The digits are public, so that this may be shown; on private data it is a secret.
        ("the same without privacy", f"{baseline:.1%} right"),
        ("100 more questions", f"{verdict} by the ledger, nothing spent"),
    ]
    title = "Handwritten digits: 1,200 private, 300 public, the others held out"

    def shown() -> None:
        _show_run(title, rows, result)
        show.screen().print(f"Open {folder / 'report.html'} in a browser.")

    return show.Result({**plain, "statement": statement.to_dict()}, shown)


def demo_config() -> RunConfig:
    """Return the demo's configuration: scikit-learn's digits, epsilon 2."""
    from tacit.runs import DataConfig, PrivacyConfig, RunConfig

    asked = {"n_teachers": TEACHERS, "queries": QUERIES}
    return RunConfig(
        data=DataConfig(source="digits", private=1200, public=300, name="scikit-learn's digits"),
        privacy=PrivacyConfig(epsilon=2.0, delta=1e-5),
        settings={**asked, "features": "digits", "teacher": "kernel-ridge"},
    )


def non_private_accuracy(config: RunConfig) -> float:
    """Return the accuracy of one teacher that sees all private rows."""
    import numpy as np

    from tacit.datasets import load_dataset
    from tacit.features import digit_features
    from tacit.runs import split_rows
    from tacit.teachers import KernelRidgeTeachers, predict_with_teachers

    data = load_dataset(config.data.source)
    split = split_rows(config, len(data.y))
    view = digit_features(data.image_shape or (8, 8)).fit_transform(data.X)
    predictions = predict_with_teachers(
        KernelRidgeTeachers(),
        view[split.private],
        data.y[split.private],
        np.zeros(split.private.size, dtype=np.int64),
        1,
        view[split.held_out],
        n_classes=len(data.classes),
    )
    return float((predictions[0] == data.y[split.held_out]).mean())


def predict(
    run: Path,
    rows: str,
    *,
    out: Path,
    ids: str | None = None,
    threshold: str | None = None,
    labelled: bool = False,
) -> show.Result:
    """Write the student's label for each row, and how probable it thinks each class is.

    Of a run that learned numbers, write the number instead.

    Columns are read as the run's config.toml declares them. This costs no privacy: the student was
    made from releases alone.
    Example: tacit predict runs/first new.csv --ids patient --out labels.csv

    run: A run's directory.
    rows: Rows without labels, e.g. new.csv.
    out: A new CSV file: a label, its probability and that of every class, a row each.
    ids: A column of a CSV file to write beside the labels.
    threshold: Of two classes, say the second in the run's `classes` from this probability on; the
        likelier by default. prevalence or balanced: the run's own, for a rare outcome.
    labelled: The rows hold what was learned, too, and are declared public with it: print how good
        the student is on them, with 95 % bands and what chance reaches. Not for private rows: that
        is a release, which tacit evaluate pays for.
    """
    from tacit.students import load_student, saved_extra

    writable(out)
    config = _finished_run_of_rows(run)
    student, options = load_student(run / "student.tacit"), config.data.options
    if config.learns_numbers:
        refuse_given("a run that learned numbers", threshold=threshold)
        cut, bounds = None, saved_extra(run / "student.tacit")["bounds"]
        say = functools.partial(_said_numbers, student, bounds)
    else:
        cut = _threshold(run, threshold)
        say = functools.partial(_said_labels, student, options.get("classes"), cut)
    result: dict[str, Any] = {"rows": 0, "out": str(out)}
    if labelled:
        result["figures"] = _figures(rows, config, student, cut)
    write_atomically(out, _predicted(rows, options, ids, say, result))
    told = ""
    if cut is not None:
        second = student.classes_[_second(student.classes_, options.get("classes"))]
        told = f"; {second} from probability {cut:.4g} on"

    def shown() -> None:
        if labelled:
            figures = [_figure_row(*each) for each in result["figures"].items()]
            show.print_table("On these rows, declared public", ("what", "result"), figures)
        show.screen().print(f"{result['rows']} rows in {out}{told}")

    return show.Result(result, shown)


def _finished_run_of_rows(run: Path) -> RunConfig:
    from tacit.runs import RunConfig

    if not (run / "config.toml").is_file():
        why = "no configuration there" if run.exists() else "no such folder"
        raise InvalidArgument(
            f"Expected a run's directory first, got {str(run)!r}: {why}. Rows come second: tacit "
            "predict RUN new.csv --out labels.csv."
        )
    config = RunConfig.of_finished(run)
    if config.method == "segmentation":
        raise InvalidArgument("Expected a run of rows; for scans use tacit segment.")
    return config


def _figures(rows: str, config: RunConfig, student: Any, cut: float | None) -> dict[str, Any]:
    from tacit.cli.evaluate import figures_on
    from tacit.datasets import load_public

    return figures_on(rows, config, student, load_public(rows, **config.data.options), cut)


def _predicted(
    rows: str, options: dict[str, Any], ids: str | None, say: Any, result: dict[str, Any]
) -> Iterator[bytes]:
    """Go through rows, batch by batch, and return lines of a CSV file; count them in `result`."""
    from tacit.datasets import public_blocks

    for inputs, named in public_blocks(rows, ids=ids, **options):
        columns = say(inputs)
        if ids in columns or str(ids).startswith("probability"):
            raise InvalidArgument(
                f"Expected ids={ids!r} to be named otherwise than what is written."
            )
        if ids is not None:
            columns = {ids: named} | columns
        if not result["rows"]:
            yield show.csv_text([list(columns)])
        yield show.csv_text(zip(*columns.values(), strict=True))
        result["rows"] += len(inputs)


def _said_labels(
    student: Any, declared: Any, cut: float | None, inputs: NDArray[Any]
) -> dict[str, list[Any]]:
    """Return the columns of a student of classes: labels, and how probable each class is."""
    classes = getattr(student, "classes_", None)
    if classes is None:
        raise InvalidArgument("Expected 'student.tacit' to know its classes; it has none.")
    chances = student.predict_proba(inputs)
    places = _places(chances, cut, _second(classes, declared))
    columns: dict[str, list[Any]] = {"label": classes[places].tolist()}
    columns |= {"probability": _digits(chances[range(len(places)), places])}
    each = zip(classes, chances.T, strict=True)
    return columns | {f"probability of {label}": _digits(chance) for label, chance in each}


def _said_numbers(
    student: Any, bounds: tuple[float, float], inputs: NDArray[Any]
) -> dict[str, list[Any]]:
    """Return the column of a student of numbers, within the bounds that were declared."""
    import numpy as np

    values = np.clip(student.predict(inputs), *bounds)
    return {"value": [f"{value:.6g}" for value in values]}


def _threshold(run: Path, given: str | None) -> float | None:
    """Return the threshold that was asked for, in a number or by the name of a rule."""
    from tacit.evaluate import RULES

    if given is None:
        return None
    if given not in RULES:
        try:
            return float(given)
        except ValueError:
            known = ", ".join(RULES)
            raise InvalidArgument(
                f"Expected threshold={given!r} to be a number, or one of {known}."
            ) from None
    metrics = json.loads((run / "metrics.json").read_text(encoding="utf-8"))
    found = metrics.get("thresholds", {}).get(given)
    if found is None:
        raise InvalidArgument(
            f"Expected threshold={given!r} of a run of two classes with public inputs; this one "
            "has no such threshold. Give a number."
        )
    return float(found)


def _second(classes: NDArray[Any], declared: Any) -> int:
    """Return the place of the class that was declared second: a student sorts them."""
    names = [str(label) for label in classes]
    if isinstance(declared, list) and len(declared) > 1 and str(declared[1]) in names:
        return names.index(str(declared[1]))
    return 1


def _places(chances: NDArray[Any], threshold: float | None, second: int) -> NDArray[Any]:
    """Return which class each row is said to be."""
    import numpy as np

    from tacit._checks import probability

    if threshold is None:
        return np.asarray(chances.argmax(axis=1))
    if chances.shape[1] != 2:
        raise InvalidArgument(f"Expected no threshold={threshold:g} for more than two classes.")
    above = chances[:, second] >= probability(threshold=threshold)
    return np.asarray(np.where(above, second, 1 - second))


def _digits(chances: NDArray[Any]) -> list[str]:
    return [f"{chance:.4f}" for chance in chances]


def segment(model: Path, scans: str, out: Path, *, window: str | None = None) -> show.Result:
    """Write a mask for each scan, with the scan's own grid, affine and spacing.

    This costs no privacy: the student was made from releases alone.
    Example: tacit segment runs/first scans masks

    model: A run's directory, or its student.tacit.
    scans: nifti:DIR, npz:FILE, or a folder of NIfTI.
    out: A new folder for masks, or a new .npz.
    window: Predict in windows, e.g. 64,64,64, where memory is short.
    """
    from tacit.masks import check_file_names, load_segmenter, open_volumes, save_masks
    from tacit.students import saved_extra

    # Masks have their scans' names: written beside them, they would replace them.
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InvalidArgument(f"Expected {str(out)!r} to be new, or an empty folder.")
    if out.suffix == ".npz":
        writable(out)
    if not model.exists():
        raise InvalidArgument(
            f"Expected a run at {str(model)!r}; no such folder, and no such file."
        )
    model = model / "student.tacit" if model.is_dir() else model
    student, facts = load_segmenter(model), saved_extra(model)
    source = scans if scans.startswith(("nifti:", "npz:")) else f"nifti:{scans}"
    files = open_volumes(source, n_classes=student.n_classes)
    check_file_names(files)
    masks = segmented(student, files, facts.get("grid"), _sides(window))
    try:
        for some in [_together(masks)] if out.suffix == ".npz" else masks:
            save_masks(out, some.images, some)
    except InvalidArgument as error:
        left = out.is_dir() and any(out.iterdir())
        more = f" The masks in {out} are whole, and not all there." if left else ""
        raise InvalidArgument(f"{error}{more}") from None
    result = {"masks": len(files), "out": str(out), "classes": facts.get("classes")}
    return show.Result(result, f"{len(files)} masks in {out}")


def segmented(student: Any, files: VolumeFiles, grid: Any, window: Any) -> Iterator[Volumes]:
    """Yield a mask for each scan on its own grid, as a volume; one at a time is read and drawn."""
    from tacit.masks import Volumes

    for one in files:
        view = one.normalised()
        if grid is not None:
            view = view.resampled(tuple(grid))
        (mask,) = one.restored(student.predict_proba(view.arrays()[0], window=window))
        yield Volumes((mask,), None, one.cases, one.affines, dimensions=mask.ndim)


def _together(masks: Iterable[Volumes]) -> Volumes:
    """Return all masks as they go into one archive."""
    from tacit.masks import Volumes

    images, cases, affines = zip(
        *((one.images[0], one.cases[0], one.affines[0]) for one in masks), strict=True
    )
    return Volumes(images, None, cases, affines, dimensions=images[0].ndim)


def _sides(window: str | None) -> tuple[int, ...] | None:
    try:
        return None if window is None else tuple(int(side) for side in window.split(","))
    except ValueError:
        raise InvalidArgument(f"Expected window={window!r} to be sides: 64,64,64.") from None
