"""The seal of a run: one entry of its ledger lists every file, and its hash is the run's head.

Report and model card show the head, so they are hashed with zeros for its digits. New files are
staged in a hidden folder, sealed, and then renamed: a process killed before the seal leaves the run
as it was; after it, `settle`, which every later command on the run calls, renames the files.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from tacit._files import held_alone, write_atomically
from tacit.errors import InvalidArgument, LedgerUnavailable
from tacit.evaluate import Evaluation, evaluation_measures
from tacit.ledger import Entry, KeptReleases, Ledger, Statement, sanitised_at
from tacit.report import NO_HEAD, PageData, render_report
from tacit.runs.about import learned_by
from tacit.runs.begun_with import forget
from tacit.runs.card import model_card
from tacit.runs.config import RunConfig
from tacit.runs.ledgers import RELEASES, noted_as, run_of
from tacit.students import saved_extra

STATEMENT, STUDENT, METRICS = "statement.json", "student.tacit", "metrics.json"
ONNX = "model.onnx"
EVALUATION, EVALUATION_PAGE = "evaluation.json", "evaluation.html"
EVALUATION_PAYER, EVALUATED = "evaluation.payer", "evaluation"
REPORT, REPORT_DATA, CARD = "report.html", "report.json", "MODEL_CARD.md"
SHOW_HEAD = (REPORT, CARD)
REWRITTEN = (STATEMENT, REPORT, REPORT_DATA, CARD)
"""What every seal is about anew; no later publication changes another file."""
PUBLISHED = (
    *("config.toml", STUDENT, ONNX, METRICS, EVALUATION, EVALUATION_PAGE),
    *(REPORT_DATA, CARD, REPORT, STATEMENT),
)
STAGED = ".sealing"
NOT_CARRIED = (
    "tacit 0.2 wrote this run's report; its figures and notes are in that page alone, and not here."
)
_MOST_TRIES = 1000  # writers that come first on a shared ledger


def seal_run(
    folder: Path,
    ledger: Ledger,
    data: PageData,
    *,
    new: Mapping[str, bytes] | None = None,
    warnings: tuple[str, ...] = (),
    kind: str | None = None,
) -> Statement:
    """Write statement, report and card of a finished run, and seal it with all of its files.

    The caller holds the folder alone. `new` are further files by name, `warnings` those of the
    statement that the ledger lacks; `kind` is "sanitised" or "worst-case", by default unchanged.
    """
    stage, known = folder / STAGED, noted_as(folder)
    config, learned = RunConfig.of_finished(folder), data.learned
    if learned is None:
        raise InvalidArgument("Expected a report that says what the run learned.")
    if (folder / STATEMENT).is_file():
        before = Statement.from_json((folder / STATEMENT).read_text(encoding="utf-8"))
        kind = kind or before.kind
        if before.head is not None:  # 0.2 left to a statement what the ledger now confesses
            warnings = (*warnings, *before.warnings)
    shutil.rmtree(stage, ignore_errors=True)
    kept = {name: file_sha256(folder / name) for name in files_of(folder)}
    fixed = {**(new or {}), REPORT_DATA: data.to_json().encode("utf-8")}
    for _ in range(_MOST_TRIES):
        now = ledger.statement()
        more = tuple(each for each in warnings if each not in now.warnings)
        said = sanitised_at(ledger, now.head) if kind == "sanitised" else now
        said = replace(
            said, head=NO_HEAD, entries=now.entries + 1, warnings=(*said.warnings, *more)
        )
        texts = {**fixed, STATEMENT: replace(said, head=None).to_file()}
        card = model_card(config, learned, said, onnx=ONNX in {*kept, *fixed})
        texts[CARD] = card.encode("utf-8")
        hashes = kept | {name: sha256(text) for name, text in texts.items()}
        hashes.pop(REPORT, None)
        try:
            page = render_report(ledger, statement=said, files=hashes, **data.as_arguments())
        except InvalidArgument:
            if ledger.head == now.head:
                raise
            continue  # another run on the same ledger has written meanwhile
        texts[REPORT] = page.encode("utf-8")
        hashes[REPORT] = sha256(texts[REPORT])
        stage.mkdir(exist_ok=True)
        for name, text in texts.items():
            write_atomically(stage / name, text)
        seal = ledger.seal(hashes, run=known, after=str(now.head), faults=more)
        if seal is not None:
            _put(folder, seal)
            return replace(said, head=seal.hash)
    raise LedgerUnavailable("Others kept writing to the ledger; the run was not sealed. Try again.")


def _put(folder: Path, seal: Entry) -> None:
    """Rename staged files and fill in their head; the statement comes last."""
    forget(folder)  # what the run began with: no finished run has it
    stage = folder / STAGED
    names = sorted((path.name for path in stage.iterdir()), key=lambda name: name == STATEMENT)
    for name in names:
        data = (stage / name).read_bytes()
        if name in SHOW_HEAD:
            data = data.replace(NO_HEAD.encode(), seal.hash.encode())
        write_atomically(folder / name, data)
    shutil.rmtree(stage, ignore_errors=True)


def settle(folder: Path, ledger: Ledger) -> None:
    """Finish or discard what a killed process was publishing; nothing where one is at work."""
    stage = folder / STAGED
    if not stage.is_dir():
        return
    with held_alone(run_of(folder)) as is_alone:
        if not is_alone:
            return
        seals = seals_of(ledger.entries(), noted_as(folder))
        staged = {path.name: file_sha256(path) for path in stage.iterdir()}
        if seals and STATEMENT in staged and staged.items() <= seals[-1].about["files"].items():
            _put(folder, seals[-1])
        shutil.rmtree(stage, ignore_errors=True)


def seals_of(entries: tuple[Entry, ...], run: str) -> list[Entry]:
    """Return the seals of one run among entries, the newest last."""
    return [each for each in entries if each.kind == "seal" and each.about["run"] == run]


def data_of(folder: Path) -> PageData:
    """Return the data of a finished run's report; of a run of 0.2, as far as known."""
    path = folder / REPORT_DATA
    if path.is_file():
        return PageData.read(path)
    config = RunConfig.of_finished(folder)
    metrics = json.loads((folder / METRICS).read_text(encoding="utf-8"))
    learned = learned_by(config, saved_extra(folder / STUDENT).get("classes"), metrics)
    if (folder / EVALUATION).is_file():
        found = evaluation_measures(Evaluation.read(folder / EVALUATION))
        learned = replace(learned, measures=(*learned.measures, *found))
    return PageData(learned=learned, notes=[NOT_CARRIED])


def files_of(folder: Path) -> list[str]:
    """Return the existing files of a run that its seal lists: releases first."""
    kept: list[Path] = []
    for name in (RELEASES, EVALUATED):
        kept += KeptReleases(folder / name).stored()
        kept += sorted((folder / name).glob("*.asked.npy"))
    kept += [*sorted(folder.glob("released.npz")), *sorted(folder.glob("released/*"))]
    shown = [path.relative_to(folder).as_posix() for path in kept if path.is_file()]
    return [*shown, *(name for name in PUBLISHED if (folder / name).is_file())]


def sha256(data: bytes) -> str:
    """Return the SHA-256 of bytes, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def file_sha256(path: Path, head: str = "") -> str:
    """Return the SHA-256 of a file, read in parts; the digits of `head` in it count as zeros."""
    if head and path.name in SHOW_HEAD:
        return sha256(path.read_bytes().replace(head.encode(), NO_HEAD.encode()))
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
