"""From a method's section to its estimator, and to the pictures that its report may show.

A new method is one section (`sections`) and one entry of `BUILDERS` here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.datasets import Dataset
from tacit.errors import InvalidArgument
from tacit.estimators.dpsgd import DPSGDClassifier
from tacit.estimators.inputs import FROM_DATA
from tacit.estimators.knn import PrivateKNNClassifier
from tacit.estimators.mac import MACClassifier
from tacit.estimators.moments import MomentClassifier
from tacit.estimators.pate import PATEClassifier
from tacit.estimators.prototypes import PrototypeClassifier
from tacit.estimators.residual_ridge import ResidualRidgeClassifier
from tacit.estimators.sections import (
    AUTO,
    ITSELF,
    DpsgdConfig,
    KnnConfig,
    MacConfig,
    MomentsConfig,
    NetworkSection,
    PateConfig,
    PrototypeConfig,
    RidgeConfig,
)
from tacit.estimators.taught import TaughtClassifier

Figures = list[tuple[str, Any]]
"""Captions and matplotlib figures."""


@dataclass(frozen=True, slots=True, eq=False)
class Setting:
    """What a builder is given: the run's shared arguments, the private rows' kind, the folder."""

    shared: dict[str, Any]
    """epsilon, delta, allow_large_delta, allow_overlap, classes, ledger, dataset, random_state."""
    data: Dataset
    folder: Path
    executor: str

    def taught(self, section: Any) -> dict[str, Any]:
        """Return the shared arguments with the section's student and features."""
        return {
            **self.shared,
            "student": make_student(section.student, self.data),
            "features": make_features(section.features, self.data),
        }


class Builder(NamedTuple):
    """How a method's estimator is made, and what of its releases can be shown as pictures.

    `figures` is given the fitted model, the public inputs and the shape of an image; it is only
    called where inputs are images.
    """

    build: Callable[[Any, Setting], TaughtClassifier]
    figures: Callable[[Any, NDArray[Any], tuple[int, int]], Figures]


def _pate(section: PateConfig, setting: Setting) -> TaughtClassifier:
    unscaled = section.features == "none" and setting.data.image_shape is None
    if section.teacher == "kernel-ridge" and unscaled:
        raise InvalidArgument(
            "Expected features = 'bins' for teacher = 'kernel-ridge' of a table: distances of "
            "unscaled columns mean nothing. Or take teacher = 'logistic'."
        )
    return PATEClassifier(
        make_teacher(section.teacher, section.features),
        n_teachers=section.teachers,
        executor=setting.executor,
        checkpoint=setting.folder / "teachers",
        **_asked(section),
        **setting.taught(section),
    )


def _knn(section: KnnConfig, setting: Setting) -> TaughtClassifier:
    return PrivateKNNClassifier(
        k=section.k,
        sampling_rate=section.sampling_rate,
        **_asked(section),
        **setting.taught(section),
    )


def _asked(section: PateConfig | KnnConfig) -> dict[str, Any]:
    """Return what the methods share that are asked query by query."""
    return {key: getattr(section, key) for key in ("mechanism", "queries", "strategy", "rounds")}


def _prototype(section: PrototypeConfig, setting: Setting) -> TaughtClassifier:
    return PrototypeClassifier(
        n_prototypes=section.prototypes,
        votes=section.votes,
        strategy=section.strategy,
        **setting.taught(section),
    )


def _moments(section: MomentsConfig, setting: Setting) -> TaughtClassifier:
    return MomentClassifier(rounds=section.rounds, **setting.taught(section))


def _ridge(section: RidgeConfig, setting: Setting) -> TaughtClassifier:
    return ResidualRidgeClassifier(
        n_landmarks=section.landmarks,
        width=section.width,
        rounds=section.rounds,
        clip=section.clip,
        **setting.taught(section),
    )


def _dpsgd(section: DpsgdConfig, setting: Setting) -> TaughtClassifier:
    return DPSGDClassifier(clipping=section.clipping, **_stepped(section, setting))


def _mac(section: MacConfig, setting: Setting) -> TaughtClassifier:
    return MACClassifier(thresholds=section.thresholds, **_stepped(section, setting))


def _stepped(section: NetworkSection, setting: Setting) -> dict[str, Any]:
    """Return what networks share that are trained in noisy steps."""
    same = ("hidden", "activation", "clip", "optimizer", "learning_rate", "epochs", "batch_size")
    return {
        **{key: getattr(section, key) for key in same},
        **setting.shared,
        "n_records": section.records or FROM_DATA,
        "features": make_features(section.features, setting.data),
    }


def _asked_figures(model: Any, public: NDArray[Any], shape: tuple[int, int]) -> Figures:
    """Show the public inputs that were asked, each with what the releases say of it."""
    from tacit.report import gallery_figure

    posterior = np.concatenate(model.posteriors_)
    best = posterior.argmax(axis=1)
    captions = [
        f"{model.classes_[label]}  {chance:.0%}"
        for label, chance in zip(best, posterior.max(axis=1), strict=True)
    ]
    images = public[model.queries_].reshape(-1, *shape)
    caption = (
        "The public inputs that were asked: the label that the noisy votes support, and how sure."
    )
    return [(caption, gallery_figure(images, captions))]


def _prototype_figures(model: Any, public: NDArray[Any], shape: tuple[int, int]) -> Figures:
    del public  # the model keeps its prototypes
    return list(model.figures(shape))


def no_figures(model: Any, public: NDArray[Any], shape: tuple[int, int]) -> Figures:
    """Show nothing: the releases of this method speak of no single input."""
    del model, public, shape
    return []


BUILDERS: dict[str, Builder] = {
    "pate": Builder(_pate, _asked_figures),
    "knn": Builder(_knn, _asked_figures),
    "prototype": Builder(_prototype, _prototype_figures),
    "moments": Builder(_moments, no_figures),
    "ridge": Builder(_ridge, no_figures),
    "dpsgd": Builder(_dpsgd, no_figures),
    "mac": Builder(_mac, no_figures),
}
"""The methods of a run, by name, as in `sections.SECTIONS`."""


def make_features(name: str, data: Dataset) -> Any:
    """Return the public transformer of that name, or None."""
    if name == "none":
        return None
    from tacit.features import PublicBins, digit_features

    if name == "bins":
        if data.columns is None:
            raise InvalidArgument("Expected a table with declared columns for features = 'bins'.")
        return PublicBins(data.columns, unit_norm=True)
    if data.image_shape is None:
        raise InvalidArgument("Expected images for features = 'digits'; use features = 'none'.")
    return digit_features(data.image_shape)


def make_teacher(name: str, features: str) -> Any:
    """Return the teachers of that name; None for the estimator's own."""
    if name == "logistic":
        return None
    from tacit.teachers import KernelRidgeTeachers

    # Rows of bins are nearer each other than digits; chosen on California housing.
    return KernelRidgeTeachers(gamma=0.1) if features == "bins" else KernelRidgeTeachers()


def make_student(name: str, data: Dataset) -> Any:
    """Return the student of that name; None for the method's own solution or choice."""
    from tacit import students

    if name in (AUTO, ITSELF):
        return None
    if name == "label-spreading":
        return students.LabelSpreadingStudent()
    if name == "logistic":
        from sklearn.linear_model import LogisticRegression

        return students.SupervisedStudent(LogisticRegression(max_iter=200))
    if name == "vat":
        return students.VATStudent()
    if data.image_shape is None:
        raise InvalidArgument("Expected images for student = 'cnn'.")
    return students.CNNStudent(image_shape=data.image_shape)
