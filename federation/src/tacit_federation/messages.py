r"""Messages: one array in a frame, and small signed notes.

A frame is `TACIT1\n`, the length of a JSON header as uint32, the header (at most 16 KiB), and an
npy 1.0 array whose header and length must equal, byte for byte, those that the study implies. No
compression: the length of a body is a function of the study alone
(docs/theory/federation.md#a-digest-of-answers-is-a-secret).
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit._checks import Integers
from tacit.errors import InvalidArgument
from tacit.ledger import canonical
from tacit_federation.keys import SigningKey, check_signature
from tacit_federation.study import Study, StudySite

MAGIC = b"TACIT1\n"
PROTOCOL = "1"
MOST_HEADER = 16 * 1024
MOST_PART = 8 * 1024 * 1024
"""Bytes above which a body is sent, or fetched, in parts of this size."""
ANSWERS, APPROVAL, RECEIPT, RELEASE, VOID = (
    "tacit-answers/1",
    "tacit-approval/1",
    "tacit-receipt/1",
    "tacit-release/1",
    "tacit-void/1",
)


def array_header(dtype: str, shape: tuple[int, ...]) -> bytes:
    """Return the one npy 1.0 header of an array, to be compared instead of parsed."""
    file = io.BytesIO()
    described = {"descr": dtype, "fortran_order": False, "shape": tuple(shape)}
    np.lib.format.write_array_header_1_0(file, described)
    return file.getvalue()


def array_file(values: ArrayLike, dtype: str) -> bytes:
    """Return an array as npy 1.0."""
    plain = np.ascontiguousarray(values, dtype=dtype)
    return array_header(dtype, plain.shape) + plain.tobytes()


def array_of(
    file: bytes,
    dtype: str,
    shape: tuple[int, ...],
    what: str = "the array that the study describes",
) -> NDArray[Any]:
    """Return the array of a file that must have exactly that header and length."""
    header, itemsize = array_header(dtype, shape), np.dtype(dtype).itemsize
    if not file.startswith(header) or len(file) != len(header) + math.prod(shape) * itemsize:
        raise InvalidArgument(f"Expected {what}.")
    return np.frombuffer(file, dtype=dtype, offset=len(header)).reshape(shape)


def count_dtype(teachers: int) -> str:
    """Return the least of uint8, uint16 and uint32 that holds a number of teachers.

    >>> count_dtype(255), count_dtype(256), count_dtype(70_000)
    ('|u1', '<u2', '<u4')
    """
    return "|u1" if teachers < 1 << 8 else "<u2" if teachers < 1 << 16 else "<u4"


def answers_dtype(study: Study, site: StudySite) -> str:
    """Return the type of a site's answers: counts, or sums of codes in whole steps."""
    return "<i8" if study.codes else count_dtype(site.teachers)


def answers_size(study: Study, site: StudySite) -> int:
    """Return the exact number of bytes that a site sends: a function of the study."""
    note = {"study": study.hash, "site": site.id}
    return sealed_size(note, answers_dtype(study, site), study.shape)


def sealed_size(note: Mapping[str, Any], dtype: str, shape: tuple[int, ...]) -> int:
    """Return the number of bytes of `sealed` for a note and such an array."""
    texts = {"sharing": "0" * 32, "digest": "0" * 64, "signature": "0" * 128}
    values = math.prod(shape) * np.dtype(dtype).itemsize
    header = len(canonical({**note, **texts})) + len(array_header(dtype, shape))
    return len(MAGIC) + 4 + header + values


def seal_answers(
    study: Study, site: StudySite, counts: Integers, key: SigningKey, sharing: str
) -> bytes:
    """Return the one body that a site sends: its counts, or sums of steps, signed. Secret."""
    note = {"study": study.hash, "site": site.id, "sharing": sharing}
    return sealed(key, ANSWERS, note, array_file(counts, answers_dtype(study, site)))


def sealed(key: SigningKey, domain: str, note: Mapping[str, Any], payload: bytes) -> bytes:
    """Return a body with its digest, signed. Secret, as the digest is."""
    digest = hashlib.sha256(payload).hexdigest()
    return frame(signed(key, domain, {**note, "digest": digest}), payload)


def frame(header: bytes, payload: bytes) -> bytes:
    """Join a JSON header and an array."""
    return MAGIC + struct.pack("<I", len(header)) + header + payload


def read_header(file: BinaryIO, *, most: int = MOST_HEADER) -> dict[str, Any]:
    """Read the JSON header of a frame; the file is then at the array."""
    if file.read(len(MAGIC)) != MAGIC:
        raise InvalidArgument("Expected a body that begins with TACIT1.")
    (length,) = struct.unpack("<I", file.read(4).ljust(4, b"\0"))
    if not 2 <= length <= most:
        raise InvalidArgument(f"Expected a header of at most {most} bytes.")
    return read_note(file.read(length), most=most)


