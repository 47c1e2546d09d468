"""What one aggregator can prove of an honest site's patient, with everybody else on its side.

    python -m benchmarks.shares_audit --trials 1000000

A study of one query and two classes, run so many times: two honest sites split their counts, a
third site colludes with one aggregator, the other aggregator is honest. What the colluders compute
from all that they see is compared on neighbouring records, and the claim of `SharedVotes` must
stand. Each of six mistakes must be refuted. It prints what was proved next to the claim.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tacit import Plan
from tacit.mechanisms import SharedVotes, count_votes
from tacit.mechanisms.audit_cases import Shift
from tacit.noise import GrantedNoise, Noise, SecureNoise, expand, split

TEACHERS, REACHED = 20, 3
"""Of an honest site; and how many of them one unit reaches."""
SIGMA, CONFIDENCE = 4.0, 1e-6
Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Protocol:
    """The protocol as it is; a mistake changes one part of it.

    deviation: of each aggregator's noise, in sigmas; openings: how often a sum is opened, each time
    with fresh noise; times_added: how often the honest aggregator adds a site's share; one_seed:
    whether both honest sites use the same seed; coupled: how many teachers a slow one stops.
    """

    deviation: float = 1.0
    openings: int = 1
    times_added: int = 1
    one_seed: bool = False
    coupled: int = 0


HONEST = Protocol()
MISTAKES = {
    "no noise": replace(HONEST, deviation=0.0),
    "half the variance at each": replace(HONEST, deviation=0.5**0.5),
    "a second opening": replace(HONEST, openings=2),
    "one seed for two sites": replace(HONEST, one_seed=True),
    "a share added twice": replace(HONEST, times_added=2),
    "teachers sharing a clock": replace(HONEST, coupled=REACHED),
}


def mechanism() -> SharedVotes:
    """Return what is claimed: so many teachers of a unit, at this noise."""
    return SharedVotes(SIGMA, votes_per_unit=REACHED)


def counts(protocol: Protocol, unit: bool) -> Numbers:
    """Return an honest site's counts (1, 2): its teachers say 1 but for those the unit reaches.

    With a clock that they share, the unit's slow shards leave no time for some others, which then
    answer class 0 as well.
    """
    moved = REACHED + protocol.coupled if unit else 0
    answers = np.ones((TEACHERS, 1), dtype=np.int64)
    answers[:moved] = 0
    return count_votes(answers, 2)


def view(protocol: Protocol, unit: bool, trials: int, noise: Callable[[], Noise]) -> Numbers:
    """Return what colluders make of all they see: (trials, 2), one noise in it at the best.

    A trial is a row: words of a seed's stream are independent, and so are the draws of noise.
    """
    first, second = np.tile(counts(protocol, unit), (trials, 1)), np.tile([[5, 15]], (trials, 1))
    seed, share = split(first)
    other_seed, other_share = split(second, seed if protocol.one_seed else None)
    if protocol.one_seed:  # the aggregator of shares subtracts two of them: the seed drops out
        return (share - other_share).view(np.int64) + second
    masks = expand(seed, first.shape) + expand(other_seed, first.shape)
    added = share.copy()
    for _ in range(protocol.times_added - 1):
        added += share
        masks += expand(seed, first.shape)
    opened = [
        released(protocol, added + other_share, noise()) + masks for _ in range(protocol.openings)
    ]
    # Everything but the unit's site is known, and so is how often it was added.
    seen = [each.view(np.int64) - second for each in opened]
    return np.asarray(sum(seen)) // protocol.openings if protocol.openings > 1 else seen[0]


def released(protocol: Protocol, total: NDArray[np.uint64], noise: Noise) -> NDArray[np.uint64]:
    """Return the honest aggregator's sum: that of `SharedVotes`, or with less noise."""
    if protocol.deviation == 1.0:
        shares = mechanism().release(total, noise).shares
        assert shares is not None
        return shares
    if protocol.deviation == 0.0:
        return total
    less = noise.rounded_gaussian_steps(SIGMA * protocol.deviation, 1.0, total.shape)
    return total + less.view(np.uint64)


def granted() -> Noise:
    """Return noise as a grant would lend it."""
    return GrantedNoise(SecureNoise(), entry="a benchmark")


def audit(protocol: Protocol, trials: int) -> list[tuple[float, float, float]]:
    """Return (delta, claim, proved) for each look at two neighbouring inputs."""
    one = Plan(mechanism(), 1)
    spread, start = 2**0.5 * SIGMA, -float(TEACHERS)
    looks = Shift((1.0, -1.0), start, 2.0 * REACHED, spread).looks(one)
    with_unit, without = (
        view(protocol, unit, trials, granted).astype(np.float64) for unit in (True, False)
    )
    share = CONFIDENCE / len(looks)
    return [
        (look.delta or 0.0, look.claim(one), look.proved(with_unit, without, share))
        for look in looks
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=10**6)
    trials = parser.parse_args().trials
    print(f"{trials} runs of each of two inputs: epsilon claimed and proved")
    for name, protocol in {"honest": HONEST, **MISTAKES}.items():
        looks = audit(protocol, trials)
        refuted = any(proved > claim for _, claim, proved in looks)
        delta, claim, proved = max(looks, key=lambda each: each[2] - each[1])
        verdict = "refuted" if refuted else "stands"
        print(f"{name}: claimed {claim:.2f}, proved {proved:.2f} at delta {delta:g}: {verdict}")


if __name__ == "__main__":
    main()
