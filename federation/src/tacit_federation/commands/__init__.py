"""What tacit-federation adds to the `tacit` command: an entry point of `tacit.commands`."""

import typer

from tacit.cli import add_group
from tacit_federation.commands import aggregator, coordinator, demo, site, study


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
    add_group(app, "federation", "Coordinator and sites on this machine.", demo.demo)
