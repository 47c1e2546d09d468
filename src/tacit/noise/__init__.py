"""Where randomness comes from: secure by default, seedable only as "insecure".

`SecureNoise` is a ChaCha20 stream keyed by the operating system, without a seed. `InsecureNoise`
has a seed, for tests and research, and everything made with it says so. `GrantedNoise` is what an
open grant of a ledger lends to a mechanism, and `admit` is how a mechanism checks what it was
given. As in docs/architecture.md#noise: an index or a bit is released with continuous
Gaussian noise, a number with a Gaussian that is rounded exactly to a public grid. `split` and
`expand` make additive shares mod 2^64 for two parties that do not collude. Names that are not
in `__all__` are for the packages above.

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
