"""What a model gives for the candidates of a pool: draws from its posterior, embeddings, and points of a space.

In the space of embeddings are, of nets, what enters the last layer; of trees, the leaves; of linear models, their
features; of others, draws. Gradients are p - e, by the probable label, times these, or times features.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.ensemble import BaggingClassifier

from .. import _containers as containers
from .._utils.randomness import seeded_clone
from .._utils.types import Embedding, Posterior, SpaceName
from .._utils.validation import (
    FewMembersError,
    NoPosteriorError,
    NoTrainingDataError,
    PointError,
    Rules,
    as_array,
    check_classifier,
    check_draws_of,
    check_joint_draws,
    check_one_output,
    check_one_target,
    check_same_functions,
    failure_explained,
    name_or_callable,
    numbers_in_place,
    probabilities_of,
    real_array,
    warn,
)
from ..posterior import bootstrap, sample_posterior
from ..posterior._embeddings import embed_by, has_embeddings, is_of_leaves, leaves_by, predictions_by, represent_by
from ..posterior._ensembles import FORESTS
from ..posterior._registry import PredictDraws, has_source, innermost, prediction_as_draw
from ..posterior._wrappers import Composed, bytes_on_the_way, fit_with, in_batches, labels_to_fit
from ..samplers._distances import Factor, Leaves, PointSet, Residuals, Vectors
from ..samplers._repulsion import DIVERSITY
from ._pool import Pool, model_of

Training = Mapping[str, Any]

SPACE_RULES: Rules = {"diversity": DIVERSITY, "space": name_or_callable(get_args(SpaceName))}
"""Rules of the parameters that keep rows of a batch apart."""

_AVERAGED = (*FORESTS, BaggingClassifier)  # the mean of all their draws is their `predict_proba`


@dataclass(frozen=True)
class PoolDraws:
    """Draws from the posterior, and what those of one row look like.

    Attributes
    ----------
    predict : callable
        ``predict(X) -> draws`` of shape (n_draws, n_rows, ...): the same functions at every call.
    shape : tuple of int
        Of the draws of a single row: (n_draws, 1, n_classes) for classifiers, (n_draws, 1) for regressors.
    model : object
        The fitted estimator that is drawn from: the learner's, or a surrogate.
    batch_size : int or None
        Rows that a net is asked for at once; None for models that are no nets.
    checks_rows : bool
        Whether ``predict`` itself sees to it that the draws of a row do not depend on the rows beside it.
    n_beside : int
        How many float64 a row takes on the way beside its draws: between the steps of a Pipeline, say.
    """

    predict: PredictDraws
    shape: tuple[int, ...]
    model: Any
    batch_size: int | None
    checks_rows: bool
    n_beside: int = 0

    @property
    def n_draws(self) -> int:
        return self.shape[0]

    @property
    def n_values(self) -> int:
        """How many numbers a row takes."""
        return int(np.prod(self.shape)) + self.n_beside

    def of(self, X: Any, n_rows: int) -> Any:
        """Draws of some rows, in the shape that the first row's had."""
        draws, shape = self.predict(X), (self.shape[0], n_rows, *self.shape[2:])
        if tuple(draws.shape) != shape:
            raise ValueError(
                "`predict_draws` must return as many draws, and classes, for all rows. Got shape "
                f"{tuple(draws.shape)} for a chunk, and by the first row it should be {shape}."
            )
        return draws

    def chunks(
        self, pool: Pool, doing: str, *, chunk_size: int | None = None, verbose: int = 0
    ) -> Iterator[tuple[slice, Any]]:
        """Chunks of a pool that these draws are to be made for."""
        return pool.chunks(self.n_values, doing, chunk_size=chunk_size, batch_size=self.batch_size, verbose=verbose)


