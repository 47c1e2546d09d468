"""Check a packaged model: `python verify.py [FOLDER]`.

Needs Python 3.9 or later, nothing else; tacit need not be installed. It checks that
1. every file is the one that the manifest names,
2. the ledger (ledger.jsonl) is one unbroken chain of hashes whose costs add up,
3. the statement names an entry of that chain and claims no less than the costs up to it prove,
4. model, statement, metrics and report are those that the ledger says were published.

For a ledger of Gaussian noise the claim itself is computed again: mu^2 adds, and epsilon is where

    Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu)

meets the ledger's delta. For other accountants the sums are checked, and the output says that the
price was not computed again.

Hashes show changes, not lies: whoever wrote the ledger could have written another one. Compare the
head that the statement names with one that you received in another way, in a signed letter for
example: it covers the model's hash, too.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

FREE = ("publication", "began")
PAID = ("release", "charge")
ACCOUNTANTS = ("gaussian", "rdp", "fixed")
NOISE = ("exact", "csprng", "insecure-seeded")
PUBLISHED = (
    *("student.tacit", "model.onnx", "metrics.json", "report.html"),
    *("evaluation.json", "evaluation.html"),
)
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
TOLERANCE = 1e-9  # relative: what two ways of computing the same may differ by


def main(folder: str | Path) -> int:
    """Print what was checked; return 0 if everything holds, 1 if something does not."""
    folder = Path(folder)
    outcomes = []
    for check in (check_manifest, check_chain, check_statement, check_files):
        try:
            outcomes += [(True, text) for text in check(folder)]
        except FileNotFoundError as error:
            outcomes.append((False, f"{Path(str(error.filename)).name} is missing"))
        except (ArithmeticError, AttributeError, KeyError, OSError, TypeError, ValueError) as error:
            outcomes.append((False, f"{check.__name__.replace('check_', '')}: {error}"))
    for holds, text in outcomes:
        print("ok     " if holds else "FAILED ", text)
    return 0 if all(holds for holds, _ in outcomes) else 1


def sha256(data: bytes) -> str:
    """Return the hash of bytes, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def file_sha256(path: Path) -> str:
    """Return the hash of a file, of which a little is in memory at a time."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def loads(text: str) -> Any:
    """Read JSON that says each thing once, in numbers that are numbers."""
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
    manifest = loads((folder / "manifest.json").read_text(encoding="utf-8"))
    for name, known in sorted(manifest["files"].items()):
        plain = Path(name).name == name and not (folder / name).is_symlink()
        require(plain, f"{name} is no plain file of this folder")
        if file_sha256(folder / name) != known:
            raise ValueError(f"{name} is not the file that the manifest names")
    strange = {path.name for path in folder.iterdir()} - {*manifest["files"], "manifest.json"}
    strange.discard("__pycache__")
    if strange:
        raise ValueError(f"the manifest does not name {', '.join(sorted(strange))}")
    yield f"manifest: {len(manifest['files'])} files are as they were packaged"
    yield "the model card and the schema are not bound by the ledger: believe the statement"


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
    header, entries, hashes = read_chain(folder)
    said = loads((folder / "statement.json").read_text(encoding="utf-8"))
    if said["head"] not in hashes:
        raise ValueError("it names an entry that this ledger does not have: it is another's")
    covered = entries[: hashes.index(said["head"])]
    if said["entries"] != len(covered):
        raise ValueError("it counts other entries than the ledger has up to the one it names")
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
    yield f"statement: its head is {said['head']}: compare it with one that you keep"
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
    """Return (sensitivity/sigma)^2 over all queries of a plan; None where it is not known here.

    A parameter that this file does not know may raise the price: such a plan is not known, either.
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
    """Tell whether one Gaussian release at distance mu is (epsilon, delta)-private."""
    first = log_phi(mu / 2 - epsilon / mu)
    second = epsilon + log_phi(-mu / 2 - epsilon / mu)
    return math.exp(first) * -math.expm1(second - first) <= delta * (1 + 1e-6)


def log_phi(x: float) -> float:
    """Return the logarithm of the normal distribution function, far out in its tail, too."""
    if x > -8:
        return math.log(math.erfc(-x / math.sqrt(2)) / 2)
    fraction = -x  # of Mills' ratio, as a continued fraction from its end
    for term in range(60, 0, -1):
        fraction = -x + term / fraction
    return -x * x / 2 - math.log(2 * math.pi) / 2 - math.log(fraction)


def check_files(folder: Path) -> Iterator[str]:
    """Check that the ledger knows the hash of everything that was published.

    Model, metrics and report must be what was noted last before the statement's head; the hash of
    the statement itself is noted behind it.
    """
    _, entries, hashes = read_chain(folder)
    said = loads((folder / "statement.json").read_text(encoding="utf-8"))
    manifest = loads((folder / "manifest.json").read_text(encoding="utf-8"))
    before = manifest.get("noted_as", "")  # tells this run from others on a ledger that they share
    at = hashes.index(said["head"])
    for name, noted in [
        *((name, entries[:at]) for name in PUBLISHED),
        ("statement.json", entries[at:]),
    ]:
        known = [e["about"]["sha256"] for e in noted if e["purpose"] == f"publish {before}{name}"]
        newest = known[:1] if name == "statement.json" else known[-1:]
        path = folder / name
        if path.exists():
            same = [file_sha256(path)] == newest
            require(same, f"{name} is not what the ledger says was published")
        else:
            require(not known, f"{name} is missing, though the ledger says it was published")
    yield "published: model, statement and report are those that the ledger names"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent))
