"""A run: one TOML file in, a directory with everything that may be kept or published out.

Names that are not in `__all__` are for the packages above.
"""

from tacit.runs.about import learned_by as learned_by
from tacit.runs.config import DataConfig, PrivacyConfig, RunConfig
from tacit.runs.config import section_of as section_of
from tacit.runs.evaluating import EvaluationResult, evaluate_run
from tacit.runs.further_students import train_student
from tacit.runs.ledgers import advisory_of as advisory_of
from tacit.runs.ledgers import ledger_for as ledger_for
from tacit.runs.packaging import package_run
from tacit.runs.running import RunResult, run_config
from tacit.runs.running import forget_teachers as forget_teachers
from tacit.runs.running import load_rows as load_rows
from tacit.runs.running import make_classifier as make_classifier
from tacit.runs.running import releasing as releasing
from tacit.runs.running import split_rows as split_rows
from tacit.runs.running import what_happened as what_happened
from tacit.runs.running import write_results as write_results
from tacit.runs.sealing import ONNX as ONNX
from tacit.runs.verifying import Check, publish_also, verify_run
from tacit.runs.verifying import run_of_statement as run_of_statement

__all__ = [
    "Check",
    "DataConfig",
    "EvaluationResult",
    "PrivacyConfig",
    "RunConfig",
    "RunResult",
    "evaluate_run",
    "package_run",
    "publish_also",
    "run_config",
    "train_student",
    "verify_run",
]
