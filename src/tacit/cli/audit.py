"""`tacit audit`: try to refute a claim, by canaries, by many releases, or by a finished model."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tacit._files import write_atomically
from tacit._progress import at_work
from tacit.cli.options import given, parse_mechanism, refuse_given, writable
from tacit.cli.show import Result, errors, print_table, screen
from tacit.errors import InvalidArgument

if TYPE_CHECKING:
    from tacit.audit import AuditResult, Examination, Finding
    from tacit.mechanisms import Mechanism

CONTRADICTED = 5
"""Exit code of an audit that refutes the claim."""
_PASS = (
    "The audit did not refute the claim. That proves nothing: a better attack, more canaries or "
    "more trials might."
)
_FAIL = "The audit CONTRADICTS the claim: something is wrong. Do not publish."

_NO_COINS = (
    "No coins were tossed: members and others may differ for reasons of their own, and nothing is "
    "proved about epsilon, either way."
)


def audit(
    config: Path | None = None,
    *,
    mechanism: str | None = None,
    canaries: int | None = None,
    kind: str | None = None,
    members: str | None = None,
    others: str | None = None,
    tossed: bool = False,
    secret: bool = False,
    out: Path | None = None,
    trials: int | None = None,
    error: float | None = None,
    seed: int | None = None,
) -> Result:
    """Try to refute what a run or a mechanism claims. A pass proves nothing.

    A run: canary records are planted by the toss of a coin, the model is trained, and the coins are
    guessed from what it releases. It trains on your private records under a ledger of its own: that
    is a second release of them, with a cost of its own, so prefer records that are no secret.

    Exit code 0: not refuted. Exit code 5: the claim is contradicted.

    Example: tacit audit run.toml --canaries 200 --out audits/first

    Example: tacit audit runs/first --members in.csv --others out.csv --secret --out found.md

    Example: tacit audit --mechanism gnmax:sigma=40

    Example: tacit audit --mechanism confident-gnmax:threshold=200,sigma_check=150,sigma_answer=40

    config: A run's configuration, TOML; or the directory of a finished run.
    mechanism: Audit a mechanism instead: NAME:KEY=VALUE,... for example gnmax:sigma=40.
        Names: MECHANISMS.
    canaries: How many canaries; 200 by default.
    kind: mislabelled (inputs with wrong labels; default) or strange inputs.
    members: Labelled rows that were in the data of a finished run, e.g. in.csv.
    others: Labelled rows that were not, e.g. out.csv.
    tossed: A fair coin decided for each of these rows, before the training, whether it was in the
        data. Only then anything is proved about epsilon.
    secret: Yes, show quantities that must not be published.
    out: The audit's directory, with its ledger; must not exist. Of a finished run: one
        page (.md) or JSON, which only you can read.
    trials: Releases on each side, for --mechanism; 200,000 by default, fewer where one takes many
        numbers.
    error: Chance that an honest claim is contradicted: 0.05 for a run, 1e-6 for a mechanism by
        default.
    seed: Fix the canaries and their coins; never the noise.
    """
    if (config is None) == (mechanism is None):
        raise InvalidArgument("Expected a configuration to audit, or --mechanism; one of the two.")
    examined = {"members": members, "others": others, "tossed": tossed or None}
    examined |= {"secret": secret or None}
    if mechanism is not None:
        refuse_given("--mechanism", canaries=canaries, kind=kind, out=out, seed=seed, **examined)
        return _audit_mechanism(mechanism, trials=trials, confidence_delta=error)
    assert config is not None
    if config.is_dir():
        refuse_given("a finished run", canaries=canaries, kind=kind, trials=trials, seed=seed)
        if not secret:
            raise InvalidArgument(
                "Expected --secret: this shows quantities that depend on private rows and may "
                "never be published."
            )
        return _examine(config, members, others, tossed, out, error)
    refuse_given("a configuration", trials=trials, **examined)
    if out is None:
        raise InvalidArgument("Expected --out, a new directory for the audit's ledger.")
    asked = given(canaries=canaries, kind=kind, confidence_delta=error, random_state=seed)
    return _audit_run(config, out, asked)


def _audit_mechanism(mechanism: str, **asked: Any) -> Result:
    from tacit.audit import audit_mechanism

    made = parse_mechanism(mechanism)
    _spends("This spends nothing: the answers are made up.")
    with at_work("Releasing made-up answers"):
        findings = audit_mechanism(made, **given(**asked))
    plain = {
        "mechanism": made.name,
        "parameters": asdict(made),  # type: ignore[call-overload]  # every mechanism is a dataclass
        "contradicts": any(each.contradicts for each in findings),
        "findings": [{**asdict(each), "contradicts": each.contradicts} for each in findings],
    }
    return _verdict(plain, lambda: _show_mechanism(made, findings))


def _audit_run(config: Path, out: Path, asked: dict[str, Any]) -> Result:
    from tacit.audit import audit_run
    from tacit.runs import RunConfig

    settings = RunConfig.read(config)
    privacy = settings.privacy
    _spends(
        f"This trains once more on the private records and spends up to epsilon = "
        f"{privacy.epsilon:g} at delta = {privacy.delta:g} of them, in a ledger of its own: "
        f"{out / 'run.ledger'}."
    )
    with at_work("Planting canaries, training, guessing the coins"):
        result = audit_run(settings, out, **asked)
    return _verdict({"folder": str(out), **result.as_dict()}, lambda: _show_run(result, out))


def _examine(
    run: Path,
    members: str | None,
    others: str | None,
    tossed: bool,
    out: Path | None,
    error: float | None,
) -> Result:
    """Examine the model of a finished run; what is found is secret."""
    from tacit.audit import examine_run

    if members is None or others is None:
        raise InvalidArgument("Expected --members and --others: rows in the data and rows not.")
    if out is not None:
        if run.resolve() in out.resolve().parents:
            raise InvalidArgument("Expected --out outside of the run, whose files are handed over.")
        writable(out)
    _spends("This trains nothing and spends nothing; what it shows is secret.")
    with at_work("Scoring the rows"):
        found = examine_run(run, members, others, tossed=tossed, **given(confidence_delta=error))
    plain = found.secret_dict()
    if out is not None:
        readable = out.suffix == ".md"
        text = _told(run, found) if readable else json.dumps({"secret": True, **plain}, indent=2)
        write_atomically(out, text.encode("utf-8"), mode=0o600)
    return _verdict(plain, lambda: _show_examination(found))


def _told(run: Path, found: Examination) -> str:
    """Return what was found, on one page for the person who asked. Secret."""
    rows = [*_scored(found), *_bounds(found)]
    return "\n".join(
        [
            "# Secret: what a model gives away about its training rows\n",
            "For you alone: it depends on private rows, and no ledger has paid for it. Publish "
            "neither a number of it nor its verdict.\n",
            f"Examined: `{run / 'student.tacit'}`, which belongs to its statement (epsilon = "
            f"{found.claim:g} at delta = {found.delta:g}, the worst case). Nothing was trained, "
            "and nothing was spent.\n",
            *("| what | |", "|---|---|", *(f"| {what} | {value} |" for what, value in rows)),
            f"\n**{_FAIL if found.contradicts else _PASS}**\n",
            *([] if found.guesses else [f"{_NO_COINS}\n"]),
        ]
    )


def _scored(found: Examination) -> list[tuple[str, str]]:
    return [
        ("rows in the data", str(found.members)),
        ("rows not in the data", str(found.others)),
        ("a member scores above an outsider", f"{found.advantage:.3f} +- {found.within:.3f}"),
        ("by guessing", "0.500"),
    ]


def _bounds(found: Examination) -> list[tuple[str, str]]:
    """Return epsilon as claimed and as proved; nothing is proved without coins."""
    if found.proved is None:
        return []
    sure = f"{1 - found.confidence_delta:.4g}"
    return [
        ("epsilon claimed, at most", f"{found.claim:.3f}"),
        (f"epsilon proved with confidence {sure}, at least", f"{found.proved:.3f}"),
    ]


def _spends(sentence: str) -> None:
    """Say, before anything starts, what it will cost."""
    errors().print(sentence, soft_wrap=True, highlight=False, markup=False)


def _show_examination(found: Examination) -> None:
    title = "SECRET: how well members are told from others"
    print_table(title, ("what", "share"), _scored(found))
    if found.proved is None:
        screen().print(_NO_COINS)
        return
    print_table(f"SECRET: epsilon at delta {found.delta:g}", ("what", "epsilon"), _bounds(found))


def _verdict(plain: dict[str, Any], show: Callable[[], None]) -> Result:
    """Return what is printed; the exit code tells whether the claim is contradicted."""
    verdict = _FAIL if plain["contradicts"] else _PASS

    def shown() -> None:
        show()
        screen().print(f"[bold red]{verdict}[/]" if plain["contradicts"] else verdict)

    ending = typer.Exit(CONTRADICTED) if plain["contradicts"] else None
    return Result({**plain, "verdict": verdict}, shown, ending)


def _show_mechanism(made: Mechanism, findings: list[Finding]) -> None:
    rows = []
    for each in findings:
        loss = f"Renyi, order {each.order:g}" if each.order else f"epsilon at delta {each.delta:g}"
        mark = "contradicts" if each.contradicts else ""
        rows.append((each.what, loss, f"{each.claim:.4g}", f"{each.proved:.4g}", mark))
    title = f"Audit of {made}, {findings[0].trials:,} releases on each side"
    print_table(title, ("looking at", "loss", "claimed", "proved", ""), rows)


def _show_run(result: AuditResult, out: Path) -> None:
    print_table(
        f"Audit with {result.canaries} canaries",
        ("seen", "guessed", "right", "proved"),
        [(g.seen, str(g.guessed), str(g.right), f"{g.proved:.3f}") for g in result.guesses],
    )
    sure = f"{1 - result.confidence_delta:.4g}"
    numbers = {
        "claimed, at most": result.claim,
        f"proved with confidence {sure}, at least": result.proved,
        "so many canaries could prove, at most": result.provable,
    }
    rows = [(what, f"{epsilon:.3f}") for what, epsilon in numbers.items()]
    print_table(f"Epsilon at delta {result.delta:g}", ("what", "epsilon"), rows)
    screen().print(f"Ledger of this audit, which also spent: {out / 'run.ledger'}")
