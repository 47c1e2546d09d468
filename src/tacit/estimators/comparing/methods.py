"""The methods of a comparison: for each, one function from public facts to an unfitted estimator.

Settings depend on public facts and the budget alone, by rules that were fixed on other data (USPS
digits for images, California housing for tables) and are printed with every comparison. To add a
method is to write one function and one line of `METHODS`.

What votes and noise have in common is `strength` = n mu: how many standard deviations of noise all
private records weigh together, mu being that of the exact Gaussian curve at (epsilon, delta).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tacit.estimators.comparing.tasks import Facts
from tacit.privacy import gaussian_mu

Builder = Callable[[Facts, float, float, int], Any]
"""(facts, epsilon, delta, seed) to an unfitted estimator."""


@dataclass(frozen=True, slots=True)
class Method:
    """A way to learn: its name on the page, the rule of its settings, where that was chosen."""

    title: str
    build: Builder
    rule: str
    private: bool = True


def strength(facts: Facts, epsilon: float, delta: float) -> float:
    """Return n mu, the public ratio on which all rules rest."""
    return facts.n_private * float(gaussian_mu(epsilon, delta))


def features_of(facts: Facts) -> Any:
    """Return the public view by kind of data: HOG of deskewed images, public bins, or scaling."""
    if facts.kind == "images":
        from tacit.features import digit_features

        return digit_features(facts.image_shape or (28, 28))
    if facts.kind == "table":
        from tacit.features import PublicBins

        return PublicBins(facts.columns or (), unit_norm=True)
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, StandardScaler

    # Standardised by public inputs, then shortened so that a typical row has length 1.
    shorten = FunctionTransformer(_shortened, kw_args={"width": facts.n_features})
    return make_pipeline(StandardScaler(), shorten)


def _shortened(X: Any, width: int) -> Any:
    return X / math.sqrt(width)


def _common(facts: Facts, epsilon: float, delta: float, seed: int) -> dict[str, Any]:
    return {
        "epsilon": epsilon,
        "delta": delta,
        "features": features_of(facts),
        "classes": facts.classes,
        "random_state": seed,
    }


def boosting_student() -> Any:
    """Return the student for tables: label spreading finds no clusters there."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    from tacit.students import SupervisedStudent

    return SupervisedStudent(
        HistGradientBoostingClassifier(max_iter=50, max_depth=3, random_state=0)
    )


_CLEAR = 4.5
"""Votes over noise that a query needs: what USPS needed at the strength of MNIST at 0.1."""
_RECORDS = (60, 30, 15, 10)
_TABLE_RECORDS = 96


def fewest_queries(facts: Facts, clear_at_one: float) -> int:
    """Return how many queries stay clear: noise grows with their root; 100 at most, 2 a class."""
    affordable = int((clear_at_one / _CLEAR) ** 2)
    return min(facts.n_public, max(2 * facts.n_classes, min(100, affordable)))


