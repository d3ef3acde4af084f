"""Draws are the same, to rounding, whatever a LAPACK is free to choose: signs, and bases of equal eigenvalues."""

import itertools

import numpy as np
import pytest
import scipy.linalg
from scipy.stats import special_ortho_group
from sklearn.linear_model import ARDRegression, BayesianRidge

from skactive import sample_posterior
from skactive.posterior import _linear as linear_models

EPS = np.finfo(float).eps

pytestmark = pytest.mark.arithmetic


def eigh_elsewhere(seed):
    """The LAPACK of another machine: eigenvectors of other signs, and of equal eigenvalues in another basis."""

    def eigh(matrix):
        values, vectors = scipy.linalg.eigh(matrix)
        rng = np.random.default_rng(seed)
        vectors = vectors * rng.choice([-1.0, 1.0], len(values))
        starts = np.flatnonzero(np.r_[True, np.diff(values) > 1e-10 * values[-1], True])
        for start, stop in itertools.pairwise(starts):
            if stop - start > 1:
                vectors[:, start:stop] @= special_ortho_group.rvs(stop - start, random_state=rng.integers(2**31))
        return values, vectors

    return eigh


def assert_same_draws(monkeypatch, module, estimator, X, tolerance):
    """By this machine's LAPACK, and by three others."""
    ours = sample_posterior(estimator, 30, np.random.default_rng(0))(X)
    for seed in range(3):
        monkeypatch.setattr(module, "eigh", eigh_elsewhere(seed), raising=False)
        theirs = sample_posterior(estimator, 30, np.random.default_rng(0))(X)
        np.testing.assert_allclose(theirs, ours, rtol=0, atol=tolerance)


@pytest.mark.parametrize(
    ("estimator", "design"), [(BayesianRidge(), "orthonormal"), (ARDRegression(), "any"), (BayesianRidge(), "any")]
)
def test_draws_of_bayesian_regressions_do_not_hang_on_signs_of_eigenvectors(estimator, design, monkeypatch):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((60, 8))
    if design == "orthonormal":  # all variances of a ridge are equal: any basis is one of eigenvectors
        X = scipy.linalg.qr(X - X.mean(axis=0), mode="economic")[0]
    y = X @ rng.standard_normal(8) + 0.3 * rng.standard_normal(60)
    # Products of 8 by 8 matrices and of 8 numbers, of an orthonormal basis: 3 * 8 eps of the largest of numbers summed.
    tolerance = 24 * EPS * 8 * np.abs(sample_posterior(estimator.fit(X, y), 30, np.random.default_rng(0))(X)).max()
    assert_same_draws(monkeypatch, linear_models, estimator, X, tolerance)
