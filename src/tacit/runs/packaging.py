"""A finished run as one archive that others can check and use without tacit.

student.tacit, model.onnx       the model, for other programs where exported
statement.json                  with statement.schema.json
ledger.jsonl                    every line of the ledger, as it was hashed
report.html, MODEL_CARD.md      for people; evaluation.json, .html where it was evaluated
verify.py                       checks all of it with nothing but Python
manifest.json, .sig             SHA-256 of each file, the run's head; signed by an SSH key
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
    """Write a finished run as one zip archive; refuse a run that does not verify.

    A run of 0.2 is sealed first, at no cost.

    Parameters
    ----------
    folder : path, the run's
    path : path, of the archive
    ledger : path, optional, of its ledger, if not as configured
    sign : path, optional, an SSH key, by which `ssh-keygen -Y sign` signs the manifest

    Returns
    -------
    list of str, names in the archive
    str, the run's head
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
    """Write one archive atomically, with little of large files in memory at a time."""
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
    """Sign the manifest with OpenSSH, which asks for a pass phrase itself."""
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
