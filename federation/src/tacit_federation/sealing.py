"""From approved to sealed: teachers answer here, and the bytes that leave are fixed on disk.

Nothing here is refused because of what is in a record; the sending time is drawn before training.
"""

from __future__ import annotations

import secrets
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit._files import PathLike, write_atomically
from tacit.errors import InvalidArgument
from tacit.mechanisms import count_votes
from tacit_federation.answering import (
    Limits,
    ask_for_codes,
    ask_teachers,
    each_teacher,
    numbers_in,
)
from tacit_federation.approval import sending_time
from tacit_federation.codes import check_codec
from tacit_federation.inputs import read_frame, read_inputs
from tacit_federation.keys import SECRET
from tacit_federation.messages import seal_answers
from tacit_federation.site_folder import SiteFolder
from tacit_federation.study import Study, StudySite
from tacit_federation.sums import seal_shares
from tacit_federation.visiting import frame_of, inputs_of


def trained_counts(
    site: SiteFolder,
    study: Study,
    here: StudySite,
    teacher: Any,
    records: tuple[Any, Any, Any],
    encode: Any = None,
) -> NDArray[Any]:
    """Train and query this site's teachers; return counts, or sums of steps. Secret."""
    if teacher is None or records[0] is None or records[1] is None:
        raise InvalidArgument("Expected answers=..., or teacher=... with X=... and y=....")
    if records[2] is None and study.unit not in ("record", "site"):
        raise InvalidArgument(
            f"Expected groups= for a study whose unit is {study.unit!r}: whose each row is, so "
            "that all rows of one reach one teacher. Where each has one row, "
            "groups=range(len(X)) says so; in a run.toml, groups in [data.options] names them."
        )
    if study.codes:
        if getattr(encode, "n_classes", None) is None:
            raise InvalidArgument("Expected encode=EncodeMasks(codec, n_classes): public.")
        check_codec(study, encode.codec)
    limits = Limits(site.policy.teacher_seconds, site.policy.teacher_megabytes)
    _make_room(site, study, here, limits)
    inputs = read_inputs(study, inputs_of(site, study))
    key = (site.folder / "keys" / "shards.key").read_bytes()
    if study.codes:
        about = {"n_teachers": here.teachers, "length": study.shape[1], "encode": encode}
        codes = ask_for_codes(teacher, records, inputs, **about, key=key, limits=limits)
        return clipped_sum(site, study, codes)
    sizes: dict[str, Any] = {"n_teachers": here.teachers, "n_classes": study.classes}
    told = ask_teachers(teacher, records, inputs, **sizes, key=key, limits=limits)
    return count_votes(told, study.classes)


def codes_of_masks(study: Study, here: StudySite, masks: Any, encode: Any) -> NDArray[Any]:
    """Return codes (teachers, queries, length) of given masks, by the pinned codec. Secret.

    Shapes are public; invalid masks of a teacher count as the centre.
    """
    codec = getattr(encode, "codec", None)
    if codec is None:
        raise InvalidArgument("Expected encode=EncodeMasks(codec, n_classes): public.")
    check_codec(study, codec)
    wanted = (here.teachers, study.queries, *codec.shape)
    codes = np.full((here.teachers, *study.shape), np.nan)
    for number, own in enumerate(each_teacher(masks, wanted)):
        soft = numbers_in(own, wanted[1:])
        if np.isfinite(soft).all():
            codes[number] = codec.encode(soft.clip(0, 1))
    return codes


def clipped_sum(site: SiteFolder, study: Study, codes: NDArray[Any]) -> NDArray[Any]:
    """Return the sum of this site's codes in whole steps, each teacher's clipped here. Secret."""
    mechanism: Any = study.plan.mechanism
    about = read_frame(study, frame_of(site, study))
    steps: NDArray[Any] = mechanism.summed_steps(codes, **about)
    return steps


def _make_room(site: SiteFolder, study: Study, here: StudySite, limits: Limits) -> None:
    """Refuse, or send later, by public limits of teachers and before training.

    A clock that ends training would couple teachers; a later slot would disclose their time.
    """
    row = site.row(study.hash)
    done = site.clock() + (here.teachers + 1) * limits.wall_seconds  # and the rehearsal
    if done > row["closes"] - study.window.slot_seconds:
        raise InvalidArgument(
            f"Expected {here.teachers} teachers of at most {limits.wall_seconds} seconds each "
            "to be done before the study closes; lower teacher_seconds in policy.toml."
        )
    if done > row["send_at"]:
        site.move(study.hash, "approved", send_at=sending_time(study, done, row["closes"]))


def parcels_of(
    site: SiteFolder, study: Study, here: StudySite, counts: NDArray[Any], sharing: str
) -> dict[str, bytes]:
    """Return what leaves, by the receiver's role. Secret."""
    if study.mode == "two-aggregators":
        return seal_shares(study, here, counts, site.key, sharing)
    return {"coordinator": seal_answers(study, here, counts, site.key, sharing)}


def seal(site: SiteFolder, study: Study, here: StudySite, counts: NDArray[Any]) -> None:
    """Write the bytes that will leave, then record it: a crash in between seals anew."""
    sharing = secrets.token_hex(16)
    parcels = parcels_of(site, study, here, counts, sharing)
    with site.database.writing() as rows:
        row = rows.execute("SELECT * FROM studies WHERE hash = ?", (study.hash,)).fetchone()
        if row["state"] != "approved":  # somebody else sealed, or withdrew: that stays
            return
        for role, body in parcels.items():
            write_atomically(site.sealed(study.hash, role), body, SECRET)
            rows.execute("INSERT INTO parcels (study, role) VALUES (?, ?)", (study.hash, role))
        send_at = row["send_at"]
        if site.clock() > send_at:  # the slot has passed: draw over what is left
            send_at = sending_time(study, site.clock(), row["closes"])
        query = "UPDATE studies SET state = 'sealed', sharing = ?, send_at = ? WHERE hash = ?"
        rows.execute(query, (sharing, send_at, study.hash))


def read_answers(path: PathLike) -> NDArray[Any]:
    """Read answers (teachers, queries) from an npy file; never a pickle. Secret."""
    try:
        return np.asarray(np.load(path, allow_pickle=False))
    except (EOFError, OSError, ValueError):
        raise InvalidArgument(
            f"Expected {str(path)!r} to be an npy file of answers (teachers, queries)."
        ) from None
