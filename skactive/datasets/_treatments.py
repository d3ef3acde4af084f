"""Treatments whose effects are known: outcomes are simulated, covariates too or from the IHDP."""

from __future__ import annotations

import csv
import io
from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from .._checks import integer
from .._random import check_rng
from ._files import content_error, read_bytes, readable, source_named

Floats = NDArray[np.float64]

CONTINUOUS = ("bw", "b.head", "preterm", "birth.o", "nnhealth", "momage")
# fmt: off
BINARY = (
    "sex", "twin", "b.marr", "mom.lths", "mom.hs", "mom.scoll", "cig", "first", "booze",
    "drugs", "work.dur", "prenatal", "ark", "ein", "har", "mia", "pen", "tex", "was",
)
# fmt: on
_SOURCE = (
    "The data frame `ihdp` in examples/ihdp_sim/data/ihdp.RData of https://github.com/vdorie/npci, written by R's "
    "write.csv(ihdp, row.names = FALSE), is such a file."
)

_COEFFICIENTS = np.array([0.0, 0.1, 0.2, 0.3, 0.4])
_PROBABILITIES = np.array([0.6, 0.1, 0.1, 0.1, 0.1])
_OFFSET = 0.5
_EFFECT_ON_THE_TREATED = 4.0


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

    Raises
    ------
    ValueError, TypeError
        If ``n`` is not a positive integer, or ``rng`` not a numpy Generator.

    See Also
    --------
    datasets.make_ihdp : Covariates of real children.
    causal.sqrt_pehe : The error of estimated effects.

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


def make_ihdp(path: str | PathLike[str], rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
    r"""Make outcomes for the Infant Health and Development Program: real covariates and treatments, simulated effects.

    Treated children of mothers who are not white are left out, so that the treatment depends on the covariates. With
    coefficients :math:`\beta_j` of 0, 0.1, 0.2, 0.3 and 0.4 (probabilities 0.6, 0.1, 0.1, 0.1, 0.1), outcomes are
    :math:`\exp((x + 0.5)^T \beta)` without and :math:`(x + 0.5)^T \beta - \omega` with the treatment, plus noise
    :math:`N(0, 1)`; :math:`\omega` makes the mean effect on the treated 4.

    Parameters
    ----------
    path : path
        A table (``.csv`` or ``.csv.gz``) with the data frame ``ihdp`` of the R package npci.
    rng : numpy.random.Generator
        Coefficients and noise are new in each call.

    Returns
    -------
    X : ndarray of shape (747, 26)
        Six continuous covariates, standardised, nineteen with two values, and the treatment, 0 or 1, as the last
        column: 139 are treated.
    y : ndarray of shape (747,)
        Outcomes under that treatment.
    effects : ndarray of shape (747,)
        Effect of the treatment on the expected outcome of each row.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError, TypeError
        If it is not such a table, or ``rng`` not a numpy Generator.

    See Also
    --------
    datasets.make_causal : One covariate, and no file needed.
    causal.sqrt_pehe : The error of estimated effects.

    References
    ----------
    Hill (2011), Bayesian Nonparametric Modeling for Causal Inference, response surface B. Jesson et al. (2021),
    Causal-BALD; with the constants of their code.

    Examples
    --------
    >>> import numpy as np
    >>> from skactive.datasets import make_ihdp
    >>> X, y, effects = make_ihdp("ihdp.csv", np.random.default_rng(0))  # doctest: +SKIP
    >>> X.shape, float(effects[X[:, -1] == 1].mean().round(6))  # doctest: +SKIP
    ((747, 26), 4.0)
    """
    check_rng(rng)
    with source_named(_SOURCE):
        X, treatment = _read_covariates(Path(path).expanduser())
    untreated, treated = _expected_outcomes(X, treatment, rng)
    y = np.where(treatment == 1, treated, untreated) + rng.standard_normal(len(X))
    return np.column_stack([X, treatment]), y, treated - untreated


def _read_covariates(path: Path) -> tuple[Floats, Floats]:
    """Covariates (n, 25), the continuous ones standardised, and treatments (n,) of an observational study.

    The trial was randomised; without the treated children of mothers who are not white it is no longer.
    """
    names = ("treat", "momwhite", *CONTINUOUS, *BINARY)
    with readable("path", path, f"a table of CSV with the columns {', '.join(names)}"):
        text = read_bytes(path).decode("utf-8")
        rows = [[float(row[name]) for name in names] for row in csv.DictReader(io.StringIO(text, newline=""))]
    treatment, white, *columns = np.array(rows, dtype=np.float64).reshape(-1, len(names)).T
    _check_ihdp(path, treatment, white, dict(zip(names[2:], columns, strict=True)))
    kept = (treatment == 0) | (white == 1)
    X = np.stack(columns, axis=1)[kept]
    continuous = X[:, : len(CONTINUOUS)]
    X[:, : len(CONTINUOUS)] = (continuous - continuous.mean(axis=0)) / continuous.std(axis=0, ddof=1)
    return X, treatment[kept]


def _check_ihdp(path: Path, treatment: Floats, white: Floats, covariates: dict[str, Floats]) -> None:
    """Check that a table has the rows that it is known to have, without gaps."""
    binary = np.isin(treatment, (0, 1)) & np.isin(white, (0, 1))
    found = (len(treatment), int((treatment == 1).sum()), int(((treatment == 1) & (white == 1)).sum()))
    rows = "{} rows of IHDP, {} of them treated, {} of these with white mothers"
    if not binary.all() or found != (985, 377, 139):
        raise content_error(path, "the " + rows.format(985, 377, 139), rows.format(*found))
    for name, column in covariates.items():
        if not np.isfinite(column).all():
            raise content_error(path, f"finite numbers in the column {name}", f"{column[~np.isfinite(column)][0]}")


def _expected_outcomes(X: Floats, treatment: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Without and with the treatment, (n,) each: response surface B of Hill (2011), other coefficients in each call."""
    beta = rng.choice(_COEFFICIENTS, size=X.shape[1], p=_PROBABILITIES)
    linear = (X + _OFFSET) @ beta
    untreated = np.exp(linear)
    offset = (linear - untreated)[treatment == 1].mean() - _EFFECT_ON_THE_TREATED
    return untreated, linear - offset
