"""Whether releases show that a student learned anything: by its out-of-fold predictions.

Where predictions made without a query's release (as in `CombinedStudent`'s folds) are unrelated to
it, nothing is known to have been learned. From releases and public inputs alone. The converse
proves nothing: one record or teacher votes for many inputs, so its votes predict each other.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tacit._checks import Floats

CLEAR = 2.0
"""Deviations above 0 from which something was learned."""


class Signal(NamedTuple):
    """Evidence from releases that a student learned anything; public.

    `learned` is in standard deviations, about N(0, 1) if nothing was.
    """

    learned: float

    @property
    def is_weak(self) -> bool:
        """Whether the releases do not show that anything was learned."""
        return not self.learned >= CLEAR  # what is not a number shows nothing

    def __str__(self) -> str:
        """Return it in words."""
        if self.is_weak:
            return (
                "The releases do not show that anything was learned: what was foretold of each "
                "public input from the others goes with what was released of it by "
                f"{self.learned:.1f} deviations, and noise alone gives up to {CLEAR:g}. The "
                "student may be no better than guessing, or than the most frequent label. More "
                "records, a larger epsilon or another method may help; a private evaluation would "
                "tell."
            )
        return (
            "What was released of neighbouring public inputs agrees: what was foretold of each by "
            f"the others goes with what was released of it by {self.learned:.1f} deviations. That "
            "shows a pattern beyond noise, not that it is the labels': records that vote for "
            "several inputs agree with themselves. Only an evaluation tells how good the student "
            "is."
        )


def signal_of(told: ArrayLike, foretold: Floats | None) -> Signal:
    """Compare what was released of queries with what was predicted without it.

    With R_q a row of `told`, p_q the prediction and its mean m, the sum of d_q = R_q . (p_q - m)
    over the root of the sum of d_q^2 is about a standard Gaussian (a little less) where R_q is
    unrelated to p_q, whatever the noise. `told`: noisy votes, or released labels one-hot; public.
    """
    if foretold is None:
        return Signal(0.0)
    votes = np.asarray(told, dtype=np.float64)
    each = (votes * (foretold - foretold.mean(axis=0))).sum(axis=1)
    return Signal(float(each.sum() / max(float(np.sqrt((each**2).sum())), 1e-12)))
