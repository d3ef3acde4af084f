"""BADGE: the law of k-means++ on gradient embeddings, in every container; and the embeddings of classifiers."""

from __future__ import annotations

import itertools
import pickle
import tracemalloc
from collections import Counter

import dask.array as da
import hypothesis.extra.numpy as hnp
import numpy as np
import pandas as pd
import pytest
import reference
import torch
from hypothesis import given
from hypothesis import strategies as st
from modAL.models import ActiveLearner
from scipy import sparse, stats
from scipy.special import softmax
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from skorch import NeuralNetBinaryClassifier, NeuralNetClassifier
from torch import nn

from skactive import BADGEQuery, LastLayerClassifier, MCDropoutClassifier
from skactive.badge import _seed, badge
from skactive.posterior._embeddings import represent_by
from skactive.samplers import _repulsion
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


# ------------------------------------------------------------------------------------------------- gradient embeddings


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


def test_gradients_of_a_small_case_are_those_worked_out_by_hand():
    # g = p minus one at the largest, times h: the first is (-0.4, 0.3, 0.1) x (1, 2), and so on.
    norms = [1.140175425099138, 0.6892024376045112, 0.7348469228349533, 0.16507574019219176, 0.0]
    gram = [[1.3, 0.0, -0.09, -0.111], [0.0, 0.475, 0.27, 0.044], [-0.09, 0.27, 0.54, -0.0225]]
    points = gradients(P, H)
    squares = points.squared_norms
    np.testing.assert_allclose(np.sqrt(squares), norms, atol=1e-12)
    distances = points[slice(0, 3)].squared_distances(points[slice(0, 4)]).numpy()
    np.testing.assert_allclose((squares[:3, None] + squares[:4] - distances) / 2, gram, atol=1e-12)


# ------------------------------------------------------------------------------------------------------------- the law


def small_sets():
    p, h = random_arrays(6, 3, 2, seed=1)
    twins = [0, 1, 1, 2, 2, 2]
    return {
        "worked out by hand": (P, H, 4),
        "at random": (p, h, 3),
        "at random, to the last": (p[:4], h[:4], 4),
        "twins": (p[twins], h[twins], 3),
        "twins, when only they are left": (p[twins], h[twins], 5),
        "two of the largest norm": (P[[1, 0, 2, 0]], H[[1, 0, 2, 0]], 3),
        "no gradient anywhere": (np.eye(4)[[0, 1, 2, 3]], H[:4], 3),
        "no embedding anywhere": (P[:4], np.zeros((4, 2)), 2),
        "one class": (np.ones((4, 1)), H[:4], 2),
    }


def assert_batches_follow_the_law(p, h, k, n_trials=400):
    law = reference.badge_law(reference.gradient_embeddings(p, h), k)
    points, rng = gradients(p, np.array(h)), np.random.default_rng(0)
    counts = Counter(tuple(_seed(points, Allowance(len(points), k), rng).tolist()) for _ in range(n_trials))
    reference.assert_counts_fit(counts, law, n_trials)


@quietly
@pytest.mark.parametrize("name", small_sets())
def test_batches_follow_the_law_of_k_means_plus_plus(name):
    assert_batches_follow_the_law(*small_sets()[name])


def test_bounds_from_norms_hold_in_every_direction_and_are_corrected_for():
    # The bound is right for opposite rows, nine times too high for the second one.
    places = [[1.0], [0.5], [0.2], [0.0], [-0.5], [-0.99]]
    assert_batches_follow_the_law(np.full((6, 2), 0.5), places, 2, n_trials=2500)


