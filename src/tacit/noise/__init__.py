"""Where randomness comes from: secure by default, seedable only as "insecure".

A mechanism draws from a `GrantedNoise` of an open grant, or from an `InsecureNoise` with a seed,
which marks what it makes; `admit` refuses all else (docs/architecture.md#noise). `split` and
`expand` make additive shares mod 2^64 for two parties that do not collude.

>>> from tacit.noise import SecureNoise
>>> SecureNoise().gaussian(sigma=40.0, size=(2, 3)).shape
(2, 3)
"""

from tacit.noise.exact import check_rate as check_rate
from tacit.noise.exact import check_ratio as check_ratio
from tacit.noise.shares import SEED_BYTES as SEED_BYTES
from tacit.noise.shares import Shares as Shares
from tacit.noise.shares import expand, split
from tacit.noise.sources import GrantedNoise, InsecureNoise, Noise, SecureNoise, admit

__all__ = [
    "GrantedNoise",
    "InsecureNoise",
    "Noise",
    "SecureNoise",
    "admit",
    "expand",
    "split",
]
