"""A site: its keys, its ledger, its policy, and what it has seen, approved, sealed and sent.

The ledger is charged when a person approves, before anything is trained; the bytes that leave are
sealed on disk before the first of them does, resent as they are, and deleted once confirmed.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit._files import PathLike, write_atomically
from tacit.errors import InvalidArgument, NotYet, Refused, TacitError
from tacit.ledger import Budget, Ledger, Statement
from tacit_federation.answering import codes_of_answers, counts_of_answers
from tacit_federation.approval import (
    Asked,
    asked_of,
    check_study,
    sending_time,
    trusted_with,
)
from tacit_federation.client import enrol, refuse_another
from tacit_federation.database import AUDIT_START, new_folder, on_disk
from tacit_federation.inputs import read_inputs
from tacit_federation.keys import SECRET, SigningKey
from tacit_federation.members import Invitation
from tacit_federation.releasing import StudyRelease, read_release
from tacit_federation.sealing import clipped_sum, codes_of_masks, seal, trained_counts
from tacit_federation.settings import Policy
from tacit_federation.site_folder import SiteFolder, SiteStudy
from tacit_federation.statements import TAKES_PART, WITHDRAWN, with_presumptions
from tacit_federation.study import MODES
from tacit_federation.visiting import frame_of, inputs_of, visit, withdraw_study

_OUT_OF_PROTOCOL = (
    *(ArithmeticError, AttributeError, LookupError),
    *(RecursionError, TypeError, ValueError),
)
"""What a reply that is not as the protocol says may run into."""


class Site(SiteFolder):
    """The folder of a site: `Site.open("site")`.

    Parameters
    ----------
    folder : path, made by `Site.create`
    clock : function, optional, returns seconds since 1970

    Attributes
    ----------
    ledger : Ledger, the site's own, charged when a study is approved
    key : SigningKey, by which studies name this site
    """

    @classmethod
    def create(
        cls,
        folder: PathLike,
        *,
        budget: Budget,
        unit: str,
        dataset: str = "",
        clock: Callable[[], float] = time.time,
    ) -> Site:
        """Create a site's keys and ledger in a new folder.

        Parameters
        ----------
        folder : path, which must be new or empty
        budget : Budget, for all studies together, for this site's patients
        unit : str, whose privacy: "patient"
        dataset : str, name of its records in statements
        clock : function, optional, returns seconds since 1970

        Returns
        -------
        Site, which has joined no server yet
        """
        place = Path(folder)
        with new_folder(place):
            for part in ("keys", "inputs", "sealed", "servers"):
                (place / part).mkdir(mode=0o700)
            Ledger(place / "site.ledger", budget=budget, unit=unit, dataset=dataset)
            write_atomically(place / "keys" / "shards.key", secrets.token_bytes(32), SECRET)
            SigningKey.generate().write(place / "keys" / "signing.key")
            return cls(place, clock=clock)

    @classmethod
    def open(cls, folder: PathLike) -> Site:
        """Open a site's folder: keys, state, ledger, policy.

        Parameters
        ----------
        folder : path, made by `tacit site join`

        Returns
        -------
        Site
        """
        if not (Path(folder) / "keys" / "signing.key").exists():
            raise InvalidArgument(
                f"Expected {str(folder)!r} to be a site's folder; `tacit site join` makes one."
            )
        return cls(folder)

    def join(self, invitation: str) -> str:
        """Enrol with a server; repeated after an interruption, it gets the same certificate.

        Parameters
        ----------
        invitation : str, a line received from the server's operator over another channel

        Returns
        -------
        str, the server's address
        """
        invited = Invitation.read(invitation)
        refuse_another(self.servers().get(invited.url), invited)
        with on_disk(self.folder):
            pin = enrol(self.server_folder(invited.url), invited, self.key)
            # Not before: the officers of a server that was not joined may sign nothing here.
            if invited.officers and not (self.folder / "policy.toml").exists():
                Policy(list(invited.officers), list(MODES)).write(self.folder / "policy.toml")
        row = (invited.url, invited.name, pin, invited.key, 0, AUDIT_START)
        with self.database.writing() as rows:
            rows.execute("INSERT OR IGNORE INTO servers VALUES (?, ?, ?, ?, ?, ?)", row)
        return invited.url

    def asked(self, study: SiteStudy | str) -> Asked:
        """Return what a study requires of this site, checked and priced here.

        Parameters
        ----------
        study : SiteStudy, or str of at least the first eight digits of its hash

        Returns
        -------
        Asked
            For a person to read before approving. What policy or pins forbid raises `Refused`.
        """
        return self._checked(self.find(study))

    def _checked(self, known: SiteStudy) -> Asked:
        row = self.row(known.hash)
        if known.study.server("coordinator").url != row["server"]:
            raise Refused(f"Expected a study of the server that showed it, {row['server']}.")
        name = self.servers()[row["server"]]["name"]
        site = check_study(
            known.study,
            (row["officer"], row["signature"]),
            agreed=_signatures(row["agreed"]),
            policy=self.policy,
            servers=self.servers(),
            name=name,
            key=self.key.public,
            ledger=self.ledger,
        )
        return asked_of(known.study, site, self.ledger)

    def approve(self, study: SiteStudy | str, *, hash: str) -> Asked:
        """Approve a study: charge the ledger, draw a sending slot, store a signed approval.

        Parameters
        ----------
        study : SiteStudy, or str of at least the first eight digits of its hash
        hash : str, the first eight digits or more, as a person read and typed them

        Returns
        -------
        Asked
            What was approved. `BudgetExceeded`, with nothing charged, if the ledger has no room.
        """
        known = self.find(study)
        if len(hash) < 8 or not known.hash.startswith(hash):
            raise Refused("Expected the first eight digits of the study's hash.")
        if known.state != "seen":
            if known.state in ("refused", "absent", "withdrawn"):
                raise Refused(f"Expected a study that is still asked: this one is {known.state}.")
            return self._checked(known)
        asked = self._checked(known)
        inputs_of(self, known.study)
        if known.study.codes:
            frame_of(self, known.study)
        now = self.clock()
        if now >= self.row(known.hash)["closes"]:
            raise Refused("Expected a study whose window is open: this one has closed.")
        trusted = [trusted_with(known.study)]
        purpose = f"study {known.hash[:16]}: {known.study.title}"
        self.ledger.charge(known.study.plan, purpose=purpose, study=known.hash, entrusted=trusted)
        send_at = sending_time(known.study, now, self.row(known.hash)["closes"])
        self.move(known.hash, "approved", send_at=send_at)
        return asked

    def refuse(self, study: SiteStudy | str) -> None:
        """Refuse a study; nothing is charged.

        Parameters
        ----------
        study : SiteStudy, or str of at least the first eight digits of its hash
        """
        known = self.find(study)
        if known.state == "refused":
            return
        if known.state != "seen":
            raise Refused(f"Expected a study that is not yet {known.state}; withdraw it instead.")
        self.move(known.hash, "refused")

    def answer(
        self,
        study: SiteStudy | str,
        *,
        answers: ArrayLike | None = None,
        teacher: Any = None,
        X: ArrayLike | None = None,
        y: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        encode: Any = None,
    ) -> None:
        """Answer an approved study: shard, train and seal here; `run_once` sends it when due.

        No record's content raises: one that cannot be read is left out by itself. A teacher without
        records, or one that fails or exceeds the limits of policy.toml, answers class 0.

        Parameters
        ----------
        study : SiteStudy, or str of at least the first eight digits of its hash
        answers : array of shape (teachers, queries), optional
            Class indices by teachers trained elsewhere. For a study of codes numbers (teachers,
            queries, length), not clipped yet; with `encode`, masks of all but the background.
            Secret.
        teacher : estimator or family, optional, trained on each shard, instead of answers
        X, y : arrays, optional
            Private rows and their class indices; scans and their masks for a study of codes.
            Secret.
        groups : array, optional
            Person of each row; needed unless the study's unit is "record" or "site". Secret.
        encode : EncodeMasks, optional
            The public codec of a study of codes, with the number of classes; `Refused` if the
            study pins another one.
        """
        known = self.find(study)
        if known.state in ("sealed", "sent", "confirmed"):
            return
        if known.state != "approved":
            raise NotYet(f"Expected a study that was approved: this one is {known.state}.")
        site = self.site_of(known)
        if answers is not None and known.study.codes:
            told = answers
            if encode is not None:
                told = codes_of_masks(known.study, site, answers, encode)
            codes = codes_of_answers(told, (site.teachers, *known.study.shape))
            counts = clipped_sum(self, known.study, codes)
        elif answers is not None:
            shape = {"teachers": site.teachers, "queries": known.study.queries}
            counts = counts_of_answers(answers, classes=known.study.classes, **shape)
        else:
            counts = trained_counts(self, known.study, site, teacher, (X, y, groups), encode)
        seal(self, known.study, site, counts)

    def withdraw(self, study: SiteStudy | str) -> None:
        """Withdraw from an approved study before it closes; what was charged stays charged.

        Statements warn of it permanently, here and at the coordinator, also if nothing had been
        sent: if records decided it, it is a release without noise.

        Parameters
        ----------
        study : SiteStudy, or str of at least the first eight digits of its hash
        """
        try:
            withdraw_study(self, self.find(study))
        finally:
            self.hang_up()

    def run_once(self) -> list[str]:
        """Query every server once, fetch what is new, send what is due.

        Returns
        -------
        list of str, one public line for each event
            A server that does not answer raises `Unreachable` after the others were queried.
        """
        said: list[str] = []
        problem: TacitError | None = None
        self.sweep()
        for url in self.servers():
            try:
                said += visit(self, url)
            except TacitError as error:
                problem = error
            except _OUT_OF_PROTOCOL as error:
                problem = Refused(
                    f"Expected {url} to answer as its protocol says ({type(error).__name__})."
                )
        self.hang_up()
        if problem is not None:
            raise problem
        return said

    def release(self, study: SiteStudy | str) -> StudyRelease:
        """Return what a study released, as this site fetched and checked it.

        Parameters
        ----------
        study : SiteStudy, or str of at least the first eight digits of its hash

        Returns
        -------
        StudyRelease, public
        """
        known = self.find(study)
        stored = self.row(known.hash)["release"]
        if stored is None:
            raise NotYet("Expected a study that was released and fetched; `tacit site run`.")
        frame = frame_of(self, known.study) if known.study.codes else None
        return read_release(known.study, bytes(stored), frame)

    def inputs(self, study: SiteStudy | str) -> NDArray[Any]:
        """Return the public inputs of a study, checked against the hash in the document.

        Parameters
        ----------
        study : SiteStudy, or str of at least the first eight digits of its hash

        Returns
        -------
        array of shape (queries, ...)
        """
        known = self.find(study)
        return np.array(read_inputs(known.study, inputs_of(self, known.study)))

    def statement(self) -> Statement:
        """Return this site's statement for its patients over all approved studies.

        Returns
        -------
        Statement, with its assumptions
        """
        withdrawn = any(each.state == "withdrawn" for each in self.studies())
        warnings = [WITHDRAWN] if withdrawn else []
        return with_presumptions(self.ledger.statement(), TAKES_PART, warnings=warnings)


def _signatures(stored: str) -> dict[str, str]:
    """Parse the aggregators' signatures of a study; malformed input gives {}."""
    said = json.loads(stored)
    told = said if isinstance(said, dict) else {}
    return {str(role): str(signature) for role, signature in told.items()}
