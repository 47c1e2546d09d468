"""The HTML report and the figures; matplotlib and Jinja2 load where they are first used."""

from tacit.report.drawing import COLOURS as COLOURS
from tacit.report.drawing import INK as INK
from tacit.report.figures import budget_figure, figure_svg, save_figure, trade_off_figure
from tacit.report.gallery import gallery_figure
from tacit.report.html import render_report, write_report
from tacit.report.secret_figures import (
    cumulative_cost_figure,
    sigma_cost_figure,
    votes_cost_figure,
)

__all__ = [
    "budget_figure",
    "cumulative_cost_figure",
    "figure_svg",
    "gallery_figure",
    "render_report",
    "save_figure",
    "sigma_cost_figure",
    "trade_off_figure",
    "votes_cost_figure",
    "write_report",
]
