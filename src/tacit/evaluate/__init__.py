"""How good a model is: held-out records are scored once, through the ledger; figures with bands."""

from tacit.evaluate.bands import Band
from tacit.evaluate.binary import BinaryTable, Told, bins_for
from tacit.evaluate.bins import ScoreBins
from tacit.evaluate.classes import ConfusionTable
from tacit.evaluate.design import Design as Design
from tacit.evaluate.design import Payer as Payer
from tacit.evaluate.design import carry_out as carry_out
from tacit.evaluate.design import faults_of as faults_of
from tacit.evaluate.design import mean_of_own as mean_of_own
from tacit.evaluate.dice import DiceSums, said_of_masks
from tacit.evaluate.dice import columns_of as columns_of
from tacit.evaluate.dice import score_names as score_names
from tacit.evaluate.evaluation import Evaluation
from tacit.evaluate.evaluation import without_open_ends as without_open_ends
from tacit.evaluate.holdout import evaluate
from tacit.evaluate.metrics import Figure, confusion_shares, measure, measure_numbers
from tacit.evaluate.numbers import NumberSums
from tacit.evaluate.pictures import evaluation_figures, evaluation_measures, evaluation_section
from tacit.evaluate.pictures import number as number
from tacit.evaluate.pictures import range_of as range_of
from tacit.evaluate.thresholds import RULES as RULES
from tacit.evaluate.thresholds import released_shares, threshold_by
from tacit.evaluate.widths import TYPICAL_AUC as TYPICAL_AUC
from tacit.evaluate.widths import TYPICAL_DICE as TYPICAL_DICE
from tacit.evaluate.widths import TYPICAL_R_SQUARED as TYPICAL_R_SQUARED
from tacit.evaluate.widths import TYPICAL_SPREAD as TYPICAL_SPREAD
from tacit.evaluate.widths import Forecast, forecast, forecast_masks, forecast_numbers

__all__ = [
    "Band",
    "BinaryTable",
    "ConfusionTable",
    "DiceSums",
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
    "forecast_masks",
    "forecast_numbers",
    "measure",
    "measure_numbers",
    "released_shares",
    "said_of_masks",
    "threshold_by",
]
