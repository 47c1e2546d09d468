"""`tacit study`: a coordinator's studies, from keys to a release that others can check."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from tacit._files import write_atomically
from tacit.cli import Result, errors, parse_mechanism, print_table, text_of, writable
from tacit.errors import InvalidArgument, NotYet, Refused

if TYPE_CHECKING:
    from tacit_federation.aggregator import Aggregator
    from tacit_federation.coordinator import Coordinator
    from tacit_federation.study import Server, Study

HERE = Path("coordinator")
_HOUR = 3600


def opened(folder: Path) -> Coordinator:
    """Open a coordinator's folder."""
    from tacit_federation.coordinator import Coordinator

    if not (folder / "federation.toml").is_file():
        raise InvalidArgument(
            f"Expected a coordinator's folder at {str(folder)!r}; `tacit study init` makes one."
        )
    return Coordinator(folder)


def init(
    *,
    name: str,
    url: str,
    epsilon: float,
    delta: float,
    unit: str = "patient",
    hosts: str = "",
    listen: str = "0.0.0.0",
    port: int = 8443,
    enrol_port: int = 8442,
    console_port: int = 8444,
    folder: Path = HERE,
) -> Result:
    """Make a coordinator: keys, its own authority, an empty ledger, federation.toml.

    Example: tacit study init --name "University" --url https://tacit.example.org:8443
    --epsilon 4 --delta 1e-6

    name: What people call this organisation.
    url: Where sites reach it.
    epsilon: The most that all studies may cost together.
    delta: Delta of that budget.
    unit: Whose privacy the ledger counts.
    hosts: Further names or addresses of the server, with commas.
    listen: The address to listen on.
    port: Port for members.
    enrol_port: Port for enrolment.
    console_port: Port of the console, on this machine only.
    folder: The coordinator's folder.
    """
    from tacit.ledger import Budget
    from tacit_federation.coordinator import Coordinator
    from tacit_federation.settings import ServerSettings

    settings = ServerSettings(
        name,
        url,
        host=listen,
        port=port,
        enrol_port=enrol_port,
        console_port=console_port,
    )
    names, budget = names_of(url, hosts), Budget(epsilon, delta)
    made = Coordinator.create(folder, settings, hosts=names, budget=budget, unit=unit)
    return Result(
        {"folder": str(folder), "officers": made.officers, "key": made.key.public},
        f"{folder}: keys, ledger and federation.toml. Keep officer.key where the officer signs; "
        "next: tacit coordinator serve",
    )


def hand_over(place: Coordinator | Aggregator, name: str, role: str, out: Path | None) -> Result:
    """Print an invitation, or write it for its owner's eyes only."""
    writable(out)
    text = place.invite(name, role)
    if out is None:
        return Result({"invitation": text}, text)
    write_atomically(out, (text + "\n").encode(), 0o600)
    return Result({"file": str(out)}, f"Invitation for {name}: {out}")


def names_of(url: str, hosts: str) -> list[str]:
    """Return the names and addresses for which a server's certificate is made."""
    own = url.removeprefix("https://").rpartition(":")[0] or url.removeprefix("https://")
    return [own, *(each.strip() for each in hosts.split(",") if each.strip())]


def _aggregators(first: Path | None, second: Path | None) -> list[Server]:
    """Read what two aggregators wrote about themselves, or neither."""
    from tacit_federation.study import AGGREGATORS, Server

    if (first is None) != (second is None):
        raise InvalidArgument("Expected --first and --second: two aggregators, or none.")
    found = []
    for role, path in zip(AGGREGATORS, (first, second), strict=True):
        if path is None:
            continue
        try:
            server = Server(**json.loads(path.read_text(encoding="utf-8")))
        except (OSError, TypeError, ValueError):
            raise InvalidArgument(
                f"Expected {str(path)!r} to be what `tacit aggregator describe` wrote."
            ) from None
        if server.role != role:
            raise InvalidArgument(f"Expected {str(path)!r} to describe the {role} aggregator.")
        found.append(server)
    return found


def _counted(teachers: str) -> dict[str, int] | int:
    """Read "3", or "hospital-a=3,hospital-b=2"."""
    try:
        if "=" not in teachers:
            return int(teachers)
        pairs = (each.split("=") for each in teachers.split(","))
        return {name.strip(): int(count) for name, count in pairs}
    except ValueError:
        raise InvalidArgument(
            f"Expected --teachers={teachers!r} to be a number, or SITE=NUMBER with commas."
        ) from None


