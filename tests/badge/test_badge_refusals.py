"""What BADGE says to bad input."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from small_models import LABELS, X_POOL, X_TRAIN, Y_TRAIN, Echo

from skactive import BADGEQuery
from skactive.badge import badge


def test_float64_is_the_remedy_for_naive_bayes_in_float32():
    X, y = load_digits(return_X_y=True)
    X = (X / 16).astype(np.float32)
    model = GaussianNB().fit(X[:80], y[:80])
    with pytest.raises(ValueError, match=r"This GaussianNB gave .*as float64"):
        BADGEQuery().select(model, X[80:680], 3)
    model.fit(X[:80].astype(np.float64), y[:80])
    assert len(BADGEQuery(random_state=0).select(model, X[80:680].astype(np.float64), 3)) == 3


@pytest.mark.parametrize("convert", [str, complex])
def test_embeddings_that_are_no_real_numbers_are_refused(convert):
    for embeddings in (np.ones((9, 2), convert), np.ones((9, 2), convert).tolist()):
        with pytest.raises(TypeError, match="`embeddings` must be an array of real numbers"):
            badge(np.full((9, 2), 0.5), embeddings, 2, np.random.default_rng(0))
    with pytest.raises(TypeError, match="`embeddings` must be an array of real numbers"):
        badge(np.full((9, 2), 0.5), torch.ones((9, 2), dtype=torch.complex64), 2, np.random.default_rng(0))


def test_badge_on_gaps_that_only_the_model_takes_mentions_an_embedding():
    pool = X_POOL.copy()
    pool[4, 1] = np.nan
    trees = HistGradientBoostingClassifier(max_iter=2).fit(X_TRAIN, LABELS)
    with pytest.raises(ValueError, match=r"`embeddings` must be finite.* row 4.* function of the rows .* `embedding`"):
        BADGEQuery().select(trees, pool, 2)
    assert len(BADGEQuery(np.nan_to_num, random_state=0).select(trees, pool, 2)) == 2


@pytest.mark.parametrize("estimator", [RidgeClassifier(), KMeans(2, n_init=1)])
def test_badge_refuses_what_has_no_probabilities_with_the_way_out(estimator):
    with pytest.raises(TypeError, match=rf"`estimator`.*{type(estimator).__name__}.*CalibratedClassifierCV"):
        BADGEQuery().select(estimator.fit(X_TRAIN, Y_TRAIN), X_POOL, 2)


def test_badge_refuses_rows_of_text_that_only_the_model_understands():
    texts = [["red", "hot"], ["blue", "cold"]] * 5
    model = Echo().fit(texts)
    model.predict_proba = lambda X: np.full((len(X), 2), 0.5)
    for pool in (texts, np.array(texts), pd.DataFrame(texts)):
        with pytest.raises(TypeError, match=r"`embeddings` must be an array of real numbers.*`embedding`"):
            BADGEQuery().select(model, pool, 2)
