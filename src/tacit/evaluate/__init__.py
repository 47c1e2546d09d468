"""How good a model is: records kept apart say it once, through the ledger; figures with bands."""

from tacit.evaluate.bands import Band
from tacit.evaluate.binary import BinaryTable, Told, bins_for
from tacit.evaluate.bins import ScoreBins
from tacit.evaluate.classes import ConfusionTable
from tacit.evaluate.evaluation import Evaluation
from tacit.evaluate.holdout import evaluate
from tacit.evaluate.numbers import NumberSums

__all__ = [
    "Band",
    "BinaryTable",
    "ConfusionTable",
    "Evaluation",
    "NumberSums",
    "ScoreBins",
    "Told",
    "bins_for",
    "evaluate",
]