def new(
    *,
    title: str,
    purpose: str,
    inputs: Path,
    classes: int | None = None,
    mechanism: str = "",
    codec: Path | None = None,
    epsilon: float | None = None,
    teachers: str = "1",
    quorum_sites: int,
    quorum_teachers: int | None = None,
    hours: float = 72.0,
    slot_seconds: int = 60,
    extend_hours: float | None = None,
    unit: str = "patient",
    overlap: int = 1,
    first: Path | None = None,
    second: Path | None = None,
    folder: Path = HERE,
) -> Result:
    """Draft a study: which inputs, which sites, which mechanism, until when.

    Example: tacit study new --title "Scans" --purpose "label scans" --inputs public.npy --classes 3
    --mechanism noisy-votes:sigma=40 --teachers 5 --quorum-sites 8. Masks: --inputs scans.npy
    --codec organ.codec --epsilon 1 in place of classes and mechanism.

    title: In a line, for people.
    purpose: What the release is for, in a line.
    inputs: Public inputs, .npy, one row a query.
    classes: Number of classes, where answers are votes.
    mechanism: What is released: noisy-votes, gnmax, lnmax or confident-gnmax, as
    NAME:KEY=VALUE,...; shared-votes with two aggregators.
    codec: Where answers are masks: the public codec that `tacit study codec` wrote; pinned.
    epsilon: What a study of masks may cost one unit, at the ledger's delta.
    teachers: How many teachers each site has: a number, or SITE=NUMBER with commas.
    quorum_sites: How many sites must answer.
    quorum_teachers: How many teachers those must have; as many as sites by default.
    hours: How long sites have, from now on.
    slot_seconds: Sending times are multiples of it.
    extend_hours: Hours more, if and only if the quorum is missed.
    unit: Whose privacy; "site" protects all records of a site at once.
    overlap: At how many sites one patient may be.
    first: What the first of two aggregators wrote about itself: nobody need be trusted alone.
    second: The same of the second.
    folder: The coordinator's folder.
    """
    from tacit_federation.codes import slow_noise
    from tacit_federation.inputs import describe_inputs, inputs_file
    from tacit_federation.sealing import read_answers
    from tacit_federation.study import Window, new_document

    place = opened(folder)
    asked = read_answers(inputs)
    file = inputs_file(asked)
    sites, servers = place.sites(_counted(teachers)), _aggregators(first, second)
    if codec is None:
        about, frame = _votes(classes, mechanism, len(asked)), b""
    else:
        if classes is not None or mechanism or epsilon is None:
            raise InvalidArgument("Expected --codec with --epsilon, without classes or mechanism.")
        price = (epsilon, place.ledger.usable_delta)
        about, frame = _masks(codec, asked, sites, price, shared=bool(servers))
    opens = int(place.now())
    closes = opens + max(2 * slot_seconds, int(hours * _HOUR))
    later = () if extend_hours is None else (closes + int(extend_hours * _HOUR),)
    study = new_document(
        title=title,
        purpose=purpose,
        unit=unit,
        overlap=overlap,
        inputs=describe_inputs(file),
        **about,
        sites=sites,
        quorum={"sites": quorum_sites, "teachers": quorum_teachers or quorum_sites},
        window=Window(opens, closes, slot_seconds, later),
        servers=[place.server(), *servers],
    )
    place.add(study, file, frame)
    if slow := slow_noise(study):
        errors().print(escape(slow), soft_wrap=True)
    cost = study.plan.epsilon(place.ledger.usable_delta)
    return Result(
        {"study": study.hash, "epsilon": cost},
        f"Drafted {study.hash}\nepsilon {cost:.4g} for one {unit}; next: tacit study sign "
        f"{study.hash[:8]}",
    )


def _votes(classes: int | None, mechanism: str, queries: int) -> dict[str, Any]:
    """Return what a study of votes says of its answers."""
    from tacit.mechanisms import Plan

    if classes is None or not mechanism:
        raise InvalidArgument("Expected --classes and --mechanism for votes, or --codec for masks.")
    plan = Plan(parse_mechanism(mechanism), queries, n_classes=classes)
    return {"classes": classes, "plan": plan}


def _masks(
    codec: Path, scans: Any, sites: Any, price: tuple[float, float], *, shared: bool
) -> tuple[dict[str, Any], bytes]:
    """Return what a study of masks says of its answers, and its frame."""
    from tacit.masks import load_codec
    from tacit_federation.codes import codes_study

    sizes = {"n_teachers": sum(each.teachers for each in sites), "shared": shared}
    epsilon, delta = price
    plan, codes, frame = codes_study(
        load_codec(codec), scans, epsilon=epsilon, delta=delta, **sizes
    )
    return {"codes": codes, "plan": plan}, frame


