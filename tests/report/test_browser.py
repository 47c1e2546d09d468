"""The report as a real browser shows it: on a phone, on a desk, and in print."""

from __future__ import annotations

import html
import re
import shutil
import subprocess

import numpy as np
import pytest

from tacit.report import trade_off_figure, write_report

CHROMIUM = shutil.which("chromium")
PHONE, DESK = (390, 844), (1280, 900)
FLAGS = """
--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking
--disable-component-update --disable-sync --hide-scrollbars
"""
MEASURE = """
<script>
addEventListener("load", () => {
  for (const frame of document.querySelectorAll("iframe")) {
    const page = frame.contentDocument, root = page.documentElement;
    const box = page.querySelector(".scroll");
    const result = document.createElement("output");
    result.textContent = [root.clientWidth, root.scrollWidth, box.clientWidth, box.scrollWidth];
    document.body.append(result);
  }
});
</script>
"""

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="needs Chromium (Debian package chromium) to look at the report"
)


@pytest.fixture
def browse(tmp_path):
    """Run Chromium on a file with a fresh profile; return what it prints."""

    def run(page, *options):
        profile = tmp_path / f"profile{len(list(tmp_path.iterdir()))}"
        command = [CHROMIUM, *FLAGS.split(), f"--user-data-dir={profile}", *options, page.as_uri()]
        return subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=600
        ).stdout

    return run


@pytest.fixture
def report(tmp_path, ledger):
    figure = trade_off_figure([1, 2], {"sigma 40": [0.8, 1.5]}, budget=3)
    figures = [("Epsilon against queries.", figure)]
    return write_report(tmp_path / "report.html", ledger, figures=figures)


def framed(pages):
    """A page with frames of given widths, which measures what is in them; reports run no script."""
    frames = (
        f'<iframe width="{width}" height="800" style="border: 0" srcdoc="{html.escape(page)}">'
        "</iframe>"
        for width, page in pages
    )
    return f"<!DOCTYPE html><html><body>{''.join(frames)}{MEASURE}</body></html>"


def test_no_page_is_wider_than_its_screen_and_wide_tables_scroll_in_their_box(
    tmp_path, report, browse
):
    page = report.read_text(encoding="utf-8")
    spoilt = page.replace("overflow-x: auto", "overflow-x: visible")
    assert spoilt != page
    frame = tmp_path / "frame.html"
    frame.write_text(
        framed([(PHONE[0], page), (DESK[0], page), (PHONE[0], spoilt)]), encoding="utf-8"
    )
    measured = re.findall(r"<output>([0-9,]+)</output>", browse(frame, "--dump-dom"))
    phone, desk, bad = ([int(size) for size in line.split(",")] for line in measured)
    assert phone[:2] == [PHONE[0], PHONE[0]]
    assert phone[3] > phone[2]  # the table is wider than its box, and scrolls there
    assert desk[:2] == [DESK[0], DESK[0]]
    assert desk[3] == desk[2]
    assert bad[1] > bad[0]  # without its box it would widen the page: the measure sees that


@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
def test_the_page_is_drawn(tmp_path, report, browse, size):
    from matplotlib.image import imread

    target = tmp_path / "page.png"
    browse(report, f"--screenshot={target}", f"--window-size={size[0]},{size[1]}")
    picture = imread(target)[..., :3]
    assert picture.shape[:2] == (size[1], size[0])
    ink = np.abs(picture - picture[0, 0]).max(axis=-1) > 0.1
    assert 0.01 < ink.mean() < 0.5
    assert not ink[:, -8:].any()  # nothing is cut off at the right edge
    assert ink[: size[1] // 4].any()
    assert ink[-size[1] // 4 :].any()


def test_the_print_has_lines_to_sign_on(tmp_path, ledger, report, browse):
    target = tmp_path / "report.pdf"
    browse(report, f"--print-to-pdf={target}", "--no-pdf-header-footer")
    assert target.read_bytes().startswith(b"%PDF")
    reader = shutil.which("pdftotext")
    if reader is None:
        pytest.skip("needs pdftotext (Debian package poppler-utils) to read the print")
    text = subprocess.run(
        [reader, str(target), "-"], capture_output=True, text=True, check=True
    ).stdout
    assert "Signature" in text
    assert ledger.head in re.sub(r"\s", "", text)
    assert text.count("\f") <= 4  # pages
