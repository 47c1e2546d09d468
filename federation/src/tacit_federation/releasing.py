"""From closed to released: one sum, one ledger entry, one noise, one stored answer for all.

Ledger entry, noise, then release and state in one write-once transaction; only the stored bytes are
ever served. A crash before that write loses a draw that was never seen, and a new one needs a new
entry. docs/theory/federation.md#a-sum-is-opened-once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit._checks import Integers
from tacit.errors import BudgetExceeded, InvalidArgument, NotYet, Refused
from tacit.mechanisms import GaussianMean, Release, SharedCodes, SummedSteps
from tacit_federation.approval import trusted_with
from tacit_federation.coordinator import Coordinator
from tacit_federation.database import Row, alone
from tacit_federation.inputs import check_frame, read_frame
from tacit_federation.messages import (
    RELEASE,
    array_file,
    array_of,
    check_answers,
    check_frame_signed,
    counts_of,
    read_frame_of,
    read_parcel,
    signed_frame,
)
from tacit_federation.statements import ANSWERS_STAY, SHOWN_TO_NOBODY
from tacit_federation.study import Study
from tacit_federation.sums import SPOILED, is_spoiled, most_of_sum, opened_total, split_release

MOST_HEADER = 4 << 20
"""Bytes of a release's header, which names every site in the sum."""
_FIELDS = {"study", "survivors", "entry", "dtype", "shape", "presumes", "warnings", "signature"}


@dataclass(frozen=True, slots=True)
class StudyRelease:
    """What a study released, as it was stored and signed; public.

    Parameters
    ----------
    release : Release, labels or noisy counts, under the plan's mechanism
    survivors : tuple of str, the sites in the sum
    sharing : mapping of str to str
        Each site's sharing id, which proves that its answer was counted.
    teachers : int, of those sites together
    presumes, warnings : tuple of str, of the coordinator's statement
    """

    release: Release
    survivors: tuple[str, ...]
    sharing: Mapping[str, str]
    teachers: int
    presumes: tuple[str, ...]
    warnings: tuple[str, ...]


def release_study(coordinator: Coordinator, name: str) -> bytes:
    """Release a closed study, or return what was released: of two that race, one draws.

    Parameters
    ----------
    coordinator : Coordinator
    name : str, the study's hash, or its beginning

    Returns
    -------
    bytes, the release as stored, signed by the coordinator
    """
    coordinator.tick()
    row = coordinator.find(name)
    if Study.read(row["text"]).mode == "two-aggregators":
        return _opened(row)
    with alone(coordinator.folder / "releasing.lock"):
        row = coordinator.find(row["hash"])
        if row["state"] == "closed":
            try:
                _release(coordinator, row)
            except BudgetExceeded:  # the study ends, so that its answers are deleted
                coordinator.end(row["hash"], "no room in this ledger")
                raise
            row = coordinator.find(row["hash"])
    coordinator.tick()  # deletes the answers
    if row["state"] == "void":
        raise Refused(
            "Expected a study that can be released: it is void, as too few sites answered, its "
            "ledger had no room, or its operator ended it."
        )
    if row["state"] != "released":
        raise NotYet("Expected a study that has closed: it closes at its deadline, with a quorum.")
    return bytes(row["release"])


def end_study(coordinator: Coordinator, name: str) -> None:
    """End a study that was not released: it is void, and its answers are deleted.

    Parameters
    ----------
    coordinator : Coordinator
    name : str, the study's hash, or its beginning
    """
    with alone(coordinator.folder / "releasing.lock"):  # never in the middle of a release
        coordinator.end(name)


def _opened(row: Row) -> bytes:
    """Return the sums that two aggregators opened, once both have."""
    if row["state"] == "void":
        raise Refused("Expected a study with a quorum that both aggregators hold: it is void.")
    if row["release"] is None:
        raise NotYet("Expected both aggregators to have opened their sums.")
    return bytes(row["release"])


def _release(coordinator: Coordinator, row: Row) -> None:
    study, survivors = Study.read(row["text"]), json.loads(row["survivors"])
    total, sharing = _total(coordinator, study, survivors)
    warnings = coordinator.warnings_of(study.hash)
    purpose = f"study {study.hash[:16]}: {study.title}"
    coordinator.rehearse_write(study)
    with coordinator.ledger.release(study.plan, purpose=purpose, faults=warnings) as grant:
        if study.codes:
            said = SummedSteps(total, study.teachers_of(survivors))
            about = read_frame(study, coordinator.frame_of(study.hash).read_bytes())
            release = grant.release(said, **about)
        else:
            release = grant.release(total)
    stored = _stored(coordinator, study, release, sharing, warnings)
    paid = {"entry": release.entry}
    written = {**paid, "release": stored}
    coordinator.move(study.hash, "closed", "released", about=paid, columns=written)


