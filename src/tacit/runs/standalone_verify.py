"""Check a packaged model: `python verify.py [FOLDER] [--head HEAD] [--signers FILE]`.

Needs Python 3.9 or later, nothing else; tacit need not be installed. It checks that
1. every file is the one that the manifest names,
2. the ledger (ledger.jsonl) is one unbroken chain of hashes whose costs add up,
3. the run's last seal, an entry of that chain, lists the hash of every file; report and model card
   show the hash of that entry, the run's head, and are hashed with zeros for its digits,
4. the statement is of that moment, and claims no less than the costs up to it prove.

For Gaussian noise epsilon is computed again from mu^2: it is where Phi(mu/2 - epsilon/mu) -
e^epsilon Phi(-mu/2 - epsilon/mu) meets the ledger's delta. For other accountants only the sums are
checked. Other sentences of the statement are compared as a file: only `tacit verify` derives them.

Hashes show changes, not lies: whoever wrote everything can write everything anew, this program
included. What shows that is the head, if it reached you in another way (--head), or a signature of
the manifest by a key that you know: with OpenSSH, --signers FILE (in the format of ssh-keygen's
allowed signers) checks it, or by hand

    ssh-keygen -Y verify -f FILE -I NAME -n tacit-package -s manifest.json.sig < manifest.json

Run a copy of this program that did not come with the archive, if you have one.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import shutil
import subprocess
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

FORMAT, MANIFEST, NAMESPACE = "tacit-package/2", "manifest.json", "tacit-package"
SCHEMA = "8d7933dd1a8acb40fcafbd1111e6bb058909d637f390bbd4576bbe907f9c5854"
"""SHA-256 of the JSON Schema of statements, which no run lists."""
FREE = ("publication", "began", "value", "seal")
PAID = ("release", "charge")
ACCOUNTANTS = ("gaussian", "rdp", "fixed")
NOISE = ("exact", "csprng", "insecure-seeded")
SHOW_HEAD = ("report.html", "MODEL_CARD.md")
REWRITTEN = (*SHOW_HEAD, "statement.json", "report.json")
STAY = ("config.toml", "report.json", "released.npz")
STAY_IN = ("releases/", "evaluation/", "released/")
"""What a run lists and does not hand over."""
BESIDE = ("ledger.jsonl", "verify.py", "statement.schema.json")
NO_HEAD = "0" * 64
CHECKED = ("threshold", "sigma_check", "sigma_answer")
KNOWN = {  # mechanisms whose price is a short formula, and the parameters that it was made for
    "gnmax": ("sigma", "votes_per_unit"),
    "noisy-votes": ("sigma", "votes_per_unit"),
    "confident-gnmax": CHECKED,
    "interactive-gnmax": (*CHECKED, "confidence"),
    "noisy-sum": ("sigma", "rows", "columns"),
    "noisy-second-moment": ("sigma", "dimension", "radius"),
    "score-histogram": ("sigma", "classes", "bins"),
}
DAMAGE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
TOLERANCE = 1e-9  # relative: what two ways of computing the same may differ by


def main(folder: str | Path, head: str | None = None, signers: str | None = None) -> int:
    """Print each check; return 0 if everything holds, 1 if something does not."""
    folder = Path(folder)
    outcomes: list[tuple[bool, str]] = []
    for check, given in (
        (check_manifest, ()),
        (check_chain, ()),
        (check_files, ()),
        (check_statement, ()),
        (check_head, (head,)),
        (check_signature, (signers,)),
    ):
        try:
            said = list(check(folder, *given))
            outcomes += [(True, text) for text in said]
        except FileNotFoundError as error:
            outcomes.append((False, f"{Path(str(error.filename)).name} is missing"))
        except (*DAMAGE, OSError) as error:
            outcomes.append((False, f"{check.__name__.replace('check_', '')}: {error}"))
    for holds, text in outcomes:
        print("ok     " if holds else "FAILED ", text)
    return 0 if all(holds for holds, _ in outcomes) else 1


def sha256(data: bytes) -> str:
    """Return the hash of bytes, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def file_sha256(path: Path, head: str = "") -> str:
    """Return the hash of a file; of one that shows the head, with zeros for its digits."""
    if head and path.name in SHOW_HEAD:
        data = path.read_bytes()
        require(NO_HEAD.encode() not in data, f"{path.name} shows zeros for the head")
        return sha256(data.replace(head.encode(), NO_HEAD.encode()))
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def loads(text: str) -> Any:
    """Read JSON without repeated keys, NaN or infinities."""
    return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_once)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({name for name, _ in pairs}) != len(pairs):
        raise ValueError("something is said twice")
    return dict(pairs)


def require(holds: bool, what: str) -> None:
    """Raise unless it holds."""
    if not holds:
        raise ValueError(what)


