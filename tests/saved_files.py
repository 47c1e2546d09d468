"""Saved files, changed as somebody would who knows their format."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any


def rewrite(
    path: Path,
    edit: Callable[[dict[str, Any], dict[str, bytes]], None],
    compression: int = zipfile.ZIP_STORED,
    *,
    hashes: bool = True,
) -> None:
    """Change a file as somebody would who also corrects its hashes, unless told not to."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(members.pop("manifest.json"))
    edit(manifest, members)
    if hashes:
        manifest["members"] = {n: hashlib.sha256(data).hexdigest() for n, data in members.items()}
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("manifest.json", json.dumps(manifest))
        for name, data in members.items():
            archive.writestr(name, data)
