"""An honest comparison of methods: same rows, same budget, stated rules, every failure shown."""

from tacit.compare.advice import advice
from tacit.compare.running import EPSILONS, compare
from tacit.compare.summary import NOT_PRIVATE, Comparison, Row
from tacit.compare.tasks import SplitRule, default_rule

__all__ = [
    "EPSILONS",
    "NOT_PRIVATE",
    "Comparison",
    "Row",
    "SplitRule",
    "advice",
    "compare",
    "default_rule",
]
