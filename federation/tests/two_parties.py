"""Two aggregators without a network: shares, notes and sums are handed over by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from network import CLASSES, INPUTS, QUERIES, make_aggregator

from tacit.mechanisms import Plan, SharedVotes
from tacit_federation import (
    Server,
    SigningKey,
    Study,
    StudySite,
    Window,
    describe_inputs,
    inputs_file,
    new_document,
)
from tacit_federation.aggregator import Aggregator
from tacit_federation.certificates import new_request
from tacit_federation.exchanging import KINDS, advance, shown, take_note
from tacit_federation.members import ENROLMENT, enrol, new_token
from tacit_federation.receiving import take_answers
from tacit_federation.study import SIGNED_AS
from tacit_federation.sums import seal_shares

SIGMA, TEACHERS = 4.0, 9
OFFICER = SigningKey.generate()
SITES = [SigningKey.generate() for _ in range(3)]
COORDINATOR = SigningKey.generate()
NOW = 1_800_000_000


class TwoParties:
    """Two folders with one open study of three sites; the clock stands until it is moved."""

    def __init__(self, folder: Path, **changes) -> None:
        self.time = float(NOW)
        self.folder = folder
        self.places = [
            make_aggregator(folder / name, self.clock, **changes) for name in ("first", "second")
        ]
        self.study = self._study()
        for place in self.places:
            self._enrol(place)
            place.meet("https://c.example", self.study.text, OFFICER.public, self._signature())
            place.approve(self.study.hash, hash=self.study.hash)

    def clock(self) -> float:
        return self.time

    def _signature(self) -> str:
        return OFFICER.sign(SIGNED_AS, self.study.hash)

    def _study(self, title: str = "by hand") -> Study:
        file = inputs_file(INPUTS)
        pinned = ("c" * 64, COORDINATOR.public, "d" * 64, 1.0, 1e-6)
        described = [place.describe(place.folder.name) for place in self.places]
        return new_document(
            title=title,
            purpose="to try it out",
            unit="patient",
            inputs=describe_inputs(file),
            classes=CLASSES,
            plan=Plan(SharedVotes(SIGMA), QUERIES, n_classes=CLASSES),
            sites=[StudySite(f"site-{n}", key.public, TEACHERS) for n, key in enumerate(SITES)],
            quorum={"sites": 2, "teachers": 2},
            window=Window(NOW - 10, NOW + 100, 1),
            servers=[Server("coordinator", "https://c.example", *pinned), *described],
        )

    def _enrol(self, place: Aggregator) -> None:
        known = [("https://c.example", "c" * 64, COORDINATOR.public, OFFICER.public)]
        second = self.study.server("second")
        known.append((second.url, second.ca, second.key, ""))
        with place.database.writing() as rows:
            first = self.study.server("first").key
            rows.execute(
                "INSERT INTO members VALUES ('the-first', 'aggregator', ?, 0, NULL)", (first,)
            )
            for url, ca, key, officers in known:
                values = (url, "us", ca, key, officers)
                rows.execute("INSERT INTO parties VALUES (?, ?, ?, ?, ?)", values)
        for number, key in enumerate(SITES):
            tls = self.tls(place, number)
            tls.mkdir(parents=True)
            csr = new_request(tls, "x").decode()
            token = new_token(place.database, f"site-{number}", "site", place.now())
            sent = {"token": token, "csr": csr, "key": key.public}
            sent["signature"] = key.sign(ENROLMENT, csr)
            certificate = enrol(place.database, place.authority, sent, place.now())
            (tls / "tls.pem").write_bytes(certificate)

    def tls(self, place: Aggregator, number: int) -> Path:
        """Where a site keeps the certificate by which it reaches an aggregator."""
        return self.folder / "sites" / place.folder.name / str(number)

    def also_open(self, title: str) -> Study:
        """Open another study of the same parties."""
        study = self._study(title)
        signature = OFFICER.sign(SIGNED_AS, study.hash)
        for place in self.places:
            place.meet("https://c.example", study.text, OFFICER.public, signature)
            place.approve(study.hash, hash=study.hash)
        return study

    def sealed(self, number: int, counts, seed: bytes | None = None) -> dict[str, bytes]:
        """What one site sends, by role; its sharing id tells its number."""
        site, sharing = self.study.sites[number], f"{number:032x}"
        return seal_shares(self.study, site, np.asarray(counts), SITES[number], sharing, seed)

    def send(self, place: Aggregator, number: int, body: bytes) -> tuple[int, bytes]:
        upload = place.folder / "upload"
        upload.write_bytes(body)
        try:
            return take_answers(place, self.study.hash, {"id": f"site-{number}"}, upload)
        finally:
            upload.unlink(missing_ok=True)

    def send_all(self, counts, seeds=(None, None, None)) -> None:
        for number, (rows, seed) in enumerate(zip(counts, seeds, strict=True)):
            parcels = self.sealed(number, rows, seed)
            for place in self.places:
                assert self.send(place, number, parcels[place.folder.name])[0] == 201

    def finish(self, after=lambda kind: None) -> list[tuple[str, str, bytes]]:
        """Close, exchange everything; return all messages: to whom, what, which bytes."""
        self.time = NOW + 101.0
        messages = []
        for place in self.places:
            place.close_due()
        for kind in KINDS:
            for place, other in (self.places, self.places[::-1]):
                told = shown(place, self.study.hash, kind)
                messages.append((other.folder.name, kind, told))
                take_note(other, self.study.hash, kind, told)
            for place in self.places:
                advance(place, self.study.hash)
            after(kind)
        return messages

    def state(self, number: int) -> str:
        return str(self.places[number].find(self.study.hash)["state"])

    def close(self) -> None:
        for place in self.places:
            place.close()


def votes(number: int) -> np.ndarray:
    """Made-up counts of one site: rows sum to its teachers."""
    rng = np.random.default_rng(number)
    return rng.multinomial(TEACHERS, np.ones(CLASSES) / CLASSES, QUERIES).astype(np.int64)
