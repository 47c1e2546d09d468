"""How good a model is: records kept apart say it once, through the ledger; figures with bands."""

from tacit.evaluate.bands import Band
from tacit.evaluate.binary import BinaryTable, Told, bins_for
from tacit.evaluate.bins import ScoreBins
from tacit.evaluate.classes import ConfusionTable
from tacit.evaluate.evaluation import Evaluation
from tacit.evaluate.holdout import evaluate
from tacit.evaluate.metrics import Figure, confusion_shares, measure
from tacit.evaluate.numbers import NumberSums
from tacit.evaluate.pictures import evaluation_figures, evaluation_measures, evaluation_section
from tacit.evaluate.pictures import number as number
from tacit.evaluate.pictures import range_of as range_of
from tacit.evaluate.thresholds import RULES as RULES
from tacit.evaluate.thresholds import released_shares, threshold_by
from tacit.evaluate.widths import TYPICAL_AUC as TYPICAL_AUC
from tacit.evaluate.widths import Forecast, forecast

__all__ = [
    "Band",
    "BinaryTable",
    "ConfusionTable",
    "Evaluation",
    "Figure",
    "Forecast",
    "NumberSums",
    "ScoreBins",
    "Told",
    "bins_for",
    "confusion_shares",
    "evaluate",
    "evaluation_figures",
    "evaluation_measures",
    "evaluation_section",
    "forecast",
    "measure",
    "released_shares",
    "threshold_by",
]
