"""Independent oracles for the privacy core: mpmath, quadrature and enumeration, none of it shared
with the code under test. Also the bad inputs that every public function must refuse.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from numpy.typing import NDArray

from tacit.errors import InvalidArgument

Floats = NDArray[np.float64]

NOT_NUMBERS = [math.nan, math.inf, -math.inf, True, np.True_, None, "1", b"1", 1j, [0.5], 10**400]
NOT_POSITIVE = [0, -1.0, *NOT_NUMBERS]
NEGATIVE = [-1.0, *NOT_NUMBERS]
NOT_DELTAS = [0, 1, -1e-5, 1.5, *NOT_NUMBERS]
NOT_RATES = [0, -0.1, 1.0001, *NOT_NUMBERS]
NOT_ORDERS = [
    1,
    [2, 1],
    [2, 0.5],
    [-2],
    [],
    [2, math.nan],
    [2, math.inf],
    [[2, 3]],
    ["2"],
    [True],
    None,
    [2 + 1j],
    [[2], [3, 4]],
    [10**400],
]
NOT_VOTES = [
    [],
    [[]],
    [3, 1],
    [[3]],
    [[[3, 1]]],
    [[3, -1]],
    [[3.0, -1.0]],
    [[3, math.nan]],
    [[3, math.inf]],
    [[3, 1], [2, 1]],
    [[True, False]],
    [["3", "1"]],
    [[3 + 0j, 1]],
    [[3, 1], [2]],
    [[None, 1]],
    [[1e300, 1]],
    np.array([[2**63, 1]], dtype=np.uint64),
    [[2**62, 2**62, 2**62, 2**62]],
    None,
]


def refuses(function: Callable[..., Any], good: dict[str, Any], name: str, bad: Any) -> None:
    """Check that `function` takes the good arguments, and refuses the bad one by its name."""
    function(**good)
    with pytest.raises(InvalidArgument, match=rf"\b{name}\b"):
        function(**{**good, name: bad})


def cases(**bad: list[Any]) -> list[Any]:
    """Parametrise (name, bad value) over every argument."""
    return [
        pytest.param(name, value, id=f"{name}={str(value)[:30]}")
        for name, values in bad.items()
        for value in values
    ]


def rounds_to(value: float, printed: str) -> bool:
    """Whether `value`, rounded to as many digits as are printed, is what is printed."""
    unit = Decimal(1).scaleb(int(Decimal(printed).as_tuple().exponent))
    return abs(Decimal(float(value)) - Decimal(printed)) <= unit * Decimal("0.5000001")


# Gaussian noise


def exact_gaussian_delta(epsilon: float, mu: float, digits: int = 160) -> Any:
    """Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu) to many digits."""
    with mp.workdps(digits):
        eps, m = mp.mpf(epsilon), mp.mpf(mu)
        return +(mp.ncdf(m / 2 - eps / m) - mp.exp(eps) * mp.ncdf(-m / 2 - eps / m))


def relative_excess_of_mu(epsilon: float, mu: float, delta: float) -> float:
    """(mu - exact mu)/mu for the exact curve: d delta/d mu = phi(mu/2 - eps/mu)."""
    with mp.workdps(160):
        eps, m = mp.mpf(epsilon), mp.mpf(mu)
        slope = m * mp.npdf(m / 2 - eps / m)
        return float((exact_gaussian_delta(epsilon, mu) - mp.mpf(delta)) / slope)


def exact_subsampled_rdp(rate: float, mu: float, order: float, *, reverse: bool = False) -> Any:
    """D_a((1-rate) N(0,1) + rate N(mu,1) || N(0,1)), or the other way round, by quadrature.

    The mean of the likelihood ratio is 1, so subtracting 1 + power t changes nothing.
    """
    with mp.workdps(25):
        g, m, a = mp.mpf(rate), mp.mpf(mu), mp.mpf(order)
        power = 1 - a if reverse else a

        def excess(x: Any) -> Any:
            t = g * mp.expm1(m * x - m**2 / 2)
            return (mp.expm1(power * mp.log1p(t)) - power * t) * mp.npdf(x)

        top = 12 + order * mu
        panels = mp.linspace(-12, top, int((12 + top) / 1.5) + 1)
        moment = mp.quad(excess, panels, method="gauss-legendre", maxdegree=3)
        return +(mp.log1p(moment) / (a - 1))


# One bit


def exact_bit_rdp(p: tuple[Any, Any], q: tuple[Any, Any], order: float, pass_rdp: Any = 0) -> Any:
    """D_a of two bits given as (Pr[yes], Pr[no]); a yes may cost `pass_rdp` more."""
    a = mp.mpf(order)
    yes = p[0] ** a * q[0] ** (1 - a) * mp.exp((a - 1) * pass_rdp)
    return mp.log(yes + p[1] ** a * q[1] ** (1 - a)) / (a - 1)


def exact_check(t: float, threshold: float, sigma: float) -> tuple[Any, Any]:
    """Pr[t + N(0, sigma^2) >= threshold] and its complement, to full precision in both tails."""
    score = (mp.mpf(t) - mp.mpf(threshold)) / mp.mpf(sigma)
    return mp.ncdf(score), mp.ncdf(-score)


# Small vote spaces


def histograms(teachers: int, classes: int) -> Iterator[tuple[int, ...]]:
    """Every way in which `teachers` votes fall on `classes`."""
    for bars in itertools.combinations(range(teachers + classes - 1), classes - 1):
        edges = (-1, *bars, teachers + classes - 1)
        yield tuple(b - a - 1 for a, b in itertools.pairwise(edges))


def neighbours(votes: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Every histogram that one teacher can turn `votes` into by another vote."""
    for loser, winner in itertools.permutations(range(len(votes)), 2):
        if votes[loser]:
            changed = list(votes)
            changed[loser] -= 1
            changed[winner] += 1
            yield tuple(changed)


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)


def exact_lnmax(votes: tuple[int, ...], gamma: float) -> Floats:
    """Pr[LNMax answers j] for every j, by Gauss-Legendre on the pieces where it is analytic.

    Left of the smallest and right of the largest count the substitution w = e^(-gamma |x - end|)
    leaves a polynomial in w on (0, 1], which the rule integrates exactly.
    """
    counts = np.asarray(votes, dtype=np.float64)
    ends = np.unique(counts)
    pieces = [(_tail_nodes(ends[0], gamma, -1)), (_tail_nodes(ends[-1], gamma, +1))]
    for low, high in itertools.pairwise(np.arange(ends[0], ends[-1] + 1)):
        pieces.append(((low + high) / 2 + _NODES / 2, _WEIGHTS / 2))
    x = np.concatenate([nodes for nodes, _ in pieces])[:, None]
    weight = np.concatenate([weights for _, weights in pieces])[:, None]
    tail = np.exp(-gamma * np.abs(x - counts)) / 2
    below = np.where(x < counts, tail, 1 - tail)
    return np.asarray(
        [
            (weight[:, 0] * gamma * tail[:, j] * np.delete(below, j, axis=1).prod(axis=1)).sum()
            for j in range(len(counts))
        ]
    )


def _tail_nodes(end: float, gamma: float, side: int) -> tuple[Floats, Floats]:
    w = (1 + _NODES) / 2
    return end - side * np.log(w) / gamma, _WEIGHTS / 2 / (gamma * w)


def exact_rdp(p: Floats, q: Floats, orders: Floats) -> Floats:
    """D_a(p || q) of two finite distributions for each order."""
    a = orders[:, None]
    return np.asarray(np.log((p**a * q ** (1 - a)).sum(axis=1)) / (orders - 1))
