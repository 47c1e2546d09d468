"""A segmenter for data that its owner declares public: it keeps what is otherwise secret.

Research compares what teachers said with what was released of it. The mean before noise has no
privacy at all, so that only this class keeps it, and its statement says so.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit._checks import Floats
from tacit.masks.segmenter import PATESegmenter

SIMULATION = (
    "this run was declared a simulation: its private scans are said to be public, and its report "
    "may show the teachers' mean before noise, which no cost covers"
)


class SimulatedSegmenter(PATESegmenter):
    """`PATESegmenter` that also keeps `teachers_mean_`: the decoded mean code before noise.

    For scans that are public in truth, as a benchmark's. With private ones it publishes what the
    releases protect.
    """

    teachers_mean_: Floats

    def _codes(self, *given: Any) -> NDArray[Any]:
        codes = super()._codes(*given)
        codec = given[-1]
        answered = codes[np.isfinite(codes).all(axis=(1, 2))].astype(np.float64)
        self.teachers_mean_ = np.asarray(codec.decode(answered.sum(axis=0) / max(1, len(answered))))
        return codes

    def _declared_faults(self) -> tuple[str, ...]:
        return (*super()._declared_faults(), SIMULATION)
