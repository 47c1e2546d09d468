"""A finished run as one archive that somebody else can check and use without tacit.

student.tacit          the model
model.onnx             the same for other programs, where it was exported and published
statement.json         what may be said, with statement.schema.json
ledger.jsonl           every line of the ledger, as it was hashed
report.html            for people
evaluation.json, .html what records kept apart said, where the run was evaluated
MODEL_CARD.md          what the model is, for whom, how good, what its number means
verify.py              checks all of it with nothing but Python
manifest.json          the SHA-256 of each of these
"""

from __future__ import annotations

import io
import json
import os
import shutil
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tacit import __version__
from tacit._files import sync, sync_directory, temporary_beside
from tacit.evaluate import Evaluation, evaluation_measures
from tacit.ledger import STATEMENT_SCHEMA, Statement, epsilon_text, meaning
from tacit.report import Measure
from tacit.runs.about import learned_by
from tacit.runs.config import RunConfig
from tacit.runs.ledgers import ledger_of, noted_as
from tacit.runs.verifying import (
    EVALUATION,
    ONNX,
    PUBLISHED,
    STATEMENT,
    STUDENT,
    file_sha256,
    refuse_broken,
    sha256,
    verify_run,
)
from tacit.students import saved_extra

_EPOCH = (1980, 1, 1, 0, 0, 0)  # the same run gives the same bytes


def package_run(
    folder: str | Path, path: str | Path, ledger: str | Path | None = None
) -> list[str]:
    """Write a finished run as one zip archive; refuse a run that does not hold together.

    Parameters
    ----------
    folder : path
        The run's.
    path : path
        Where the archive goes.
    ledger : path, optional
        Where its ledger is, if not where the configuration says.

    Returns
    -------
    list of str
        What is in it.
    """
    folder = Path(folder)
    refuse_broken(verify_run(folder, ledger), " Nothing was written.")
    names = (*PUBLISHED[1:], STATEMENT)  # the configuration stays: it names private files
    files = {name: folder / name for name in names if (folder / name).exists()}
    texts = {
        "ledger.jsonl": ledger_of(folder, ledger).extract().encode("utf-8"),
        "statement.schema.json": _json(STATEMENT_SCHEMA),
        "MODEL_CARD.md": model_card(folder).encode("utf-8"),
        "verify.py": Path(__file__).with_name("standalone_verify.py").read_bytes(),
    }
    hashes = {name: file_sha256(file) for name, file in files.items()}
    hashes |= {name: sha256(text) for name, text in texts.items()}
    manifest = {"format": "tacit-package/1", "files": hashes, "noted_as": noted_as(folder)}
    texts["manifest.json"] = _json(manifest)
    _write_archive(Path(os.path.realpath(path)), files, texts)
    return sorted({*files, *texts})


def _write_archive(target: Path, files: dict[str, Path], texts: dict[str, bytes]) -> None:
    """Write one archive, whole or not at all; of large files a little is in memory at a time."""
    with temporary_beside(target) as temporary:
        with zipfile.ZipFile(temporary, "x", zipfile.ZIP_STORED) as archive:
            for name in sorted({*files, *texts}):
                source: Any = files[name].open("rb") if name in files else io.BytesIO(texts[name])
                info = zipfile.ZipInfo(name, _EPOCH)
                with source, archive.open(info, "w", force_zip64=True) as member:
                    shutil.copyfileobj(source, member)
        sync(temporary)
        os.replace(temporary, target)
    sync_directory(target.parent)


def _json(plain: Any) -> bytes:
    return (json.dumps(plain, indent=2, sort_keys=True) + "\n").encode("utf-8")


def model_card(folder: Path) -> str:
    """Return the model card of a finished run, in Markdown; everything in it is public.

    Parameters
    ----------
    folder : path
        The run's.

    Returns
    -------
    str
        What it predicts, from what, for whom, how well, what its number means and presumes.
    """
    config = RunConfig.of_finished(folder)
    statement = Statement.from_json((folder / STATEMENT).read_text(encoding="utf-8"))
    known = saved_extra(folder / STUDENT)
    learned = learned_by(config, known.get("classes"), _metrics(folder))
    measures = (*learned.measures, *_evaluated(folder))
    sections = {
        "What it predicts": learned.predicts,
        "From what": learned.inputs,
        "For whom": _whom(statement),
        "How it was learned": f"{learned.method} (method `{config.method}` of tacit {__version__})",
        "How good it is": _quality(measures),
        "What the number means": _meaning(statement),
        "What the statement presumes": _list(statement.assumes, "- [ ] ") or "Nothing.",
        "Warnings": _list(statement.warnings) or "None.",
        "The statement": "\n".join(f"> {line}" for line in str(statement).splitlines()),
        "How to use it": _usage(folder),
        "How to check it": "`python verify.py` beside this file needs nothing but Python. No "
        "ledger knows this card: where it differs from the statement, the statement counts.",
    }
    title = f"# Model card: learned privately from {config.data.name or config.data.source}\n"
    return title + "".join(f"\n## {name}\n\n{text}\n" for name, text in sections.items())


def _whom(statement: Statement) -> str:
    return (
        f"For whoever meets inputs like the public ones that it learned on; on others it was not "
        f"measured. It protects each {statement.unit} of the private records "
        f"({statement.dataset or 'no name was given'}), and nobody else: not those whose rows were "
        "public, nor what is true of a group as a whole."
    )


def _usage(folder: Path) -> str:
    sentence = "`tacit predict` reads `student.tacit` in the run's folder."
    if (folder / ONNX).exists():
        sentence += (
            f" `{ONNX}` is the same model, features and labels included, for onnxruntime or any "
            "other program that reads ONNX; it needs no tacit."
        )
    return sentence


def _metrics(folder: Path) -> dict[str, Any]:
    try:
        found = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        found = {}
    return found if isinstance(found, dict) else {}


def _evaluated(folder: Path) -> list[Measure]:
    """Return what records kept apart said, where somebody paid for it."""
    path = folder / EVALUATION
    return evaluation_measures(Evaluation.read(path)) if path.is_file() else []


def _quality(measures: Sequence[Measure]) -> str:
    said = []
    for one in measures:
        how = f" ({one.by_chance})" if one.by_chance else ""
        beside = f" Chance alone{how} reaches {one.chance_text}." if one.chance_text else ""
        worse = "" if one.beats_chance else f" **{one.beside_chance}.**"
        said.append(f"{one.text} {one.what}, on {one.on}.{beside}{worse}")
    return "\n\n".join(said) or (
        "Not measured: nothing labelled was declared public, and no evaluation was paid for. "
        "Measure before you use it."
    )


def _meaning(statement: Statement) -> str:
    said = meaning(statement.epsilon, statement.delta, statement.unit)
    return f"epsilon = {epsilon_text(statement.epsilon)} at delta = {statement.delta:g}. {said}"


def _list(sentences: tuple[str, ...], mark: str = "- ") -> str:
    return "\n".join(f"{mark}{sentence}" for sentence in sentences)
