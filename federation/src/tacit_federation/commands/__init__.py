"""What tacit-federation adds to the `tacit` command, by an entry point of `tacit.commands`."""

import sys
import webbrowser
from pathlib import Path

import typer
from rich.markup import escape

from tacit.cli import add_group, print_json, screen
from tacit_federation.commands import aggregator, coordinator, site, study


def add(app: typer.Typer) -> None:
    """Add the commands of all parties."""
    add_group(
        app,
        "study",
        "Studies over several sites: draft, sign, open, release.",
        *(study.init, study.codec, study.new, study.sign, study.show, study._open),
        *(study.close, study.end, study.release, study.verify),
    )
    add_group(
        app,
        "coordinator",
        "The service that sites talk to.",
        *(coordinator.serve, coordinator.invite, coordinator.revoke, coordinator.officer),
    )
    add_group(
        app,
        "aggregator",
        "One of two that add shares: neither sees an answer.",
        *(aggregator.init, aggregator.join, aggregator.invite, aggregator.revoke),
        *(aggregator.describe, aggregator.serve, aggregator.show, aggregator.approve),
        *(aggregator.end, aggregator.statement),
    )
    add_group(
        app,
        "site",
        "A hospital: join, approve, answer, send.",
        *(site.join, site.run, site.show, site.approve),
        *(site.refuse, site.answer, site.withdraw, site.status),
    )
    add_group(app, "federation", "Coordinator and sites on this machine.", demo)


def demo(
    *,
    folder: Path = Path("federation-demo"),
    seconds: int = 10,
    two_aggregators: bool = False,
    show: bool = True,
    as_json: bool = False,
) -> None:
    """Run a study over five made-up hospitals: real processes and TLS on this machine.

    Example: tacit federation demo

    folder: A new folder for everybody's keys, ledgers, report and student.
    seconds: How long the hospitals have to answer, at the least.
    two_aggregators: Let two parties add shares, so that nobody sees a hospital's answers.
    show: Whether the report is opened in a browser at the end.
    """
    from tacit_federation.demo import demonstrate

    def say(line: str) -> None:
        if not as_json:
            screen().print(escape(line), soft_wrap=True, highlight=False)

    done = demonstrate(folder, say, seconds=seconds, two_aggregators=two_aggregators)
    report = folder / "report.html"
    if as_json:
        told = {"folder": str(folder), "accuracy": done.accuracy, "report": str(report)}
        print_json({**told, "sites": done.release.survivors, "statements": done.statements})
        return
    say(f"{len(done.release.survivors)} of 5 hospitals are in the sum; the student, which saw")
    say(f"public inputs and the release only, is right for {done.accuracy:.0%} of new patients.")
    for who, text in done.statements.items():
        say(f"What {who} may sign: {text}")
    say(f"Report: {report}")
    if show and sys.stdout.isatty():
        webbrowser.open(report.resolve().as_uri())