def draws_of(
    pool: Pool,
    learner: Any,
    rng: np.random.Generator,
    *,
    n_draws: int | None = None,
    posterior: Posterior = "auto",
    predict_batch_size: int | None = None,
    n_jobs: int | None = None,
    one_draw: bool = False,
) -> PoolDraws:
    """Find draws for a learner's model, and check on the first candidate that they are functions.

    Parameters
    ----------
    pool : Pool
    learner : fitted estimator, or modAL learner
    rng : numpy.random.Generator
    n_draws, posterior, predict_batch_size, n_jobs
        As in `StochasticBatchQuery`.
    one_draw : bool, default=False
        Whether the model's own ``predict_proba`` will do: it is asked if there is one, unless ``n_draws`` or
        ``posterior`` ask for draws.
    """
    model, training, found = model_of(learner), pool.training, None
    check_one_target(model)
    if posterior != "auto" and training["X_training"] is None:
        raise ValueError(
            "`posterior` needs the training data to refit on, and there is none at hand. Give `X_training` and "
            "`y_training`, or query through a fitted modAL ActiveLearner: a Committee has only those of its members."
        )
    if not isinstance(posterior, str):
        training = training | {"fit_params": training["surrogate_params"]}
        model = _fitted_surrogate(posterior, training, rng)
    elif posterior == "auto" and one_draw and n_draws is None and has_own_predictions(model):
        found = predictions_by(model)
    if found is None and posterior != "bootstrap":
        found = _own_draws(model, training, rng, n_draws, one_draw)
    is_refitted = found is None
    predict = in_batches(found or _refitted(model, training, rng, n_draws, n_jobs), predict_batch_size)
    checks_rows = bool(getattr(predict, "checks_rows", False))
    with failure_explained("Drawing predictions for one row of the pool"):
        first, pair = pool.first_rows()
        draws = predict(first)
        check_draws_of(draws, 1)
        real_array("draws", draws, objects=False)
        if not (is_refitted or type(model) in FORESTS or checks_rows):  # these can be nothing but functions
            again = predict(pair)
            check_draws_of(again, containers.count_rows(pair), n_draws=draws.shape[0])
            what = "the first candidate, drawn again behind another,"
            check_same_functions(draws, again[:, -1:], what, within_spread=True)
        n_beside = math.ceil(bytes_on_the_way(model, first) / 8)
    if n_draws not in (None, draws.shape[0]) and not one_draw:  # a mean is best over all that there are
        raise ValueError(
            f"`n_draws`={n_draws} must be how many functions `sample_posterior` draws, and that of this "
            f"{type(model).__name__} drew {draws.shape[0]}. Leave `n_draws` at None, which takes what it gives."
        )
    batch_size = getattr(predict, "batch_size", None)
    return PoolDraws(predict, tuple(draws.shape), innermost(model), batch_size, checks_rows, n_beside)


def has_own_predictions(model: Any) -> bool:
    """Whether scores of one draw are made of ``predict_proba``, which is not the mean of all draws anyway."""
    return hasattr(model, "predict_proba") and not isinstance(innermost(model), _AVERAGED)


def options_of(query: Any) -> dict[str, Any]:
    """The keywords of `draws_of` that a query has as parameters."""
    return {name: getattr(query, name) for name in ("n_draws", "posterior", "predict_batch_size", "n_jobs")}


def joint_draws_of(pool: Pool, learner: Any, rng: np.random.Generator, method: str, **options: Any) -> PoolDraws:
    """`draws_of` class probabilities, for a method that looks at rows together."""
    check_classifier(model_of(learner), method)
    if not isinstance(options["posterior"], str):
        check_classifier(options["posterior"], method, "posterior")
    draws = draws_of(pool, learner, rng, **options)
    check_joint_draws(draws.shape, method)
    return draws


def why_filled_up(*, all_agree: bool, exhausted: bool) -> str:
    """Say what there was too little of: disagreement, or draws if those are exhausted."""
    if all_agree:
        return "All draws agree on every row, as of a model that learned nothing yet, or that is sure of everything."
    if exhausted:
        return "More draws (of an ensemble, more members) can distinguish more rows."
    return "No remaining row separates draws that the chosen rows cannot separate."


@contextmanager
def explained(doing: str, rows: slice, model: Any) -> Iterator[None]:
    """Name the rows and the model where something fails that is done with their draws."""
    with failure_explained(f"{doing} rows {rows.start} to {rows.stop - 1}"), probabilities_of(model):
        yield


def _own_draws(
    model: Any, training: Training, rng: np.random.Generator, n_draws: int | None, one_draw: bool
) -> PredictDraws | None:
    """The model's own, or its ``predict_proba`` if one draw will do; None if it has to be bootstrapped."""
    known = {name: training[name] for name in ("X_training", "y_training", "sample_weight")}
    try:
        return sample_posterior(model, n_draws, rng, **known)
    except FewMembersError:
        if not one_draw:
            raise
        return sample_posterior(model, None, rng, **known)  # a mean is best over all of them
    except (NoPosteriorError, NoTrainingDataError) as error:
        if one_draw and hasattr(model, "predict_proba"):
            return prediction_as_draw(model)
        if training["X_training"] is None:
            raise ValueError(
                f'`posterior`="auto" found no draws: {type(innermost(model)).__name__} gives none without the training '
                "data it was fitted to. Give `X_training` and `y_training`, or posterior=<an estimator to draw from "
                'instead>. The scores "entropy", "margin" and "variation_ratio", and BADGEQuery, need `predict_proba` '
                "alone, which CalibratedClassifierCV gives any classifier."
            ) from error
        warn(
            f"{getattr(error, 'why', str(error))}: it is refitted to resampled training data at every query. "
            'posterior="bootstrap" asks for that without this warning; posterior=<estimator> draws from another '
            "model, such as a random forest, fitted to the same data."
        )
        return None