def check_manifest(folder: Path) -> Iterator[str]:
    """Compare every file with the manifest."""
    manifest = read_manifest(folder)
    lacking = sorted(set(BESIDE) - set(manifest["files"]))
    require(not lacking, f"it does not name {', '.join(lacking)}")
    for name, known in sorted(manifest["files"].items()):
        plain = Path(name).name == name and not (folder / name).is_symlink()
        require(plain, f"{name} is no plain file of this folder")
        require(file_sha256(folder / name) == known, f"{name} is not the file that it names")
    strange = {path.name for path in folder.iterdir()} - {*manifest["files"], MANIFEST}
    strange -= {"__pycache__", f"{MANIFEST}.sig"}
    require(not strange, f"it does not name {', '.join(sorted(strange))}")
    yield f"manifest: {len(manifest['files'])} files are as they were packaged"


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest, which must have these four keys and no other."""
    manifest: dict[str, Any] = loads((folder / MANIFEST).read_text(encoding="utf-8"))
    known = {"format", "run", "head", "files"}
    other = sorted(known ^ set(manifest)) or ["format"]
    fits = set(manifest) == known and manifest["format"] == FORMAT
    require(fits, f"{MANIFEST} has another {other[0]} than this program reads")
    return manifest


def read_chain(folder: Path) -> tuple[dict[str, Any], list[dict[str, Any]], list[str]]:
    """Return header, entries and hashes; raise where a line does not follow on the one before."""
    texts = (folder / "ledger.jsonl").read_text(encoding="utf-8").splitlines()
    header, hashes = loads(texts[0]), [sha256(texts[0].encode("utf-8"))]
    delta, reserved = header["delta"], header.get("reserved_delta", 0.0)
    require(0 <= reserved < delta < 1, "the header's deltas are no deltas")
    require(header["accountant"] in ACCOUNTANTS, "the header names no known accountant")
    require(header["accountant"] != "rdp" or header["order"] > 1, "the header's order is none")
    entries, cost, confidence = [], Fraction(0), Fraction(0)
    for place, text in enumerate(texts[1:], start=1):
        entry = loads(text)
        kind = entry.get("kind", "release")
        require(kind in (*PAID, *FREE), f"entry {place} is of an unknown kind")
        require(kind in PAID or not entry["plan"], f"entry {place} has a plan and no price")
        if entry["previous"] != hashes[-1] or entry["sequence"] != place:
            raise ValueError(f"entry {place} does not follow on the one before it")
        price, delta = Fraction(entry["cost"]), Fraction(entry.get("confidence_delta", 0.0))
        if min(price, delta) < 0 or (entry.get("kind") in FREE and price + delta > 0):
            raise ValueError(f"entry {place} has a price that no entry of its kind has")
        cost, confidence = cost + price, confidence + delta
        totals = entry.get("totals")
        if totals and (exact(totals["cost"]), exact(totals["confidence_delta"])) != (
            cost,
            confidence,
        ):
            raise ValueError(f"the costs up to entry {place} do not add up to its totals")
        entries.append(entry)
        hashes.append(sha256(text.encode("utf-8")))
    return header, entries, hashes


def exact(text: str) -> Fraction:
    """Read "0x1ap-4", a hexadecimal whole number times a power of two."""
    digits, power = text.split("p")
    return int(digits, 16) * Fraction(2) ** int(power)


def check_chain(folder: Path) -> Iterator[str]:
    """Check hashes, sequence and sums of the ledger."""
    _, entries, _ = read_chain(folder)
    yield f"ledger: {len(entries)} entries in one chain"


def check_statement(folder: Path) -> Iterator[str]:
    """Check that the statement claims no less than the ledger proves."""
    header, entries, _ = read_chain(folder)
    said = loads((folder / "statement.json").read_text(encoding="utf-8"))
    counted = isinstance(said["entries"], int) and 0 <= said["entries"] <= len(entries)
    require(counted, "it counts other entries than the ledger has")
    covered = entries[: said["entries"]]
    for name in ("delta", "unit", "dataset"):
        require(said[name] == header[name], f"it names another {name} than the ledger")
    budget = {"epsilon": header["epsilon"], "delta": header["delta"]}
    require(said["budget"] == budget, "it names another budget than the ledger")
    drawn = [entry["noise"] for entry in covered if entry["noise"]]
    weakest = max(drawn, key=NOISE.index, default="exact")
    require(said["noise"] == weakest, "it names another noise than the ledger")
    faults = {fault for entry in covered for fault in entry.get("faults", [])}
    if missing := sorted(faults - set(said["warnings"])):
        raise ValueError(f"it leaves out a warning of the ledger: {missing[0]}")
    yield f"statement: about this ledger at entry {len(covered)}, with what its entries confess"
    claim = said["epsilon"] if said["kind"] == "worst-case" else said["worst_case_epsilon"]
    require(claim >= 0, "its epsilon is none")
    yield from check_claim(claim, header, [e for e in covered if e.get("kind") not in FREE])


def check_claim(claim: float, header: dict[str, Any], paid: list[dict[str, Any]]) -> Iterator[str]:
    """Check epsilon against the costs, as far as the accountant can be followed here."""
    total = sum((Fraction(entry["cost"]) for entry in paid), Fraction(0))
    delta = header["delta"] - header.get("reserved_delta", 0.0)
    accountant = header["accountant"]
    if not paid:
        yield "claim: nothing was released"
    elif accountant == "gaussian":
        if not holds(claim, math.sqrt(total), delta):
            raise ValueError(f"mu^2 = {float(total):.6g} does not prove epsilon = {claim!r}")
        yield f"claim: mu^2 = {float(total):.6g} proves epsilon = {claim:.6g} at delta = {delta:g}"
        yield from check_prices(paid)
    elif accountant == "rdp":
        order = header["order"]
        term = math.log((order - 1) / order) - (math.log(delta) + math.log(order)) / (order - 1)
        if not claim >= (float(total) + term) * (1 - TOLERANCE):
            raise ValueError(f"the sum at order {order:g} does not prove epsilon = {claim!r}")
        yield f"claim: the sum at order {order:g} proves epsilon = {claim:.6g}"
        yield "the price of each entry was NOT computed again: that needs tacit"
    else:
        if not claim >= float(total) * (1 - TOLERANCE):
            raise ValueError(f"the list's price is more than epsilon = {claim!r}")
        yield f"claim: epsilon = {claim:.6g} is the price of the list in the header"
        yield "the price of the list was NOT computed again: that needs tacit"


def check_prices(paid: list[dict[str, Any]]) -> Iterator[str]:
    """Compute mu^2 again for the mechanisms whose formula is short."""
    others = []
    for entry in paid:
        again = mu_squared(entry["plan"])
        if again is None:
            others.append(str(entry["sequence"]))
        elif not entry["cost"] >= again * (1 - TOLERANCE):
            raise ValueError(f"entry {entry['sequence']} costs {again!r}, and says less")
    if others:
        yield f"the price of entries {', '.join(others)} was NOT computed again: that needs tacit"
    else:
        yield "claim: the price of every entry was computed again from its plan"


def mu_squared(plan: dict[str, Any]) -> float | None:
    """Return (sensitivity/sigma)^2 over all queries of a plan; None where it is unknown here.

    An unknown parameter may raise the price: such a plan is unknown, too.
    """
    name, given, queries = plan["mechanism"], plan["parameters"], int(plan["queries"])
    require(queries >= 1 and (plan["max_answers"] or 0) >= 0, "a plan asks nothing")
    deviations = [value for key, value in given.items() if key.startswith("sigma")]
    require(all(value > 0 for value in deviations), "a plan has no noise")
    if not set(given) <= set(KNOWN.get(name, ())):
        return None
    if name in ("gnmax", "noisy-votes"):
        votes = float(given.get("votes_per_unit", 1))
        require(votes >= 1, "a unit has no vote")
        return 2 * queries * votes**2 / float(given["sigma"]) ** 2
    if name in ("confident-gnmax", "interactive-gnmax"):
        answers = queries if plan["max_answers"] is None else min(queries, plan["max_answers"])
        check, answer = float(given["sigma_check"]), float(given["sigma_answer"])
        return queries / check**2 + 2 * answers / answer**2
    return queries / float(given["sigma"]) ** 2


def holds(epsilon: float, mu: float, delta: float) -> bool:
    """Whether one Gaussian release at distance mu is (epsilon, delta)-private."""
    first = log_phi(mu / 2 - epsilon / mu)
    second = epsilon + log_phi(-mu / 2 - epsilon / mu)
    return math.exp(first) * -math.expm1(second - first) <= delta * (1 + 1e-6)


def log_phi(x: float) -> float:
    """Return the logarithm of the normal distribution function, accurate in its tail."""
    if x > -8:
        return math.log(math.erfc(-x / math.sqrt(2)) / 2)
    fraction = -x  # of Mills' ratio, as a continued fraction from its end
    for term in range(60, 0, -1):
        fraction = -x + term / fraction
    return -x * x / 2 - math.log(2 * math.pi) / 2 - math.log(fraction)


def sealed(folder: Path) -> tuple[dict[str, Any], str]:
    """Return the run's last seal, and its hash: the run's head."""
    _, entries, hashes = read_chain(folder)
    run = read_manifest(folder)["run"]
    mine = [e for e in entries if e.get("kind") == "seal" and e["about"]["run"] == run]
    require(bool(mine), "the ledger does not seal this run: it was cut short, or is another's")
    return mine[-1], hashes[mine[-1]["sequence"]]


def check_files(folder: Path) -> Iterator[str]:
    """Compare every file with the run's seal."""
    seal, head = sealed(folder)
    said = loads((folder / "statement.json").read_text(encoding="utf-8"))
    listed = seal["about"]["files"]
    for name, known in sorted(listed.items()):
        if (folder / name).exists():
            same = file_sha256(folder / name, head) == known
            require(same, f"{name} is not what the ledger says was published")
        else:
            stays = name in STAY or name.startswith(STAY_IN)
            require(stays, f"{name} is missing, though the ledger says it was published")
    for name in SHOW_HEAD:
        shows = head.encode() in (folder / name).read_bytes()
        require(shows, f"{name} does not show the run's head, {head}")
    strange = {path.name for path in folder.iterdir() if path.is_file()} - {*listed, *BESIDE}
    strange -= {MANIFEST, f"{MANIFEST}.sig"}
    require(not strange, f"the ledger lists no {', '.join(sorted(strange))}")
    require(said["entries"] == seal["sequence"], "statement.json is not of the seal's moment")
    require(read_manifest(folder)["head"] == head, f"{MANIFEST} names another head than {head}")
    schema = file_sha256(folder / "statement.schema.json") == SCHEMA
    require(schema, "statement.schema.json is not the schema that this program knows")
    yield f"published: every file is as entry {seal['sequence']} lists it, the run's seal"
    yield f"the run's head is {head}: compare it with the one that you keep"


