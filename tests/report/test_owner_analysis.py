"""The owner's figures: right, marked, closed to others, and refused by the report."""

from __future__ import annotations

import stat

import numpy as np
import pytest

from tacit.errors import InvalidArgument, SecretDisclosure
from tacit.report import (
    cumulative_cost_figure,
    figure_svg,
    render_report,
    save_figure,
    sigma_cost_figure,
    votes_cost_figure,
)
from tacit.report.figures import ALARM, SECRET_MARK


def votes_figure(**options):
    return votes_cost_figure(
        [9, 11, 93, 99, 100], [4.0, 2.0, 1.0, 0.5, 0.5], n_teachers=100, **options
    )


FIGURES = {
    "votes": votes_figure,
    "cumulative": lambda: cumulative_cost_figure({"tight": [1, 2], "worst case": [2, 4]}),
    "sigma": lambda: sigma_cost_figure([20, 40], [2, 1], [5, 3], delta=1e-5),
}


@pytest.fixture(params=FIGURES)
def figure(request):
    return FIGURES[request.param]()


def test_every_one_carries_the_mark_in_red(figure):
    mark = figure._suptitle
    assert mark.get_text() == SECRET_MARK
    assert mark.get_color() == ALARM
    assert SECRET_MARK in figure_svg(figure)


@pytest.mark.parametrize("kind", ["png", "svg", "pdf"])
def test_every_one_is_saved_for_its_owner_only(tmp_path, figure, kind):
    target = save_figure(figure, tmp_path / f"figure.{kind}")  # even if nobody says secret=True
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert target.stat().st_size > 1000


def test_no_report_takes_one(ledger, figure):
    for form in (figure, figure_svg(figure)):
        with pytest.raises(SecretDisclosure):
            render_report(ledger, figures=[("harmless?", form)])


def test_a_saved_secret_svg_is_refused_as_well(tmp_path, ledger, figure):
    text = save_figure(figure, tmp_path / "figure.svg").read_text(encoding="utf-8")
    with pytest.raises(SecretDisclosure):
        render_report(ledger, figures=[("harmless?", text)])


def test_bins_count_queries_and_add_costs():
    counts, costs = votes_figure().axes
    queries, price = (
        {round(bar.get_x()): bar.get_height() for bar in axes.patches if bar.get_height()}
        for axes in (counts, costs)
    )
    assert queries == {8: 2, 92: 1, 96: 2}
    assert price == {8: 6, 92: 1, 96: 1}
    assert counts.get_title(loc="left") == "The dearest 1 of 5 queries carry 50% of the cost"
    assert costs.get_xlim() == (0, 100)
    assert "sum" in costs.get_ylabel()


def test_the_threshold_is_named():
    assert "threshold 60" in figure_svg(votes_figure(threshold=60))


def test_costs_of_nothing_have_no_share():
    title = votes_cost_figure([5], [0.0], n_teachers=10).axes[0].get_title(loc="left")
    assert "0%" in title


def test_running_costs_are_drawn_over_the_queries():
    figure = cumulative_cost_figure({"tight": [1.0, 1.5], "worst case": [2.0, 4.0]})
    lines = figure.axes[0].get_lines()
    assert [line.get_label() for line in lines] == ["tight: 1.5", "worst case: 4"]
    assert list(lines[0].get_xdata()) == [1, 2]
    assert list(lines[1].get_ydata()) == [2.0, 4.0]


def test_cost_against_sigma_shows_both():
    axes = FIGURES["sigma"]().axes[0]
    own, worst = axes.get_lines()
    assert list(own.get_ydata()) == [2, 1]
    assert list(worst.get_ydata()) == [5, 3]
    assert "delta = 1e-05" in axes.get_ylabel()


SECRET = 987654.321


@pytest.mark.parametrize(
    "draw",
    [
        lambda: votes_cost_figure([SECRET], [1.0], n_teachers=100),
        lambda: votes_cost_figure([1], [-SECRET], n_teachers=100),
        lambda: votes_cost_figure([1, 2], [SECRET], n_teachers=100),
        lambda: votes_cost_figure([[SECRET]], [[1.0]], n_teachers=100),
        lambda: votes_cost_figure([SECRET, np.nan], [1.0, 1.0], n_teachers=100),
        lambda: cumulative_cost_figure({"a": [SECRET], "b": [1.0, 2.0]}),
        lambda: cumulative_cost_figure({}),
        lambda: sigma_cost_figure([1, 2], [SECRET, 1], [1], delta=1e-5),
    ],
)
def test_bad_input_is_refused_without_quoting_it(draw):
    with pytest.raises(InvalidArgument) as refusal:
        draw()
    assert "987654" not in str(refusal.value)
