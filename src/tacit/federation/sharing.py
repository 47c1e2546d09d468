"""What leaves for two aggregators: a seed for the first, a share for the second, each signed.

The seed depends on nothing, and the share is uniform without it: neither tells anything alone
(docs/theory/federation.md#two-aggregators). Signatures name the role, so that what was meant for
one aggregator is refused by the other. Digests travel with the share and are deleted with it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit._checks import Integers
from tacit.errors import InvalidArgument
from tacit.federation.keys import SigningKey, check_signature
from tacit.federation.messages import MAGIC, array_header, frame, is_sharing_id
from tacit.federation.study import AGGREGATORS, Study, StudySite
from tacit.ledger import canonical
from tacit.noise import SEED_BYTES, Shares, expand, split

SHARE = "tacit-share/1"
_NAMED = ("study", "site", "role", "sharing", "digest")


def share_header(study: Study, role: str) -> bytes:
    """Return the npy header that a parcel for this aggregator must have."""
    if role == AGGREGATORS[0]:
        return array_header("|u1", (SEED_BYTES,))
    return array_header("<u8", study.shape)


def share_size(study: Study, site: StudySite, role: str) -> int:
    """Return how many bytes go to one aggregator, exactly: a function of the study."""
    note = dict.fromkeys(_NAMED, "") | {"study": study.hash, "site": site.id, "role": role}
    note |= {"sharing": "0" * 32, "digest": "0" * 64, "signature": "0" * 128}
    values = SEED_BYTES if role == AGGREGATORS[0] else 8 * study.shape[0] * study.shape[1]
    return len(MAGIC) + 4 + len(canonical(note)) + len(share_header(study, role)) + values


def seal_shares(
    study: Study,
    site: StudySite,
    values: Integers,
    key: SigningKey,
    sharing: str,
    seed: bytes | None = None,
) -> dict[str, bytes]:
    """Split a site's whole numbers and return the two bodies that leave, by role. Secret.

    A seed is given by tests alone: a second use of one would show a difference without noise.
    """
    chosen, share = split(values, seed)
    payloads = (chosen, np.ascontiguousarray(share, dtype="<u8").tobytes())
    sealed = {}
    for role, values_of_role in zip(AGGREGATORS, payloads, strict=True):
        payload = share_header(study, role) + values_of_role
        note: dict[str, Any] = {"study": study.hash, "site": site.id, "role": role}
        note |= {"sharing": sharing, "digest": hashlib.sha256(payload).hexdigest()}
        note["signature"] = key.sign(SHARE, canonical(note))
        sealed[role] = frame(canonical(note).encode(), payload)
    return sealed


def check_share(
    study: Study, site: StudySite, role: str, header: Mapping[str, Any], payload: bytes
) -> str:
    """Return the sharing id of a parcel that is what the study asks of this site, for this role.

    No message quotes it, or its digest.
    """
    note = {name: header.get(name) for name in _NAMED}
    named = set(header) == {*_NAMED, "signature"}
    if not named or (note["study"], note["site"], note["role"]) != (study.hash, site.id, role):
        raise InvalidArgument("Expected a share for this study and aggregator, of this site.")
    if not is_sharing_id(note["sharing"]):
        raise InvalidArgument("Expected a sharing id of 32 hexadecimal digits.")
    check_signature(site.key, SHARE, canonical(note), header["signature"])
    if hashlib.sha256(payload).hexdigest() != note["digest"]:
        raise InvalidArgument("Expected the share that was signed.")
    _values(study, role, payload)
    return str(note["sharing"])


def _values(study: Study, role: str, payload: bytes) -> bytes:
    header = share_header(study, role)
    size = SEED_BYTES if role == AGGREGATORS[0] else 8 * study.shape[0] * study.shape[1]
    if not payload.startswith(header) or len(payload) != len(header) + size:
        raise InvalidArgument("Expected the array that the study describes.")
    return payload[len(header) :]


def share_of(study: Study, role: str, payload: bytes) -> Shares:
    """Return one site's share, whichever form it travelled in. Secret."""
    values = _values(study, role, payload)
    if role == AGGREGATORS[0]:
        return expand(values, study.shape)
    return np.frombuffer(values, dtype="<u8").astype(np.uint64).reshape(study.shape)


def beginning_of(study: Study, role: str, payload: bytes) -> bytes:
    """Return what tells one parcel from another: 32 bytes of it. Secret."""
    return _values(study, role, payload)[:SEED_BYTES]


def noisy_array(shares: NDArray[np.uint64]) -> bytes:
    """Return a noisy sum as the array that is stored and opened."""
    plain = np.ascontiguousarray(shares, dtype="<u8")
    return array_header("<u8", plain.shape) + plain.tobytes()
