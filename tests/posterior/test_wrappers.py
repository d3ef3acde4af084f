"""Wrappers: known by what they carry, whoever wrote them; draws come from the model inside, on the data as it gets."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, TransformerMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor
from sklearn.datasets import load_diabetes, load_iris
from sklearn.ensemble import AdaBoostClassifier, BaggingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.exceptions import NotFittedError
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.feature_selection import RFE
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import BayesianRidge, LogisticRegression, RANSACRegressor
from sklearn.model_selection import GridSearchCV, HalvingGridSearchCV, HalvingRandomSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.semi_supervised import SelfTrainingClassifier

from skactive import sample_posterior
from skactive._utils.validation import NoPosteriorError
from skactive.posterior import bootstrap, noise_variance
from skactive.posterior._embeddings import represent_by
from skactive.posterior._registry import innermost
from skactive.posterior._wrappers import bytes_on_the_way, labels_to_fit, unwrap, without_searches

X, codes = load_iris(return_X_y=True)
y = np.array(["virginica", "setosa", "versicolor"])[codes]  # sorted order is not the order of the codes
X_reg, t = load_diabetes(return_X_y=True)
FOREST = RandomForestClassifier(8, min_samples_leaf=3, random_state=0)
FOREST_REG = RandomForestRegressor(8, random_state=0)
SIZES = {"min_samples_leaf": [3]}


def rng(seed=0):
    return np.random.default_rng(seed)


def draws_of(estimator, rows=X, n_draws=None, **training):
    return sample_posterior(estimator, n_draws, rng(), **training)(rows)


class Search(ClassifierMixin, BaseEstimator):
    """Another package's search or wrapper: its only likeness to scikit-learn's is what it carries."""

    carries = "best_estimator_"

    def __init__(self, estimator):
        self.estimator = estimator

    def fit(self, X, y):
        model = clone(self.estimator).fit(X, y)
        setattr(self, self.carries, model)
        self.predict, self.predict_proba, self.classes_ = model.predict, model.predict_proba, model.classes_
        return self


class Fitting(Search):
    carries = "estimator_"


class Stateless(TransformerMixin, BaseEstimator):
    """Nothing is learnt, so nothing says that it is fitted."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return np.log1p(np.asarray(X))


class Resampler(BaseEstimator):
    """What imbalanced-learn has for a sampler."""

    def fit_resample(self, X, y):
        rows = np.repeat(np.arange(len(y)), 1 + (y == y[0]))
        return X[rows], y[rows]


class ResamplingPipeline(Pipeline):
    """What imbalanced-learn has for a pipeline: samplers have their part in the fit, and in nothing else."""

    def fit(self, X, y):
        for _, step in self.steps[:-1]:
            X, y = step.fit_resample(X, y) if hasattr(step, "fit_resample") else (step.fit(X).transform(X), y)
        self.steps[-1][1].fit(X, y)
        return self

    def predict_proba(self, X):
        for _, step in self.steps[:-1]:
            X = step.transform(X) if hasattr(step, "transform") else X
        return self.steps[-1][1].predict_proba(X)


def resampling(*steps):
    return ResamplingPipeline([(str(i), step) for i, step in enumerate(steps)])


CLASSIFIERS = {
    "halving search": HalvingRandomSearchCV(FOREST, {"min_samples_leaf": [3, 4]}, n_candidates=2, cv=2, random_state=0),
    "recursive elimination": RFE(FOREST, n_features_to_select=2),
    "stateless last": make_pipeline(StandardScaler(), FunctionTransformer(np.abs), Stateless(), FOREST),
    "passthrough and None": Pipeline([("a", None), ("b", StandardScaler()), ("c", "passthrough"), ("d", FOREST)]),
    "resampler first": resampling(Resampler(), StandardScaler(), FOREST),
    "pipeline in search in pipeline": make_pipeline(
        FunctionTransformer(np.abs), GridSearchCV(make_pipeline(Stateless(), StandardScaler(), FOREST), {}, cv=2)
    ),
    "wrapper in resampling pipeline in search": Search(resampling(StandardScaler(), Resampler(), Fitting(FOREST))),
    "frozen search": FrozenEstimator(GridSearchCV(FOREST, SIZES, cv=2).fit(X, y)),
}


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_the_mean_of_the_members_inside_is_what_the_wrapper_predicts(name):
    estimator = CLASSIFIERS[name].fit(X, y)
    draws = draws_of(estimator)
    assert draws.shape == (8, 150, len(estimator.classes_))
    np.testing.assert_allclose(draws.mean(0), estimator.predict_proba(X), rtol=0, atol=1e-12)
    assert isinstance(innermost(estimator), RandomForestClassifier)
    p, _ = represent_by(estimator)(X)
    np.testing.assert_allclose(p, estimator.predict_proba(X), rtol=0, atol=1e-12)


