"""A run: one TOML file in, a directory with everything that may be kept or published out."""

from tacit.runs.config import DataConfig, PrivacyConfig, RunConfig, section_of
from tacit.runs.packaging import model_card, package_run
from tacit.runs.running import (
    RunResult,
    forget_teachers,
    load_rows,
    make_classifier,
    releasing,
    run_config,
    split_rows,
    write_results,
)
from tacit.runs.verifying import Check, verify_run

__all__ = [
    "Check",
    "DataConfig",
    "PrivacyConfig",
    "RunConfig",
    "RunResult",
    "forget_teachers",
    "load_rows",
    "make_classifier",
    "model_card",
    "package_run",
    "releasing",
    "run_config",
    "section_of",
    "split_rows",
    "verify_run",
    "write_results",
]
