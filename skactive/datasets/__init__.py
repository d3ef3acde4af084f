"""Small data sets for experiments: a pool with near-duplicates, a treatment with known effects, and two tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from .._utils.randomness import check_rng
from .._utils.types import Floats, TableName
from .._utils.validation import as_array, integer, number, one_of, real_array

__all__ = ["load_table", "make_causal", "make_repeated"]


TABLES = {path.name.split(".")[0]: path for path in Path(__file__).parent.glob("data/*.csv.gz")}


def load_table(name: TableName) -> tuple[Any, NDArray[Any]]:
    """Load a small table with columns of numbers and of text, one of those that come with the package.

    ============  ====  ========  =====================================================================  =======
    ``name``      rows  features  what                                                                   licence
    ============  ====  ========  =====================================================================  =======
    ``hpc``       4331  7         how long jobs ran on a cluster: VF, F, M or L (6 % of them)            MIT
    ``penguins``  344   6         species of penguins; values are missing in 11 rows                     CC0 1.0
    ============  ====  ========  =====================================================================  =======

    Parameters
    ----------
    name : str
        See the table.

    Returns
    -------
    X : pandas.DataFrame
        Features.
    y : ndarray of shape (n,) and dtype object
        Classes.

    References
    ----------
    Kuhn and Johnson (2013), Applied Predictive Modeling (hpc, by way of the R package modeldata).
    Horst, Hill and Gorman (2020), palmerpenguins.

    Examples
    --------
    >>> from skactive.datasets import load_table
    >>> X, y = load_table("penguins")
    >>> X.shape, sorted(set(y))
    ((344, 6), ['Adelie', 'Chinstrap', 'Gentoo'])
    """
    one_of(TABLES).check("name", name)
    table = pd.read_csv(TABLES[name])
    return table.drop(columns="target"), table["target"].to_numpy(dtype=object)


def make_repeated(
    X: ArrayLike, y: ArrayLike, repeats: int, noise_std: float, rng: np.random.Generator
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Repeat a data set, every copy with its own Gaussian noise: a pool full of near-duplicates.

    Split off test data first, and repeat the rest: copies on both sides of a split would leak.

    Parameters
    ----------
    X, y : array-like of shape (n_points, ...) and (n_points,)
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


def make_causal(n: int, rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
    r"""Make outcomes of a treatment whose effect and probability depend on one covariate.

    :math:`x \sim N(0, 1)`, :math:`P(t = 1 | x) = 1 / (1 + e^{-(0.75 x + 0.5)})`, and with s = 2t - 1 the outcome is
    :math:`s x + s - 2 \sin(2 s x) + 2 + x` plus noise :math:`N(0, 1)`. The effect is
    :math:`2 x + 2 - 4 \sin 2x`, 2 on average.

    Parameters
    ----------
    n : int
        Number of rows.
    rng : numpy.random.Generator

    Returns
    -------
    X : ndarray of shape (n, 2)
        The covariate, and the treatment, 0 or 1, as the last column.
    y : ndarray of shape (n,)
        Outcomes under that treatment.
    effects : ndarray of shape (n,)
        Effect of the treatment on the expected outcome of each row.

    References
    ----------
    Jesson et al. (2021), Causal-BALD; with the constants of their code.

    Examples
    --------
    >>> import numpy as np
    >>> from skactive.datasets import make_causal
    >>> X, y, effects = make_causal(1000, np.random.default_rng(0))
    >>> treated = X[:, 1] == 1
    >>> float(treated[X[:, 0] > 1].mean().round(2)), float(treated[X[:, 0] < -1].mean().round(2))
    (0.78, 0.36)
    """
    integer().check("n", n)
    check_rng(rng)
    x = rng.standard_normal(n)
    treatment = (rng.random(n) < expit(0.75 * x + 0.5)).astype(np.float64)
    untreated, treated = (s * x + s - 2 * np.sin(2 * s * x) + 2 + x for s in (-1, 1))
    y = np.where(treatment == 1, treated, untreated) + rng.standard_normal(n)
    return np.stack([x, treatment], axis=1), y, treated - untreated
