"""Which ledger a run uses: its own, or one that all runs on the same data share.

A ledger in the run's own folder has a statement that covers this run alone. Runs that name one
ledger spend one budget: each at most its own epsilon, all together at most the ledger's. The first
release of a run identifies its notes there.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tacit.errors import InvalidArgument
from tacit.ledger import KeptReleases, Ledger, advisory
from tacit.methods import NewLedger
from tacit.runs.config import RunConfig

LEDGER, RELEASES, STUDENTS = "run.ledger", "releases", "students"
_DIGITS = 12


def ledger_for(config: RunConfig, folder: Path, dataset: str) -> Ledger | NewLedger:
    """Return the ledger that pays for a run, or the terms of its own new one in `folder`."""
    asked = config.privacy
    if not asked.ledger:
        large = asked.allow_large_delta
        return NewLedger(folder / LEDGER, dataset, allow_large_delta=large, one_run=True)
    path = Path(asked.ledger)
    if not path.is_file():
        raise InvalidArgument(
            f"Expected a ledger at {asked.ledger!r}, for all runs on these data; make it first: "
            f"tacit ledger create {asked.ledger} --epsilon 4 --delta {asked.delta:g}."
        )
    ledger = Ledger(path)
    _refuse_other_terms(ledger, config)
    return ledger


def _refuse_other_terms(ledger: Ledger, config: RunConfig) -> None:
    """Refuse a ledger whose terms contradict the configuration."""
    if ledger.accountant == "fixed":
        raise InvalidArgument(
            f"Expected a ledger for many runs, got {ledger.path!r} for one fixed list of plans; "
            "create one with accountant gaussian or rdp."
        )
    if config.privacy.delta != ledger.budget.delta:
        raise InvalidArgument(
            f"Expected delta={config.privacy.delta!r} in [privacy] to be the ledger's, "
            f"{ledger.budget.delta!r}: all runs are counted at that."
        )
    if config.privacy.allow_large_delta and not ledger.allow_large_delta:
        raise InvalidArgument(
            "Expected allow_large_delta = true to be the ledger's, from its creation on; this one "
            "compares delta."
        )
    if config.data.name and ledger.dataset and config.data.name != ledger.dataset:
        raise InvalidArgument(
            f"Expected name={config.data.name!r} in [data] to be what the ledger is about, "
            f"{ledger.dataset!r}: one ledger is for one data set."
        )
    where = config.data
    if where.by_share:
        other = replace(where, split_rule=3 - where.split_rule).split_caveat
        if any(other in entry.faults for entry in ledger.entries()):
            raise InvalidArgument(
                f"Expected split_rule={3 - where.split_rule} in [data]: an earlier run on this "
                "ledger split the file by that rule, and its private rows could be public by "
                "another."
            )


def run_of(folder: Path) -> Path:
    """Return the run's folder, also from that of a further student inside it."""
    folder = folder.resolve()
    run = folder.parent.parent
    # Not every folder inside one called "students" is that: a run's has releases of its own.
    own = any((folder / name).exists() for name in (LEDGER, RELEASES))
    inside = folder.parent.name == STUDENTS and (run / RELEASES).is_dir()
    return run if inside and not own else folder


def ledger_of(folder: Path, given: str | Path | None = None) -> Ledger:
    """Open the ledger of a finished run or further student, as configured or at `given`."""
    if not folder.is_dir():
        raise InvalidArgument(f"Expected the folder of a run at {str(folder)!r}; no such folder.")
    run = run_of(folder)
    path = run / LEDGER if given is None else Path(given)
    if given is None and not path.exists() and (run / "config.toml").is_file():
        path = Path(RunConfig.of_finished(run).privacy.ledger or path)
    if not path.exists():
        if path == run / LEDGER:
            raise InvalidArgument(f"Expected the folder of a run at {str(folder)!r}: no {LEDGER}.")
        raise InvalidArgument(
            f"Expected the ledger of {str(folder)!r}; there is no ledger at {str(path)!r}. Say "
            "where it is: --ledger."
        )
    return Ledger(path)


def advisory_of(folder: Path, given: str | Path | None = None) -> str:
    """Return the advisory that may concern a finished run, otherwise "".

    Of other runs on a shared ledger, the sources are unknown here.
    """
    config = RunConfig.of_finished(run_of(folder))
    source = config.data.source
    known = not config.privacy.ledger or source.startswith("npz:")
    return advisory(ledger_of(folder, given), source if known else "")


def noted_as(folder: Path) -> str:
    """Return the prefix of a run's files in the notes of its ledger, "" for a ledger of its own.

    On a shared one: digits of the entry that paid for the run's first release, which are unique.
    """
    run = run_of(folder)
    paid = [] if (run / LEDGER).exists() else KeptReleases(run / RELEASES).entries()
    first = f"{paid[0][:_DIGITS]}/" if paid else ""
    return first if run == folder.resolve() else f"{first}{STUDENTS}/{folder.name}/"
