"""The figure of a comparison: lines, ranges, references, and an axis that fits them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.errors import InvalidArgument
from tacit.report import Points, comparison_figure, figure_svg
from tacit.report.figures import PALETTE, _back, _stretched

FAIR = Points([0.1, 1.0, 8.0], [0.6, 0.7, 0.8], [0.5, 0.69, 0.79], [0.65, 0.72, 0.83])
GOOD = Points([8.0, 0.1], [0.99, 0.9], [0.985, 0.88], [0.995, 0.91])


def test_each_method_is_a_line_in_order_of_epsilon_with_its_range():
    figure = comparison_figure({"fair": FAIR, "good": GOOD}, title="digits", delta=1e-5)
    (axes,) = figure.axes
    fair, good = (container.lines[0] for container in axes.containers)
    assert list(fair.get_ydata()) == [0.6, 0.7, 0.8]
    assert list(good.get_ydata()) == [0.9, 0.99]
    assert (np.diff(good.get_xdata()) > 0).all()
    segments = axes.containers[0].lines[2][0].get_segments()
    assert segments[0][:, 1].tolist() == pytest.approx([0.5, 0.65])
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["fair", "good"]
    assert "delta = 1e-05" in axes.get_xlabel()


def test_neighbouring_methods_differ_in_more_than_colour():
    curves = {f"method {k}": FAIR for k in range(len(PALETTE) + 1)}
    figure = comparison_figure(curves, title="many")
    looks = [
        (line.get_color(), line.get_linestyle(), line.get_marker())
        for line in (container.lines[0] for container in figure.axes[0].containers)
    ]
    assert len(set(looks)) == len(looks)


@pytest.mark.parametrize(("points", "scale"), [(FAIR, "linear"), (GOOD, "function")])
def test_the_axis_is_stretched_only_where_methods_are_nearly_right(points, scale):
    figure = comparison_figure({"one": points}, title="t", references={"not private": 0.93})
    axes = figure.axes[0]
    assert axes.get_yscale() == scale
    low, high = axes.get_ylim()
    assert low <= min(points.least)
    assert high >= min(max(points.most), 0.9995)
    assert "not private: 93.0 %" in figure_svg(figure)


@given(accuracy=st.floats(0, 0.9994))
def test_the_stretch_is_undone(accuracy):
    assert float(_back(_stretched(np.array(accuracy)))) == pytest.approx(accuracy, abs=1e-9)


def test_perfect_and_zero_accuracy_can_be_drawn():
    points = Points([1.0], [1.0], [0.0], [1.0])
    assert figure_svg(comparison_figure({"one": points}, title="t")).startswith("<svg")


@pytest.mark.parametrize(
    "points",
    [
        Points([0.0], [0.5], [0.5], [0.5]),
        Points([1.0], [0.5], [0.6], [0.7]),
        Points([1.0], [0.5], [0.4], [1.1]),
        Points([1.0, 2.0], [0.5], [0.4], [0.6]),
        Points([], [], [], []),
    ],
)
def test_impossible_points_are_refused(points):
    with pytest.raises(InvalidArgument):
        comparison_figure({"one": points}, title="t")


def test_nothing_to_draw_is_refused():
    with pytest.raises(InvalidArgument):
        comparison_figure({}, title="t")