@pytest.mark.parametrize("proposals", [8, 64])
@pytest.mark.parametrize("updates", ["never", "always"])
def test_the_law_is_the_same_whenever_weights_are_brought_up_to_date(updates, proposals, monkeypatch):
    # When to update is a matter of speed: with few rows it happens all the time, with many hardly ever.
    policy = _repulsion.Bounds.update if updates == "always" else lambda self: None
    monkeypatch.setattr(_repulsion.Bounds, "_update_if_worth_it", lambda self, *_: policy(self))
    monkeypatch.setattr(_repulsion, "_PROPOSALS", proposals)
    p, h = random_arrays(4, 3, 2, seed=2)
    twins = [0, 1, 2, 3, 3]
    assert_batches_follow_the_law(p[twins], h[twins], 3)


def places_in_the_law(vectors, batch, order, rng):
    """Where each pick lies in the law given those before it, summed up in some order of the rows.

    At random within the pick's own share, which makes places uniform and independent.
    """
    distances = np.full(len(vectors), np.inf)
    for last, pick in itertools.pairwise(batch):
        distances = np.minimum(distances, ((vectors - vectors[last]) ** 2).sum(axis=1))
        rows = order(distances)
        law = distances[rows] / distances.sum()
        place = int(np.flatnonzero(rows == pick)[0])
        yield law[:place].sum() + rng.random() * law[place]


@pytest.mark.parametrize("n_groups", [120, 12])
def test_every_pick_of_large_batches_follows_its_law_given_those_before(n_groups):
    rng = np.random.default_rng(3)
    group = rng.permutation(np.arange(120) % n_groups)
    p, h = (array[group] for array in random_arrays(120, 4, 6, seed=4))
    h = h * rng.choice([-1, 1, 0.05], size=(120, 1)) + 0.02 * rng.normal(size=h.shape)
    vectors = np.array(reference.gradient_embeddings(p, h), dtype=float)
    norms = np.linalg.norm(vectors, axis=1)
    points = gradients(p, h)
    batches = [_seed(points, Allowance(len(points), 20), rng) for _ in range(300)]
    for order in (np.argsort, lambda distances: np.argsort(distances / (norms + norms.max()) ** 2)):
        places = [place for batch in batches for place in places_in_the_law(vectors, batch, order, rng)]
        counts = np.histogram(places, bins=20, range=(0, 1))[0]
        assert stats.chisquare(counts).pvalue > 1e-5


def test_the_order_of_the_rows_does_not_matter():
    order = np.array([3, 0, 4, 2, 1])
    law = reference.badge_law(reference.gradient_embeddings(P, H), 3)
    rng = np.random.default_rng(5)
    counts = Counter(tuple(order[badge(P[order], H[order], 3, rng)].tolist()) for _ in range(400))
    reference.assert_counts_fit(counts, law, 400)


# ------------------------------------------------------------------------------------------- distinct rows, always k


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
@given(degenerate_arrays())
def test_a_batch_is_always_k_distinct_rows_and_begins_with_the_longest_gradient(arrays):
    p, h, k = arrays
    batch = badge(p, h, k, np.random.default_rng(0))
    assert batch.dtype == np.int64
    assert batch.shape == (k,)
    assert len(set(batch.tolist())) == k
    norms = gradients(p, h).squared_norms
    assert norms[batch[0]] == pytest.approx(norms.max(), rel=1e-12)


@quietly
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_units", [3, 512, 4096])
@pytest.mark.parametrize("offset", [0.0, 50.0])
def test_duplicates_come_only_when_every_other_place_is_taken(offset, n_units, dtype):
    # A rounded distance of a row from its twin is not 0, and may be larger than a real one: up to D eps |g|^2.
    p, h = random_arrays(60, 5, n_units, seed=7)
    copies = np.tile(np.arange(60), 3)
    p, h = p[copies].astype(dtype), (h[copies] + 0.1 + offset).astype(dtype)
    batch = badge(p, h, 70, np.random.default_rng(0))
    assert sorted(copies[batch[:60]]) == list(range(60))
    assert len(set(batch.tolist())) == 70


def test_rows_that_differ_by_a_float32s_rounding_are_told_apart():
    p = np.full((3, 2), [0.6, 0.4], dtype=np.float32)
    h = np.array([[1.0], [1.0], [np.nextafter(np.float32(1), np.float32(2))]], dtype=np.float32)
    for seed in range(20):
        assert set(badge(p, h, 2, np.random.default_rng(seed)).tolist()) in ({0, 2}, {1, 2})