def check_head(folder: Path, head: str | None) -> Iterator[str]:
    """Compare with a head that reached the reader in another way."""
    if head is None:
        return
    seal, newest = sealed(folder)
    _, entries, hashes = read_chain(folder)
    held = head in hashes[1:]
    require(held, "it is not the one given: ledger and files were written anew, or are another's")
    if head == newest:
        yield "head: it is the one that was given"
        return
    run, then = seal["about"]["run"], entries[hashes.index(head) - 1]
    listed = then["about"].get("files", {}) if then["about"].get("run") == run else {}
    for entry in entries[: then["sequence"]] if then.get("kind") != "seal" else []:
        if entry.get("kind") == "publication":  # as 0.2 noted files, one by one
            listed[entry["purpose"].replace(f"publish {run}", "", 1)] = entry["about"]["sha256"]
    require(bool(listed), "the one given is not the head of this run")
    yield f"head: the one that was given is older; by now it is {newest}"
    for name, known in sorted(listed.items()):
        path = folder / name
        if not path.exists() or file_sha256(path, newest) == known:
            continue
        require(name in REWRITTEN, f"{name} is another file than the one under the head given")
        yield f"head: {name} was written anew since: the head that was given is not about it"


def check_signature(folder: Path, signers: str | None) -> Iterator[str]:
    """Check the signature of the manifest with OpenSSH."""
    signature = folder / f"{MANIFEST}.sig"
    if not signature.exists():
        require(signers is None, "there is none: nobody signed this archive")
        return
    if shutil.which("ssh-keygen") is None:
        require(signers is None, "ssh-keygen, of OpenSSH, is not installed here")
        yield "signature: NOT checked: that needs ssh-keygen, of OpenSSH"
        return
    if signers is None:
        said = ssh_keygen(folder, "check-novalidate")
        yield f"signature: {said}; whose key that is was NOT checked: give --signers FILE"
        return
    name = ssh_keygen(folder, "find-principals", "-f", signers).split()[0].split(",")[0]
    yield f"signature: {ssh_keygen(folder, 'verify', '-f', signers, '-I', name)}"


def ssh_keygen(folder: Path, what: str, *more: str) -> str:
    """Run ssh-keygen on the manifest and its signature; raise its message if it refuses."""
    place = folder.resolve() / f"{MANIFEST}.sig"
    command = ["ssh-keygen", "-Y", what, "-n", NAMESPACE, "-s", str(place), *more]
    manifest = (folder / MANIFEST).read_bytes()
    done = subprocess.run(command, input=manifest, capture_output=True, check=False)
    said = " ".join((done.stdout + done.stderr).decode("utf-8", "replace").split())
    require(done.returncode == 0, f"ssh-keygen says: {said}")
    return said


def parsed(arguments: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Check a packaged model.")
    parser.add_argument("folder", nargs="?", default=str(Path(__file__).parent))
    parser.add_argument("--head", help="the run's head, as it reached you in another way")
    parser.add_argument("--signers", help="a file of OpenSSH's allowed signers")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    asked = parsed(sys.argv[1:])
    sys.exit(main(asked.folder, asked.head, asked.signers))
