"""Private records as neighbours of public inputs: an exact index, and the queries of a round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from tacit._checks import Floats, at_least
from tacit.errors import InvalidArgument
from tacit.methods.knn_planning import Neighbourly
from tacit.neighbours import Neighbourhoods, NeighbourIndex, default_reach
from tacit.records import PrivateRecords, PublicSpace
from tacit.teachers import record_ids


@dataclass(frozen=True, slots=True, repr=False)
class RecordIndex:
    """Private records ready to be asked. Secret; it refuses to be pickled."""

    space: PublicSpace
    index: NeighbourIndex
    asked: Neighbourly

    def around(self, inputs: NDArray[Any]) -> Neighbourhoods:
        """Rank the records around public inputs. Secret."""
        reach = default_reach(self.asked.k, self.asked.sampling_rate)
        return self.index.search(self.space.view(inputs), reach)

    def __reduce__(self) -> NoReturn:
        raise TypeError("Expected private records to stay where they are; save the student.")

    def __repr__(self) -> str:
        return "RecordIndex(secret)"


def index_records(
    private: PrivateRecords, space: PublicSpace, asked: Neighbourly
) -> tuple[RecordIndex, PrivateRecords]:
    """Index the records in a public feature space, and return those that have a place there.

    The others say nothing, in this round or in a later one: they are not looked at again. Secret.
    """
    seen, placed = space.seen(private.rows, np.asarray)
    left = private if placed.all() else private.only(placed)
    index = NeighbourIndex(
        seen,
        left.targets,
        keys=record_ids(left.rows),
        units=left.people,
        votes_per_unit=asked.votes_per_unit,
        radius=space.radius,
    )
    return RecordIndex(space, index, asked), left


@dataclass(frozen=True, slots=True)
class LearnedView:
    """A student's representation as the feature map of the next round: public, it saw releases."""

    student: Any

    def fit(self, X: NDArray[Any]) -> LearnedView:
        """Learn nothing more."""
        del X
        return self

    def transform(self, X: NDArray[Any]) -> Floats:
        """Return what the student makes of the inputs."""
        return np.asarray(self.student.represent(X), dtype=np.float64)

    def __sklearn_clone__(self) -> LearnedView:
        return self


def public_rounds(strategy: Any, queries: int, rounds: int) -> list[int]:
    """Return how many public inputs each round asks."""
    count = at_least(1, rounds=rounds)
    if isinstance(strategy, str):
        return [at_least(1, queries=queries)] * count
    if count > 1:
        raise InvalidArgument(f"Expected strategy= a name where rounds={count}: rows are chosen.")
    return [len(strategy)]
