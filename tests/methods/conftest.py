"""Settings of methods that small problems would never reach."""

from __future__ import annotations

import pytest

from tacit.methods import residual_rounds


@pytest.fixture
def second_moments(monkeypatch):
    """Let residual moments release their second moment at any strength."""
    monkeypatch.setattr(residual_rounds, "_SECOND_MOMENT", ((0.0, 0.1),))