@quietly  # 12 rows have embeddings of 0
def test_all_rows_can_be_taken():
    p, h = random_arrays(400, 3, 5, seed=8)
    assert sorted(badge(p, h, 400, np.random.default_rng(0))) == list(range(400))


@pytest.mark.parametrize("factor", [2.0**-300, 1e-90, 1e90])
def test_the_scale_of_the_embeddings_does_not_matter(factor):
    p, h = random_arrays(300, 4, 6, seed=15)
    expected = badge(p, h, 20, np.random.default_rng(0))
    np.testing.assert_array_equal(badge(p, h * factor, 20, np.random.default_rng(0)), expected)


@pytest.mark.parametrize("scale_of_first", [1e-90, 1e90])
def test_blocks_of_other_scales_are_compared(scale_of_first):
    # The first block of rows is read long before the last, which may be larger or smaller by 90 digits.
    p, h = random_arrays(40_000, 3, 5, seed=16)
    h[:20_000] *= scale_of_first
    points = gradients(p, h)
    np.testing.assert_allclose(np.sqrt(points.squared_norms), norms_of(p, h), rtol=1e-6, atol=1e-95)
    dominant = range(20_000) if scale_of_first > 1 else range(20_000, 40_000)
    short = set(badge(p, h, 20, np.random.default_rng(0)).tolist()) - set(dominant)
    assert len(short) <= 1  # all of these lie where the first of them does


@pytest.mark.parametrize(
    ("p", "h", "n_found", "why"),
    [
        (P[:4], np.zeros((4, 2)), 0, "all are 0"),
        (np.eye(3)[[0, 1, 2, 0]], H[:4], 0, "all are 0.*model that is sure"),
        (P[[0, 1, 0, 1]], H[[0, 1, 0, 1]], 2, "no other that may be picked differs"),
    ],
    ids=["no embeddings", "no doubts", "two distinct rows"],
)
def test_what_fills_up_a_batch_is_counted_in_a_warning(p, h, n_found, why):
    with pytest.warns(UserWarning, match=f"BADGE found {n_found} of the 4 rows.*{why}") as caught:
        batch = badge(p, h, 4, np.random.default_rng(0))
    assert len(caught) == 1
    assert sorted(batch) == [0, 1, 2, 3]
    assert str(caught[0].filename) == __file__


def test_the_same_seed_gives_the_same_batch_and_another_one_another():
    p, h = random_arrays(200, 3, 5, seed=9)
    first, again, other = (badge(p, h, 20, np.random.default_rng(seed)).tolist() for seed in (0, 0, 1))
    assert first == again
    assert first != other


# ----------------------------------------------------------------------------------------------- containers and memory


def containers(p, h, tmp_path):
    """The same numbers, held in other ways."""
    file = np.lib.format.open_memmap(tmp_path / "h.npy", "w+", h.dtype, h.shape)
    file[:] = h
    file.flush()
    read_only = np.array(p)
    read_only.flags.writeable = False
    return {
        "read-only memory map": (read_only, np.load(tmp_path / "h.npy", mmap_mode="r")),
        "Fortran order": (np.asfortranarray(p), np.asfortranarray(h)),
        "big-endian": (p.astype(">f4"), h.astype(">f8")),
        "negative strides": (p[::-1].copy()[::-1], h[:, ::-1].copy()[:, ::-1]),
        "tensors": (torch.from_numpy(p), torch.from_numpy(h)),
        "tensors that need gradients": (torch.from_numpy(p), torch.from_numpy(h).requires_grad_()),
        "lists": (p.tolist(), h.tolist()),
        "frame": (pd.DataFrame(p), pd.DataFrame(h, index=[7] * len(h))),
        "sparse": (p, sparse.csr_matrix(h)),
        "sparse array": (p, sparse.csr_array(h)),
        "dask": (p, da.from_array(h, chunks=(37, 2))),
    }


