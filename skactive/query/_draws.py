"""What a model gives for the candidates of a pool: draws from its posterior, embeddings, and points of a space.

In the space of embeddings are, of nets, what enters the last layer; of trees, the leaves; of linear models, their
features; of others, draws. Gradients are p - e, by the probable label, times these, or times features.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, get_args

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
    check_same_functions,
    failure_explained,
    look_up,
    name_or_callable,
    numbers_in_place,
    probabilities_of,
    real_array,
    several_outputs_error,
    task,
    warn,
)
from ..posterior import bootstrap, sample_posterior
from ..posterior._embeddings import (
    embed_by,
    has_embeddings,
    is_embedded_by_a_pass,
    is_of_leaves,
    leaves_by,
    predictions_by,
    represent_by,
)
from ..posterior._ensembles import FORESTS
from ..posterior._registry import (
    PredictDraws,
    WithPlaces,
    has_source,
    innermost,
    kind_from,
    prediction_as_draw,
    with_places,
)
from ..posterior._wrappers import Composed, bytes_on_the_way, fit_with, in_batches, labels_to_fit
from ..samplers import SAMPLERS
from ..samplers._distances import Factor, Leaves, PointSet, Residuals, Vectors
from ..samplers._repulsion import DIVERSITY
from ._pool import Pool, model_of

Training = Mapping[str, Any]

SPACE_RULES: Rules = {"diversity": DIVERSITY.or_word("auto"), "space": name_or_callable(get_args(SpaceName))}
"""Rules of the parameters that keep rows of a batch apart."""

_MOST_AT_HAND = 2**25  # numbers kept of a pool where nobody asked for it: 256 MiB of float64
_AVERAGED = (*FORESTS, BaggingClassifier)  # the mean of all their draws is their `predict_proba`


@dataclass(frozen=True)
class PoolDraws:
    """Draws from the posterior, and what those of one row look like.

    Attributes
    ----------
    predict : callable
        ``predict(X) -> draws`` of shape (n_draws, n_rows, ...): the same functions at every call.
    shape : tuple of int
        Of the draws of a single row: (n_draws, 1, n_classes) for classifiers, (n_draws, 1) for regressors, with axes of
        several outputs behind.
    model : object
        The fitted estimator that is drawn from: the learner's, or a surrogate.
    batch_size : int or None
        Rows in one forward pass of a net; None for other models.
    checks_rows : bool
        Whether ``predict`` itself ensures that the draws of a row do not depend on the rows next to it.
    n_beside : int
        How many float64 a row takes on the way beside its draws: between the steps of a Pipeline, say.
    kind : {"classes", "numbers"}
        What the draws are of. Further axes of ``shape`` are outputs.
    """

    predict: PredictDraws
    shape: tuple[int, ...]
    model: Any
    batch_size: int | None
    checks_rows: bool
    n_beside: int = 0
    kind: str = "classes"

    @property
    def n_draws(self) -> int:
        return self.shape[0]

    @property
    def n_values(self) -> int:
        """How many numbers a row takes."""
        return int(np.prod(self.shape)) + self.n_beside

    def of(self, X: Any, n_rows: int) -> Any:
        """Draws of some rows, in the shape that the first row's had."""
        return self.both(X, n_rows)[0]

    def both(self, X: Any, n_rows: int) -> tuple[Any, Any]:
        """Draws of some rows, and the embeddings or leaves that some come with; None beside other draws."""
        draws, places = with_places(self.predict, X)
        shape = (self.shape[0], n_rows, *self.shape[2:])
        if tuple(draws.shape) != shape:
            raise ValueError(
                "`predict_draws` must return as many draws and classes for each row. Got shape "
                f"{tuple(draws.shape)} for a chunk, but the first row implies {shape}. Pad rows to one length, "
                "and mark by `mask` the outputs that count."
            )
        return draws, places

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
    is_apart: bool = False,
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
        Whether the model's own ``predict_proba`` is enough: it is used if there is one, unless ``n_draws`` or
        ``posterior`` ask for draws.
    is_apart : bool, default=False
        Whether the embeddings of rows are wanted beside their one draw.
    """
    model, training, found = model_of(learner), pool.training, None
    if posterior != "auto" and training["X_training"] is None:
        raise ValueError(
            "`posterior` needs training data to refit on, but none is at hand. Give `X_training` and "
            "`y_training`, or query through a fitted modAL ActiveLearner: a Committee has only those of its members."
        )
    if not isinstance(posterior, str):
        training = training | {"fit_params": training["surrogate_params"]}
        model = _fitted_surrogate(posterior, training, rng)
    elif posterior == "auto" and one_draw and n_draws is None and has_own_predictions(model):
        found = predictions_by(model, is_apart=is_apart)
    if found is None and posterior != "bootstrap":
        found = _own_draws(model, training, rng, n_draws, one_draw)
    is_refitted = found is None
    predict = in_batches(found or _refitted(model, training, rng, n_draws, n_jobs), predict_batch_size)
    checks_rows = bool(getattr(predict, "checks_rows", False))
    with failure_explained("Drawing predictions for one row of the pool"):
        first, pair = pool.first_rows()
        draws = predict(first)
        check_draws_of(draws, 1)
        kind = kind_from(predict, model, real_array("draws", draws, objects=False))
        if not (is_refitted or type(model) in FORESTS or checks_rows):  # these can be nothing but functions
            again = predict(pair)
            check_draws_of(again, containers.count_rows(pair), n_draws=draws.shape[0])
            what = "the first candidate, drawn again behind another,"
            check_same_functions(draws, again[:, -1:], what, kind, within_spread=True)
        n_beside = math.ceil(bytes_on_the_way(model, first) / 8)
    if n_draws not in (None, draws.shape[0]) and not one_draw:  # a mean is best over all that there are
        raise ValueError(
            f"`n_draws`={n_draws} must be the number of functions that `sample_posterior` draws, but that of this "
            f"{type(model).__name__} drew {draws.shape[0]}. Leave `n_draws` at None to take them all."
        )
    batch_size = getattr(predict, "batch_size", None)
    return PoolDraws(predict, tuple(draws.shape), innermost(model), batch_size, checks_rows, n_beside, kind)


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


def why_filled_up(*, all_agree: bool, exhausted: bool, limited: bool = False) -> str:
    """Say what there was too little of: disagreement, or draws if those are exhausted; nothing if it may be limits."""
    if all_agree:
        return "All draws agree on every row: the model has learned nothing yet, or is sure of everything."
    if limited:
        return ""
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
                'instead>. The scores "entropy", "margin" and "variation_ratio", and BADGEQuery, only need '
                "`predict_proba`, which CalibratedClassifierCV adds to any classifier."
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
    kept = Kept(pool, lambda X: (check_ran_a_layer(embed(X)),), model)
    kept.fill(pool, chunk_size=chunk_size, batch_size=batch_size, verbose=verbose)
    return kept.all()[0]


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
            '`embedding`="auto" uses the input of the linear layer or convolution that makes the outputs of a net, but '
            "no single one makes those of this net. Give a function of the rows as `embedding`, or the net a method "
            "`embed(X)`."
        )
    return embeddings


class Kept:
    """Arrays (n_candidates, n_columns) that a function of rows gives; none if they take more than ``most`` numbers."""

    def __init__(self, pool: Pool, function: Any, model: Any, what: str = "embedding", most: float = math.inf) -> None:
        self._function, self._doing, self._n_left = function, {"space": "placing"}.get(what, what), most
        first = pool.take(np.array([0]))
        with failure_explained(f"{self._doing.capitalize()} one row of the pool"):
            of_first = function(first)
            self._parts = [_Kept(part, first, pool, what) for part in of_first]
            n_beside = math.ceil(bytes_on_the_way(model, first) / 8)
        n_columns = sum(part.n_columns for part in self._parts)  # sparse arrays are counted as they come
        self.n_values, self.most_rows = n_columns + n_beside, most / n_columns
        if any(map(sparse.issparse, of_first)):  # dask would send them all before they are counted
            self.most_rows = 0.0 if most < math.inf and containers.is_mapped(pool.X) else math.inf

    def fill(self, pool: Pool, start: int = 0, **sizes: Any) -> None:
        """Add the arrays of a pool, whose candidates are from ``start`` on, by a pass of their own."""
        for rows, chunk in pool.chunks(self.n_values, self._doing, **sizes):
            with failure_explained(f"{self._doing.capitalize()} rows {rows.start} to {rows.stop - 1}"):
                self.add(slice(start + rows.start, start + rows.stop), self._function(chunk))

    def add(self, rows: slice, arrays: Sequence[Any] | None) -> None:
        # An entry of a sparse array takes 12 bytes, where a number of a dense one takes 8 or less.
        self._n_left -= sum(1.5 * array.nnz for array in arrays or () if sparse.issparse(array))
        if arrays is None or self._n_left < 0:
            self._parts = []
        for part, array in zip(self._parts, arrays or (), strict=False):
            part.add(rows, array)

    def all(self) -> list[Any]:
        return [part.all() for part in self._parts]


class _Kept:
    """One array, dense or sparse as of the first row; rows of a pool in memory that are their own are read in place."""

    def __init__(self, of_first: Any, first: Any, pool: Pool, parameter: str) -> None:
        self._pool, self._parameter = pool, parameter
        self._parts: list[Any] = []
        self.n_columns = containers.count_columns(of_first) or 0
        array = self._checked(of_first, 1)
        self._in_place = array is first and pool.rows is None and not pool.is_read_in_blocks
        self._dtype = None if sparse.issparse(array) else as_array(array).dtype
        self._is_open = pool.is_open

    @functools.cached_property
    def _array(self) -> NDArray[Any]:
        return self._pool.room((len(self._pool), self.n_columns), self._dtype)

    def _checked(self, part: Any, n_rows: int) -> Any:
        part = as_numbers(part, self._parameter)
        if tuple(part.shape) != (n_rows, self.n_columns) or self.n_columns == 0:
            raise ValueError(
                f"`{self._parameter}` must give every row as many numbers as the first: shape ({n_rows}, "
                f"{self.n_columns or 'n_columns'}) for these {n_rows} rows. Got shape {tuple(part.shape)}."
            )
        return part

    def add(self, rows: slice, part: Any) -> None:
        part = self._checked(part, rows.stop - rows.start)
        if self._in_place:
            return
        if self._dtype is None:
            self._parts.append(part)
        elif self._is_open:
            self._parts.append(np.array(as_array(part), self._dtype))
        else:
            self._array[rows] = as_array(part)

    def all(self) -> Any:
        if self._in_place:
            return self._pool.X
        if self._dtype is None:
            return sparse.vstack(self._parts, format="csr")
        return np.concatenate(self._parts) if self._is_open else self._array


class Arrays(NamedTuple):
    """Where rows lie, by rows or by what a pass for their scores gives: draws, and embeddings beside them."""

    of: Callable[..., tuple[Any, ...]]
    at_hand: bool  # without draws, and passes through trees or nets, that scores do not need
    batch_size: int | None = None


class Places(Kept):
    """Where the candidates of a pool lie, and the rows in flight behind them; ``draws`` are those of their scores."""

    def __init__(self, pool: Pool, model: Any, draws: Any, space: Any, arrays: Arrays, most: float = math.inf) -> None:
        self._pool, self._model, self._space, self.arrays = pool, model, space, arrays

        def of_rows(X: Any) -> tuple[Any, ...]:
            return arrays.of(X, *((None, None) if draws is None else draws.both(X, containers.count_rows(X))))

        super().__init__(pool.with_pending(), of_rows, model, "space", most)

    def points(self, *, alone: bool = False, **sizes: Any) -> PointSet | None:
        """Points; candidates that did not come with scores take a pass ``alone``. None if there was no room for all."""
        sizes["batch_size"], n = self.arrays.batch_size, len(self._pool)
        if alone:
            self.fill(self._pool, **sizes)
        if len(self._pool.pending):
            self.fill(self._pool.in_flight(), n, **sizes)
        if not (arrays := self.all()):
            return None
        *before, last = arrays
        if not callable(self._space) and leaves_by(self._model) is not None and is_of_leaves(self._model):
            return point_set(self._pool, *map(Residuals, before), Leaves(last))
        name = "space function" if callable(self._space) else "space"
        return point_set(self._pool, *map(Residuals, before), Vectors(last, name, centred=not before))


def places_for(query: Any, pool: Pool, learner: Any, draws: PoolDraws | None, rng: Any) -> Places | None:
    """Places by a query's parameters; None for a ``diversity`` of 0, or "auto" if they are not at hand, or too many."""
    model, space, is_auto = model_of(learner), query.space, query.diversity == "auto"
    if not keeps_apart(query):
        return None
    by_features = callable(space) or space == "gradients" or leaves_by(model) is not None or has_embeddings(model)
    if not (is_auto or by_features) and (draws is None or draws.n_draws == 1) and has_source(innermost(model)):
        space = Composed(draws_of(pool, learner, rng, **options_of(query)).predict, after=_in_a_line)
    arrays = _arrays_by(model, draws, space, query.predict_batch_size)
    if not is_auto:
        return Places(pool, model, draws, space, arrays)
    if not arrays.at_hand:
        return None
    try:
        places = Places(pool, model, draws, space, arrays, _MOST_AT_HAND)
    except (TypeError, ValueError):  # rows that are no numbers, or a net without a layer to take them from
        return None
    return places if pool.is_open or len(pool) <= places.most_rows else None


