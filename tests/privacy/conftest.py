"""Hypothesis for the privacy core: an oracle of many digits may take its time."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("patient", deadline=None)
settings.load_profile("patient")