def build_pate(facts: Facts, epsilon: float, delta: float, seed: int) -> Any:
    """Kernel-ridge teachers."""
    import numpy as np

    from tacit.estimators.pate import PATEClassifier
    from tacit.teachers import KernelRidgeTeachers

    common = _common(facts, epsilon, delta, seed)
    if facts.kind == "table":
        return PATEClassifier(
            KernelRidgeTeachers(gamma=0.1),
            boosting_student(),
            n_teachers=max(2, facts.n_private // _TABLE_RECORDS),
            queries=facts.n_public,
            strategy=np.arange(facts.n_public),
            **common,
        )
    power = strength(facts, epsilon, delta)
    clear = [size for size in _RECORDS if power / size / math.sqrt(200) >= _CLEAR]
    size = clear[0] if clear else _RECORDS[-1]
    return PATEClassifier(
        KernelRidgeTeachers(),
        n_teachers=max(2, facts.n_private // size),
        queries=fewest_queries(facts, power / size / math.sqrt(2)),
        **common,
    )


_NEIGHBOURS_CLEAR = 5.3
_CLASS_SHARE = 0.8
_TABLE_NEIGHBOURS = 0.005


def build_knn(facts: Facts, epsilon: float, delta: float, seed: int) -> Any:
    """Private neighbours, all of them present in every query."""
    import numpy as np

    from tacit.estimators.knn import PrivateKNNClassifier

    common = _common(facts, epsilon, delta, seed)
    if facts.kind == "table":
        return PrivateKNNClassifier(
            boosting_student(),
            k=max(2, round(_TABLE_NEIGHBOURS * facts.n_private)),
            queries=facts.n_public,
            strategy=np.arange(facts.n_public),
            **common,
        )
    mu = float(gaussian_mu(epsilon, delta))
    most = max(2, int(_CLASS_SHARE * facts.n_private / facts.n_classes))
    k = min(most, max(2, math.ceil(_NEIGHBOURS_CLEAR * math.sqrt(200) / mu)))
    queries = fewest_queries(facts, k * mu / math.sqrt(2))
    return PrivateKNNClassifier(k=k, queries=queries, **common)


def build_prototype(facts: Facts, epsilon: float, delta: float, seed: int) -> Any:
    """Votes at public prototypes."""
    from tacit.estimators.prototypes import PrototypeClassifier

    power = strength(facts, epsilon, delta)
    wanted = 300 if power >= 1000 else 100 if power >= 300 else 50
    count = max(3, min(wanted, facts.n_public // 3))
    return PrototypeClassifier(n_prototypes=count, **_common(facts, epsilon, delta, seed))


def build_moments(facts: Facts, epsilon: float, delta: float, seed: int) -> Any:
    """Noisy moments: no knob."""
    from tacit.estimators.moments import MomentClassifier

    return MomentClassifier(**_common(facts, epsilon, delta, seed))


def build_ridge(facts: Facts, epsilon: float, delta: float, seed: int) -> Any:
    """Residual moments on kernel features, with the defaults."""
    from tacit.estimators.residual_ridge import ResidualRidgeClassifier

    return ResidualRidgeClassifier(**_common(facts, epsilon, delta, seed))


def build_dpsgd(facts: Facts, epsilon: float, delta: float, seed: int) -> Any:
    """Noisy gradients, the whole of one record's clipped at once; linear in the features."""
    rate = 1.0 if facts.kind == "table" else 0.3
    linear = {"clipping": "flat", "hidden": (), "learning_rate": rate}
    return _network(facts, epsilon, delta, seed, **linear)


def build_layerwise(facts: Facts, epsilon: float, delta: float, seed: int) -> Any:
    """Noisy gradients of a network, each layer's clipped by itself."""
    return _network(facts, epsilon, delta, seed, clipping="per-layer")


def _network(facts: Facts, epsilon: float, delta: float, seed: int, **shape: Any) -> Any:
    from tacit.estimators.dpsgd import DPSGDClassifier

    steps = _steps(facts) | shape
    return DPSGDClassifier(**steps, **_common(facts, epsilon, delta, seed))


def _steps(facts: Facts) -> dict[str, Any]:
    """Return the settings of noisy steps: 80 of them for every size, so that one rate will do."""
    lot = max(1, facts.n_private // 4)
    return {"n_records": facts.n_private, "batch_size": lot, "epochs": 20, "learning_rate": 0.03}


def build_mac(facts: Facts, epsilon: float, delta: float, seed: int) -> Any:
    """Auxiliary coordinates cut the network into layers; each is trained by noisy steps."""
    from tacit.estimators.mac import MACClassifier

    common = _common(facts, epsilon, delta, seed)
    return MACClassifier(z_steps=6, z_rate=0.03, **_steps(facts), **common)


def build_reference(facts: Facts, epsilon: float, delta: float, seed: int) -> Any:
    """Learn without privacy from the same private records, in the same view."""
    del epsilon, delta
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.pipeline import make_pipeline

    if facts.kind == "images":
        return make_pipeline(features_of(facts), KNeighborsClassifier(5))
    return HistGradientBoostingClassifier(random_state=seed)


def build_majority(facts: Facts, epsilon: float, delta: float, seed: int) -> Any:
    """Say the most frequent label: what can be had for nothing."""
    del facts, epsilon, delta, seed
    from sklearn.dummy import DummyClassifier

    return DummyClassifier(strategy="most_frequent")


METHODS: dict[str, Method] = {
    "pate": Method(
        "PATE",
        build_pate,
        "Kernel-ridge teachers. Images, numbers: the largest of 60, 30, 15, 10 records a teacher "
        "whose votes are 4.5 times the noise of 100 queries, fewer queries (2 a class at least) "
        "if none is; medoids, label spreading (USPS). Tables: 96 records a teacher, all public "
        "inputs, boosted student (California housing).",
    ),
    "knn": Method(
        "Private-kNN",
        build_knn,
        "Every record takes part. Images, numbers: k is 5.3 times the noise of 100 queries, at "
        "most 0.8 n / classes, then fewer queries; medoids, label spreading (USPS). Tables: k = "
        "0.5 % of the records, all public inputs, boosted student (California housing).",
    ),
    "prototype": Method(
        "prototypes",
        build_prototype,
        "300 prototypes from n mu = 1,000 on, 100 from 300 on, else 50, at most a third of the "
        "public inputs; 3 votes (USPS); label spreading, a linear student or the nearest "
        "prototypes, whichever the release supports.",
    ),
    "moments": Method(
        "moments",
        build_moments,
        "Two rounds; no setting to choose (California housing).",
    ),
    "ridge": Method(
        "residual ridge",
        build_ridge,
        "500 landmarks, width 0.3, two rounds, clip 0.5 (USPS).",
    ),
    "mac": Method(
        "DP-MAC",
        build_mac,
        "Layers of 300 and 100 on the same features, thresholds of 0.001, 6 Z-steps of 0.03, Adam, "
        "rate 0.03, 20 epochs in lots of a quarter of the records (USPS).",
    ),
    "dpsgd": Method(
        "DP-SGD, linear",
        build_dpsgd,
        "Softmax regression on the same features, flat clipping at 0.1, Adam, rate 0.3 (tables: "
        "1), 20 epochs in lots of a quarter of the records (USPS; California housing).",
    ),
    "layerwise": Method(
        "DP-SGD, layer-wise",
        build_layerwise,
        "Layers of 300 and 100 on the same features, each clipped by itself at 0.1, Adam, rate "
        "0.03, 20 epochs in lots of a quarter of the records (USPS).",
    ),
}

REFERENCES: dict[str, Method] = {
    "non-private": Method(
        "not private",
        build_reference,
        "Images: 5 nearest neighbours in the same features; else gradient boosting of the inputs; "
        "scikit-learn's defaults.",
        private=False,
    ),
    "majority": Method(
        "most frequent label", build_majority, "Says one label always.", private=False
    ),
}


def custom_methods(estimators: Mapping[str, Any] | None) -> dict[str, Method]:
    """Return methods of the caller's own: estimators, or functions that build them.

    An estimator is cloned, and gets epsilon, delta, random_state and classes where it has them.
    """
    found = {}
    for name, given in (estimators or {}).items():
        is_function = not hasattr(given, "fit")
        build = given if is_function else _builder_of(given)
        found[name] = Method(name, build, "As given by the caller.")
    return found


def _builder_of(estimator: Any) -> Builder:
    from sklearn.base import clone

    def build(facts: Facts, epsilon: float, delta: float, seed: int) -> Any:
        copy = clone(estimator)
        offered = {
            "epsilon": epsilon,
            "delta": delta,
            "random_state": seed,
            "classes": facts.classes,
        }
        own = copy.get_params(deep=False)
        return copy.set_params(**{key: value for key, value in offered.items() if key in own})

    return build
