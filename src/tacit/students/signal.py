"""Whether releases show that a student learned anything: by what it foretells of them.

A student that never saw what was released of a query says a class for it (`CombinedStudent` has
such folds). Where that has nothing to do with what was released, nothing is known to have been
learned: a model that looks like any other, and costs as much. It is told by releases and public
inputs alone. The other way round it proves nothing: one record or teacher votes for many inputs,
so that its votes foretell each other whatever the labels mean.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tacit._checks import Floats

CLEAR = 2.0
"""Deviations above nothing from which something was learned."""


class Signal(NamedTuple):
    """What releases tell of whether a student learned anything; public.

    Parameters
    ----------
    learned : float
        By how many deviations what was foretold of queries goes with what was released of them.
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
    """Compare what was released of queries with what was foretold without it.

    Parameters
    ----------
    told : array of shape (queries, classes)
        Noisy votes, or 1 for a released label and 0 elsewhere; public.
    foretold : array of shape (queries, classes), optional
        Chances that a student gives without having seen the row; None where it could not.

    Returns
    -------
    Signal
        Nothing learned where nothing could be foretold.

    Notes
    -----
    With R_q a row of `told`, p_q what was foretold and its mean m, the sum of d_q = R_q . (p_q - m)
    over the root of the sum of d_q^2 is about a standard Gaussian where R_q has nothing to do with
    p_q, whatever the noise. (It is a little less: what is left out of a fold is missing in the
    mean of the others.)

    Examples
    --------
    >>> told = [[9.0, 1.0], [1.0, 9.0]] * 10
    >>> signal_of(told, np.array([[0.9, 0.1], [0.1, 0.9]] * 10)).is_weak
    False
    """
    if foretold is None:
        return Signal(0.0)
    votes = np.asarray(told, dtype=np.float64)
    each = (votes * (foretold - foretold.mean(axis=0))).sum(axis=1)
    return Signal(float(each.sum() / max(float(np.sqrt((each**2).sum())), 1e-12)))