def keeps_apart(query: Any) -> bool:
    """Whether rows of a batch may keep apart: "auto" does so with samplers whose weights depend on the scores."""
    if query.diversity != "auto":
        return bool(query.diversity != 0)
    sampler = look_up("sampler", query.sampler, SAMPLERS)
    return hasattr(sampler, "log_weights") and getattr(sampler, "uses_beta", True) and 0 < query.beta < math.inf


def points_alone(query: Any, pool: Pool, learner: Any, rng: np.random.Generator) -> PointSet | None:
    """The candidates as points, where scores are made elsewhere."""
    draws = None
    if query.diversity == "auto" and query.posterior == "auto" and has_own_predictions(model_of(learner)):
        draws = draws_of(pool, learner, rng, one_draw=True, is_apart=keeps_apart(query), **options_of(query))
    places = places_for(query, pool, learner, draws, rng)
    return None if places is None else places.points(alone=True, chunk_size=query.chunk_size, verbose=query.verbose)


def point_set(pool: Pool, *factors: Factor) -> PointSet:
    """Candidates, and after them the rows in flight, as points; an error names the row of the pool."""
    try:
        return PointSet(*factors)
    except PointError as error:
        raise error.of_rows(pool.with_pending().rows) from None


def _arrays_by(model: Any, draws: PoolDraws | None, space: Any, batch_size: int | None = None) -> Arrays:
    """The arrays of a space; ``draws`` are that of models that have neither embeddings nor leaves."""
    if callable(space):
        own = in_batches(embed_by(model, space), batch_size)
        return Arrays(lambda X, *_: (own(X),), True, getattr(own, "batch_size", None))
    leaves, has_probabilities = leaves_by(model), space == "gradients"
    if has_probabilities:
        check_classifier(model, 'space="gradients"')
    if leaves is not None and has_probabilities:
        return Arrays(lambda X, *_: as_of_gradients(model, prediction_as_draw(model)(X)[0], leaves(X)), False)
    if leaves is not None:
        is_of_numbers = task(model) == "regressor" and has_source(innermost(model))
        is_own = is_of_numbers and draws is not None and draws.model is innermost(model)
        return Arrays(lambda X, _, found: (found if is_own and found is not None else leaves(X),), is_of_numbers)
    if draws is not None and isinstance(draws.predict, WithPlaces):
        if has_probabilities:
            return Arrays(lambda X, p, h: as_of_gradients(model, p[0], h), True, draws.batch_size)
        return Arrays(lambda X, p, h: (check_ran_a_layer(h),), True, draws.batch_size)
    if has_probabilities:
        both = in_batches(represent_by(model), batch_size)
        return Arrays(lambda X, *_: as_of_gradients(model, *both(X)), False, getattr(both, "batch_size", None))
    if draws is not None and draws.n_draws > 1 and not has_embeddings(model):
        return Arrays(lambda X, drawn, _: (_in_a_line(drawn),), True, draws.batch_size)
    embed = in_batches(embed_by(model), batch_size)
    is_linear = has_embeddings(model) and not is_embedded_by_a_pass(model)
    return Arrays(lambda X, *_: (check_ran_a_layer(embed(X)),), is_linear, getattr(embed, "batch_size", None))


def as_of_gradients(model: Any, probabilities: Any, embeddings: Any) -> tuple[Any, Any]:
    """The two parts of gradients by the weights of the last layer, or by leaves."""
    if probabilities.ndim > 2:
        remedy = "StochasticBatchQuery scores all of them, and its `reduce` makes one score per row of these."
        raise several_outputs_error(model, 'BADGE and space="gradients"', remedy)
    return probabilities, check_ran_a_layer(embeddings)


def _in_a_line(draws: Any) -> NDArray[Any]:
    """All draws of a row, (n_rows, n_draws * n_classes)."""
    of_rows = as_array(draws)
    return np.moveaxis(of_rows, 1, 0).reshape(of_rows.shape[1], -1)
