"""A run: one TOML file in, a directory with everything that may be kept or published out."""

from tacit.runs.config import DataConfig, PrivacyConfig, RunConfig, section_of
from tacit.runs.running import (
    RunResult,
    forget_teachers,
    load_rows,
    make_classifier,
    releasing,
    run_config,
    split_rows,
)

__all__ = [
    "DataConfig",
    "PrivacyConfig",
    "RunConfig",
    "RunResult",
    "forget_teachers",
    "load_rows",
    "make_classifier",
    "releasing",
    "run_config",
    "section_of",
    "split_rows",
]
