"""The HTML report and the figures; matplotlib and Jinja2 load where they are first used."""

from tacit.report.content import Learned, Measure, Section
from tacit.report.content import listed as listed
from tacit.report.figures import (
    COLOURS,
    INK,
    Points,
    comparison_figure,
    figure_svg,
    gallery_figure,
    save_figure,
    trade_off_figure,
)
from tacit.report.figures import label as label
from tacit.report.figures import legend as legend
from tacit.report.figures import line as line
from tacit.report.figures import new_figure as new_figure
from tacit.report.owner_analysis import (
    SecretAnalysis,
    cumulative_cost_figure,
    secret_analysis,
    sigma_cost_figure,
    sigma_sweep,
    votes_cost_figure,
)
from tacit.report.page import NO_HEAD as NO_HEAD
from tacit.report.page import render_report, write_report
from tacit.report.page_data import PageData as PageData

__all__ = [
    "COLOURS",
    "INK",
    "Learned",
    "Measure",
    "Points",
    "SecretAnalysis",
    "Section",
    "comparison_figure",
    "cumulative_cost_figure",
    "figure_svg",
    "gallery_figure",
    "render_report",
    "save_figure",
    "secret_analysis",
    "sigma_cost_figure",
    "sigma_sweep",
    "trade_off_figure",
    "votes_cost_figure",
    "write_report",
]