CONTAINERS = ["read-only memory map", "Fortran order", "big-endian", "negative strides", "tensors"]
CONTAINERS += ["tensors that need gradients", "lists", "frame", "sparse", "sparse array", "dask"]


@pytest.mark.parametrize("container", CONTAINERS)
def test_a_batch_is_the_same_in_every_container(container, tmp_path):
    p, h = random_arrays(150, 4, 5, seed=10, dtype=np.float32)
    expected = badge(p, h, 12, np.random.default_rng(0))
    held = containers(p, h, tmp_path)[container]
    np.testing.assert_array_equal(badge(*held, 12, np.random.default_rng(0)), expected)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_batch_on_the_gpu_is_that_on_the_cpu():
    p, h = random_arrays(3000, 10, 64, seed=10, dtype=np.float32)
    expected = badge(p, h, 100, np.random.default_rng(0))
    held = torch.from_numpy(p).cuda(), torch.from_numpy(h).cuda()
    np.testing.assert_array_equal(badge(*held, 100, np.random.default_rng(0)), expected)


@pytest.mark.parametrize("dtype", ["float16", "int8", "bool"])
def test_embeddings_may_be_of_any_type_of_number(dtype):
    p, _ = random_arrays(50, 3, 1, seed=11)
    h = np.random.default_rng(0).integers(2, size=(50, 6)).astype(dtype)
    expected = badge(p, h.astype(np.float64), 9, np.random.default_rng(0))
    np.testing.assert_array_equal(badge(p, h, 9, np.random.default_rng(0)), expected)


def test_inputs_are_left_as_they_were():
    p, h = random_arrays(50, 3, 4, seed=12)
    before = p.copy(), h.copy()
    badge(p, h, 5, np.random.default_rng(0))
    np.testing.assert_array_equal(p, before[0])
    np.testing.assert_array_equal(h, before[1])


class Watched:
    """Rows of an array, and how many of them were read, at once and in all."""

    def __init__(self, array):
        self._array, self.shape, self.dtype = array, array.shape, array.dtype
        self.most = self.total = 0

    def __getitem__(self, rows):
        part = self._array[rows]
        self.most, self.total = max(self.most, len(part)), self.total + len(part)
        return part


@pytest.mark.parametrize("k", [1, 50])
def test_embeddings_are_read_in_blocks_and_hardly_more_than_once(k):
    p, h = random_arrays(30_000, 10, 64, seed=13, dtype=np.float32)
    watched = Watched(h)
    badge(p, watched, k, np.random.default_rng(0))
    assert watched.most <= 2**17 // 74
    assert watched.total < 1.2 * 30_000


def test_tight_groups_take_a_few_passes_not_one_for_each_centre():
    # Nearly all proposals fall into groups that have a centre already: rejections must not go on for ever.
    rng = np.random.default_rng(14)
    p, h = random_arrays(20, 10, 64, seed=14)
    group = rng.integers(20, size=20_000)
    watched = Watched(h[group] + 1e-4 * rng.normal(size=(20_000, 64)))
    badge(p[group], watched, 100, rng)
    assert watched.total < 8 * 20_000


# --------------------------------------------------------------------------------------------------- embeddings found

X, Y = load_digits(return_X_y=True)
X = (X / 16).astype(np.float32)
LABELLED, LABELS, POOL = X[:150], Y[:150], X[150:450]


def skorch_net(*layers, y=LABELS, net_class=NeuralNetClassifier, **params):
    torch.manual_seed(0)
    params = {"criterion": nn.CrossEntropyLoss, "max_epochs": 2, "train_split": None, "verbose": 0, **params}
    return net_class(nn.Sequential(*layers), **params).fit(LABELLED, y)


@pytest.fixture(scope="module")
def skorch_classifier():
    layers = [nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.5), nn.Linear(32, 10)]
    return skorch_net(*layers)


