"""Public figures, and the ways out: files and inline SVG."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from xml.etree import ElementTree

import numpy as np
import pytest

from tacit.errors import InvalidArgument
from tacit.report import figure_svg, save_figure, trade_off_figure
from tacit.report.figures import SECRET_MARK, is_secret

MAGIC = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}


def a_figure():
    return trade_off_figure([1, 2], {"sigma 40": [0.5, 0.7]}, budget=2)


def test_the_trade_off_figure_draws_each_curve():
    x = np.array([10.0, 100.0, 1000.0])
    curves = {"sigma 40": x / 10, "sigma 80": x / 20}
    axes = trade_off_figure(x, curves, budget=2, delta=1e-6).axes[0]
    lines = {line.get_label(): line for line in axes.get_lines()}
    for name, values in curves.items():
        assert list(lines[name].get_xdata()) == list(x)
        assert list(lines[name].get_ydata()) == list(values)
    looks = {(lines[n].get_color(), lines[n].get_linestyle()) for n in curves}
    assert len(looks) == 2
    assert [text.get_text() for text in axes.get_legend().get_texts()] == list(curves)
    assert axes.get_xlabel() == "queries"
    assert "queries" in axes.get_title(loc="left")
    assert any("budget 2" in text.get_text() for text in axes.texts)


@pytest.mark.parametrize("curves", [{}, {"a": [1.0]}, {"a": [1.0, np.inf]}, {"a": [[1.0, 2.0]]}])
def test_curves_that_do_not_fit_are_refused(curves):
    with pytest.raises(InvalidArgument, match="curves"):
        trade_off_figure([1, 2], curves)


def test_inline_svg_is_fluid_deterministic_and_alone():
    first, second = (figure_svg(a_figure()) for _ in range(2))
    assert first == second
    root = ElementTree.fromstring(first)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert root.get("width") == "100%"
    assert root.get("viewBox")
    assert root.get("height") is None
    assert "Worst-case epsilon against queries" in first  # text as text
    assert first.count("http") == 1
    assert len(root.findall(".//{*}path")) > 10


@pytest.mark.parametrize("kind", MAGIC)
def test_a_figure_is_saved_by_its_suffix_and_the_same_each_time(tmp_path, kind):
    figure = a_figure()
    target = tmp_path / f"budget.{kind.upper()}"
    assert save_figure(figure, target) == target
    once = target.read_bytes()
    assert once.startswith(MAGIC[kind])
    save_figure(a_figure(), str(target))
    assert target.read_bytes() == once
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("name", ["budget", "budget.jpg", "budget.html"])
def test_another_suffix_is_refused(tmp_path, name):
    with pytest.raises(InvalidArgument, match=r"\.png, \.svg or \.pdf"):
        save_figure(a_figure(), tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_figure_that_was_drawn_before_is_still_the_same():
    figure = a_figure()
    assert figure_svg(figure) == figure_svg(figure)


def test_a_figure_saved_as_secret_is_marked_and_closed_to_others(tmp_path):
    before = os.umask(0o022)
    try:
        public = save_figure(a_figure(), tmp_path / "public.svg")
        secret = public  # replaces the public file: its mode must not survive
        assert stat.S_IMODE(public.stat().st_mode) == 0o644
        figure = a_figure()
        save_figure(figure, secret, secret=True)
    finally:
        os.umask(before)
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert is_secret(figure)
    assert SECRET_MARK in secret.read_text(encoding="utf-8").replace("&#39;", "'")


def printed_by(code: str) -> str:
    """What a new interpreter prints: this one has long loaded everything."""
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_the_package_loads_no_heavy_library_before_it_draws():
    code = (
        "import sys, tacit.report; "
        "print([m for m in ('matplotlib', 'jinja2', 'PIL', 'tacit.cli') if m in sys.modules])"
    )
    assert printed_by(code) == "[]"


def test_no_figure_touches_the_global_state_of_pyplot():
    code = (
        "import sys; from tacit.report import figure_svg, trade_off_figure; "
        "figure_svg(trade_off_figure([1, 2], {'a': [1, 2]})); "
        "print('matplotlib.pyplot' in sys.modules)"
    )
    assert printed_by(code) == "False"