def _refitted(
    model: Any, training: Training, rng: np.random.Generator, n_draws: int | None, n_jobs: int | None
) -> PredictDraws:
    """Draws by members that are fitted to resampled training data."""
    rows = training["X_training"], training["y_training"]
    how = {name: training[name] for name in ("sample_weight", "fit_params")}
    with failure_explained(f"Refitting {type(model).__name__} to resampled training data"):
        return bootstrap(model, *rows, n_draws, rng, n_jobs=n_jobs, **how)


def _fitted_surrogate(posterior: Any, training: Training, rng: np.random.Generator) -> Any:
    y, surrogate = training["y_training"], seeded_clone(posterior, rng)
    with failure_explained(f"Fitting {type(surrogate).__name__}, the `posterior`, to the training data"):
        labels = y if np.ndim(y) == 1 else labels_to_fit(surrogate, y)
        fit_with(surrogate, training["X_training"], labels, training["sample_weight"], training["fit_params"])
    return surrogate


# --- embeddings -------------------------------------------------------------------------------------


def embeddings_of(
    pool: Pool,
    learner: Any,
    *,
    embedding: Embedding = "auto",
    chunk_size: int | None = None,
    predict_batch_size: int | None = None,
    verbose: int = 0,
) -> Any:
    """Embeddings of the candidates by the model of a learner.

    Parameters
    ----------
    pool : Pool
    learner : fitted estimator, or modAL learner
    embedding, chunk_size, predict_batch_size, verbose
        As in `skactive.BADGEQuery`.

    Returns
    -------
    array of shape (n_candidates, n_units)
        Dense, or a sparse CSR array if the model embeds rows so. Where rows are their own embeddings, as those of a
        linear model, it is the pool itself, of which rows are read when they are asked for.
    """
    model = model_of(learner)
    embed = in_batches(embed_by(model, embedding), predict_batch_size)
    batch_size = getattr(embed, "batch_size", None)
    options: dict[str, Any] = {"chunk_size": chunk_size, "batch_size": batch_size, "verbose": verbose, "model": model}
    return collect(pool, lambda X: (check_ran_a_layer(embed(X)),), **options)[0]


def as_numbers(embeddings: Any, parameter: str = "embedding") -> Any:
    """What rows can be taken from by position: the array of numbers that it is, or a copy."""
    try:
        return numbers_in_place("embeddings", embeddings)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{error} Rows of text or of mixed types need transformers before the estimator, in a Pipeline, or a "
            f"function of the rows as `{parameter}`."
        ) from error


def check_ran_a_layer(embeddings: Any) -> Any:
    """Refuse the embeddings of a net that has no layer to take them from: they have no columns."""
    if containers.count_columns(embeddings) == 0:
        raise ValueError(
            '`embedding`="auto" uses what enters the linear layer or convolution that makes the outputs of a net, and '
            "no single one makes those of this net. Give a function of the rows as `embedding`, or the net a method "
            "`embed(X)`."
        )
    return embeddings


def collect(
    pool: Pool,
    function: Callable[[Any], Sequence[Any]],
    *,
    model: Any,
    doing: str = "embedding",
    parameter: str = "embedding",
    chunk_size: int | None = None,
    batch_size: int | None = None,
    verbose: int = 0,
) -> list[Any]:
    """Stream the candidates through a function of rows that returns arrays (n_rows, n_columns), and keep these.

    An array is dense or sparse as those of the first row are. Where the function returns the rows that it was given,
    and these are all rows of the pool, nothing is kept: the pool is the answer, read in place.
    """
    first = pool.take(np.array([0]))
    with failure_explained(f"{doing.capitalize()} one row of the pool"):
        n_beside = math.ceil(bytes_on_the_way(model, first) / 8)
        kept = [_Kept(part, first, pool, parameter) for part in function(first)]
    n_values = sum(array.n_columns for array in kept) + n_beside
    for rows, chunk in pool.chunks(n_values, doing, chunk_size=chunk_size, batch_size=batch_size, verbose=verbose):
        with failure_explained(f"{doing.capitalize()} rows {rows.start} to {rows.stop - 1}"):
            for array, part in zip(kept, function(chunk), strict=True):
                array.add(rows, part)
    return [array.all() for array in kept]


