"""Where real data is found, and what was skipped at the end for want of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Networks as small as the tests' gain nothing from threads, and two processes on two cores lose.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# How long an example takes depends on the machine and on what else it does: no test fails by it.
settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")

MISSING = "needs real data"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the long tests, or the last of them would keep one process busy, others idle."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The directory of real data; skips the test where there is none."""
    place = os.environ.get("TACIT_DATA")
    if not place or not Path(place).is_dir():
        pytest.skip(f"{MISSING}: set TACIT_DATA to the directory that holds it")
    return Path(place)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Count the tests that real data would have run."""
    skipped = terminalreporter.stats.get("skipped", [])
    missing = sum(MISSING in str(report.longrepr) for report in skipped)
    if missing:
        terminalreporter.write_line(
            f"{missing} tests were skipped for want of real data (set TACIT_DATA to run them)."
        )
