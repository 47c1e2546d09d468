"""Principal components bought from private masks with differential privacy.

`NoisySecondMoment` releases sum y y^T of clipped private masks; eigenvectors and spectrum are
post-processing. What it cost stands in the ledger, beside what the codec is then used for.
Proof: docs/theory/high-dimensional.md#private-components.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from tacit._checks import Floats, at_least, finite_array
from tacit.errors import InvalidArgument
from tacit.masks.codecs.base import answer_rows, shape_of
from tacit.masks.codecs.pca import PCACodec
from tacit.mechanisms import NoisySecondMoment, Plan, Release

if TYPE_CHECKING:
    from tacit.ledger import Ledger
    from tacit.noise import InsecureNoise


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class DPPCACodec(PCACodec):
    """A `PCACodec` whose components come from private masks, through a ledger.

    There is no private mean: masks are centred with a public one (0.5 everywhere unless given), and
    the spectrum is the second moment about it. The radius for one query is the rms of the codes.

    >>> import tempfile
    >>> from tacit import Budget, Ledger
    >>> masks = np.zeros((50, 2, 2)); masks[:25, 0] = 1
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ledger = Ledger(f"{folder}/run.ledger", budget=Budget(8, 1e-5), unit="patient")
    ...     codec = DPPCACodec.buy(masks, ledger, sigma=2.0, radius=1.0, n_masks=50, n_components=2)
    >>> codec.length, codec.provenance
    (2, 'dp')
    """

    @classmethod
    def buy(
        cls,
        masks: ArrayLike,
        ledger: Ledger,
        *,
        sigma: float,
        radius: float,
        n_masks: int,
        n_components: int,
        mean: ArrayLike | None = None,
        shape: Sequence[int] | None = None,
        noise: InsecureNoise | None = None,
    ) -> DPPCACodec:
        """Fit private masks (n, ...), one for each unit, and pay mu^2 = 1/sigma^2 for it.

        radius: to which |mask - mean| is clipped, public. n_masks: how many masks there are, as
        far as the public knows; it only scales the spectrum. shape: of a mask, public.
        """
        rows = np.asarray(masks)
        sides = shape_of(rows.shape[1:] if shape is None else shape)
        centre = public_mean(mean, sides)
        with np.errstate(all="ignore"):  # the mechanism makes 0 of what is not finite
            vectors = (answer_rows(masks, sides) - centre).reshape(len(rows), -1)
        plan = Plan(NoisySecondMoment(sigma, centre.size, radius), 1)
        with ledger.release(plan, purpose="components of a codec", noise=noise) as grant:
            release = grant.release(vectors)
        return cls.from_release(release, centre, n_masks=n_masks, n_components=n_components)

    @classmethod
    def from_release(
        cls, release: Release, mean: ArrayLike, *, n_masks: int, n_components: int
    ) -> DPPCACodec:
        """Make the codec from a release of `NoisySecondMoment` about this mean: post-processing."""
        mechanism = release.mechanism
        if not isinstance(mechanism, NoisySecondMoment) or release.values is None:
            raise InvalidArgument("Expected a release of NoisySecondMoment.")
        centre = finite_array(mean=mean)
        if centre.size != mechanism.dimension:
            raise InvalidArgument(
                f"Expected a mean of {mechanism.dimension} numbers, got {centre.size}."
            )
        roots, vectors = np.linalg.eigh(release.values)
        kept = min(at_least(1, n_components=n_components), mechanism.dimension)
        largest = explained(roots[::-1][:kept], mechanism) / at_least(1, n_masks=n_masks)
        return cls(
            mean=centre,
            components=np.ascontiguousarray(vectors[:, ::-1][:, :kept].T),
            spectrum=largest,
            weights=np.ones(kept),
            radius=max(math.sqrt(largest.sum()), mechanism.radius * 1e-6),
            examples=None,
            coverage=1.0,
            provenance="dp",
            statement=_statement(mechanism, release),
        )


def explained(roots: Floats, mechanism: NoisySecondMoment) -> Floats:
    """Return what a noisy eigenvector explains of the sum: sqrt(root^2 - edge^2), 0 below the edge.

    The noise alone has roots up to edge = radius^2 sigma sqrt(2 dimension) (semicircle law). A root
    theta > edge/2 of the sum shows as theta + (edge/2)^2/theta, and the noisy eigenvector has the
    squared cosine 1 - (edge/2)^2/theta^2 with the true one (Benaych-Georges and Nadakuditi 2011);
    theta times that cosine is the formula.

    >>> explained(np.array([5.0, 2.0, -1.0]), NoisySecondMoment(1.0, 8)).tolist()
    [3.0, 0.0, 0.0]
    """
    edge = mechanism.radius**2 * mechanism.sigma * math.sqrt(2 * mechanism.dimension)
    return np.sqrt(np.maximum(np.maximum(roots, 0.0) ** 2 - edge**2, 0.0))


def public_mean(mean: ArrayLike | None, shape: tuple[int, ...]) -> Floats:
    """Return the public mean, 1/2 everywhere unless given."""
    centre = finite_array(mean=0.5 if mean is None else mean)
    try:
        return np.array(np.broadcast_to(centre, shape))
    except ValueError:
        raise InvalidArgument(f"Expected mean to fit {shape}, got {centre.shape}.") from None


def _statement(mechanism: NoisySecondMoment, release: Release) -> str:
    paid = "no ledger paid for it" if release.entry is None else f"ledger entry {release.entry}"
    warning = "" if release.secure else " with seeded noise, NOT private"
    return (
        f"bought from private masks by {mechanism!r}, mu^2 = {mechanism.gaussian_cost():.6g}, "
        f"{paid}{warning}"
    )
