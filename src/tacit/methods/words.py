"""The words by which a configuration names objects: public features, teachers, students."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from tacit.datasets import Dataset
from tacit.errors import InvalidArgument
from tacit.methods.settings import Words, choices


def _none(data: Dataset, settings: Mapping[str, Any]) -> None:
    del data, settings


def _digits(data: Dataset, settings: Mapping[str, Any]) -> Any:
    from tacit.features import digit_features

    del settings
    if data.image_shape is None:
        raise InvalidArgument("Expected images for features = 'digits'; use features = 'none'.")
    return digit_features(data.image_shape)


def _bins(data: Dataset, settings: Mapping[str, Any]) -> Any:
    from tacit.features import PublicBins

    del settings
    if data.columns is None:
        raise InvalidArgument("Expected a table with declared columns for features = 'bins'.")
    return PublicBins(data.columns, unit_norm=True)


def _kernel_ridge(data: Dataset, settings: Mapping[str, Any]) -> Any:
    from tacit.teachers import KernelRidgeTeachers

    if settings["features"] in (None, "none") and data.image_shape is None:
        raise InvalidArgument(
            "Expected features = 'bins' for teacher = 'kernel-ridge' of a table: distances of "
            "unscaled columns mean nothing. Or take teacher = 'logistic'."
        )
    # Rows of bins are nearer each other than digits; chosen on California housing.
    return (
        KernelRidgeTeachers(gamma=0.1) if settings["features"] == "bins" else KernelRidgeTeachers()
    )


def _label_spreading(data: Dataset, settings: Mapping[str, Any]) -> Any:
    from tacit.students import LabelSpreadingStudent

    del data, settings
    return LabelSpreadingStudent()


def _logistic(data: Dataset, settings: Mapping[str, Any]) -> Any:
    from sklearn.linear_model import LogisticRegression

    from tacit.students import SupervisedStudent

    del data, settings
    return SupervisedStudent(LogisticRegression(max_iter=200))


def _cnn(data: Dataset, settings: Mapping[str, Any]) -> Any:
    from tacit.students import CNNStudent

    del settings
    if data.image_shape is None:
        raise InvalidArgument("Expected images for student = 'cnn'.")
    return CNNStudent(image_shape=data.image_shape)


def _vat(data: Dataset, settings: Mapping[str, Any]) -> Any:
    from tacit.students import VATStudent

    del data, settings
    return VATStudent()


Features = Annotated[Any, Words({"none": _none, "digits": _digits, "bins": _bins})]
Teacher = Annotated[Any, Words({"logistic": _none, "kernel-ridge": _kernel_ridge})]
Student = Annotated[
    Any,
    Words({"label-spreading": _label_spreading, "logistic": _logistic, "cnn": _cnn, "vat": _vat}),
]
Strategy = Annotated[Any, choices("medoids", "random")]
