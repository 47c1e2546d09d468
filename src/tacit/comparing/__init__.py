"""An honest comparison of methods: same rows, same budget, stated rules, every failure shown."""

from tacit.comparing.data import SplitRule, default_rule
from tacit.comparing.running import EPSILONS, compare
from tacit.comparing.scores import SCORES as SCORES
from tacit.comparing.summary import NOT_PRIVATE, Comparison, Row, advice
from tacit.comparing.summary import warnings_of as warnings_of

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
