"""`tacit audit`: try to refute a claim, by canaries in a whole run or by many releases."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tacit._progress import at_work
from tacit.cli.options import given, parse_mechanism, refuse_given
from tacit.cli.show import print_json, print_table, screen
from tacit.errors import InvalidArgument

if TYPE_CHECKING:
    from tacit.audit import AuditResult, Finding
    from tacit.mechanisms import Mechanism

CONTRADICTED = 5
"""Exit code of an audit that refutes the claim."""
_PASS = (
    "The audit did not refute the claim. That proves nothing: a better attack, more canaries or "
    "more trials might."
)
_FAIL = "The audit CONTRADICTS the claim: something is wrong. Do not publish."


def audit(
    config: Path | None = None,
    *,
    mechanism: str | None = None,
    canaries: int | None = None,
    kind: str | None = None,
    out: Path | None = None,
    trials: int | None = None,
    error: float | None = None,
    seed: int | None = None,
    as_json: bool = False,
) -> None:
    """Try to refute what a run or a mechanism claims. A pass proves nothing.

    A run: canary records are planted by the toss of a coin, the model is trained, and the coins are
    guessed from what it releases. It trains on your private records under a ledger of its own: that
    is a second release of them, with a cost of its own, so prefer records that are no secret.

    Exit code 0: not refuted. Exit code 5: the claim is contradicted.

    Example: tacit audit run.toml --canaries 200 --out audits/first

    Example: tacit audit --mechanism gnmax:sigma=40

    Example: tacit audit --mechanism confident-gnmax:threshold=200,sigma_check=150,sigma_answer=40

    config: A run's configuration, TOML.
    mechanism: Audit a mechanism instead: NAME:KEY=VALUE,... for example gnmax:sigma=40.
        Names: MECHANISMS.
    canaries: How many canaries; 200 by default.
    kind: mislabelled (inputs with wrong labels; default) or strange inputs.
    out: The audit's directory, with its ledger; must not exist.
    trials: Releases on each side, for --mechanism; 200,000 by default, fewer where one takes many
        numbers.
    error: Chance that an honest claim is contradicted: 0.05 for a run, 1e-6 for a mechanism by
        default.
    seed: Fix the canaries and their coins; never the noise.
    """
    from tacit.audit import audit_mechanism, audit_run
    from tacit.runs import RunConfig

    if (config is None) == (mechanism is None):
        raise InvalidArgument("Expected a configuration to audit, or --mechanism; one of the two.")
    if mechanism is not None:
        refuse_given("--mechanism", canaries=canaries, kind=kind, out=out, seed=seed)
        made = parse_mechanism(mechanism)
        with at_work("Releasing made-up answers"):
            findings = audit_mechanism(made, **given(trials=trials, confidence_delta=error))
        _end(_mechanism_plain(made, findings), lambda: _show_mechanism(made, findings), as_json)
        return
    refuse_given("a configuration", trials=trials)
    if config is None or out is None:
        raise InvalidArgument("Expected --out, a new directory for the audit's ledger.")
    settings = RunConfig.read(config)
    asked = given(canaries=canaries, kind=kind, confidence_delta=error, random_state=seed)
    with at_work("Planting canaries, training, guessing the coins"):
        result = audit_run(settings, out, **asked)
    _end({"folder": str(out), **result.as_dict()}, lambda: _show_run(result, out), as_json)


def _end(plain: dict[str, Any], show: Callable[[], None], as_json: bool) -> None:
    """Print the result; the exit code tells whether the claim is contradicted."""
    verdict = _FAIL if plain["contradicts"] else _PASS
    if as_json:
        print_json({**plain, "verdict": verdict})
    else:
        show()
        screen().print(f"[bold red]{verdict}[/]" if plain["contradicts"] else verdict)
    if plain["contradicts"]:
        raise typer.Exit(CONTRADICTED)


def _mechanism_plain(made: Mechanism, findings: list[Finding]) -> dict[str, Any]:
    return {
        "mechanism": made.name,
        "parameters": asdict(made),  # type: ignore[call-overload]  # every mechanism is a dataclass
        "contradicts": any(each.contradicts for each in findings),
        "findings": [{**asdict(each), "contradicts": each.contradicts} for each in findings],
    }


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