@pytest.fixture(scope="module")
def dropout_net():
    return MCDropoutClassifier((16,), max_epochs=5, n_draws=5, random_state=0, device="cpu").fit(LABELLED, LABELS)


@pytest.fixture(scope="module")
def logistic():
    return LogisticRegression(max_iter=1000).fit(LABELLED, LABELS)


def norms_of(p, h):
    residuals = np.array(p, dtype=float)
    residuals[np.arange(len(residuals)), residuals.argmax(axis=1)] -= 1
    return np.linalg.norm(residuals, axis=1) * np.linalg.norm(np.asarray(h, dtype=float), axis=1)


def test_a_query_is_badge_on_what_the_model_gives(logistic):
    query = BADGEQuery(random_state=0)
    indices = query.select(logistic, POOL, 20)
    _, batch_rng = (np.random.default_rng(s) for s in np.random.default_rng(0).integers(2**63, size=(2, 4)))
    np.testing.assert_array_equal(indices, badge(logistic.predict_proba(POOL), POOL, 20, batch_rng))
    np.testing.assert_allclose(query.scores_, norms_of(logistic.predict_proba(POOL), POOL), rtol=1e-12)
    np.testing.assert_array_equal(query.indices_, indices)
    assert query.n_features_in_ == 64
    assert not hasattr(query, "log_proba_")


def test_a_net_of_ours_is_embedded_by_its_own_method(dropout_net):
    p, h = represent_by(dropout_net)(POOL)
    np.testing.assert_array_equal(h, dropout_net.embed(POOL))
    np.testing.assert_array_equal(p, dropout_net.predict_proba(POOL))


def test_a_last_layer_is_embedded_by_its_net(dropout_net):
    head = LastLayerClassifier(FrozenEstimator(dropout_net), random_state=0).fit(LABELLED, LABELS)
    p, h = represent_by(head)(POOL)
    np.testing.assert_array_equal(h, dropout_net.embed(POOL))
    np.testing.assert_array_equal(p, head.predict_proba(POOL))


def assert_last_layer_makes_the_probabilities_of(layer, p, h):
    logits = np.asarray(h) @ layer.weight.detach().numpy().T + layer.bias.detach().numpy()
    np.testing.assert_allclose(p, softmax(logits, axis=1), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_skorch_net_is_embedded_by_the_input_of_its_last_linear_layer(dtype, skorch_classifier):
    p, h = represent_by(skorch_classifier)(POOL.astype(dtype))
    assert h.shape == (len(POOL), 32)
    np.testing.assert_allclose(p, skorch_classifier.predict_proba(POOL), rtol=1e-5, atol=1e-7)
    assert_last_layer_makes_the_probabilities_of(skorch_classifier.module_[-1], p, h)


def test_a_torch_module_is_embedded_like_its_net(skorch_classifier):
    p, h = represent_by(skorch_classifier.module_)(POOL)
    theirs = represent_by(skorch_classifier)(POOL)
    np.testing.assert_array_equal(h, theirs[1])
    np.testing.assert_allclose(p, theirs[0], rtol=1e-6)


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


def test_a_net_with_its_own_way_of_inference_is_run_that_way():
    class Halved(NeuralNetClassifier):
        def infer(self, x, **fit_params):
            return super().infer(x / 2, **fit_params)

    net = skorch_net(nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 10), net_class=Halved)
    p, h = represent_by(net)(POOL)
    np.testing.assert_allclose(p, net.predict_proba(POOL), rtol=1e-5, atol=1e-7)
    assert_last_layer_makes_the_probabilities_of(net.module_[-1], p, h)


def test_images_are_embedded_by_what_the_linear_layer_gets():
    layers = [nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(72, 10)]
    net = skorch_net(*layers)
    p, h = represent_by(net)(POOL)
    assert h.shape == (len(POOL), 72)
    assert_last_layer_makes_the_probabilities_of(net.module_[-1], p, h)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("activation", ["identity", "logistic", "tanh", "relu"])
