"""The Laplace approximation to the posterior of logistic weights: arrays in, random weights and covariances out.

For rows x_i of weight s_i with class probabilities p_i at the mode, and a normal prior on the coefficients, the
negative log-posterior has the Hessian Σ_i S_i ⊗ x_i x_i' + prior precision, with S_i = s_i (diag(p_i) - p_i p_i') for
a softmax over all classes, and s_i p_i (1 - p_i) for a binary model, which has one logit (MacKay 1992). Deviations from
the mode are normal with its inverse as covariance: jointly for all classes while that is small, else class by class.

Letters: n rows, m rows to predict, p features, C classes (one, for a binary model), K draws.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve, cholesky, solve_triangular
from scipy.linalg.lapack import dpotri
from scipy.special import expit, logsumexp, softmax
from sklearn.utils import gen_batches

from .._utils.types import Floats, Indices
from ._covariance import Covariance, NormalLaw, Weights, dense, kernel

MAX_ELEMENTS = 2**28  # 2 GiB of float64

_SURE, _LEAST_LEAD = 0.9, 0.2  # mean probability of the right label, and lead over chance from 0 to 1
_MAX_ROWS_TO_CHECK, _FEW_DRAWS = 1000, 10
_BATCH = 1024  # features
_BLOCK_ELEMENTS = 2**21  # 16 MiB of float64


def linear(X: Any, coef_pCK: Floats, intercept_CK: Floats) -> Floats:
    """Values (n_points, n_classes, n_draws) of linear functions at the rows of an array or a sparse matrix."""
    n_features, *shape = coef_pCK.shape
    return (X @ coef_pCK.reshape(n_features, -1)).reshape(-1, *shape) + intercept_CK


def probabilities(logits_mCK: Floats) -> Floats:
    """Of shape (n_draws, n_points, n_classes); a single logit is that of the second of two classes."""
    if logits_mCK.shape[1] == 1:
        logits_mCK = np.concatenate([-logits_mCK, logits_mCK], axis=1)
        return expit(logits_mCK).transpose(2, 0, 1)
    return softmax(logits_mCK, axis=1).transpose(2, 0, 1)


def predict_draws(X: Any, coef_pCK: Floats, intercept_CK: Floats) -> Floats:
    """Probabilities (n_draws, n_points, n_classes) of rows under drawn weights; memory holds them and one block."""
    n_rows, (n_classes, n_draws) = X.shape[0], intercept_CK.shape
    parts = list(blocks(n_rows, coef_pCK))
    if len(parts) == 1:
        return probabilities(linear(X, coef_pCK, intercept_CK))
    result = np.empty((n_draws, n_rows, max(2, n_classes)))
    for block in parts:
        result[:, block] = probabilities(linear(X[block], coef_pCK, intercept_CK))
    return result


def blocks(n_rows: int, coef_pCK: Floats) -> Iterator[slice]:
    """Rows whose values under all weights take 16 MiB."""
    return gen_batches(n_rows, max(1, _BLOCK_ELEMENTS // max(coef_pCK[0].size, len(coef_pCK))))


def posterior(
    X: Any, mode: Weights, weight_n: Floats, prior_p: Floats, intercept: bool, max_joint: int = MAX_ELEMENTS
) -> NormalLaw:
    """The law of weights around the mode.

    ``weight_n`` are the weights of the rows, ``prior_p`` is the prior variance of the coefficients of each feature; the
    prior of an intercept is flat. Classes are drawn jointly if that takes matrices of at most ``max_joint`` elements:
    from the Hessian or, where the rows are fewer, from their kernel.
    """
    D_nC = curvature(linear(X, mode[0].T, mode[1]), weight_n)
    law_of = _dual_law if _is_dual_cheaper(D_nC.shape, X.shape[1]) else _primal_law
    if D_nC.shape[1] > 1 and matrix_elements(D_nC.shape, X.shape[1]) > max_joint:
        law_of = _law_by_class
    law = law_of(X, D_nC, prior_p, intercept)
    return replace(law, draw=partial(_draw_around, mode, law), log_odds=partial(_log_odds, mode))


def curvature(logits_nC: Floats, weight_n: Floats) -> Floats:
    """Of each row and class, s p; of a binary model, s p (1 - p)."""
    if logits_nC.shape[1] == 1:
        return weight_n[:, np.newaxis] * expit(logits_nC) * expit(-logits_nC)
    return weight_n[:, np.newaxis] * softmax(logits_nC, axis=1)


def _log_odds(mode: Weights, X: Any) -> Floats:
    """Those of each class against all others, (m, C)."""
    logits_mC = linear(X, mode[0].T, mode[1])
    n_classes = logits_mC.shape[1]
    others = [logsumexp(np.delete(logits_mC, c, axis=1), axis=1) for c in range(n_classes) if n_classes > 1]
    return logits_mC - np.stack(others, axis=1) if others else logits_mC


def _draw_around(mode: Weights, law: NormalLaw, n_draws: int, rng: np.random.Generator) -> Weights:
    coef_pCK, intercept_CK = law.draw(n_draws, rng)
    coef_pCK += mode[0].T[:, :, np.newaxis]  # in place: it may be large
    return coef_pCK, intercept_CK + mode[1][:, np.newaxis]


def matrix_elements(shape: tuple[int, ...], n_features: int) -> int:
    """Size of the matrices that a joint law factorises for a ``D_nC`` of this shape."""
    n, n_classes = shape
    return n_classes * n**2 if _is_dual_cheaper(shape, n_features) else (n_classes * n_features) ** 2


def are_too_wide(X: Any, codes_n: Indices, mode: Weights, draws: Weights) -> bool:
    """Whether draws hardly do better than chance at labelled rows, while the mode is sure of their labels.

    The curvature at the mode is next to nothing where its probabilities are nearly 0 and 1, as after a weak penalty on
    separable data: the normal is then far wider than the posterior. Fewer than ten draws are not judged.
    """
    n_rows = min(_MAX_ROWS_TO_CHECK, next(blocks(len(codes_n), draws[0])).stop)
    rows = np.linspace(0, len(codes_n) - 1, n_rows).astype(int)
    mode_nC = predict_draws(X[rows], mode[0].T[:, :, np.newaxis], mode[1][:, np.newaxis])[0]
    is_sure = mode_nC[np.arange(n_rows), codes_n[rows]].mean() > _SURE
    if draws[0].shape[2] < _FEW_DRAWS or not is_sure:
        return False
    p_KnC, chance = predict_draws(X[rows], *draws), 1 / mode_nC.shape[1]
    lead = ((p_KnC.argmax(axis=2) == codes_n[rows]).mean() - chance) / (1 - chance)
    return bool(lead < _LEAST_LEAD)


def with_column(X: Any, value: float) -> Any:
    """The rows with a constant feature."""
    column = np.full((X.shape[0], 1), value)
    return sparse.hstack([X, column], format="csr") if sparse.issparse(X) else np.hstack([X, column])


def _contrasts(n_classes: int) -> Floats:
    """A class against the mean of the others, a row each: its log-odds. A single logit is the log-odds already."""
    # What is common to all classes changes no probability, and no label tells of it: its variance would never shrink.
    return np.eye(n_classes) if n_classes == 1 else (np.eye(n_classes) - 1 / n_classes) * n_classes / (n_classes - 1)


def _law_by_class(X: Any, D_nC: Floats, prior_p: Floats, intercept: bool) -> NormalLaw:
    """Each class as a binary model, with the curvature s p (1 - p) C / (C - 1).

    Probabilities depend on differences between classes alone. The factor C / (C - 1) makes the law of these exact for
    two classes, and for rows whose classes are all equally probable.
    """
    n_classes = D_nC.shape[1]
    parts_nC = _variances(D_nC) * n_classes / (n_classes - 1)
    law_of = partial(_primal_law, X, prior_p=prior_p, intercept=intercept)
    if _is_dual_cheaper((len(D_nC), 1), X.shape[1]):  # one kernel serves all classes
        law_of = partial(_dual_law, X, prior_p=prior_p, intercept=intercept, kernel_nn=kernel(X, prior_p, X))
    kept = None
    if n_classes * matrix_elements((len(D_nC), 1), X.shape[1]) <= MAX_ELEMENTS:
        kept = [law_of(parts_nC[:, [c]]) for c in range(n_classes)]
    draw = partial(_draw_by_class, X.shape[1], kept, law_of, parts_nC)
    return NormalLaw(draw, partial(_covariance_by_class, kept))


def _draw_by_class(
    n_features: int,
    kept: list[NormalLaw] | None,
    law_of: partial[NormalLaw],
    parts_nC: Floats,
    n_draws: int,
    rng: np.random.Generator,
) -> Weights:
    """Draws of all classes; laws that would fill the memory are made again one after the other."""
    n_classes = parts_nC.shape[1]
    coef_pCK, intercept_CK = np.empty((n_features, n_classes, n_draws)), np.empty((n_classes, n_draws))
    for c, law in enumerate(kept or (law_of(part_n[:, np.newaxis]) for part_n in parts_nC.T)):
        coef_1, intercept_1 = law.draw(n_draws, rng)
        coef_pCK[:, c], intercept_CK[c] = coef_1[:, 0], intercept_1[0]
    return coef_pCK, intercept_CK


def _covariance_by_class(kept: list[NormalLaw] | None) -> Covariance | None:
    parts = [part for law in kept or [] if (part := law.covariance()) is not None]
    if not parts:
        return None
    shares_CC = _contrasts(len(parts)) ** 2  # classes are independent
    matrices_Cuu = np.tensordot(shares_CC, np.concatenate([part.matrices for part in parts]), 1)
    return replace(parts[0], matrices=matrices_Cuu, scale=shares_CC[0].sum())


def _variances(D_nC: Floats) -> Floats:
    """Of labels, s p (1 - p)."""
    # Of the largest p, 1 - p is summed up from the others: near 1, the difference would have no digits.
    rows, top, total_n1 = np.arange(len(D_nC)), D_nC.argmax(axis=1), D_nC.sum(axis=1, keepdims=True)
    rest_nC, others_nC = total_n1 - D_nC, D_nC.copy()
    others_nC[rows, top] = 0
    rest_nC[rows, top] = others_nC.sum(axis=1)
    return D_nC * rest_nC / total_n1


# By the Hessian


def hessian(X: Any, D_nC: Floats) -> Floats:
    """Second derivatives (C p, C p) of the negative log-likelihood, class by class."""
    (_, n_classes), n_features = D_nC.shape, X.shape[1]
    own_nC = D_nC if n_classes == 1 else _variances(D_nC)
    blocks = np.empty((n_classes, n_features, n_classes, n_features))
    for c in range(n_classes):
        roots = _scaled_rows(X, np.sqrt(own_nC[:, c]))
        blocks[c, :, c] = dense(roots.T @ roots)  # a product with itself takes half the work
        for d in range(c):
            block = X.T @ _scaled_rows(X, -D_nC[:, c] * D_nC[:, d] / D_nC.sum(axis=1))
            blocks[c, :, d] = blocks[d, :, c] = dense(block)
    return blocks.reshape(n_classes * n_features, -1)


def _primal_law(X: Any, D_nC: Floats, prior_p: Floats, intercept: bool) -> NormalLaw:
    n_classes, n_features = D_nC.shape[1], X.shape[1]
    precision = hessian(with_column(X, 1.0) if intercept else X, D_nC)
    diagonal_Cp = np.einsum("ii->i", precision).reshape(n_classes, -1)  # a view
    if intercept and n_classes > 1:
        last = slice(n_features, None, n_features + 1)
        precision[last, last] += _pin(diagonal_Cp[:, -1])
    diagonal_Cp[:, :n_features] += 1 / prior_p
    factor = cholesky(precision, lower=True, overwrite_a=True, check_finite=False)
    draw = partial(_draw_primal, factor, n_classes, intercept)
    return NormalLaw(draw, partial(_primal_covariance, factor, n_classes))


def _draw_primal(factor: Floats, n_classes: int, intercept: bool, n_draws: int, rng: np.random.Generator) -> Weights:
    noise = rng.standard_normal((len(factor), n_draws))
    draws_CpK = solve_triangular(factor, noise, lower=True, trans="T").reshape(n_classes, -1, n_draws)
    n_features = draws_CpK.shape[1] - intercept
    coef_pCK = np.ascontiguousarray(draws_CpK[:, :n_features].transpose(1, 0, 2))
    return coef_pCK, draws_CpK[:, n_features] if intercept else np.zeros((n_classes, n_draws))


def _primal_covariance(factor: Floats, n_classes: int) -> Covariance:
    root_Cpr = solve_triangular(factor, np.eye(len(factor)), lower=True, trans="T").reshape(n_classes, -1, len(factor))
    roots = (np.tensordot(contrast_C, root_Cpr, 1) for contrast_C in _contrasts(n_classes))
    return Covariance(np.stack([root_pr @ root_pr.T for root_pr in roots]))


def _pin(diagonal_C: Floats) -> float:
    """Curvature for a shift common to the intercepts of all classes: it has none, and changes no probability."""
    return float(diagonal_C.mean())


def _dual_law(X: Any, D_nC: Floats, prior_p: Floats, intercept: bool, kernel_nn: Floats | None = None) -> NormalLaw:
    kernel_nn = kernel(X, prior_p, X) if kernel_nn is None else kernel_nn
    found = X, _KernelSolver(kernel_nn, D_nC), prior_p, intercept
    return NormalLaw(partial(_draw_dual, *found), partial(_dual_covariance, *found))


def _draw_dual(
    X: Any, solver: _KernelSolver, prior_p: Floats, intercept: bool, n_draws: int, rng: np.random.Generator
) -> Weights:
    """Weights of the prior, moved to where they answer the labelled rows as the data want them to, up to noise.

    With kernel K = X prior X' and noise ε of covariance S⁻¹, a step back by prior X' (K + S⁻¹)⁻¹ (X w + ε) turns draws
    w of the prior into draws of the posterior (Hoffman and Ribak 1991; Wilson et al. 2020, eq. 13).
    """
    n, n_classes = X.shape[0], solver.n_classes
    coef = rng.standard_normal((X.shape[1], n_classes * n_draws))
    coef *= np.sqrt(prior_p)[:, np.newaxis]
    logits_CnK = (X @ coef).reshape(n, n_classes, n_draws).transpose(1, 0, 2)
    push_CnK = solver.solve(logits_CnK, rng.standard_normal(logits_CnK.shape))
    intercept_CK = np.zeros((n_classes, n_draws))
    if intercept:
        intercept_CK, change_CnK = solver.flat_intercept(push_CnK)
        push_CnK += change_CnK
    X_T, push = X.T.tocsr() if sparse.issparse(X) else X.T, push_CnK.transpose(1, 0, 2).reshape(n, -1)
    for features in gen_batches(len(coef), _BATCH):  # the weights are the largest array by far: no second one
        coef[features] -= prior_p[features, np.newaxis] * (X_T[features] @ push)
    return coef.reshape(-1, n_classes, n_draws), intercept_CK


def _dual_covariance(X: Any, solver: _KernelSolver, prior_p: Floats, intercept: bool) -> Covariance:
    """The prior's, less what the labelled rows tell, plus what the intercepts leave open (eqs. 2.24 and 2.42)."""
    contrasts_CC = _contrasts(solver.n_classes)
    scale = float(contrasts_CC[0] @ contrasts_CC[0])
    # G sees nothing of what is common to all classes: that of a contrast is a multiple of the class's own block.
    matrices_Cuu = np.stack([-(scale**2) * solver.block(c) for c in range(solver.n_classes)])
    if intercept:
        ones_CnC, information_CC = solver.of_ones()
        open_CuC = np.concatenate([-scale * ones_CnC, contrasts_CC[:, np.newaxis]], axis=1)
        matrices_Cuu = np.pad(matrices_Cuu, ((0, 0), (0, 1), (0, 1)))
        matrices_Cuu += open_CuC @ np.linalg.solve(information_CC, open_CuC.transpose(0, 2, 1))
    return Covariance(matrices_Cuu, X, prior_p, scale)