def read_parcel(path: Path) -> tuple[dict[str, Any], bytes]:
    """Return header and array of a frame on disk. Secret."""
    with path.open("rb") as file:
        return read_header(file), file.read()


def read_frame_of(stored: bytes, *, most: int) -> tuple[dict[str, Any], bytes]:
    """Return header and payload."""
    file = io.BytesIO(stored)
    return read_header(file, most=most), file.read()


def read_note(raw: bytes, *, most: int = MOST_HEADER) -> dict[str, Any]:
    """Read one canonical JSON object of bounded size."""
    try:
        if len(raw) > most:
            raise ValueError
        text = raw.decode("utf-8")
        note = json.loads(text)
        if not isinstance(note, dict) or canonical(note) != text:
            raise ValueError
    except (InvalidArgument, RecursionError, UnicodeDecodeError, ValueError):
        raise InvalidArgument(
            f"Expected one canonical JSON object of at most {most} bytes."
        ) from None
    return note


def check_answers(study: Study, site: StudySite, header: Mapping[str, Any], payload: bytes) -> str:
    """Return the sharing id of answers that are exactly what the study expects of this site."""
    expected = {"study": study.hash, "site": site.id}
    what = ("answers for this study", "answers that were signed")
    sharing = check_sealed((site.key, ANSWERS), expected, header, payload, what)
    counts_of(study, site, payload)
    return sharing


def check_sealed(
    signer: tuple[str, str],
    expected: Mapping[str, str],
    header: Mapping[str, Any],
    payload: bytes,
    what: tuple[str, str],
) -> str:
    """Return the sharing id of a body that `sealed` made with that key and domain, as expected.

    No message quotes it, or its digest.
    """
    note = {name: header.get(name) for name in (*expected, "sharing", "digest")}
    if set(header) != {*note, "signature"} or not expected.items() <= note.items():
        raise InvalidArgument(f"Expected {what[0]}, of this site.")
    if not is_sharing_id(note["sharing"]):
        raise InvalidArgument("Expected a sharing id of 32 hexadecimal digits.")
    check_signature(*signer, canonical(note), header["signature"])
    if hashlib.sha256(payload).hexdigest() != note["digest"]:
        raise InvalidArgument(f"Expected the {what[1]}.")
    return str(note["sharing"])


def is_sharing_id(value: Any) -> bool:
    """Whether it has the form of a sharing id."""
    return isinstance(value, str) and len(value) == 32 and set(value) <= set("0123456789abcdef")


def counts_of(study: Study, site: StudySite, payload: bytes) -> NDArray[Any]:
    """Return one site's counts, whose rows sum to its teachers, or bounded step sums. Secret."""
    counts = array_of(payload, answers_dtype(study, site), study.shape)
    if study.codes:
        mechanism: Any = study.plan.mechanism
        most = site.teachers * math.ceil(mechanism.radius / mechanism.grid)
        if counts.min() < -most or counts.max() > most:
            raise InvalidArgument("Expected sums of codes that were clipped.")
        return counts
    if (counts.sum(axis=1, dtype=np.int64) != site.teachers).any():
        raise InvalidArgument("Expected rows that sum to the site's number of teachers.")
    return counts


def signed(key: SigningKey, domain: str, note: Mapping[str, Any]) -> bytes:
    """Return a note with its signature, as canonical JSON."""
    return canonical({**note, "signature": key.sign(domain, canonical(note))}).encode()


def check_signed(public: str, domain: str, note: Mapping[str, Any]) -> dict[str, Any]:
    """Return a note without its signature, which must be that key's; otherwise `Refused`."""
    plain = {name: value for name, value in note.items() if name != "signature"}
    check_signature(public, domain, canonical(plain), note.get("signature"))
    return plain


def signed_frame(key: SigningKey, domain: str, header: Mapping[str, Any], payload: bytes) -> bytes:
    """Join a header and an array, both signed."""
    signature = key.sign(domain, _both(header, payload))
    return frame(canonical({**header, "signature": signature}).encode(), payload)


def check_frame_signed(public: str, domain: str, header: dict[str, Any], payload: bytes) -> None:
    """Remove the signature from a header; `Refused` unless it is that key's, over both parts."""
    signature = header.pop("signature", None)
    check_signature(public, domain, _both(header, payload), signature)


def _both(header: Mapping[str, Any], payload: bytes) -> str:
    return canonical(header) + "\n" + hashlib.sha256(payload).hexdigest()
