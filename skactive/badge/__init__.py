"""BADGE: a batch of rows that the model would learn much from, each something else.

A row stands for the gradient that it would give the last layer if its label were the predicted one: long where the
model is unsure, and pointing where the embedding points. k-means++ seeding over these vectors makes the batch. They are
outer products of two short vectors, and are never formed.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._checks import PointError, Rules, check_classifier, check_k, name_or_callable, probabilities_of
from .._points import PointSet, Residuals, Vectors
from .._random import check_rng
from .._types import Embedding
from ..posterior._embeddings import Represent, represent_by
from ..posterior._wrappers import in_batches
from ..query import Batch, BatchQuery, Pool, Streams, model_of
from ..query._embeddings import check_ran_a_layer, collect
from ..samplers._allowance import Allowance
from ..samplers._limited import Order, batch_of, uniform_law
from ._checks import check_embeddings, check_probabilities, warn_gradients_gone
from ._seeding import seed

__all__ = ["BADGEQuery", "badge"]


def badge(probabilities: ArrayLike, embeddings: Any, k: int, rng: np.random.Generator) -> NDArray[np.int64]:
    r"""Choose k rows by k-means++ seeding on gradient embeddings.

    The embedding of a row is :math:`g = (\bar p - e_{\hat y}) \otimes h`, the gradient of the cross-entropy by the
    weights of the last layer at the most probable label :math:`\hat y`. The first row is one of the largest norm. Every
    further one is drawn with probability proportional to its squared distance from the nearest row chosen so far.

    Time is one pass over the arrays, and now and then another. Memory is a few numbers a row beside the arrays, which
    are read in blocks; g, with n_classes * n_units numbers a row, is never formed.

    Parameters
    ----------
    probabilities : array-like or torch.Tensor of shape (n_points, n_classes)
        Predictive probabilities :math:`\bar p`, of any float dtype; rows sum to 1. Of several most probable classes the
        first counts.
    embeddings : array-like of shape (n_points, n_units)
        What enters the last layer, h: finite numbers of any dtype, in an array, a memory map, a tensor on any device,
        a scipy sparse CSR array or a dask array. None of these is copied as a whole. Their scale does not matter.
    k : int
        Number of rows.
    rng : numpy.random.Generator

    Returns
    -------
    ndarray of shape (k,), int64
        Distinct rows, in the order they were drawn. Once all rows left lie where chosen ones do, the rest is uniform,
        with a warning.

    Raises
    ------
    ValueError, TypeError
        If the arrays do not have the same number of rows or hold what is not finite, rows of ``probabilities`` are no
        probabilities, or k is not an integer from 1 to n_points.

    See Also
    --------
    BADGEQuery : The same for an estimator and a pool.
    samplers.repulsive : Rows that keep apart, with scores of any kind.

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
    array([0, 1])
    """
    points = _points(probabilities, embeddings)
    k = check_k(k, len(points), of="rows")
    check_rng(rng)
    return _batch(points, k, rng)[0]


class BADGEQuery(BatchQuery):
    r"""Buy a batch of labels by BADGE: uncertain rows, each in a direction of its own.

    Rows are represented by gradients of the last layer, and chosen by `badge.badge`. The law of a batch is known, but
    its first row is certain: there is no ``log_proba_``. With rows in flight (``pending``), or rows that have to be in
    the batch (``must`` of `Limits`), the first row, too, is drawn by its distance from these.

    Parameters
    ----------
    embedding : "auto" or callable, default="auto"
        What enters the last layer. "auto": for estimators with a method ``embed(X)``, such as `MCDropoutClassifier`,
        what it returns; for skorch nets, torch modules and ``MLPClassifier``, the input of the linear layer that runs
        last, with dropout switched off; for linear models their features. Any other classifier is taken for a softmax
        regression on its features, with the probabilities it gives; gradients then have the scale of the features, so
        these should be of one scale. Features are what the last step of a Pipeline gets. Or a function ``embedding(X)``
        or ``embedding(estimator, X)`` that returns an array (n_rows, n_units) for a chunk of the pool.
    chunk_size : int, optional
        Rows predicted at once. By default what fits scikit-learn's ``working_memory``, 64 MiB at most.
    predict_batch_size : int, optional
        Rows that a net is asked for at once. By default its own batch size: that of a skorch net or of
        `MCDropoutClassifier`, 256 of a bare module. Fewer take less memory; when it runs out, the number is halved,
        with a warning. Models that are no nets do not look at it.
    max_candidates : int, optional
        Look at no more than this many rows, chosen uniformly at random.
    random_state : None, int, numpy Generator or RandomState
        Seeds one stream, which goes on from call to call. Set it again, or clone the query, to start afresh.
    verbose : int, default=0
        Whether to show a progress bar over the pool.

    Attributes
    ----------
    scores_ : ndarray of shape (n_points,), float64
        Norms of the gradients of the last pool; NaN for rows that were not looked at.
    indices_ : ndarray of shape (n_instances,), int64
        The last batch.
    n_informative_ : int
        Rows taken for their gradients; the others, whose gradients are 0 or were there already, fill up the batch.
    n_features_in_ : int
        Columns of the last pool.

    See Also
    --------
    badge.badge : The same for arrays.
    StochasticBatchQuery : With ``diversity``, batches that keep apart and have a known law.
    KCenterQuery : Distances alone, without uncertainty.

    Notes
    -----
    Probabilities come from ``predict_proba``: for `MCDropoutClassifier` that is the mean over its draws. They are kept
    for the whole pool, as are embeddings, in the dtype that the model gives: n_classes + n_units numbers a row. Where
    features of the pool are the embeddings, it is read in place: a memory map larger than the memory will do.

    References
    ----------
    Ash, Zhang, Krishnamurthy, Langford and Agarwal (2020), Deep Batch Active Learning by Diverse, Uncertain Gradient
    Lower Bounds.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skactive import BADGEQuery
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LogisticRegression(max_iter=500).fit(X[::10], y[::10])
    >>> BADGEQuery(random_state=0).select(model, X, n_instances=3).shape
    (3,)
    """

    rules: ClassVar[Rules] = BatchQuery.rules | {"embedding": name_or_callable(["auto"])}

    def __init__(
        self,
        embedding: Embedding = "auto",
        *,
        chunk_size: int | None = None,
        predict_batch_size: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.embedding = embedding
        self.chunk_size = chunk_size
        self.predict_batch_size = predict_batch_size
        self.random_state = random_state
        self.verbose = verbose

    def choose(self, learner: Any, pool: Pool, k: int, rngs: Streams) -> Batch:
        """Represent the candidates by gradients, and seed a batch among them."""
        model = model_of(learner)
        check_classifier(model, "BADGE")
        represent = in_batches(represent_by(model, self.embedding), self.predict_batch_size)
        batch_size = getattr(represent, "batch_size", None)
        with probabilities_of(model):
            probabilities, embeddings = collect(
                pool.with_pending(),
                lambda X: _of_rows(represent, X),
                model=model_of(learner),
                chunk_size=self.chunk_size,
                batch_size=batch_size,
                verbose=self.verbose,
            )
            points = _points_of(probabilities, embeddings, pool)
        scores = np.sqrt(points.squared_norms[: len(pool)]) * points.unit
        allowance, n_known = pool.allowance(k), len(pool.pending)
        if allowance is None:
            indices, n_informative = _batch(points, k, rngs.batch, n_known)
        else:
            indices, n_informative = _batch_among(points, allowance, rngs.batch, n_known)
        return Batch(indices, scores, attributes={"n_informative_": n_informative})


def _of_rows(represent: Represent, X: Any) -> tuple[Any, Any]:
    """What represents some rows of a pool, checked."""
    probabilities, embeddings = represent(X)
    return _checked(probabilities, check_ran_a_layer(embeddings))


def _checked(probabilities: Any, embeddings: Any) -> tuple[Any, Any]:
    probabilities = check_probabilities(probabilities)
    return probabilities, check_embeddings(embeddings, probabilities.shape[0])


def _batch(points: PointSet, k: int, rng: np.random.Generator, n_known: int = 0) -> tuple[NDArray[np.int64], int]:
    """Rows of gradients that differ, and how many they are; if they are fewer than k, uniform ones follow.

    The last ``n_known`` points count as chosen.
    """
    found = seed(points, k, rng, n_known)
    if len(found) == k:
        return found, k
    warn_gradients_gone(len(found), k)
    left = np.delete(np.arange(len(points) - n_known), found)
    return np.concatenate([found, rng.choice(left, k - len(found), replace=False)]), len(found)


def _batch_among(
    points: PointSet, allowance: Allowance, rng: np.random.Generator, n_known: int
) -> tuple[NDArray[np.int64], int]:
    """The same with an allowance: the rows that have to be in the batch, and then as many as it allows."""
    found = seed(points, allowance.n_left, rng, n_known, allowance)
    others = Order(uniform_law(len(points) - n_known), allowance, rng)
    while (row := others.next()) is not None:
        allowance.take(row)
    if len(found) < len(allowance.picks):
        warn_gradients_gone(len(found), len(allowance.picks), of=" that `limits` allow")
    return batch_of(allowance), len(found)


def _points_of(probabilities: Any, embeddings: Any, pool: Pool) -> PointSet:
    try:
        return _points(probabilities, embeddings)
    except PointError as error:
        raise error.of_rows(pool.with_pending().rows) from None


def _points(probabilities: Any, embeddings: Any) -> PointSet:
    probabilities, embeddings = _checked(probabilities, embeddings)
    return PointSet(Residuals(probabilities), Vectors(embeddings, "embedding"))
