"""What a source of draws refuses or warns of, and in which words."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data

from .._checks import several_outputs_error


def check_draws_differ(draws: Any) -> None:
    if len(draws) < 2 or np.ptp(draws, axis=0).max() == 0:
        raise ValueError("`predict_draws` must return two draws or more that differ somewhere. These are all alike.")


def check_features(estimator: Any, X: Any) -> Any:
    """X as the fitted estimator takes it: its number of columns, its feature names; missing values are its business."""
    return validate_data(estimator, X, accept_sparse="csr", reset=False, ensure_all_finite="allow-nan", dtype="numeric")


def check_single_output(estimator: Any) -> None:
    """Refuse what predicts several targets at once: its predict_proba is a list, one array a target."""
    if getattr(estimator, "n_outputs_", 1) > 1:
        raise several_outputs_error(estimator)


def check_one_target(predictions: Any) -> Any:
    """Regression outputs (n_draws, n_points, 1) or (n_draws, n_points) without the last axis."""
    if predictions.ndim == 2:
        return predictions
    if predictions.ndim == 3 and predictions.shape[-1] == 1:
        return predictions[..., 0]
    raise ValueError(
        f"`estimator` must predict one target. Its draws have shape {tuple(predictions.shape)}: several outputs."
    )


def check_class_outputs(outputs: Any) -> None:
    if outputs.ndim != 3 or outputs.shape[-1] < 2:
        raise ValueError(
            "`estimator` is a torch module and must return one column a class. Got outputs of shape "
            f"{tuple(outputs.shape[1:])} for a batch. Wrap a binary or a regression net in skorch's "
            "NeuralNetBinaryClassifier or NeuralNetRegressor, or in MCDropoutClassifier or MCDropoutRegressor."
        )


def no_noise_variance_error(estimator: Any) -> ValueError:
    return ValueError(
        f"`score` asks for the variance of the noise on a label, and {type(estimator).__name__} has none. Give it an "
        "attribute `noise_variance_`, fix it with functools.partial(gaussian_bald, noise_variance=...), or use "
        'score="variance".'
    )


def search_without_refit_error(search: Any) -> ValueError:
    return ValueError(
        f"`estimator` is a {type(search).__name__} with refit={search.refit!r}, so it holds no fitted model to draw "
        "from. Set refit=True."
    )


def check_kernel_input(estimator: Any, X: Any) -> Any:
    """X as a fitted Gaussian process takes it: finite numbers in columns, or whatever its kernel compares."""
    vectors = estimator.kernel is None or estimator.kernel.requires_vector_input
    return validate_data(estimator, X, reset=False, ensure_2d=bool(vectors), dtype="numeric" if vectors else None)


def one_vs_one_error(estimator: Any) -> ValueError:
    return ValueError(
        f'`multi_class` must be "one_vs_rest" to draw from a {type(estimator).__name__} of more than two classes. With '
        '"one_vs_one" it has no probabilities.'
    )


def unknown_labels_error(labels: NDArray[Any], classes: NDArray[Any]) -> ValueError:
    return ValueError(
        f"`y_training` must hold labels that the estimator was fitted to, {classes}. Got {labels} as well."
    )


def check_embedding(embedding: Any) -> None:
    if not (isinstance(embedding, str) and embedding == "auto"):
        raise ValueError(
            '`embedding` must be "auto" or a function of the rows, embedding(X) or embedding(estimator, X). '
            f"Got {embedding!r} instead."
        )


def check_has_probabilities(estimator: Any) -> None:
    if not hasattr(estimator, "predict_proba"):
        raise TypeError(
            f"`estimator` must be a classifier with predict_proba for BADGE. Got a {type(estimator).__name__} without. "
            "CalibratedClassifierCV gives any classifier one."
        )