WITH_TRAINING_DATA = {
    "search in pipeline": lambda model: make_pipeline(Stateless(), Search(model)),
    "pipeline in search": lambda model: Search(make_pipeline(Stateless(), model)),
    "another package's wrapper": lambda model: Fitting(make_pipeline(Stateless(), model)),
    "frozen": lambda model: FrozenEstimator(make_pipeline(Stateless(), model).fit(X, y)),
}


@pytest.mark.parametrize("name", WITH_TRAINING_DATA)
def test_training_data_get_to_the_model_as_rows_do(name):
    model = LogisticRegression(max_iter=500)
    estimator, logs = WITH_TRAINING_DATA[name](clone(model)).fit(X, y), np.log1p(X)
    through = draws_of(estimator, X, 20, X_training=X, y_training=y)
    expected = draws_of(clone(model).fit(logs, y), logs, 20, X_training=logs, y_training=y)
    np.testing.assert_allclose(through, expected, rtol=1e-6, atol=1e-9)


def test_labelled_rows_behind_a_resampler_are_those_that_were_labelled():
    estimator = resampling(StandardScaler(), Resampler(), LogisticRegression()).fit(X, y)
    scaled = estimator.steps[0][1].transform(X)
    through = draws_of(estimator, X, 10, X_training=X, y_training=y)
    expected = draws_of(estimator.steps[-1][1], scaled, 10, X_training=scaled, y_training=y)
    np.testing.assert_array_equal(through, expected)


def test_draws_and_labels_pass_a_transformed_target():
    inner = make_pipeline(StandardScaler(), BayesianRidge())
    estimator = GridSearchCV(TransformedTargetRegressor(inner, transformer=StandardScaler()), {}, cv=2).fit(X_reg, t)
    alone = clone(inner).fit(X_reg, (t - t.mean()) / t.std())
    expected = t.mean() + t.std() * draws_of(alone, X_reg, 30)
    np.testing.assert_allclose(draws_of(estimator, X_reg, 30), expected, rtol=1e-9)


def test_noise_is_that_of_the_model_inside_unless_y_is_transformed():
    model = BayesianRidge()
    search = GridSearchCV(make_pipeline(StandardScaler(), model), {}, cv=2).fit(X_reg, t)
    for fitted in (search, FrozenEstimator(search)):
        assert noise_variance(fitted) == 1 / innermost(fitted).alpha_
    with pytest.raises(ValueError, match="TransformedTargetRegressor has none"):
        noise_variance(TransformedTargetRegressor(model, transformer=StandardScaler()).fit(X_reg, t))


@pytest.mark.parametrize(("method", "labels"), [("isotonic", y), ("sigmoid", y == "setosa")], ids=["three", "two"])
def test_a_calibrated_frozen_model_is_drawn_from_and_each_draw_calibrated(method, labels):
    model = clone(FOREST).fit(X[::2], labels[::2])
    estimator = CalibratedClassifierCV(FrozenEstimator(model), method=method).fit(X[1::2], labels[1::2])
    (only,) = estimator.calibrated_classifiers_
    draws = draws_of(estimator)
    for tree, draw in zip(draws_of(model), draws, strict=True):
        columns = tree.T if tree.shape[1] > 2 else [tree[:, 1]]
        one_by_one = [calibrator.predict(p) for calibrator, p in zip(only.calibrators, columns, strict=True)]
        raw = np.stack(one_by_one if len(one_by_one) > 1 else [1 - one_by_one[0], one_by_one[0]], axis=1)
        sums = raw.sum(1, keepdims=True)
        expected = np.divide(raw, sums, out=np.full_like(raw, 1 / raw.shape[1]), where=sums > 0)
        np.testing.assert_allclose(draw, expected, atol=1e-12)