def _total(
    coordinator: Coordinator, study: Study, survivors: list[str]
) -> tuple[Integers, dict[str, str]]:
    """Add up the survivors' answers, checked once more. Secret."""
    total = np.zeros(study.shape, dtype=np.int64)
    sharing: dict[str, str] = {}
    query = "SELECT site, sharing FROM answers WHERE study = ? AND dropped IS NULL"
    ids = {row["site"]: row["sharing"] for row in coordinator.database.rows(query, study.hash)}
    for name in survivors:
        site = study.site(name)
        if site is None or name not in ids:
            raise Refused("Expected every survivor to be a site of the study.")
        header, payload = read_parcel(coordinator.answers_of(study.hash, name, ids[name]))
        sharing[name] = check_answers(study, site, header, payload)
        total += counts_of(study, site, payload)
    return total, sharing


def _stored(
    coordinator: Coordinator,
    study: Study,
    release: Release,
    sharing: Mapping[str, str],
    warnings: list[str],
) -> bytes:
    array = np.asarray(release)
    header = {
        "study": study.hash,
        "survivors": sorted(sharing.items()),
        "entry": release.entry,
        "dtype": array.dtype.str,
        "shape": array.shape,
        "presumes": [ANSWERS_STAY, SHOWN_TO_NOBODY],
        "warnings": warnings,
    }
    return signed_frame(coordinator.key, RELEASE, header, array_file(array, array.dtype.str))


def most_of_release(study: Study) -> int:
    """Return the greatest length of a release: two sums, and their sites."""
    return 2 * most_of_sum(study) + 1024


def read_release(study: Study, stored: bytes, frame: bytes | None = None) -> StudyRelease:
    """Read a release and check that those who drew its noise signed it; otherwise `Refused`.

    Parameters
    ----------
    study : Study
    stored : bytes, from the coordinator
    frame : bytes, optional, the npy file of centres and weights of a study of codes

    Returns
    -------
    StudyRelease, of checked signatures, study, quorum and shape
    """
    if study.mode == "two-aggregators":
        return _of_two(study, stored, frame)
    header, payload = read_frame_of(stored, most=MOST_HEADER)
    if set(header) != _FIELDS or header["study"] != study.hash:
        raise Refused("Expected the release of this study.")
    check_frame_signed(study.server("coordinator").key, RELEASE, header, payload)
    sharing = dict(header["survivors"])
    if not study.reached(list(sharing)) or any(study.site(name) is None for name in sharing):
        raise Refused("Expected a release over a quorum of the study's sites.")
    told = _array(header, payload)
    made: dict[str, Any] = {"labels" if told.ndim == 1 else "values": told}
    release = Release(study.plan.mechanism, entry=header["entry"], **made)
    teachers = sum(each.teachers for each in study.sites if each.id in sharing)
    said = tuple(header["presumes"]), tuple(header["warnings"])
    return StudyRelease(release, tuple(sharing), sharing, teachers, *said)


def _of_two(study: Study, stored: bytes, file: bytes | None) -> StudyRelease:
    """Read the release of two aggregators: two signed sums, added here."""
    first, second = split_release(study, stored)
    sharing: dict[str, str] = dict(first.pairs)
    teachers = study.teachers_of(sharing)
    public: dict[str, Any] = {"teachers": teachers}
    if study.codes:
        if file is None:
            raise InvalidArgument("Expected frame=: codes are read by the study's own centres.")
        check_frame(study, file)
        public |= read_frame(study, file)
    release = opened_total(study, first, second, **public)
    warnings = list(dict.fromkeys(first.warnings + second.warnings))
    if is_spoiled(study, release, teachers):
        warnings.append(SPOILED)
    presumes = (ANSWERS_STAY, f"{trusted_with(study)} drew its noise and kept its shares")
    return StudyRelease(release, tuple(sharing), sharing, teachers, presumes, tuple(warnings))


def _array(header: Mapping[str, Any], payload: bytes) -> NDArray[Any]:
    what = "a release as its header describes it"
    if header["dtype"] not in ("<i8", "<f8"):
        raise InvalidArgument(f"Expected {what}.")
    return array_of(payload, header["dtype"], tuple(header["shape"]), what)


def release_csv(found: Release) -> str:
    """Return a release as CSV: query and label, noisy counts, or noisy mean codes."""
    told = np.asarray(found)
    codes = isinstance(found.mechanism, GaussianMean | SharedCodes)
    if not codes:
        told = told.astype(np.int64)
    rows = told.reshape(len(told), -1).tolist()
    single, what = told.ndim == 1, "code" if codes else "class"
    names = ["label"] if single else [f"{what}_{number}" for number in range(told.shape[1])]
    lines = [",".join(["query", *names])]
    lines += [",".join(map(str, [number, *row])) for number, row in enumerate(rows)]
    return "\n".join(lines) + "\n"