def test_an_mlp_of_scikit_learn_is_embedded_by_its_last_hidden_layer(activation):
    net = MLPClassifier((12, 7), activation=activation, max_iter=20, random_state=0).fit(LABELLED, LABELS)
    p, h = represent_by(net)(POOL)
    assert h.shape == (len(POOL), 7)
    np.testing.assert_array_equal(p, net.predict_proba(POOL))
    np.testing.assert_allclose(p, softmax(h @ net.coefs_[-1] + net.intercepts_[-1], axis=1), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("wrapper", ["pipeline", "search", "frozen", "threshold", "pipeline of one step"])
def test_a_wrapper_is_embedded_by_what_is_inside_on_the_data_as_it_gets_there(wrapper, logistic):
    scaler = StandardScaler().fit(LABELLED)
    model = LogisticRegression(max_iter=1000)
    y = LABELS > 4
    wrapped = {
        "pipeline": make_pipeline(StandardScaler(), model),
        "search": GridSearchCV(make_pipeline(StandardScaler(), model), {"logisticregression__C": [1.0]}, cv=2),
        "frozen": FrozenEstimator(make_pipeline(StandardScaler(), model).fit(LABELLED, y)),
        "threshold": FixedThresholdClassifier(make_pipeline(StandardScaler(), model)),
        "pipeline of one step": make_pipeline(model),
    }[wrapper].fit(LABELLED, y)
    p, h = represent_by(wrapped)(POOL)
    np.testing.assert_allclose(h, POOL if wrapper.endswith("step") else scaler.transform(POOL), rtol=1e-6)
    np.testing.assert_allclose(p, wrapped.predict_proba(POOL), rtol=1e-12)


def test_any_other_classifier_is_taken_for_a_softmax_regression_on_its_features():
    forest = RandomForestClassifier(10, random_state=0).fit(LABELLED, LABELS)
    p, h = represent_by(forest)(POOL)
    assert h is POOL
    np.testing.assert_array_equal(p, forest.predict_proba(POOL))


def rounding_of_products(model, X):
    """What rounding in the dtype of the rows may do to norms of gradients, relative to them.

    A logit is a sum of n_features products, and off by n_features eps of the sum of their absolute values at most; for
    a softmax, p (1 - p) times twice that is what a probability is off by, so 1 - p and p by twice that of themselves.
    """
    eps = np.finfo(X.dtype).eps
    return 2 * X.shape[1] * eps * (np.abs(X) @ np.abs(model.coef_.T)).max()


def halved(estimator, X):
    return X[:, : estimator.n_features_in_ // 2]


FUNCTIONS = {
    "of the rows": lambda X: X[:, :32],
    "of the estimator and the rows": halved,
    "with a default, to a tensor": lambda X, n=32: torch.from_numpy(X[:, :n]).requires_grad_(),
    "to a sparse array": lambda X: sparse.csr_array(X[:, :32]),
    "to a frame": lambda X: pd.DataFrame(X[:, :32]),
}


@pytest.mark.parametrize("embedding", FUNCTIONS.values(), ids=FUNCTIONS)
def test_an_embedding_may_be_a_function_of_the_rows_or_of_the_estimator_and_the_rows(embedding, logistic):
    query = BADGEQuery(embedding, chunk_size=100, random_state=0)
    query.select(logistic, POOL, 5)
    # Probabilities come from products in float32, which a chunk may round otherwise.
    expected = norms_of(logistic.predict_proba(POOL), POOL[:, :32])
    np.testing.assert_allclose(query.scores_, expected, rtol=rounding_of_products(logistic, POOL))


def test_a_compiled_function_may_be_the_embedding(logistic):
    query = BADGEQuery(np.square, random_state=0)
    query.select(logistic, POOL, 5)
    np.testing.assert_allclose(query.scores_, norms_of(logistic.predict_proba(POOL), POOL**2), rtol=1e-6)


def test_a_net_without_a_linear_layer_needs_a_function():
    net = skorch_net(nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 10, 8), nn.Flatten())
    with pytest.raises(ValueError, match="`embedding`"):
        BADGEQuery().select(net, POOL, 3)
    assert len(BADGEQuery(lambda X: X).select(net, POOL, 3)) == 3


# ---------------------------------------------------------------------------------------------------------- the query


@pytest.mark.arithmetic
@pytest.mark.parametrize("kind", ["logistic", "dropout_net", "skorch_classifier"])
def test_a_batch_does_not_depend_on_the_chunks(kind, request):
    model = request.getfixturevalue(kind)
    whole, cut = (BADGEQuery(random_state=0, chunk_size=size) for size in (None, 37))
    np.testing.assert_array_equal(whole.select(model, POOL, 20), cut.select(model, POOL, 20))
    rtol = rounding_of_products(model, POOL) if kind == "logistic" else 1e-9
    np.testing.assert_allclose(whole.scores_, cut.scores_, rtol=rtol)


@pytest.mark.filterwarnings("ignore:X has feature names:UserWarning")
@pytest.mark.parametrize("container", ["list", "frame", "csr", "csc", "dask", "memory map"])
def test_a_query_takes_pools_in_every_container(container, tmp_path):
    model = LogisticRegression(max_iter=1000).fit(LABELLED.astype(float), LABELS)
    pool = POOL.astype(float)
    expected = BADGEQuery(random_state=0).select(model, pool, 10)
    np.save(tmp_path / "pool.npy", pool)
    held = {
        "list": pool.tolist,
        "frame": lambda: pd.DataFrame(pool, index=[7] * len(pool)),
        "csr": lambda: sparse.csr_matrix(pool),
        "csc": lambda: sparse.csc_array(pool),
        "dask": lambda: da.from_array(pool, chunks=(64, 64)),
        "memory map": lambda: np.load(tmp_path / "pool.npy", mmap_mode="r"),
    }[container]()
    query = BADGEQuery(random_state=0, chunk_size=100)
    np.testing.assert_array_equal(query.select(model, held, 10), expected)


def test_a_query_counts_the_rows_that_do_not_fill_up(logistic):
    query = BADGEQuery(random_state=0)
    query.select(logistic, POOL, 5)
    with pytest.warns(UserWarning, match="BADGE found 2 of the 5 rows"):
        query.select(logistic, POOL[[0, 1] * 5], 5)


def test_only_candidates_are_chosen_and_looked_at(logistic):
    candidates = np.arange(5, 300, 3)
    query = BADGEQuery(random_state=0)
    indices = query.select(logistic, POOL, 30, candidates=candidates)
    assert set(indices.tolist()) <= set(candidates.tolist())
    assert np.isfinite(query.scores_[candidates]).all()
    assert np.isnan(np.delete(query.scores_, candidates)).all()
    alone = BADGEQuery(random_state=0).select(logistic, POOL[candidates], 30)
    np.testing.assert_array_equal(indices, candidates[alone])


def test_text_behind_a_vectoriser_is_embedded_by_its_sparse_features():
    texts = [f"{word} {other} text" for word in ("red", "green", "blue", "grey") for other in "abcdefgh"]
    labels = np.arange(len(texts)) // 16
    model = make_pipeline(TfidfVectorizer(token_pattern=r"\w+"), LogisticRegression()).fit(texts, labels)
    query = BADGEQuery(random_state=0, chunk_size=5)
    indices = query.select(model, texts, 6)
    features = model[:-1].transform(texts).toarray()
    np.testing.assert_allclose(query.scores_, norms_of(model.predict_proba(texts), features), rtol=1e-12)
    assert len(set(indices.tolist())) == 6


@pytest.mark.parametrize("candidates", [None, np.arange(1, 40_000, 2)])
def test_a_memory_mapped_pool_of_features_is_not_copied(candidates, tmp_path):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "pool.npy", rng.normal(size=(40_000, 32)))
    pool = np.load(tmp_path / "pool.npy", mmap_mode="r")
    model = LogisticRegression().fit(pool[:200], pool[:200, 0] > 0)
    query = BADGEQuery(random_state=0, chunk_size=500)
    tracemalloc.start()
    query.select(model, pool, 10, candidates=candidates)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < pool.nbytes / 2


