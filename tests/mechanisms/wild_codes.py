"""Codes that a broken or hostile teacher might send, and how far they move a release."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tacit.noise import InsecureNoise

WILD = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.floats(-3, 3),
    st.sampled_from([1e300, -1e300, 1.7e308, 5e-324, -5e-324, 0.0, -0.0, np.nan, np.inf, -np.inf]),
)


def wild(*shape):
    return hnp.arrays(np.float64, shape, elements=WILD)


def exact_square(steps):
    """The sum of squares in unbounded integers."""
    return sum(int(step) ** 2 for step in np.ravel(steps))


def released_difference(mechanism, first, second, **public):
    """Two releases with the same noise differ as the means before noise do."""
    return (
        mechanism.release(first, InsecureNoise(5), **public).values
        - mechanism.release(second, InsecureNoise(5), **public).values
    )
