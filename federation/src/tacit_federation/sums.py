"""Between a site and two aggregators: shares that leave, sums that are opened, and their total.

A seed leaves for the first, a share for the second, each signed with the role. The seed depends on
no data, and the share is uniform without it: neither discloses anything alone
(docs/theory/federation.md#two-aggregators). Digests travel with the share and are deleted with it.
A release is both opened sums; readers check both signatures, that both are over the same sites, and
add them.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit._checks import Integers
from tacit.errors import Refused
from tacit.ledger import canonical
from tacit.mechanisms import Release, SharedVotes, open_shares
from tacit.noise import SEED_BYTES, Shares, expand, split
from tacit_federation.keys import SigningKey
from tacit_federation.messages import (
    array_file,
    array_of,
    check_frame_signed,
    check_sealed,
    frame,
    is_sharing_id,
    read_frame_of,
    sealed,
    sealed_size,
)
from tacit_federation.study import AGGREGATORS, Study, StudySite

SUM = "tacit-sum/1"
SHARE = "tacit-share/1"
MOST_HEADER = 4 << 20
SPOILED = (
    "the total is spoiled: its rows do not add up to the number of teachers, so a site or an "
    "aggregator sent something else than votes"
)
_FIELDS = {"study", "role", "survivors", "entry", "warnings", "salt", "signature"}
_DEVIATIONS = 8.0


@dataclass(frozen=True, slots=True, eq=False)
class Opened:
    """One aggregator's sum with its noise, as it was stored and opened; public.

    `pairs` are sites and sharing ids in it, `entry` the entry of its ledger that paid.
    """

    role: str
    pairs: list[list[str]]
    shares: NDArray[np.uint64]
    entry: str
    warnings: tuple[str, ...]


def most_of_sum(study: Study) -> int:
    """Return the greatest length of a sum."""
    return MOST_HEADER + 1024 + 8 * study.shape[0] * study.shape[1]


def read_sum(study: Study, role: str, stored: bytes) -> Opened:
    """Read one aggregator's sum; `Refused` unless it is signed, of this study, over a quorum."""
    header, payload = read_frame_of(stored, most=MOST_HEADER)
    if set(header) != _FIELDS or (header["study"], header["role"]) != (study.hash, role):
        raise Refused(f"Expected the {role} aggregator's sum of this study.")
    check_frame_signed(study.server(role).key, SUM, header, payload)
    pairs, warned = header["survivors"], header["warnings"]
    if not isinstance(pairs, list) or not isinstance(warned, list):
        raise Refused("Expected a sum as the protocol says.")
    names = [pair[0] for pair in pairs if isinstance(pair, list) and len(pair) == 2]
    proper = len(names) == len(pairs) == len(set(names)) and all(
        study.site(name) is not None and is_sharing_id(sharing) for name, sharing in pairs
    )
    if not proper or not study.reached(names):
        raise Refused("Expected a sum over a quorum of the study's sites.")
    shares = array_of(payload, "<u8", study.shape)
    told = tuple(str(each) for each in warned)
    return Opened(role, pairs, shares.astype(np.uint64), str(header["entry"]), told)


def signed_part(stored: bytes) -> str:
    """Return the header and a hash of a sum, which prove its signature without the sum."""
    header, payload = read_frame_of(stored, most=MOST_HEADER)
    return canonical({"header": header, "payload": hashlib.sha256(payload).hexdigest()})


def both_sums(study: Study, first: bytes, second: bytes) -> bytes:
    """Return the release of two aggregators: both sums, which must be over the same sites."""
    stored = frame(canonical({"study": study.hash, "first": len(first)}).encode(), first + second)
    split_release(study, stored)
    return stored


def split_release(study: Study, stored: bytes) -> tuple[Opened, Opened]:
    """Return the two sums of a release, checked."""
    header, rest = read_frame_of(stored, most=MOST_HEADER)
    length = header.get("first")
    if set(header) != {"study", "first"} or header["study"] != study.hash:
        raise Refused("Expected the release of this study.")
    if type(length) is not int or not 0 < length < len(rest):
        raise Refused("Expected two sums in a release of two aggregators.")
    parts = (rest[:length], rest[length:])
    first, second = (read_sum(study, *each) for each in zip(AGGREGATORS, parts, strict=True))
    if sorted(first.pairs) != sorted(second.pairs):
        raise Refused("Expected two sums over the same sites.")
    return first, second


def opened_total(study: Study, first: Opened, second: Opened, **public: Any) -> Release:
    """Add two sums: the release with both noises."""
    mechanism: Any = study.plan.mechanism
    releases = [
        Release(mechanism, shares=each.shares, entry=each.entry) for each in (first, second)
    ]
    return open_shares(*releases, **public)


def is_spoiled(study: Study, total: Release, teachers: int) -> bool:
    """Whether rows of votes miss the number of teachers by more than noise explains."""
    if not isinstance(total.mechanism, SharedVotes) or total.values is None:
        return False
    deviation = total.mechanism.sigma * math.sqrt(2 * study.classes)
    return bool((np.abs(total.values.sum(axis=1) - teachers) > _DEVIATIONS * deviation).any())


def _form(study: Study, role: str) -> tuple[str, tuple[int, ...]]:
    """Return type and shape of an aggregator's part: a seed, or numbers."""
    return ("|u1", (SEED_BYTES,)) if role == AGGREGATORS[0] else ("<u8", study.shape)


def share_size(study: Study, site: StudySite, role: str) -> int:
    """Return the exact number of bytes for one aggregator: a function of the study."""
    note = {"study": study.hash, "site": site.id, "role": role}
    return sealed_size(note, *_form(study, role))


def seal_shares(
    study: Study,
    site: StudySite,
    values: Integers,
    key: SigningKey,
    sharing: str,
    seed: bytes | None = None,
) -> dict[str, bytes]:
    """Split a site's whole numbers and return the two bodies that leave, by role. Secret.

    Only tests give a seed: a second use of one would show a difference without noise.
    """
    chosen, share = split(values, seed)
    payloads: tuple[Any, Any] = (np.frombuffer(chosen, dtype=np.uint8), share)
    note = {"study": study.hash, "site": site.id, "sharing": sharing}
    return {
        role: sealed(key, SHARE, {**note, "role": role}, array_file(own, _form(study, role)[0]))
        for role, own in zip(AGGREGATORS, payloads, strict=True)
    }


def check_share(
    study: Study, site: StudySite, role: str, header: Mapping[str, Any], payload: bytes
) -> str:
    """Return the sharing id of a parcel that is what the study expects of this site and role."""
    expected = {"study": study.hash, "site": site.id, "role": role}
    what = ("a share for this study and aggregator", "share that was signed")
    sharing = check_sealed((site.key, SHARE), expected, header, payload, what)
    array_of(payload, *_form(study, role))
    return sharing


def share_of(study: Study, role: str, payload: bytes) -> Shares:
    """Return one site's share, from either form. Secret."""
    values = array_of(payload, *_form(study, role))
    if role == AGGREGATORS[0]:
        return expand(values.tobytes(), study.shape)
    return values.astype(np.uint64)


def beginning_of(study: Study, role: str, payload: bytes) -> bytes:
    """Return 32 bytes that identify a parcel. Secret."""
    return array_of(payload, *_form(study, role)).ravel()[:SEED_BYTES].tobytes()[:SEED_BYTES]