def test_a_learner_of_modal_asks_it_before_and_after_teaching():
    learner = ActiveLearner(LogisticRegression(max_iter=1000), BADGEQuery(random_state=0))
    with pytest.warns(UserWarning, match="not fitted"):
        first, _ = learner.query(POOL, n_instances=20)
    learner.teach(POOL[first], Y[150:450][first])
    second, rows = learner.query(POOL, n_instances=10, candidates=np.arange(100))
    np.testing.assert_array_equal(rows, POOL[second])
    assert len(set(second.tolist())) == 10


def test_a_query_can_be_cloned_and_saved(logistic):
    query = BADGEQuery(halved, random_state=0, chunk_size=50)
    expected = query.select(logistic, POOL, 5)
    np.testing.assert_array_equal(clone(query).select(logistic, POOL, 5), expected)
    restored = pickle.loads(pickle.dumps(query))
    np.testing.assert_array_equal(restored.indices_, expected)
    np.testing.assert_array_equal(restored.select(logistic, POOL, 5), query.select(logistic, POOL, 5))


# ---------------------------------------------------------------------------------------------------------- bad input


def with_value(array, value):
    array = array.copy()
    array[2, 0] = value
    return array


@pytest.mark.parametrize(
    ("p", "h", "seen"),
    [
        (with_value(P, np.nan), H, "row 2"),
        (with_value(P, -0.1), H, "row 2"),
        (2 * P, H, "sums to 2"),
        (np.log(P + 1e-9), H, "softmax"),
        (P[0], H, "shape"),
        (P[:, :0], H, "shape"),
        (P, with_value(H, np.nan), "row 2"),
        (P, with_value(H, np.inf), "row 2"),
        (P, H[:4], r"same number of rows.*\(4, "),
        (P, H[0], "shape"),
        (P, H[:, :0], "shape"),
    ],
)
def test_arrays_that_do_not_do_are_refused_by_name_with_what_was_seen(p, h, seen):
    name = "probabilities" if h is H else "embeddings"
    with pytest.raises(ValueError, match=f"`{name}`.*{seen}"):
        badge(p, h, 2, np.random.default_rng(0))


