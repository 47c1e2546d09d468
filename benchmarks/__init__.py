"""Measurements: each script prints what it measures, as ratios where speed is claimed."""
