"""What leaves for two aggregators: a seed for the first, a share for the second, each signed.

The seed depends on nothing, and the share is uniform without it: neither tells anything alone
(docs/theory/federation.md#two-aggregators). Signatures name the role, so that what was meant for
one aggregator is refused by the other. Digests travel with the share and are deleted with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tacit._checks import Integers
from tacit.noise import SEED_BYTES, Shares, expand, split
from tacit_federation.keys import SigningKey
from tacit_federation.messages import array_file, array_of, check_sealed, sealed, sealed_size
from tacit_federation.study import AGGREGATORS, Study, StudySite

SHARE = "tacit-share/1"


def _form(study: Study, role: str) -> tuple[str, tuple[int, ...]]:
    """Return type and shape of what this aggregator gets: a seed, or numbers."""
    return ("|u1", (SEED_BYTES,)) if role == AGGREGATORS[0] else ("<u8", study.shape)


def share_size(study: Study, site: StudySite, role: str) -> int:
    """Return how many bytes go to one aggregator, exactly: a function of the study."""
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

    A seed is given by tests alone: a second use of one would show a difference without noise.
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
    """Return the sharing id of a parcel that is what the study asks of this site, for this role."""
    expected = {"study": study.hash, "site": site.id, "role": role}
    what = ("a share for this study and aggregator", "share that was signed")
    sharing = check_sealed((site.key, SHARE), expected, header, payload, what)
    array_of(payload, *_form(study, role))
    return sharing


def share_of(study: Study, role: str, payload: bytes) -> Shares:
    """Return one site's share, whichever form it travelled in. Secret."""
    values = array_of(payload, *_form(study, role))
    if role == AGGREGATORS[0]:
        return expand(values.tobytes(), study.shape)
    return values.astype(np.uint64)


def beginning_of(study: Study, role: str, payload: bytes) -> bytes:
    """Return what tells one parcel from another: 32 bytes of it. Secret."""
    return array_of(payload, *_form(study, role)).ravel()[:SEED_BYTES].tobytes()[:SEED_BYTES]
