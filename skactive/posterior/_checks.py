"""Rules that several sources share, and what a source of the user's own must be."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sklearn.utils.validation import validate_data

from .._checks import NoPosteriorError, shown


def check_features(estimator: Any, X: Any, dtype: Any = "numeric") -> Any:
    """X as the fitted estimator takes it: its number of columns, its feature names. Missing values are left to it."""
    finite = False if dtype is None else "allow-nan"
    return validate_data(estimator, X, accept_sparse="csr", reset=False, ensure_all_finite=finite, dtype=dtype)


def check_takes_n_draws_and_rng(estimator: Any) -> None:
    """Refuse a method that has the name ``sample_posterior`` and another meaning, as models of other packages may."""
    method = estimator.sample_posterior
    try:
        inspect.signature(method).bind(1, None)
    except (TypeError, ValueError) as error:
        if isinstance(error, ValueError) and callable(method):  # compiled, without a signature
            return
        raise TypeError(
            f"`sample_posterior` of this {type(estimator).__name__} must be a method that takes (n_draws, rng). "
            f"{error}. If the name means something else there, wrap the model in a class that has this method."
        ) from error


def check_is_function(predict_draws: Any, estimator: Any) -> Callable[[Any], Any]:
    """What a source returned, if it can be asked for draws."""
    if callable(predict_draws):
        return predict_draws
    raise TypeError(
        "`sample_posterior` must return a function predict_draws(X), which evaluates the draws for the rows that it is "
        f"given. That of this {type(estimator).__name__} returned {shown(predict_draws)}."
    )


@contextmanager
def none_explained(estimator: Any, n_draws: int | None) -> Iterator[None]:
    """Say that a source was called without a number of draws where it stumbles over that."""
    try:
        yield
    except TypeError as error:
        if n_draws is not None or isinstance(error, NoPosteriorError) or "NoneType" not in str(error):
            raise
        raise TypeError(
            f"The source registered for {type(estimator).__name__} must take `n_draws`=None as well, for all draws "
            f"there are, or a number that it chooses. It failed with: {error}. Begin it with `n_draws = 100 if n_draws "
            "is None else n_draws`, say."
        ) from error