def codec(masks: Path, *, out: Path, overwrite: bool = False) -> Result:
    """Fit the codec of a study of masks on public masks; hand the file to every site.

    Example: tacit study codec public-masks.npy --out organ.codec

    masks: Public masks of the organ, .npy, one mask a row, 0 or 1.
    out: Write the codec here: numbers, no code.
    """
    from tacit.masks import PCACodec, save_codec
    from tacit_federation.sealing import read_answers

    writable(out, overwrite=overwrite)
    fitted = PCACodec.fit(read_answers(masks))
    save_codec(fitted, out)
    told = f"{out}: {fitted.length} numbers for a mask of {fitted.shape}"
    return Result({"codec": str(out), "length": fitted.length}, told)


def sign(study: str, *, key: Path | None = None, folder: Path = HERE) -> Result:
    """Sign a drafted study, as its privacy officer.

    Example: tacit study sign 3f0a11c2

    study: The first eight digits of its hash, or more.
    key: The officer's key; officer.key in the coordinator's folder by default.
    folder: The coordinator's folder.
    """
    from tacit_federation.keys import SigningKey

    place = opened(folder)
    name = place.find(study)["hash"]
    place.sign(name, SigningKey.open(key or folder / "officer.key"))
    text = f"Signed {name}; next: tacit study open {name[:8]}"
    return Result({"study": name}, text)


def show(study: str = "", *, folder: Path = HERE) -> Result:
    """Show all studies, or who approved and answered one; never what they answered.

    Example: tacit study show 3f0a11c2

    study: The first eight digits of its hash; all studies if left out.
    folder: The coordinator's folder.
    """
    place = opened(folder)
    place.tick()
    if not study:
        return list_studies(place)
    row = place.find(study)
    name, state = row["hash"], row["state"]
    sites, agreed = place.presence(name), place.agreed(name)
    title = f"{name[:8]}: {state}"
    if agreed:
        title += f", signed by the {' and the '.join(agreed)} aggregator"
    rows = [_presence(*each) for each in sites.items()]
    return Result(
        {"study": name, "state": state, "aggregators": sorted(agreed), "sites": sites},
        lambda: print_table(title, ("site", "teachers", "decision", "answered"), rows),
    )


def list_studies(place: Coordinator | Aggregator, *more: str) -> Result:
    """Show all studies of a server, with these columns besides."""
    from tacit_federation.approval import moment
    from tacit_federation.study import Study

    found, keys = place.studies(), ("hash", "state", "closes", *more)
    plain = {"studies": [{key: row[key] for key in keys} for row in found]}
    titles = (escape(Study.read(row["text"]).title) for row in found)
    known = ([row[key] for key in (*more, "state")] for row in found)
    ends = ((moment(row["closes"]), row["hash"][:8]) for row in found)
    rows = [(title, *own, *end) for title, own, end in zip(titles, known, ends, strict=True)]
    columns = ("title", *more, "state", "closes", "study")
    return Result(plain, lambda: print_table("Studies", columns, rows))


def _presence(site: str, row: dict[str, Any]) -> tuple[str, ...]:
    answered = row["dropped"] or ("yes" if row["answered"] else "")
    return site, str(row["teachers"]), row["decision"] or "", answered


def _open(study: str, *, folder: Path = HERE) -> Result:
    """Show a signed study to its sites.

    Example: tacit study open 3f0a11c2

    study: The first eight digits of its hash, or more.
    folder: The coordinator's folder.
    """
    place = opened(folder)
    name = place.find(study)["hash"]
    place.open(name)
    return Result({"study": name}, f"Open: {name}")


def close(study: str, *, folder: Path = HERE) -> Result:
    """Close a study whose time has come; before that, exit code 6.

    Example: tacit study close 3f0a11c2

    study: The first eight digits of its hash, or more.
    folder: The coordinator's folder.
    """
    place = opened(folder)
    place.tick()
    row = place.find(study)
    if row["state"] in ("draft", "signed", "open"):
        raise NotYet(
            "Expected a study whose deadline has passed, or that all have answered: nobody else "
            "may end it."
        )
    return Result({"study": row["hash"], "state": row["state"]}, row["state"])


def end(study: str, *, folder: Path = HERE) -> Result:
    """End a study that was opened and not released: it is void, and its answers are deleted.

    Example: tacit study end 3f0a11c2

    study: The first eight digits of its hash, or more.
    folder: The coordinator's folder.
    """
    from tacit_federation.releasing import end_study

    place = opened(folder)
    end_study(place, study)
    text = "Ended: it is void, and answers to it are deleted. What sites paid stays charged."
    return Result({"study": place.find(study)["hash"]}, text)


