"""Embeddings: what enters the last layer of a model, had with probabilities or without."""

import numpy as np
import pytest
import torch
from scipy.special import softmax
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris
from sklearn.ensemble import RandomForestRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC
from skorch import NeuralNetClassifier, NeuralNetRegressor
from torch import nn

from skactive import LastLayerClassifier, MCDropoutClassifier, MCDropoutRegressor
from skactive.posterior._embeddings import embed_by, represent_by

X, codes = load_iris(return_X_y=True)
X32 = X.astype(np.float32)
y = np.array(["virginica", "setosa", "versicolor"])[codes]
X_reg, t = load_diabetes(return_X_y=True)


def layers(n_outputs):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Dropout(0.5), nn.Linear(6, n_outputs))


def hidden(module, rows):
    with torch.no_grad():
        return module.eval()[:2](torch.as_tensor(rows)).numpy()


def test_embeddings_alone_are_those_beside_probabilities():
    net = NeuralNetClassifier(layers(3), criterion=nn.CrossEntropyLoss, max_epochs=1, verbose=0).fit(X32, codes)
    ours = MCDropoutClassifier((6,), max_epochs=2, random_state=0).fit(X, y)
    for model in (net, net.module_, ours, make_pipeline(FunctionTransformer(), net), FrozenEstimator(ours)):
        p, h = represent_by(model)(X32)
        np.testing.assert_array_equal(embed_by(model)(X32), h)
        np.testing.assert_allclose(p.sum(1), 1, atol=1e-5)
    np.testing.assert_allclose(embed_by(net)(X32), hidden(net.module_, X32), atol=1e-6)


def test_nets_of_regressions_have_embeddings():
    module = layers(1)
    net = NeuralNetRegressor(module, max_epochs=1, verbose=0).fit(X32, t[:150, np.newaxis].astype(np.float32))
    np.testing.assert_allclose(embed_by(net)(X32), hidden(net.module_, X32), atol=1e-6)
    np.testing.assert_allclose(embed_by(module)(X32), hidden(module, X32), atol=1e-6)  # of one output, bare
    ours = MCDropoutRegressor((5,), max_epochs=2, random_state=0).fit(X_reg, t)
    np.testing.assert_array_equal(embed_by(make_pipeline(ours))(X_reg), ours.embed(X_reg))


def test_the_hidden_layer_of_scikit_learns_regressor_is_found():
    for activation in ("identity", "logistic", "relu", "tanh"):
        net = MLPRegressor(hidden_layer_sizes=(4, 3), activation=activation, random_state=0, tol=1.0).fit(X, codes)
        h = embed_by(net)(X)
        np.testing.assert_allclose(h @ net.coefs_[-1][:, 0] + net.intercepts_[-1], net.predict(X), err_msg=activation)


def test_an_embedding_may_be_a_function_of_rows_or_of_the_estimator_and_rows():
    model = RandomForestRegressor(2).fit(X, codes)
    np.testing.assert_array_equal(embed_by(model, lambda X: X[:, :2])(X), X[:, :2])
    np.testing.assert_array_equal(embed_by(model, lambda model, X: X / model.n_features_in_)(X), X / 4)
    np.testing.assert_array_equal(embed_by(model)(X), X)
    with pytest.raises(ValueError, match="`embedding` must be"):
        embed_by(model, "features")
    with pytest.raises(TypeError, match=r"predict_proba\. Got a SVC without it"):
        represent_by(SVC().fit(X, y))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_wrapper_has_the_embeddings_of_the_model_inside():
    net, scaled = MLPClassifier((5,), max_iter=20, random_state=0), StandardScaler().fit_transform(X)
    inner = clone(net).fit(scaled, y)
    search = GridSearchCV(make_pipeline(FunctionTransformer(), net), {}, cv=2)
    p, h = represent_by(make_pipeline(StandardScaler(), search).fit(X, y))(X)
    np.testing.assert_array_equal(h, embed_by(inner)(scaled))
    np.testing.assert_array_equal(p, inner.predict_proba(scaled))
    np.testing.assert_allclose(p, softmax(h @ inner.coefs_[-1] + inner.intercepts_[-1], axis=1), rtol=1e-4, atol=1e-6)


def test_a_head_is_embedded_by_its_own_method_also_in_a_pipeline():
    head = make_pipeline(StandardScaler(), LastLayerClassifier(random_state=0)).fit(X, y)
    p, h = represent_by(head)(X)
    np.testing.assert_array_equal(h, head[-1].embed(head[0].transform(X)))
    np.testing.assert_array_equal(h, embed_by(head)(X))
    np.testing.assert_array_equal(p, head.predict_proba(X))
