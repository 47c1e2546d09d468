"""What DP-MAC's noise costs: by its own formulas, and really."""

from __future__ import annotations

import math
from typing import Any

from scipy.integrate import quad

from papers.items import Workplace
from papers.mac_data import DELTA, TRAIN
from tacit.mechanisms import NoisySteps, Plan, price_of_list
from tacit.noisy_training import histogram_plan


def shares(place: Workplace) -> None:
    """Show what one record moves the sum by where K + 1 blocks are scaled by sqrt(K)."""
    rows = []
    for hidden in (1, 2, 5):
        moved = math.sqrt((hidden + 1) / hidden)
        claim, true = (Plan(NoisySteps(2.0 / by, 0.01), 2000).epsilon(DELTA) for by in (1.0, moved))
        rows.append((hidden, moved, claim, true))
    columns = ["hidden layers K", "one record moves", "epsilon claimed", "epsilon"]
    place.table("Section 2.3: blocks scaled by the root of K, noise 2", columns, rows)


def log_moment(place: Workplace) -> None:
    """Show the Gaussian's log-moment by quadrature, beside both formulas."""
    rows = []
    for order, sigma in ((1, 2.0), (3, 2.0), (8, 4.0)):
        width = sigma * math.sqrt(2 * math.pi)

        def density(
            x: float, order: int = order, sigma: float = sigma, width: float = width
        ) -> float:
            ratio = order * (2 * x - 1) / (2 * sigma**2)
            return math.exp(ratio - (x - 1) ** 2 / (2 * sigma**2)) / width

        exact = math.log(quad(density, -60, 80)[0])
        terms = order**2 + order
        rows.append((order, sigma, exact, terms / (2 * sigma**2), terms / (4 * sigma**2)))
    columns = ["lambda", "sigma", "quadrature", "over 2 sigma^2", "over 4 sigma^2, as printed"]
    place.table("Section 2.4: log-moments of the Gaussian mechanism", columns, rows)


# Network, layers of the histogram, records, lots, epochs, and each epsilon with its sigma.
TABLE_2 = (
    ("DP-MAC, classifier", 3, 60_000, 50, 20, ((0.5, 5.8), (2.0, 1.7))),
    ("DP-MAC, autoencoder", 6, TRAIN, 50, 20, ((1.0, 12.1), (2.0, 5.2), (4.0, 3.0), (8.0, 2.2))),
    ("DP-SGD, autoencoder", 0, TRAIN, 100, 100, ((1.0, 7.0), (2.0, 3.7), (4.0, 2.0), (8.0, 1.3))),
)


def table_2(place: Workplace) -> None:
    """Show what the printed noise costs, if it is a noise multiplier of Poisson samples."""
    rows: list[tuple[Any, ...]] = []
    for name, layers, records, lot, epochs, pairs in TABLE_2:
        for claimed, sigma in pairs:
            steps = Plan(NoisySteps(sigma, lot / records), epochs * records // lot)
            found = [steps.epsilon(DELTA), math.nan]
            if layers:
                found[1] = price_of_list([histogram_plan(layers, 20.0), steps], DELTA).epsilon
            rows.append((name, claimed, sigma, *found))
    columns = ["network", "epsilon claimed", "sigma", "epsilon of the run", "with the histogram"]
    place.table("Table 2: sigma read as a noise multiplier", columns, rows)
