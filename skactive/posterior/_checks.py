"""A rule that several sources share."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import validate_data


def check_features(estimator: Any, X: Any, dtype: Any = "numeric") -> Any:
    """X as the fitted estimator takes it: its number of columns, its feature names. Missing values are left to it."""
    finite = False if dtype is None else "allow-nan"
    return validate_data(estimator, X, accept_sparse="csr", reset=False, ensure_all_finite=finite, dtype=dtype)