@pytest.mark.parametrize("h", [[["a", "b"]] * 5, np.array([["1", "x"]] * 5), np.array([[{}, 1]] * 5)])
def test_embeddings_that_are_no_numbers_are_refused_with_the_way_out(h):
    with pytest.raises(TypeError, match=r"`embeddings`.*Pipeline"):
        badge(P, h, 2, np.random.default_rng(0))


@pytest.mark.parametrize(("k", "error"), [(6, ValueError), (0, ValueError), (2.0, TypeError), (True, TypeError)])
def test_a_k_outside_the_rows_is_refused(k, error):
    with pytest.raises(error, match=r"`k`.*5"):
        badge(P, H, k, np.random.default_rng(0))


def test_no_rows_leave_nothing_to_choose_from():
    with pytest.raises(ValueError, match="Cannot choose `k`=1 rows"):
        badge(P[:0], H[:0], 1, np.random.default_rng(0))


@pytest.mark.parametrize("rng", [0, None, np.random.RandomState(0)])
def test_an_rng_that_is_no_generator_is_refused(rng):
    with pytest.raises(TypeError, match="`rng`"):
        badge(P, H, 2, rng)


@pytest.mark.parametrize("embedding", ["features", None, 3])
def test_an_embedding_that_is_neither_auto_nor_a_function_is_refused(embedding, logistic):
    with pytest.raises(ValueError, match="`embedding`"):
        BADGEQuery(embedding).select(logistic, POOL, 2)