def release(
    study: str,
    *,
    out: Path | None = None,
    csv: Path | None = None,
    masks: Path | None = None,
    codec: Path | None = None,
    report: Path | None = None,
    overwrite: bool = False,
    folder: Path = HERE,
) -> Result:
    """Release a closed study, once; asked again, the same. Exit code 6 before it has closed.

    Example: tacit study release 3f0a11c2 --csv labels.csv --report report.html

    study: The first eight digits of its hash, or more.
    out: Write the signed release here.
    csv: Write labels, noisy counts or codes here.
    masks: Write the soft masks of a study of masks here, .npy; needs --codec.
    codec: The codec that the study pins.
    folder: The coordinator's folder.
    """
    from tacit.report import write_report
    from tacit_federation.codes import released_masks
    from tacit_federation.inputs import inputs_file
    from tacit_federation.releasing import read_release, release_csv, release_study
    from tacit_federation.sealing import read_answers
    from tacit_federation.statements import notes_of
    from tacit_federation.study import Study

    writable(out, csv, report, masks, overwrite=overwrite)
    place = opened(folder)
    name = place.find(study)["hash"]
    read = Study.read(place.find(name)["text"])
    decoder = _pinned(read, masks, codec)
    stored = release_study(place, name)
    frame = place.frame_of(name)
    about = frame.read_bytes() if frame.exists() else None
    found = read_release(read, stored, about)
    if masks is not None and about is not None:
        soft = released_masks(read, found, decoder, read_answers(place.inputs_of(name)), about)
        write_atomically(masks, inputs_file(soft))
    if out is not None:
        write_atomically(out, stored)
    if csv is not None:
        write_atomically(csv, release_csv(found.release).encode())
    if report is not None:
        if not len(place.ledger):
            raise NotYet("Expected a release of this coordinator's: aggregators have the ledgers.")
        write_report(report, place.ledger, notes=notes_of(place.statement()))
    text = f"Released {name[:8]} over {len(found.survivors)} sites, {found.teachers} teachers."
    told = {"study": name, "sites": found.survivors, "teachers": found.teachers}
    if len(place.ledger):
        text += f"\n{escape(str(place.statement()))}"
    return Result({**told, "entry": found.release.entry}, text)


def _pinned(study: Study, masks: Path | None, codec: Path | None) -> Any:
    """Return the codec of a study of masks, checked before anything is released; None without."""
    from tacit.masks import load_codec
    from tacit_federation.codes import check_codec

    if masks is None and codec is None:
        return None
    if masks is None or codec is None or not study.codes:
        raise InvalidArgument("Expected --masks and --codec together, for a study of masks.")
    read = load_codec(codec)
    check_codec(study, read)
    return read


def verify(
    study: str,
    *,
    document: Path | None = None,
    file: Path | None = None,
    folder: Path = HERE,
) -> Result:
    """Check a release: who signed it, its quorum, the ledger entry that paid, the audit log.

    Example: tacit study verify 3f0a11c2

    study: The first eight digits of its hash, or more.
    document: The study's document, where there is no coordinator's folder.
    file: The signed release, with --document.
    folder: The coordinator's folder.
    """
    from tacit_federation.database import audit_lines
    from tacit_federation.releasing import read_release
    from tacit_federation.study import Study

    checks = ["signatures", "quorum"]
    if document is not None and file is not None:
        read = Study.read(text_of(document))
        if not read.hash.startswith(study) or len(study) < 8:
            raise Refused("Expected the document of this study: its hash is another.")
        found = read_release(read, file.read_bytes())
    else:
        place = opened(folder)
        row = place.find(study)
        if row["release"] is None:
            raise NotYet("Expected a study that was released.")
        read = Study.read(row["text"])
        frame = place.frame_of(read.hash)
        about = frame.read_bytes() if frame.exists() else None
        found = read_release(read, bytes(row["release"]), about)
        if read.mode == "coordinator":
            if found.release.entry not in {entry.hash for entry in place.ledger.entries()}:
                raise Refused("Expected the ledger to hold the entry that paid for this release.")
            checks.append("ledger entry")
        audit_lines(place.database)
        checks.append("audit log")
    told = {"study": read.hash, "verified": True, "checks": checks, "sites": found.survivors}
    return Result(told, f"Verified: {', '.join(checks)}.")


_open.__name__ = "open"
