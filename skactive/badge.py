"""BADGE: k-means++ seeding over gradients of the last layer, at the label that the model predicts."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from ._utils.randomness import check_rng
from ._utils.types import Embedding, Indices
from ._utils.validation import Rules, check_classifier, check_k, name_or_callable, probabilities_of, real_array, warn
from .posterior._embeddings import represent_by
from .posterior._wrappers import in_batches
from .query import Batch, BatchQuery, Pool, Streams, model_of
from .query._draws import Kept, as_numbers, as_of_gradients, point_set
from .samplers._distances import PointSet, Residuals, Vectors
from .samplers._feasibility import Allowance, take_all, uniform_order
from .samplers._repulsion import Bounds

__all__ = ["BADGEQuery", "badge"]

_TIED_NORMS = 8 * np.finfo(np.float64).eps  # relative: rounding that hides which of two equal norms is larger


def badge(probabilities: ArrayLike, embeddings: Any, k: int, rng: np.random.Generator) -> Indices:
    r"""Choose k rows by k-means++ seeding on gradient embeddings.

    The embedding of a row is :math:`g = (\bar p - e_{\hat y}) \otimes h`, the gradient of the cross-entropy by the
    weights of the last layer at the most probable label :math:`\hat y`. The first row is one of the largest norm. Every
    further one is drawn with probability proportional to its squared distance from the nearest row chosen so far.

    Time is one pass over the arrays, and now and then another; g, n_classes * n_units numbers per row, is never formed.

    Parameters
    ----------
    probabilities : array-like or torch.Tensor of shape (n_points, n_classes)
        Predictive probabilities :math:`\bar p`, of any float dtype; rows sum to 1. Of several equally probable classes
        the first counts.
    embeddings : array-like of shape (n_points, n_units)
        The input of the last layer, h: finite numbers of any dtype, in an array, a memory map, a tensor on any device,
        a scipy sparse CSR array or a dask array. None of these is copied as a whole. Their scale does not matter,
        between 1e-100 and 1e100.
    k : int
        Number of rows.
    rng : numpy.random.Generator

    Returns
    -------
    ndarray of shape (k,), int64
        Distinct rows, in the order they were drawn. Once all rows left lie where chosen ones do, the rest is uniform,
        with a warning.

    References
    ----------
    Ash, Zhang, Krishnamurthy, Langford and Agarwal (2020), Deep Batch Active Learning by Diverse, Uncertain Gradient
    Lower Bounds, alg. 1; Arthur and Vassilvitskii (2007), k-means++: The Advantages of Careful Seeding, sec. 2.2.

    Examples
    --------
    >>> import numpy as np
    >>> from skactive.badge import badge
    >>> probabilities = [[0.5, 0.5], [1.0, 0.0], [0.9, 0.1], [0.9, 0.1]]
    >>> embeddings = [[2.0, 0.0], [9.0, 9.0], [0.0, 1.0], [0.0, 1.0]]
    >>> badge(probabilities, embeddings, 2, np.random.default_rng(0))
    array([0, 2])
    """
    points = PointSet(*_factors(probabilities, embeddings))
    k = check_k(k, len(points), of="rows")
    check_rng(rng)
    return _seed(points, Allowance(len(points), k), rng)


@dataclass(eq=False, repr=False)
class BADGEQuery(BatchQuery):
    """Choose a batch by BADGE: uncertain rows whose gradients point in different directions.

    A row is represented by the gradient that it would give the last layer if its label were the predicted one: long
    where the model is unsure, and in the direction of the embedding. `badge.badge` chooses. The law of a batch is
    known, but its first row is certain: there is no ``log_proba_``. With rows in flight (``pending``), or rows that
    have to be in the batch (``must`` of `Limits`), the first row, too, is drawn by its distance from these.

    Parameters
    ----------
    embedding : "auto" or callable, default="auto"
        The input of the last layer. "auto": for estimators with a method ``embed(X)``, such as `MCDropoutClassifier`,
        what it returns; for skorch nets, torch modules and ``MLPClassifier``, the input of the linear layer or
        convolution that makes the outputs, with dropout switched off; for linear models their features. Any other
        classifier is treated as a softmax regression on its features, with its own probabilities; gradients then have
        the scale of the features, which should be equal. Features are what the last step of a Pipeline gets. Or a
        function ``embedding(X)`` or ``embedding(estimator, X)`` that returns an array (n_rows, n_units) for
        a chunk of the pool.
    chunk_size, predict_batch_size, random_state, verbose
        As in `StochasticBatchQuery`.

    Attributes
    ----------
    scores_, indices_, rng_
        As in `query.BatchQuery`; scores are norms of the gradients.

    See Also
    --------
    StochasticBatchQuery : With ``diversity``, diverse batches with a known law.
    KCenterQuery : Distances alone, without uncertainty.

    Notes
    -----
    Probabilities come from ``predict_proba``: for `MCDropoutClassifier` that is the mean over its draws. They are kept
    for the whole pool, as are embeddings, in the dtype that the model gives: n_classes + n_units numbers per row. Where
    features of the pool are the embeddings, and all rows are candidates, it is read in place, as a memory map may be.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skactive import BADGEQuery
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LogisticRegression(max_iter=500).fit(X[::10], y[::10])
    >>> rows = BADGEQuery(random_state=0).select(model, X, n_instances=5)
    >>> sorted(y[rows].tolist())  # species of the batch
    [0, 1, 1, 1, 1]
    """

    rules: ClassVar[Rules] = BatchQuery.rules | {"embedding": name_or_callable(["auto"])}
    keeps_parts: ClassVar[bool] = True

    embedding: Embedding = "auto"
    _: KW_ONLY
    chunk_size: int | None = None
    predict_batch_size: int | None = None
    random_state: Any = None
    verbose: int = 0

    def choose(self, learner: Any, pool: Pool, k: int, rngs: Streams) -> Batch:
        """Represent the candidates by gradients, and seed a batch among them."""
        model = model_of(learner)
        check_classifier(model, "BADGE")
        represent = in_batches(represent_by(model, self.embedding), self.predict_batch_size)
        with probabilities_of(model):
            batch_size = getattr(represent, "batch_size", None)
            kept = Kept(pool.with_pending(), lambda X: as_of_gradients(model, *represent(X)), model)
            kept.fill(pool.with_pending(), chunk_size=self.chunk_size, batch_size=batch_size, verbose=self.verbose)
            probabilities, embeddings = kept.all()
            points = point_set(pool, *_factors(probabilities, embeddings))
        scores = np.sqrt(points.squared_norms[: len(pool)])
        return Batch(_seed(points, pool.allowance(k), rngs.batch), scores)


def _factors(probabilities: Any, embeddings: Any) -> tuple[Residuals, Vectors]:
    """Of probabilities, whose rows are checked as they are read, and embeddings: arrays, tensors, sparse or dask."""
    probabilities = real_array("probabilities", probabilities, objects=False)
    embeddings = as_numbers(embeddings)
    shapes = tuple(probabilities.shape), tuple(embeddings.shape)
    if any(len(shape) != 2 or shape[1] == 0 for shape in shapes) or shapes[0][0] != shapes[1][0]:
        raise ValueError(
            "`probabilities` (n_points, n_classes) and `embeddings` (n_points, n_units) must be two-dimensional, with "
            f"the same number of rows. Got shapes {shapes[0]} and {shapes[1]}. Embeddings are the input of the last "
            "linear layer, or features: give BADGEQuery an `embedding`, a function of the rows."
        )
    return Residuals(probabilities), Vectors(embeddings, "embedding")


def _seed(points: PointSet, allowance: Allowance, rng: np.random.Generator) -> Indices:
    """Rows of gradients that differ, and uniform ones once there are no more; points beyond the rows are in flight.

    That is k-means++ seeding (Arthur and Vassilvitskii, 2007): rows keep apart, with equal weights and the power 1.
    """
    _take_apart(points, allowance, rng)
    n_apart = len(allowance.picks)
    take_all(uniform_order(allowance, rng), allowance)
    n_others = len(allowance.picks) - n_apart
    if n_others:
        is_sure = not points.squared_norms.any()
        why = "all are 0, as with a model that is sure" if is_sure else "no other row that may be picked differs"
        warn(
            f"BADGE found {n_apart} of the {n_apart + n_others} rows by their gradients: {why}. The other {n_others} "
            "rows were drawn uniformly at random."
        )
    return allowance.batch


def _take_apart(points: PointSet, allowance: Allowance, rng: np.random.Generator) -> None:
    """Take one of the rows of largest norm, unless some are chosen already, and others by their squared distances."""
    norms, n = points.squared_norms, allowance.n_rows
    centres = np.concatenate([np.arange(n, len(points)), allowance.must])
    allowed = np.flatnonzero(allowance.allowed)
    if len(centres) == 0 and norms[allowed].any():
        largest = norms[allowed].max()
        centres = rng.choice(allowed[norms[allowed] >= largest * (1 - _TIED_NORMS)], 1)
        allowance.take(int(centres[0]))
    if len(centres) and norms.any() and allowance.n_left:
        Bounds(points, centres, np.zeros(n), 1.0, allowance).draw(allowance.n_left, rng)
