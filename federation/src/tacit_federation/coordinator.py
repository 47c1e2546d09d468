"""A coordinator: its studies are drafted, signed, opened, and closed by presence and clock.

Uploads: `tacit_federation.receiving`; the release: `tacit_federation.releasing`. Why presence and
clock alone may decide: docs/theory/federation.md#who-takes-part.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from tacit._files import write_atomically
from tacit.errors import InvalidArgument, NotYet, Refused
from tacit_federation.database import Connection, Row, note, on_disk
from tacit_federation.inputs import check_frame, check_inputs
from tacit_federation.keys import SigningKey, check_signature
from tacit_federation.server_folder import ServerFolder
from tacit_federation.study import AGGREGATORS, SIGNED_AS, Server, Study, StudySite
from tacit_federation.sums import read_sum


class Coordinator(ServerFolder):
    """The folder of a coordinator: keys, studies, members, ledger.

    Parameters
    ----------
    folder : path, made by `Coordinator.create`
    clock : function, optional, returns seconds since 1970

    Attributes
    ----------
    settings : ServerSettings, federation.toml
    ledger : Ledger, which pays for releases, for any patient of any site
    """

    @classmethod
    def _new_officers(cls, place: Path) -> list[str]:
        officer = SigningKey.generate()
        officer.write(place / "officer.key")
        return [officer.public]

    def server(self) -> Server:
        """Return this coordinator as studies name it.

        Returns
        -------
        Server, with its authority, key, ledger and budget
        """
        return self.describe("coordinator")

    def sites(self, teachers: Mapping[str, int] | int) -> list[StudySite]:
        """Return enrolled sites as a study names them.

        Parameters
        ----------
        teachers : mapping or int, number of teachers by site, or of every enrolled site

        Returns
        -------
        list of StudySite, in the order of their names
        """
        query = "SELECT id, key FROM members WHERE role = 'site' AND revoked IS NULL ORDER BY id"
        enrolled = {row["id"]: row["key"] for row in self.database.rows(query)}
        wanted = dict.fromkeys(enrolled, teachers) if isinstance(teachers, int) else dict(teachers)
        if missing := sorted(set(wanted) - set(enrolled)):
            raise NotYet(f"Expected {missing[0]!r} to have enrolled; send it an invitation.")
        return [StudySite(name, enrolled[name], count) for name, count in sorted(wanted.items())]

    def add(self, study: Study, inputs: bytes, frame: bytes = b"") -> None:
        """Add a draft: its text, and the inputs that it names.

        Parameters
        ----------
        study : Study, whose server must be this one
        inputs : bytes, the npy file of public inputs
        frame : bytes, optional, the npy file of centres and weights of a study of codes
        """
        check_inputs(study, inputs)
        if study.server("coordinator") != self.server():
            raise InvalidArgument("Expected a study of this coordinator, with its keys and ledger.")
        if study.unit not in (self.ledger.unit, "site"):
            raise InvalidArgument(
                f"Expected unit={study.unit!r} to be the ledger's, {self.ledger.unit!r}, or 'site'."
            )
        if study.codes:
            check_frame(study, frame)
        with on_disk(self.folder):
            if study.codes:
                write_atomically(self.frame_of(study.hash), frame)
            write_atomically(self.inputs_of(study.hash), inputs)
        row = (study.hash, study.text, "draft", study.window.closes)
        with self.database.writing() as rows:
            query = "INSERT OR IGNORE INTO studies (hash, text, state, closes) VALUES (?, ?, ?, ?)"
            if rows.execute(query, row).rowcount:
                note(rows, self.now(), "drafted", study=study.hash)

    def sign(self, name: str, officer: SigningKey) -> None:
        """Store an officer's signature of a study.

        Parameters
        ----------
        name : str, the study's hash
        officer : SigningKey, one of the file `officers`
        """
        row = self.find(name)
        if officer.public not in self.officers:
            raise Refused("Expected a key that the file `officers` of this coordinator names.")
        signature = officer.sign(SIGNED_AS, row["hash"])
        who = {"officer": officer.public}
        written = {**who, "signature": signature}
        signed = self.move(row["hash"], "draft", "signed", about=who, columns=written)
        if not signed and self.find(name)["officer"] != officer.public:
            raise Refused("Expected a study that nobody else has signed: one officer signs it.")

    def open(self, name: str) -> None:
        """Show a signed study to the sites; idempotent.

        Parameters
        ----------
        name : str, the study's hash
        """
        row = self.find(name)
        if row["state"] == "draft":
            raise NotYet("Expected a study that an officer has signed; `tacit study sign` it.")
        check_signature(row["officer"], SIGNED_AS, row["hash"], row["signature"])
        study = Study.read(row["text"])
        if study.mode == "coordinator":
            if self.ledger.would_exceed(study.plan):
                raise Refused("Expected a study within the budget of the coordinator's ledger.")
        elif missing := [role for role in AGGREGATORS if role not in self.agreed(study.hash)]:
            raise NotYet(
                f"Expected the {missing[0]} aggregator to have signed; `tacit aggregator approve` "
                "there."
            )
        self.move(row["hash"], "signed", "open", event="opened")

    def agreed(self, name: str) -> dict[str, str]:
        """Return the aggregators' signatures of a study, by role.

        Parameters
        ----------
        name : str, the study's hash

        Returns
        -------
        dict
        """
        found = self.database.rows("SELECT role, signature FROM agreed WHERE study = ?", name)
        return {row["role"]: row["signature"] for row in found}

    def tick(self) -> None:
        """Close what is due, and delete the answers of ended studies."""
        self.close_due()
        self.sweep()

    def _held(self, rows: Connection, row: Row, present: list[str]) -> tuple[str, str]:
        return "survivors", json.dumps(present)

    def presence(self, name: str) -> dict[str, Row]:
        """Return, for each site of a study, its decision and whether it answered.

        Parameters
        ----------
        name : str, the study's hash

        Returns
        -------
        dict
            decision, answered and dropped by site; never what it answered, or when. With two
            aggregators, answered is known once one of them has opened its sum.
        """
        study = Study.read(self.find(name)["text"])
        decided = self.database.rows("SELECT * FROM approvals WHERE study = ?", study.hash)
        told = self.database.rows("SELECT * FROM answers WHERE study = ?", study.hash)
        decisions = {row["site"]: row["decision"] for row in decided}
        answered = {row["site"]: row["dropped"] for row in told}
        answered |= dict.fromkeys(self._added(study))
        dropped = self._dropped(study, answered)
        return {
            site.id: {
                "teachers": site.teachers,
                "decision": decisions.get(site.id),
                "answered": site.id in answered and answered[site.id] is None,
                "dropped": dropped.get(site.id),
            }
            for site in study.sites
        }

    def _added(self, study: Study) -> list[str]:
        """Return the sites in the opened sums."""
        query = "SELECT role, body FROM sums WHERE study = ? ORDER BY role LIMIT 1"
        row = self.database.row(query, study.hash)
        if row is None:
            return []
        return [site for site, _ in read_sum(study, row["role"], bytes(row["body"])).pairs]
