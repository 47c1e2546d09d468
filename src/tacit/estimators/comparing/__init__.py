"""An honest comparison of methods: same rows, same budget, stated rules, every failure shown."""

from tacit.estimators.comparing.methods import METHODS, Method
from tacit.estimators.comparing.running import EPSILONS, compare
from tacit.estimators.comparing.summary import Comparison, Row
from tacit.estimators.comparing.tasks import Facts, SplitRule, default_rule

__all__ = [
    "EPSILONS",
    "METHODS",
    "Comparison",
    "Facts",
    "Method",
    "Row",
    "SplitRule",
    "compare",
    "default_rule",
]
