"""A finished run as one archive that somebody else can check and use without tacit.

student.tacit          the model
statement.json         what may be said, with statement.schema.json
ledger.jsonl           every line of the ledger, as it was hashed
report.html            for people
MODEL_CARD.md          what the model is, for whom, how good, what its number means
verify.py              checks all of it with nothing but Python
manifest.json          the SHA-256 of each of these
"""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

from tacit import __version__
from tacit._files import write_atomically
from tacit.errors import InvalidArgument
from tacit.ledger import STATEMENT_SCHEMA, Ledger, Statement, epsilon_text
from tacit.runs.config import RunConfig
from tacit.runs.verifying import LEDGER, STATEMENT, STUDENT, sha256, verify_run
from tacit.students import saved_extra

_EPOCH = (1980, 1, 1, 0, 0, 0)  # the same run gives the same bytes
_MOST_CLASSES = 20  # that a card names one by one


def package_run(folder: str | Path, path: str | Path) -> list[str]:
    """Write a finished run as one zip archive; refuse a run that does not hold together.

    Parameters
    ----------
    folder : path
        The run's.
    path : path
        Where the archive goes.

    Returns
    -------
    list of str
        What is in it.
    """
    folder = Path(folder)
    if broken := [check for check in verify_run(folder) if not check.holds]:
        raise InvalidArgument(
            f"Expected a run that holds together; {broken[0].what}: {broken[0].says}. Nothing was "
            "written."
        )
    names = (STUDENT, "metrics.json", "report.html", STATEMENT)
    members = {name: (folder / name).read_bytes() for name in names if (folder / name).exists()}
    members["ledger.jsonl"] = Ledger(folder / LEDGER).extract().encode("utf-8")
    members["statement.schema.json"] = _json(STATEMENT_SCHEMA)
    members["MODEL_CARD.md"] = model_card(folder).encode("utf-8")
    members["verify.py"] = Path(__file__).with_name("standalone_verify.py").read_bytes()
    hashes = {name: sha256(data) for name, data in members.items()}
    members["manifest.json"] = _json({"format": "tacit-package/1", "files": hashes})
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, data in sorted(members.items()):
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), data)
    write_atomically(path, buffer.getvalue())
    return sorted(members)


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
    sections = {
        "What it predicts": _predicts(known.get("classes")),
        "From what": _inputs(config),
        "How it was learned": f"Method `{config.method}` of tacit {__version__}; `config.toml` of "
        "the run has every setting.",
        "How good it is": _quality(folder),
        "What the number means": _meaning(statement),
        "What the statement presumes": _checklist(statement.assumes),
        "Warnings": _list(statement.warnings) or "None.",
        "The statement": "\n".join(f"> {line}" for line in str(statement).splitlines()),
        "How to check it": "`python verify.py` beside this file needs nothing but Python. No "
        "ledger knows this card: where it differs from the statement, the statement counts.",
    }
    title = f"# Model card: learned privately from {config.data.name or config.data.source}\n"
    return title + "".join(f"\n## {name}\n\n{text}\n" for name, text in sections.items())


def _predicts(classes: Any) -> str:
    if not isinstance(classes, list):
        return "Numbers, or what `student.tacit` names."
    named = ", ".join(f"`{label}`" for label in classes[:_MOST_CLASSES])
    more = f" and {len(classes) - _MOST_CLASSES} more" if len(classes) > _MOST_CLASSES else ""
    return f"One of {len(classes)} classes: {named}{more}."


def _inputs(config: RunConfig) -> str:
    options = config.data.options
    columns = [*options.get("numeric", {}), *options.get("categorical", {})]
    if columns:
        return "Rows with the columns " + ", ".join(f"`{name}`" for name in columns) + "."
    return f"Rows of numbers as `{config.data.source}` has them."


def _quality(folder: Path) -> str:
    try:
        found = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        found = {}
    if found.get("accuracy") is None:
        return "Not measured: no labelled rows were declared public. Measure before you use it."
    chance = found.get("most_frequent")
    beside = "" if chance is None else f"; their most frequent label alone: {chance:.1%}"
    return f"{found['accuracy']:.1%} on rows that were declared public{beside}."


def _meaning(statement: Statement) -> str:
    return (
        f"epsilon = {epsilon_text(statement.epsilon)} at delta = {statement.delta:g}. Whether or "
        f"not one {statement.unit} is in the data, whoever sees everything that was released can "
        "raise or lower the odds of any guess about it by at most the factor e^epsilon, except "
        "with probability delta."
    )


def _checklist(sentences: tuple[str, ...]) -> str:
    return "\n".join(f"- [ ] {sentence}" for sentence in sentences) or "Nothing."


def _list(sentences: tuple[str, ...]) -> str:
    return "\n".join(f"- {sentence}" for sentence in sentences)
