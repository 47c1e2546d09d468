"""Private records to answers without training: exact search and lazy Poisson subsampling.

`NeighbourIndex.search` ranks private records around public queries; its `Neighbourhoods` draw a
fresh Poisson sample for each use. All is secret until a mechanism, through a ledger, releases it.
Theory: docs/theory/private-knn.md#what-one-unit-can-move and #a-walk-instead-of-coins.

>>> from tacit.neighbours import NeighbourIndex
>>> from tacit.noise import InsecureNoise
>>> keys = [b"5e1f", b"a09c", b"31d7"]
>>> index = NeighbourIndex([[0.0], [0.5], [0.9]], [0, 1, 1], keys=keys, radius=1.0)
>>> around = index.search([[0.6]], reach=3)
>>> around.targets[around.draw(2, 1.0, InsecureNoise(seed=1))]
array([[1, 1]])
"""

from tacit.neighbours.index import NeighbourIndex
from tacit.neighbours.nearest import Nearest as Nearest
from tacit.neighbours.nearest import Search as Search
from tacit.neighbours.neighbourhoods import Neighbourhoods, default_reach
from tacit.neighbours.ranking import GRID_RADIUS as GRID_RADIUS
from tacit.neighbours.ranking import Ranking as Ranking
from tacit.neighbours.ranking import extended, quantise, questions
from tacit.neighbours.ranking import feature_rows as feature_rows

__all__ = [
    "NeighbourIndex",
    "Neighbourhoods",
    "default_reach",
    "extended",
    "quantise",
    "questions",
]