class _Kept:
    """One array over all candidates, filled chunk by chunk."""

    def __init__(self, of_first: Any, first: Any, pool: Pool, parameter: str) -> None:
        self._pool, self._parameter = pool, parameter
        self._parts: list[Any] = []
        self.n_columns = containers.count_columns(of_first) or 0
        array = self._checked(of_first, 1)
        self._in_place = array is first and pool.rows is None and not pool.is_read_in_blocks
        is_dense = not (self._in_place or sparse.issparse(array))
        self._array = pool.room((len(pool), self.n_columns), as_array(array).dtype) if is_dense else None

    def _checked(self, part: Any, n_rows: int) -> Any:
        part = as_numbers(part, self._parameter)
        if tuple(part.shape) != (n_rows, self.n_columns) or self.n_columns == 0:
            raise ValueError(
                f"`{self._parameter}` must give every row as many numbers as the first one: shape ({n_rows}, "
                f"{self.n_columns or 'n_columns'}) for these {n_rows} rows. Got shape {tuple(part.shape)}."
            )
        return part

    def add(self, rows: slice, part: Any) -> None:
        part = self._checked(part, rows.stop - rows.start)
        if self._array is not None:
            self._array[rows] = as_array(part)
        elif not self._in_place:
            self._parts.append(part)

    def all(self) -> Any:
        if self._in_place:
            return self._pool.X
        return sparse.vstack(self._parts, format="csr") if self._array is None else self._array


# --- spaces -----------------------------------------------------------------------------------------


def points_of(
    pool: Pool,
    learner: Any,
    draws: PoolDraws | None,
    *,
    space: str | Callable[..., Any] = "auto",
    predict_batch_size: int | None = None,
    **options: Any,
) -> PointSet:
    """The candidates of a pool as points, and after them the rows in flight; ``options`` are those of `collect`.

    ``draws`` are the space of models that have neither embeddings nor leaves.
    """
    model, is_own = model_of(learner), callable(space)
    of_rows, has_probabilities = _find(model, space, draws, predict_batch_size)
    is_of_trees = not is_own and leaves_by(model) is not None and is_of_leaves(model)

    def arrays_of(X: Any) -> tuple[Any, ...]:
        *before, last = of_rows(X) if has_probabilities else (of_rows(X),)
        return (*before, last if is_own or is_of_trees else check_ran_a_layer(last))

    options |= {"model": model, "doing": "placing", "parameter": "space"}
    arrays = collect(pool.with_pending(), arrays_of, batch_size=getattr(of_rows, "batch_size", None), **options)
    is_centred, name = len(arrays) == 1, "space function" if is_own else "space"
    last = Leaves(arrays[-1]) if is_of_trees else Vectors(arrays[-1], name, centred=is_centred)
    return point_set(pool, *(Residuals(array) for array in arrays[:-1]), last)


def point_set(pool: Pool, *factors: Factor) -> PointSet:
    """Candidates, and after them the rows in flight, as points; an error names the row of the pool."""
    try:
        return PointSet(*factors)
    except PointError as error:
        raise error.of_rows(pool.with_pending().rows) from None


def is_drawn(model: Any, space: str | Callable[..., Any]) -> bool:
    """Whether draws are the space, as the model has any, and neither embeddings nor leaves."""
    by_features = callable(space) or space == "gradients"
    return not by_features and has_source(innermost(model)) and leaves_by(model) is None and not has_embeddings(model)


def _find(
    model: Any, space: str | Callable[..., Any], draws: PoolDraws | None, batch_size: int | None
) -> tuple[Callable[[Any], Any], bool]:
    """A function of rows that gives an array, and whether it gives probabilities before that."""
    if callable(space):
        return in_batches(embed_by(model, space), batch_size), False
    leaves = leaves_by(model)
    if space == "gradients":
        check_classifier(model, 'space="gradients"')
        if leaves is None:
            return in_batches(represent_by(model), batch_size), True
        return lambda X: (check_one_output(model.predict_proba(X), model), leaves(X)), True
    if leaves is not None:
        return leaves, False
    if draws is not None and draws.n_draws > 1 and not has_embeddings(model):
        return Composed(draws.predict, after=_in_a_line), False
    return in_batches(embed_by(model), batch_size), False


def _in_a_line(draws: Any) -> NDArray[Any]:
    """All draws of a row, (n_rows, n_draws * n_classes)."""
    of_rows = as_array(draws)
    return np.moveaxis(of_rows, 1, 0).reshape(of_rows.shape[1], -1)