class _KernelSolver:
    """Solves with G = (K + S⁻¹)⁻¹ for all classes at once: Rasmussen and Williams (2006), algorithm 3.3.

    G = E - E R (R' E R)⁻¹ R' E, where E is block-diagonal with E_c = √D_c (1 + √D_c K √D_c)⁻¹ √D_c, and R' adds up the
    classes. A binary model has a single class, and G = E.
    """

    def __init__(self, kernel: Floats, D_nC: Floats) -> None:
        self.n_classes = D_nC.shape[1]
        self._roots_Cn1 = np.sqrt(D_nC).T[:, :, np.newaxis]
        unit = np.eye(len(kernel))
        self._factors = [cho_factor(unit + root * kernel * root.T, lower=True) for root in self._roots_Cn1]
        self._total: Any = None
        if len(self._factors) > 1:
            self._total = cho_factor(sum(map(self._lower_smoother, range(len(self._factors)))), lower=True)

    def solve(self, v_CnK: Floats, noise_CnK: Floats) -> Floats:
        """G (v + ε) where ε = D^-1/2 noise; what this adds to a covariance of S⁻¹, G does not see."""
        parts = zip(self._roots_Cn1, self._factors, v_CnK, noise_CnK, strict=True)
        return self._project(np.stack([root * cho_solve(f, root * v + noise) for root, f, v, noise in parts]))

    def flat_intercept(self, push_CnK: Floats) -> tuple[Floats, Floats]:
        """Intercepts, and what they change in a solution: the limit of a prior of ever larger variance (eq. 2.42)."""
        ones_CnC, information_CC = self.of_ones()
        intercept_CK = -np.linalg.solve(information_CC, push_CnK.sum(axis=1))
        return intercept_CK, ones_CnC @ intercept_CK

    def of_ones(self) -> tuple[Floats, Floats]:
        """G times a column of ones for each class, and the information of the rows on the intercepts."""
        n_classes, n, _ = self._roots_Cn1.shape
        ones_CnC = np.zeros((n_classes, n, n_classes))
        for c in range(n_classes):
            ones_CnC[c, :, c] = self._smooth(c, np.ones((n, 1)))[:, 0]
        ones_CnC = self._project(ones_CnC)
        information_CC = ones_CnC.sum(axis=1)
        if n_classes > 1:
            information_CC = information_CC + _pin(np.diag(information_CC))
        return ones_CnC, information_CC

    def block(self, c: int) -> Floats:
        """G within one class, (n, n)."""
        own_nn = self._smooth(c, np.eye(self._roots_Cn1.shape[1]))
        return own_nn if self._total is None else own_nn - self._smooth(c, cho_solve(self._total, own_nn))

    def _project(self, v_CnK: Floats) -> Floats:
        if self._total is None:
            return v_CnK
        common_nK = cho_solve(self._total, v_CnK.sum(axis=0))
        return np.stack([v - self._smooth(c, common_nK) for c, v in enumerate(v_CnK)])

    def _lower_smoother(self, c: int) -> Floats:
        """E_c below its diagonal, and anything above: a third of the work of solving for it."""
        root, (factor, _) = self._roots_Cn1[c], self._factors[c]
        return root * dpotri(factor, lower=True)[0] * root.T

    def _smooth(self, c: int, v_nK: Floats) -> Floats:
        root = self._roots_Cn1[c]
        return root * cho_solve(self._factors[c], root * v_nK)


def _scaled_rows(X: Any, scale_n: Floats) -> Any:
    return X.multiply(scale_n[:, np.newaxis]).tocsr() if sparse.issparse(X) else X * scale_n[:, np.newaxis]


def _is_dual_cheaper(shape: tuple[int, ...], n_features: int) -> bool:
    n, n_classes = shape
    return n_classes * n**3 < (n_classes * n_features) ** 3
