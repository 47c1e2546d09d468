"""Two opened sums and what they add up to: signed by both aggregators, readable by anybody.

A sum is a frame: who is in it, by which ledger entry, a salt, and the noisy share as an array. A
release of two aggregators is both of them, one behind the other; whoever reads it checks both
signatures, that both are over the same sites, and adds them.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import Refused
from tacit.ledger import canonical
from tacit.mechanisms import Release, SharedVotes, open_shares
from tacit_federation.messages import (
    array_of,
    check_frame_signed,
    frame,
    is_sharing_id,
    read_frame_of,
)
from tacit_federation.study import AGGREGATORS, Study

SUM = "tacit-sum/1"
MOST_HEADER = 4 << 20
SPOILED = (
    "the total is spoiled: its rows do not add up to the number of teachers, so a site or an "
    "aggregator sent something else than votes"
)
_FIELDS = {"study", "role", "survivors", "entry", "warnings", "salt", "signature"}
_DEVIATIONS = 8.0


@dataclass(frozen=True, slots=True, eq=False)
class Opened:
    """One aggregator's sum, as it was stored and opened; public.

    Parameters
    ----------
    role : str
        "first" or "second".
    pairs : list
        Who is in it: site and sharing id.
    shares : array of uint64
        With that aggregator's noise.
    entry : str
        The entry of its ledger that paid.
    warnings : tuple of str
        What it warns of.
    """

    role: str
    pairs: list[list[str]]
    shares: NDArray[np.uint64]
    entry: str
    warnings: tuple[str, ...]


def most_of_sum(study: Study) -> int:
    """Return how long a sum can be."""
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
    """Return what proves that a sum was signed, without the sum: its header and a hash."""
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
    """Tell whether rows of votes miss the number of teachers by more than noise explains."""
    if not isinstance(total.mechanism, SharedVotes) or total.values is None:
        return False
    deviation = total.mechanism.sigma * math.sqrt(2 * study.classes)
    return bool((np.abs(total.values.sum(axis=1) - teachers) > _DEVIATIONS * deviation).any())
