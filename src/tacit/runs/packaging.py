"""A finished run as one archive that somebody else can check and use without tacit.

student.tacit          the model
model.onnx             the same for other programs, where it was exported and published
statement.json         what may be said, with statement.schema.json
ledger.jsonl           every line of the ledger, as it was hashed
report.html            for people
evaluation.json, .html what records kept apart said, where the run was evaluated
MODEL_CARD.md          what the model is, for whom, how good, what its number means
verify.py              checks all of it with nothing but Python
manifest.json          the SHA-256 of each of these, and the run's head
manifest.json.sig      a signature of that by an SSH key, where one was asked for
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from tacit._files import alone_in, sync, sync_directory, temporary_beside
from tacit.errors import InvalidArgument
from tacit.ledger import SCHEMA_FILE
from tacit.runs.ledgers import ledger_of, noted_as
from tacit.runs.sealing import (
    PUBLISHED,
    REPORT_DATA,
    data_of,
    file_sha256,
    seal_run,
    seals_of,
    sha256,
)
from tacit.runs.standalone_verify import FORMAT, MANIFEST, NAMESPACE
from tacit.runs.verifying import refuse_broken, verify_run

PACKAGED = tuple(name for name in PUBLISHED if name not in ("config.toml", REPORT_DATA))
"""The configuration stays: it names private files."""
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the same run gives the same bytes


def package_run(
    folder: str | Path,
    path: str | Path,
    ledger: str | Path | None = None,
    *,
    sign: str | Path | None = None,
) -> tuple[list[str], str]:
    """Write a finished run as one zip archive; refuse a run that does not hold together.

    Parameters
    ----------
    folder : path
        The run's.
    path : path
        Where the archive goes.
    ledger : path, optional
        Where its ledger is, if not where the configuration says.
    sign : path, optional
        An SSH key, by which `ssh-keygen -Y sign` signs the manifest.

    Returns
    -------
    list of str
        What is in it.
    str
        The run's head.

    Notes
    -----
    A run of 0.2 is sealed first, which costs nothing.
    """
    folder = Path(folder)
    refuse_broken(verify_run(folder, ledger), " Nothing was written.")
    book, known = ledger_of(folder, ledger), noted_as(folder)
    if not seals_of(book.entries(), known):
        with alone_in(folder):
            seal_run(folder, book, data_of(folder))
    seal = seals_of(book.entries(), known)[-1]
    files = {name: folder / name for name in PACKAGED if (folder / name).exists()}
    texts = {
        "ledger.jsonl": book.extract().encode("utf-8"),
        "statement.schema.json": SCHEMA_FILE.read_bytes(),
        "verify.py": Path(__file__).with_name("standalone_verify.py").read_bytes(),
    }
    hashes = {name: file_sha256(file) for name, file in files.items()}
    hashes |= {name: sha256(text) for name, text in texts.items()}
    manifest = {"format": FORMAT, "run": known, "head": seal.hash, "files": hashes}
    texts[MANIFEST] = (json.dumps(manifest, indent=2, sort_keys=True) + "\n").encode("utf-8")
    if sign is not None:
        texts[f"{MANIFEST}.sig"] = _signed(texts[MANIFEST], Path(sign))
    _write_archive(Path(os.path.realpath(path)), files, texts)
    return sorted({*files, *texts}), seal.hash


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


def _signed(manifest: bytes, key: Path) -> bytes:
    """Let OpenSSH sign the manifest; it asks for a pass phrase by itself."""
    if not key.is_file():
        raise InvalidArgument(f"Expected sign={str(key)!r} to be an SSH key; there is no file.")
    if shutil.which("ssh-keygen") is None:
        raise InvalidArgument("Expected ssh-keygen, of OpenSSH, to sign; it is not installed.")
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / MANIFEST
        path.write_bytes(manifest)
        command = ["ssh-keygen", "-Y", "sign", "-f", str(key), "-n", NAMESPACE, str(path)]
        done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            why = " ".join(done.stderr.split())
            raise InvalidArgument(
                f"Expected sign={str(key)!r} to be a key that ssh-keygen signs with; it says: "
                f"{why}. Nothing was written."
            )
        return path.with_name(f"{MANIFEST}.sig").read_bytes()
