"""The public inputs of a study: fetched once, piece by piece, and checked each time."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import BinaryIO

from tacit._files import sync_directory, write_atomically
from tacit.errors import Refused
from tacit_federation.client import Client
from tacit_federation.database import alone, on_disk
from tacit_federation.inputs import check_frame, check_inputs
from tacit_federation.messages import MOST_PART
from tacit_federation.site_folder import SiteFolder
from tacit_federation.study import Study


def inputs_of(site: SiteFolder, study: Study) -> bytes:
    """Return the study's inputs as a file; what was fetched before an interruption is kept."""
    path = site.folder / "inputs" / f"{study.hash}.npy"
    with alone(site.folder / "fetching.lock"):
        if not path.exists():
            with closing(site.client(study.server("coordinator").url)) as client:
                _download(client, study, path)
    file = path.read_bytes()
    check_inputs(study, file)
    return file


def _download(client: Client, study: Study, path: Path) -> None:
    part = path.with_suffix(".part")
    try:
        with on_disk(path), part.open("ab") as file:
            _fetch_pieces(client, study, file)
            file.flush()
            os.fsync(file.fileno())
        check_inputs(study, part.read_bytes())
    except Refused:
        part.unlink(missing_ok=True)  # whatever it is, it is not what the study names
        raise
    with on_disk(path):
        os.replace(part, path)
        sync_directory(path.parent)


def _fetch_pieces(client: Client, study: Study, file: BinaryIO) -> None:
    size = int(study.inputs["bytes"])
    while (have := file.tell()) < size:
        last = min(have + MOST_PART, size) - 1
        wanted = {"Range": f"bytes={have}-{last}"}
        address = f"/studies/{study.hash}/inputs"
        reply = client.ask("GET", address, most=MOST_PART, more=wanted)
        if reply.status != 206 or len(reply.body) != last + 1 - have:
            raise Refused("Expected the piece of the study's inputs that was asked for.")
        file.write(reply.body)


def frame_of(site: SiteFolder, study: Study) -> bytes:
    """Return the centres and weights of a study of codes, fetched once and checked each time."""
    path = site.folder / "inputs" / f"{study.hash}.frame.npy"
    if path.exists():
        file = path.read_bytes()
    else:
        most = 1024 + 16 * study.shape[0] * study.shape[1]
        with closing(site.client(study.server("coordinator").url)) as client:
            file = client.ask("GET", f"/studies/{study.hash}/frame", most=most).body
    check_frame(study, file)
    if not path.exists():
        with on_disk(path):
            write_atomically(path, file)
    return file
