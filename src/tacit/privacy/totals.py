"""The total data-dependent cost of many GNMax queries, through a table of rounded-up q.

The cost is nondecreasing in q, so rounding q up to a table node is conservative. Nodes are spaced
so that a query's cost grows by about 1e-3 from one to the next; only nodes that are asked for are
computed, and they are kept for the next call.
"""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr, ndtri_exp

from tacit._checks import Floats, Integers, one_of, order_array, positive
from tacit.privacy.noisy_max import checked_weights, gnmax_log_q, rdp_from_log_q

EXACT_BELOW = 2000
"""Up to this many distinct q the total is exact; above, q is rounded up to a node."""

_PAIRS_AT_ONCE = 1 << 16  # (q, order): so that the temporaries stay in the processor's cache
_SPACING = 1e-3  # of w below: from node to node the cost grows by a factor of at most e^_SPACING
_FINE_ABOVE = -6.5  # in z; further down a query costs next to nothing and nodes are sparser
_SPARSE = 64  # nodes that far down: only every 64th is used
_TABLES: OrderedDict[tuple[float, bytes], dict[int, Floats]] = OrderedDict()
_TABLES_KEPT = 8


def gnmax_rdp_total(
    votes: ArrayLike,
    sigma: float,
    orders: ArrayLike,
    bound: str = "tight",
    *,
    weights: ArrayLike | None = None,
) -> Floats:
    """Sum of `gnmax_rdp` over the queries (each times its weight): shape (orders,). Secret.

    Never below the exact sum; with `bound="tight"` and more than 2,000 distinct q at most 1e-3
    above it. Weights are for the papers' expected-value tables.

    >>> import numpy as np
    >>> votes = [[200, 50] + [0] * 8, [249, 1] + [0] * 8]
    >>> from tacit.privacy import gnmax_rdp
    >>> bool(np.allclose(gnmax_rdp_total(votes, 40, [8]), gnmax_rdp(votes, 40, [8]).sum(axis=0)))
    True
    """
    one_of("tight", "theorem6", bound=bound)
    orders, sigma = order_array(orders), positive(sigma=sigma)
    log_q = gnmax_log_q(votes, sigma)
    shares = checked_weights(weights, log_q.size)
    distinct, place = np.unique(log_q, return_inverse=True)
    mass = np.bincount(place, weights=shares, minlength=distinct.size).astype(np.float64)
    if bound == "theorem6" or distinct.size <= EXACT_BELOW:
        return _exact_total(distinct, mass, sigma, orders, bound)
    return _tabulated_total(distinct, mass, sigma, orders)


def _exact_total(log_q: Floats, mass: Floats, sigma: float, orders: Floats, bound: str) -> Floats:
    total = np.zeros(orders.size)
    step = max(1, _PAIRS_AT_ONCE // orders.size)
    for start in range(0, log_q.size, step):
        part = slice(start, start + step)
        total += mass[part] @ rdp_from_log_q(log_q[part], sigma, orders, bound)
    return total


def _tabulated_total(log_q: Floats, mass: Floats, sigma: float, orders: Floats) -> Floats:
    z = ndtri_exp(log_q)
    deep = z < _FINE_ABOVE
    nodes = _node_above(z)
    sparse = np.minimum(-(-nodes // _SPARSE) * _SPARSE, _node_above(np.array(_FINE_ABOVE)))
    main = _sum_over_nodes(nodes[~deep], mass[~deep], sigma, orders)
    rest = _sum_over_nodes(sparse[deep], mass[deep], sigma, orders)
    if (rest > 1e-4 * main).any():  # nearly unanimous votes everywhere: then they deserve precision
        rest = _exact_total(log_q[deep], mass[deep], sigma, orders, "tight")
    return main + rest


def _sum_over_nodes(nodes: Integers, mass: Floats, sigma: float, orders: Floats) -> Floats:
    if not nodes.size:
        return np.zeros(orders.size)
    asked, place = np.unique(nodes, return_inverse=True)
    share = np.bincount(place, weights=mass, minlength=asked.size)
    table = _table(sigma, orders)
    missing = np.array([node for node in asked.tolist() if node not in table], dtype=np.int64)
    if missing.size:
        rows = rdp_from_log_q(_log_q_at(missing), sigma, orders, tolerance=1e-5)
        table.update(zip(missing.tolist(), rows, strict=True))
    return np.asarray(share @ np.array([table[node] for node in asked.tolist()]))


def _table(sigma: float, orders: Floats) -> dict[int, Floats]:
    key = (sigma, orders.tobytes())
    table = _TABLES.setdefault(key, {})
    _TABLES.move_to_end(key)
    if len(_TABLES) > _TABLES_KEPT:
        _TABLES.popitem(last=False)
    return table


def _node_above(z: Floats) -> Integers:
    """Index of the first node at or above z, in w = z inside [-1, 1], sign(z)(z^2 + 1)/2 outside.

    dw/dz = max(1, |z|), which is about how fast the logarithm of the cost grows with z.
    """
    w = np.where(np.abs(z) <= 1, z, np.sign(z) * (z * z + 1) / 2)
    return np.ceil(w / _SPACING + 1e-9).astype(np.int64)


def _log_q_at(node: Integers) -> Floats:
    w = node * _SPACING
    z = np.where(np.abs(w) <= 1, w, np.sign(w) * np.sqrt(np.maximum(2 * np.abs(w) - 1, 0.0)))
    return np.minimum(log_ndtr(z), 0.0)
