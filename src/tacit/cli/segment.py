"""`tacit segment MODEL IN OUT`: masks of a folder of scans, by a student that a run published."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.cli import options
from tacit.cli.show import print_json, screen
from tacit.errors import InvalidArgument

if TYPE_CHECKING:
    from tacit.masks import Volumes


def segment(
    model: Annotated[Path, typer.Argument(help="A run's student.tacit.", show_default=False)],
    scans: Annotated[
        str, typer.Argument(help="nifti:DIR, npz:FILE, or a folder of NIfTI.", show_default=False)
    ],
    out: Annotated[
        Path, typer.Argument(help="A new folder for masks, or a new .npz.", show_default=False)
    ],
    window: Annotated[
        str | None, typer.Option(help="Predict in windows, e.g. 64,64,64, where memory is short.")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Write a mask for each scan, with the scan's own grid, affine and spacing.

    This costs no privacy: the student was made from releases alone.
    Example: tacit segment runs/first/student.tacit scans masks
    """
    from tacit.masks import check_file_names, load_segmenter, load_volumes, save_masks
    from tacit.students.saving import saved_extra

    _refuse_what_exists(out)
    if out.suffix == ".npz":
        options.writable(out)
    student, facts = load_segmenter(model), saved_extra(model)
    volumes = load_volumes(_source(scans), n_classes=student.n_classes)
    check_file_names(volumes)
    masks = segmented(student, volumes, facts.get("grid"), _sides(window))
    save_masks(out, masks, volumes)
    if as_json:
        names = facts.get("classes")
        print_json({"masks": len(masks), "out": str(out), "classes": names})
    else:
        screen().print(f"{len(masks)} masks in {out}")


def segmented(student: Any, volumes: Volumes, grid: Any, window: Any) -> list[Any]:
    """Return a mask for each volume on its own grid, one volume at a time."""
    masks: list[Any] = []
    for place in range(len(volumes)):
        one = volumes.take([place])
        view = one.normalised()
        if grid is not None:
            view = view.resampled(tuple(grid))
        masks += one.restored(student.predict_proba(view.arrays()[0], window=window))
    return masks


def _source(scans: str) -> str:
    return scans if scans.startswith(("nifti:", "npz:")) else f"nifti:{scans}"


def _refuse_what_exists(out: Path) -> None:
    """Masks have their scans' names: written beside them, they would replace them."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InvalidArgument(f"Expected {str(out)!r} to be new, or an empty folder.")


def _sides(window: str | None) -> tuple[int, ...] | None:
    if window is None:
        return None
    try:
        return tuple(int(side) for side in window.split(","))
    except ValueError:
        raise InvalidArgument(f"Expected window={window!r} to be sides: 64,64,64.") from None