def test_one_calibration_for_all_folds_draws_from_its_model_and_several_are_draws_themselves():
    alone = CalibratedClassifierCV(FOREST, cv=3, ensemble=False).fit(X, y)
    assert draws_of(alone).shape == (8, 150, 3)
    assert draws_of(CalibratedClassifierCV(FOREST, cv=3).fit(X, y)).shape == (3, 150, 3)
    # calibrated by values of a decision function, which draws do not have
    frozen = FrozenEstimator(LogisticRegression(max_iter=500).fit(X, y))
    estimator = CalibratedClassifierCV(frozen).fit(X, y)
    np.testing.assert_allclose(draws_of(estimator)[0], estimator.predict_proba(X))


def test_what_only_looks_like_a_wrapper_of_one_model_is_not_looked_into():
    model = GaussianNB().fit(X, y)
    model.steps = [3, 4]
    assert unwrap(model) is None
    strange = Search(FOREST).fit(X, y)
    for classes in (["p", "q", "r"], [0, 1, 2], ["setosa", "teosinte", "versicolor", "virginica"]):
        strange.classes_ = np.array(classes)
        assert unwrap(strange) is None
    for ensemble in (BaggingClassifier(GaussianNB(), 3), FOREST):  # whose `estimator_` is a template
        assert unwrap(clone(ensemble).fit(X, y)) is None


def test_what_holds_no_model_to_draw_from_has_no_draws():
    labelled_by_itself = SelfTrainingClassifier(FOREST).fit(X, np.where(np.arange(150) % 2, codes, -1))
    for estimator in (labelled_by_itself, AdaBoostClassifier(n_estimators=3).fit(X, y)):
        with pytest.raises(NoPosteriorError, match=type(estimator).__name__):
            draws_of(estimator)
    for estimator in (make_pipeline(HalvingGridSearchCV(FOREST, SIZES)), RFE(FOREST)):
        with pytest.raises(NotFittedError):
            sample_posterior(estimator, None, rng())


def test_a_source_comes_before_what_is_inside():
    class Registered(Search):
        """Carries a model, and has draws that are not the model's."""

    sample_posterior.register(Registered, lambda estimator, n_draws, rng: lambda X: np.full((2, len(X), 3), 1 / 3))
    estimator = make_pipeline(StandardScaler(), Registered(FOREST)).fit(X, y)
    assert innermost(estimator) is estimator[-1]
    assert draws_of(estimator).shape == (2, 150, 3)


def test_a_bootstrap_refits_what_searches_found():
    expected = bootstrap(clone(FOREST).fit(X, y), X, y, 3, rng())(X)
    for search in (HalvingGridSearchCV(FOREST, SIZES, cv=2, random_state=0), Search(Search(FOREST))):
        assert without_searches(search.fit(X, y)) is innermost(search)
        np.testing.assert_array_equal(bootstrap(search, X, y, 3, rng())(X), expected)


class Column(RegressorMixin, BaseEstimator):
    """Takes labels in a column as a column."""


def test_labels_get_to_a_model_in_the_shape_that_it_may_want():
    column = t[:, np.newaxis]
    for wrap in (
        lambda model: make_pipeline(Stateless(), model),
        lambda model: make_pipeline(GridSearchCV(TransformedTargetRegressor(model), {})),
    ):
        assert labels_to_fit(wrap(Column()), column).shape == column.shape
        assert labels_to_fit(wrap(FOREST_REG), column).shape == t.shape
    assert labels_to_fit(RANSACRegressor(Column()), column).shape == t.shape


def test_memory_goes_by_the_most_that_a_row_becomes_on_its_way():
    wide = FunctionTransformer(lambda rows: np.repeat(rows, 100, axis=1))
    for estimator in (make_pipeline(wide, FOREST), GridSearchCV(make_pipeline(wide, FOREST), {}, cv=2)):
        assert bytes_on_the_way(estimator.fit(X, y), X[:1]) == 8 * 100 * X.shape[1]
