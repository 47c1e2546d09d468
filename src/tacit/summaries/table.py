"""What a noisy table says of the labels at each prototype: a posterior mean, not a raw count.

The model. Cell (j, c) of the table is the mass L of records that said class c at prototype j, plus
Gaussian noise of known deviation. Masses are drawn from one distribution over [0, largest], of
which nothing is assumed: it is estimated from all released cells together (nonparametric maximum
likelihood on a grid, by EM; Kiefer and Wolfowitz 1956). The posterior mean of each mass is then
known (Robbins), and a prototype's label distribution is its masses over their sum. Where noise
dominates, all masses shrink to one, and the row becomes uniform: such a prototype says nothing.
Public: it sees a release and nothing else.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from tacit._checks import Floats, finite_array, positive
from tacit.errors import InvalidArgument

_STEPS_A_SIGMA = 2.0
_MOST_STEPS = 400
_FEWEST_STEPS = 40
_ROUNDS = 200
_CELLS = 20_000
"""Cells from which the distribution of masses is estimated."""


def table_posterior(table: ArrayLike, sigma: float) -> Floats:
    """Return the expected label distribution of each row of a noisy table; rows sum to 1.

    E[L_jc | T_jc] / sum_c E[L_jc | T_jc], with the empirical prior of this module's docstring.

    >>> table = [[90.0, 3.0, -4.0], [2.0, 75.0, 1.0], [-3.0, 1.0, 88.0]]
    >>> table_posterior(table, sigma=3.0).argmax(axis=1).tolist()
    [0, 1, 2]
    """
    cells = finite_array(table=table)
    if cells.ndim != 2 or cells.shape[1] < 2 or 0 in cells.shape:
        raise InvalidArgument(
            f"Expected a table (prototypes, classes >= 2), got shape {cells.shape}."
        )
    noise = positive(sigma=sigma)
    masses = _expected(cells.reshape(-1), noise).reshape(cells.shape)
    sums = masses.sum(axis=1, keepdims=True)
    return np.asarray(np.where(sums > 0, masses / np.maximum(sums, 1e-300), 1 / cells.shape[1]))


def _expected(cells: Floats, sigma: float) -> Floats:
    """Return E[mass | cell] for each cell."""
    grid = _mass_grid(float(cells.max()), sigma)
    every = -(-cells.size // _CELLS)
    prior = _fitted(_likelihood(cells[::every], grid, sigma))
    expected = np.empty(cells.size)
    step = max(1, 2**20 // grid.size)
    for start in range(0, cells.size, step):
        weights = _likelihood(cells[start : start + step], grid, sigma) * prior
        expected[start : start + step] = (weights @ grid) / weights.sum(axis=1)
    return expected


def _mass_grid(largest: float, sigma: float) -> Floats:
    """Return masses from 0 to the largest cell: even steps of half a sigma, or coarser."""
    top = max(largest, sigma)
    steps = int(np.clip(_STEPS_A_SIGMA * top / sigma, _FEWEST_STEPS, _MOST_STEPS))
    # Quadratic spacing: small masses are many, and their shares matter.
    return np.asarray(top * np.linspace(0.0, 1.0, steps + 1) ** 1.5)


def _likelihood(cells: Floats, grid: Floats, sigma: float) -> Floats:
    """Return the likelihood of each mass, relative to the row's best."""
    logs = -0.5 * ((cells[:, None] - grid) / sigma) ** 2
    return np.asarray(np.exp(logs - logs.max(axis=1, keepdims=True)))


def _fitted(likelihood: Floats) -> Floats:
    """Return the weights of the grid under which these cells are most likely, by EM."""
    weights = np.full(likelihood.shape[1], 1 / likelihood.shape[1])
    uniform = weights
    for _ in range(_ROUNDS):
        weights = weights * (likelihood.T @ (1 / (likelihood @ weights))) / len(likelihood)
    # The uniform prior counts as one cell: no mass is ever ruled out.
    return np.asarray((len(likelihood) * weights + uniform) / (len(likelihood) + 1))
