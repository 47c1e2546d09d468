"""`tacit verify`, `tacit export` and `tacit package`: a finished run, checked and handed over."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.markup import escape

from tacit.cli.options import writable
from tacit.cli.show import Result, print_advisory, screen
from tacit.errors import InvalidArgument

if TYPE_CHECKING:
    from tacit.export import Exported
    from tacit.ledger import Statement

NOT_TRUSTED = 4


def verify(run: Path, *, ledger: Path | None = None, head: str | None = None) -> Result:
    """Check that a run's model, statement, report and ledger belong together; exit code 4 if not.

    Example: tacit verify runs/first --head 3f0a…

    run: The run's folder.
    ledger: Where its ledger is, if not where its configuration says.
    head: The run's head, kept elsewhere: shows that nobody wrote everything anew, ledger included.
    """
    from tacit.runs import advisory_of, verify_run

    checks = verify_run(run, ledger, head)
    holds = all(check.holds for check in checks)
    known = advisory_of(run, ledger) if holds else ""
    plain = {
        "verified": holds,
        "checks": [asdict(check) for check in checks],
        "advisory": known,
    }

    def shown() -> None:
        for check in checks:
            mark = "[green]ok    [/]" if check.holds else "[bold red]FAILED[/]"
            screen().print(f"{mark} {check.what}: {escape(check.says)}", soft_wrap=True)
        screen().print(
            "[green]Verified[/]: everything belongs together."
            if holds
            else "[bold red]Not verified[/]: do not rely on this run."
        )
        if head is None and holds:
            screen().print(
                "Without --head, a run that was written anew in whole, its ledger included, looks "
                "intact: compare with the head that you keep."
            )
        print_advisory(known)

    return Result(plain, shown, None if holds else typer.Exit(NOT_TRUSTED))


def export(
    run: Path,
    out: Path | None = None,
    *,
    publish: bool = False,
    overwrite: bool = False,
) -> Result:
    """Write a run's student as an ONNX model, which others run without tacit.

    Features and labels are in it: rows in, label and probabilities out, and of a table each column
    is an input of its own. It costs no privacy: the student was made from releases alone.

    Example: tacit export runs/first model.onnx

    Example: tacit export runs/first --publish

    run: The run's folder, or its student.tacit.
    out: The file to write, an .onnx; left out with --publish.
    publish: Keep it in the run's folder as model.onnx and list its hash in the ledger: tacit verify
        then checks it. The run is sealed again, and has a new head.
    """
    from tacit.export import export_onnx
    from tacit.runs import ONNX, publish_also

    if (out is None) != publish:
        raise InvalidArgument("Expected a file to write, or --publish; one of the two.")
    path = run / ONNX if out is None else out
    if path.suffix != ".onnx":
        raise InvalidArgument(f"Expected out={str(path)!r} to end with .onnx.")
    if not publish and path.resolve() == (run / ONNX).resolve():
        raise InvalidArgument(f"Expected --publish to write {ONNX} into the run's own folder.")
    writable(path, overwrite=overwrite or publish)
    done: list[Exported] = []
    said: Statement | None = None
    if publish:
        said = publish_also(run, lambda place: done.append(export_onnx(run, place)))
    else:
        done.append(export_onnx(run, path))
    (made,) = done
    takes, says = ", ".join(made.inputs), ", ".join(made.outputs)
    plain: dict[str, Any] = {"model": str(path), "inputs": made.inputs, "outputs": made.outputs}
    listed = ""
    if said is not None:
        plain["head"] = said.head
        listed = f"\nListed in the ledger. The run's head is now {said.head}"
    return Result({**plain, "sha256": made.sha256}, f"{path}: takes {takes}; says {says}{listed}")


def package(
    run: Path,
    out: Path,
    *,
    onnx: bool = False,
    ledger: Path | None = None,
    sign: Path | None = None,
    overwrite: bool = False,
) -> Result:
    """Write a finished run as one archive that others can check and use without tacit.

    Example: tacit package runs/first first.zip --onnx --sign ~/.ssh/id_ed25519

    run: The run's folder.
    out: The archive to write, a .zip.
    onnx: Export and publish the model as ONNX first, if that was not done yet.
    ledger: Where its ledger is, if not where its configuration says.
    sign: An SSH key that signs the manifest (ssh-keygen -Y sign).
    """
    from tacit.runs import ONNX, package_run, publish_also

    if out.suffix != ".zip":
        raise InvalidArgument(f"Expected out={str(out)!r} to end with .zip.")
    writable(out, overwrite=overwrite)
    if onnx and not (run / ONNX).exists():
        from tacit.export import export_onnx

        publish_also(run, lambda place: export_onnx(run, place))
    members, head = package_run(run, out, ledger, sign=sign)
    return Result(
        {"archive": str(out), "files": members, "head": head},
        f"{out}: {', '.join(members)}\nThe run's head is {head}\nGive it to whoever receives the "
        "archive in another way, who unpacks it and runs: python verify.py --head …",
    )
