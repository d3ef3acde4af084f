"""A pool of near-duplicates."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._checks import as_array, integer, number, real_array
from .._random import check_rng


def make_repeated(
    X: ArrayLike, y: ArrayLike, repeats: int, noise_std: float, rng: np.random.Generator
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Repeat a data set, every copy with its own Gaussian noise: a pool full of near-duplicates.

    Split off test data first, and repeat the rest: copies on both sides of a split would leak.

    Parameters
    ----------
    X : array-like of shape (n_points, ...)
        Features; whole numbers become float64.
    y : array-like of shape (n_points,)
        Labels.
    repeats : int
        Copies of each row.
    noise_std : float
        Standard deviation of the isotropic noise, in the units of X.
    rng : numpy.random.Generator

    Returns
    -------
    X : ndarray of shape (repeats * n_points, ...)
        Copy after copy: row i and row i + n_points come from the same row.
    y : ndarray of shape (repeats * n_points,)

    Raises
    ------
    ValueError, TypeError
        If ``X`` are no numbers, ``y`` has another length, ``repeats`` is not a positive integer, ``noise_std`` is
        negative, or ``rng`` is not a numpy Generator.

    See Also
    --------
    datasets.make_characters : Pools with other flaws.

    References
    ----------
    Kirsch, van Amersfoort and Gal (2019), BatchBALD, sec. 4.1 (Repeated-MNIST).

    Examples
    --------
    >>> import numpy as np
    >>> from skactive.datasets import make_repeated
    >>> X, y = make_repeated([[0.0], [1.0]], ["a", "b"], 3, 0.1, np.random.default_rng(0))
    >>> X.shape, y.tolist()
    ((6, 1), ['a', 'b', 'a', 'b', 'a', 'b'])
    """
    integer().check("repeats", repeats)
    number(0).check("noise_std", noise_std)
    check_rng(rng)
    X, y = as_array(real_array("X", X)), np.asarray(y)
    if X.ndim == 0 or y.shape[:1] != X.shape[:1]:
        raise ValueError(
            f"`X` and `y` must have a row and a label for each point. Got arrays of shapes {X.shape} and {y.shape}."
        )
    X = X if X.dtype.kind == "f" else X.astype(np.float64)
    repeated = np.concatenate([X] * repeats)
    repeated += noise_std * rng.standard_normal(repeated.shape, dtype=np.result_type(X.dtype, np.float32))
    return repeated, np.concatenate([y] * repeats)
