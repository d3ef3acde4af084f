"""BADGE: the law of k-means++ on gradient embeddings, in every container; and the embeddings of classifiers."""

from collections import Counter

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
import reference
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.special import softmax
from sklearn.datasets import load_digits
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from skorch import NeuralNetBinaryClassifier, NeuralNetClassifier
from torch import nn

from skactive import BADGEQuery
from skactive._utils.randomness import spawn
from skactive.badge import _seed, badge
from skactive.posterior._embeddings import represent_by
from skactive.samplers._distances import PointSet, Residuals, Vectors
from skactive.samplers._feasibility import Allowance

quietly = pytest.mark.filterwarnings("ignore:BADGE found:UserWarning")

# scikit-activeml/scikit-activeml #588, #589: a row of no gradient (the last one) is drawn all the same, and none twice.
P = np.array([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.1, 0.1, 0.8], [0.4, 0.35, 0.25], [1.0, 0.0, 0.0]])
H = np.array([[1.0, 2.0], [-1.0, 0.5], [3.0, 0.0], [0.1, -0.2], [5.0, 5.0]])


def random_arrays(n, n_classes, n_units, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    p = softmax(2 * rng.normal(size=(n, n_classes)), axis=1).astype(dtype)
    return p, np.maximum(rng.normal(size=(n, n_units)), 0).astype(dtype)


def gradients(p, h):
    return PointSet(Residuals(p), Vectors(h, "embedding"))


def choose(p, h, k, seed=0):
    return badge(p, h, k, np.random.default_rng(seed))


def test_norms_and_distances_are_those_of_the_vectors_written_out():
    p, h = random_arrays(7, 4, 3)
    points = gradients(p, h)
    vectors = reference.gradient_embeddings(p, h)
    distances = [[float(reference.squared_distance(a, b)) for b in vectors] for a in vectors]
    lengths = [float(sum(x * x for x in vector)) for vector in vectors]
    np.testing.assert_allclose(points.squared_norms, lengths, rtol=1e-14)
    everything = points[slice(None)]
    ours = everything.squared_distances(everything).numpy()
    np.testing.assert_allclose(ours, distances, rtol=1e-13, atol=1e-14)
    # By hand: g = p minus one at the largest, times h: the first is (-0.4, 0.3, 0.1) x (1, 2), and so on.
    norms = [1.140175425099138, 0.6892024376045112, 0.7348469228349533, 0.16507574019219176, 0.0]
    np.testing.assert_allclose(np.sqrt(gradients(P, H).squared_norms), norms, atol=1e-12)


TWINS = [0, 1, 1, 2, 2, 2]
SMALL = {
    "worked out by hand": (P, H, 4),
    "twins, when only they are left": (random_arrays(6, 3, 2, 1)[0][TWINS], random_arrays(6, 3, 2, 1)[1][TWINS], 5),
    "two of the largest norm": (P[[1, 0, 2, 0]], H[[1, 0, 2, 0]], 3),
    "no gradient anywhere": (np.eye(4), H[:4], 3),
}


@quietly
@pytest.mark.parametrize("name", SMALL)
def test_batches_follow_the_law_of_k_means_plus_plus(name):
    p, h, k = SMALL[name]
    law = reference.badge_law(reference.gradient_embeddings(p, h), k)
    points, rng = gradients(p, np.array(h)), np.random.default_rng(0)
    counts = Counter(tuple(_seed(points, Allowance(len(points), k), rng).tolist()) for _ in range(400))
    reference.assert_counts_fit(counts, law, 400)


@st.composite
def degenerate_arrays(draw):
    """Few distinct rows, of a few values, in float32 or float64."""
    n, n_classes, n_units = draw(st.integers(1, 12)), draw(st.integers(1, 4)), draw(st.integers(1, 3))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    values = st.sampled_from([0.0, 1.0, -1.0, 3.0, 1e-20, 1e18, 0.1])
    h = draw(hnp.arrays(dtype, (n, n_units), elements=values.map(lambda x: float(dtype(x)))))
    parts = draw(hnp.arrays(np.int64, (n, n_classes), elements=st.integers(0, 3)))
    parts[:, 0] += parts.sum(axis=1) == 0
    return (parts / parts.sum(axis=1, keepdims=True)).astype(dtype), h, draw(st.integers(1, n))


@quietly
@settings(max_examples=50)
@given(degenerate_arrays())
def test_a_batch_is_always_k_distinct_rows_and_begins_with_the_longest_gradient(arrays):
    p, h, k = arrays
    batch = choose(p, h, k)
    assert batch.dtype == np.int64
    assert batch.shape == (k,)
    assert len(set(batch.tolist())) == k
    norms = gradients(p, h).squared_norms
    assert norms[batch[0]] == pytest.approx(norms.max(), rel=1e-12)


def test_rows_that_differ_by_a_float32s_rounding_are_told_apart():
    p = np.full((3, 2), [0.6, 0.4], dtype=np.float32)
    h = np.array([[1.0], [1.0], [np.nextafter(np.float32(1), np.float32(2))]], dtype=np.float32)
    for seed in range(10):
        assert set(choose(p, h, 2, seed).tolist()) in ({0, 2}, {1, 2})


@pytest.mark.parametrize("scale_of_first", [1e-90, 1e90])
def test_blocks_of_other_scales_are_compared(scale_of_first):
    # The first block of rows is read long before the last, which may be larger or smaller by 90 digits.
    p, h = random_arrays(40_000, 3, 5, seed=16)
    h[:20_000] *= scale_of_first
    points = gradients(p, h)
    np.testing.assert_allclose(np.sqrt(points.squared_norms), norms_of(p, h), rtol=1e-6, atol=1e-95)
    dominant = range(20_000) if scale_of_first > 1 else range(20_000, 40_000)
    short = set(choose(p, h, 20).tolist()) - set(dominant)
    assert len(short) <= 1  # all of these lie where the first of them does


def test_what_fills_up_a_batch_is_counted_in_a_warning():
    for n_found, p in [(0, np.eye(3)[[0, 1, 2, 0]]), (2, P[[0, 1, 0, 1]])]:
        with pytest.warns(UserWarning, match=f"BADGE found {n_found} of the 4 rows") as caught:
            assert sorted(choose(p, H[[0, 1, 0, 1]], 4)) == [0, 1, 2, 3]
        assert [warning.filename for warning in caught] == [__file__]


class Watched:
    """Rows of an array, and how many of them were read, at once and in all."""

    def __init__(self, array):
        self._array, self.shape, self.dtype = array, array.shape, array.dtype
        self.most = self.total = 0

    def __getitem__(self, rows):
        part = self._array[rows]
        self.most, self.total = max(self.most, len(part)), self.total + len(part)
        return part


def test_embeddings_are_read_in_blocks_and_hardly_more_than_once():
    p, h = random_arrays(30_000, 10, 64, seed=13, dtype=np.float32)
    watched = Watched(h)
    choose(p, watched, 50)
    assert watched.most <= 2**17 // 74
    assert watched.total < 1.2 * 30_000


X, Y = load_digits(return_X_y=True)
X = (X / 16).astype(np.float32)
LABELLED, LABELS, POOL = X[:150], Y[:150], X[150:450]


def skorch_net(*layers, y=LABELS, net_class=NeuralNetClassifier, **params):
    torch.manual_seed(0)
    params = {"criterion": nn.CrossEntropyLoss, "max_epochs": 2, "train_split": None, "verbose": 0, **params}
    return net_class(nn.Sequential(*layers), **params).fit(LABELLED, y)


def norms_of(p, h):
    residuals = np.array(p, dtype=float)
    residuals[np.arange(len(residuals)), residuals.argmax(axis=1)] -= 1
    return np.linalg.norm(residuals, axis=1) * np.linalg.norm(np.asarray(h, dtype=float), axis=1)


class Halved(NeuralNetClassifier):
    """A net with its own way of inference."""

    def infer(self, x, **fit_params):
        return super().infer(x / 2, **fit_params)


def test_a_skorch_net_with_its_own_inference_is_embedded_by_the_input_of_the_last_linear_layer():
    net = skorch_net(nn.Linear(64, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 10), net_class=Halved)
    p, h = represent_by(net)(POOL.astype(np.float64))
    last = net.module_[-1]
    np.testing.assert_allclose(p, net.predict_proba(POOL), rtol=1e-5, atol=1e-7)
    logits = np.asarray(h) @ last.weight.detach().numpy().T + last.bias.detach().numpy()
    np.testing.assert_allclose(p, softmax(logits, axis=1), rtol=1e-4, atol=1e-6)


def test_a_binary_net_with_one_output_has_two_columns_of_probabilities():
    net = skorch_net(
        *(nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 1)),
        y=(LABELS > 4).astype(np.float32),
        net_class=NeuralNetBinaryClassifier,
        criterion=nn.BCEWithLogitsLoss,
    )
    p, h = represent_by(net)(POOL)
    assert h.shape == (len(POOL), 8)
    np.testing.assert_allclose(p, net.predict_proba(POOL), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("model", [LogisticRegression(max_iter=1000), RandomForestClassifier(10, random_state=0)])
def test_a_query_is_badge_on_what_the_model_gives_and_the_features(model):
    query = BADGEQuery(random_state=0)
    indices = query.select(model.fit(LABELLED, LABELS), POOL, 20)
    batch_rng = spawn(np.random.default_rng(0), 2)[1]
    np.testing.assert_array_equal(indices, badge(model.predict_proba(POOL), POOL, 20, batch_rng))
    np.testing.assert_allclose(query.scores_, norms_of(model.predict_proba(POOL), POOL), rtol=1e-12)


@pytest.mark.parametrize(
    ("p", "h", "refused"),
    [
        (np.where(P == 0.8, 1.1, P), H, r"`probabilities`.*row 2\b.*softmax"),
        (P, np.where(H == 3, np.inf, H), "`embeddings`.*row 2"),
        (P, H[:4], "`embeddings`.*same number of rows"),
    ],
)
def test_arrays_that_do_not_do_are_refused_by_name(p, h, refused):
    with pytest.raises(ValueError, match=refused):
        choose(p, h, 2)


def test_a_net_that_pools_what_its_last_layer_returns_needs_a_function():
    net = skorch_net(nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 10, 7), nn.AvgPool2d(2), nn.Flatten())
    with pytest.raises(ValueError, match="`embedding`"):
        BADGEQuery().select(net, POOL, 3)
    for embedding in (
        lambda estimator, X: X[:, : len(estimator.module_) - 1],
        lambda X, n=3: torch.from_numpy(X[:, :n]).requires_grad_(),
        lambda X: sparse.csr_array(X[:, :3]),
    ):
        query = BADGEQuery(embedding, chunk_size=100, random_state=0)
        query.select(net, POOL, 3)
        expected = norms_of(net.predict_proba(POOL), POOL[:, :3])
        np.testing.assert_allclose(query.scores_, expected, rtol=1e-4, atol=1e-6)


def test_gaps_that_only_the_model_takes_and_rows_of_text_need_a_function():
    pool = POOL.copy()
    pool[4, 1] = np.nan
    trees = HistGradientBoostingClassifier(max_iter=2).fit(LABELLED, LABELS)
    with pytest.raises(ValueError, match=r"`embeddings` must be finite.* row 4.* function of the rows .* `embedding`"):
        BADGEQuery().select(trees, pool, 2)
    assert len(BADGEQuery(np.nan_to_num, random_state=0).select(trees, pool, 2)) == 2
    texts = [["red", "hot"], ["blue", "cold"]] * 5
    with pytest.raises(TypeError, match=r"`embeddings` must be an array of real numbers"):
        choose(np.full((10, 2), 0.5), texts, 2)
