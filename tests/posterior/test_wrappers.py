"""Wrappers: known by what they carry, whoever wrote them; draws come from the model inside, on the data as it gets."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
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
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    HalvingGridSearchCV,
    HalvingRandomSearchCV,
    TunedThresholdClassifierCV,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.semi_supervised import SelfTrainingClassifier

from skactive import StochasticBatchQuery, sample_posterior
from skactive._utils.validation import NoPosteriorError
from skactive.posterior import bootstrap, noise_variance
from skactive.posterior._embeddings import represent_by
from skactive.posterior._registry import innermost
from skactive.posterior._wrappers import labels_to_fit, unwrap, without_searches

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
    """Another package's search: its only likeness to scikit-learn's is what it carries."""

    def __init__(self, estimator):
        self.estimator = estimator

    def fit(self, X, y):
        self.best_estimator_ = clone(self.estimator).fit(X, y)
        self.classes_ = self.best_estimator_.classes_
        return self

    def predict(self, X):
        return self.best_estimator_.predict(X)

    def predict_proba(self, X):
        return self.best_estimator_.predict_proba(X)


class Fitting(ClassifierMixin, BaseEstimator):
    """Another package's wrapper."""

    def __init__(self, estimator):
        self.estimator = estimator

    def fit(self, X, y):
        self.estimator_ = clone(self.estimator).fit(X, y)
        self.classes_ = self.estimator_.classes_
        return self

    def predict(self, X):
        return self.estimator_.predict(X)

    def predict_proba(self, X):
        return self.estimator_.predict_proba(X)


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
            if hasattr(step, "fit_resample"):
                X, y = step.fit_resample(X, y)
            else:
                X = step.fit(X, y).transform(X)
        self.steps[-1][1].fit(X, y)
        return self

    def predict_proba(self, X):
        for _, step in self.steps[:-1]:
            X = step.transform(X) if hasattr(step, "transform") else X
        return self.steps[-1][1].predict_proba(X)


def resampling(*steps):
    return ResamplingPipeline([(str(i), step) for i, step in enumerate(steps)])


def searching(model):
    return GridSearchCV(model, {"randomforestclassifier__min_samples_leaf": [3]}, cv=2)


CLASSIFIERS = {
    "grid search": GridSearchCV(FOREST, SIZES, cv=2),
    "halving grid search": HalvingGridSearchCV(FOREST, SIZES, cv=2, random_state=0),
    "halving random search": HalvingRandomSearchCV(
        FOREST, {"min_samples_leaf": [3, 4]}, n_candidates=2, cv=2, random_state=0
    ),
    "another package's search": Search(FOREST),
    "another package's wrapper": Fitting(FOREST),
    "recursive elimination": RFE(FOREST, n_features_to_select=2),
    "a function last": make_pipeline(StandardScaler(), FunctionTransformer(np.tanh), FOREST),
    "a function alone": make_pipeline(FunctionTransformer(np.log1p), FOREST),
    "stateless last": make_pipeline(StandardScaler(), FunctionTransformer(np.abs), Stateless(), FOREST),
    "passthrough and None": Pipeline([("a", None), ("b", StandardScaler()), ("c", "passthrough"), ("d", FOREST)]),
    "nothing before": Pipeline([("a", "passthrough"), ("b", FOREST)]),
    "resampler last": resampling(StandardScaler(), Resampler(), FOREST),
    "resampler first": resampling(Resampler(), StandardScaler(), FOREST),
    "resampler alone": resampling(Resampler(), FOREST),
    "pipeline in search in pipeline": make_pipeline(
        FunctionTransformer(np.abs), searching(make_pipeline(Stateless(), StandardScaler(), FOREST))
    ),
    "search in search": Search(GridSearchCV(make_pipeline(StandardScaler(), FOREST), {}, cv=2)),
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
    query = StochasticBatchQuery(random_state=0)
    assert len(set(query.select(estimator, X, 4))) == 4


@pytest.mark.parametrize("threshold", [TunedThresholdClassifierCV, FixedThresholdClassifier])
def test_a_threshold_is_drawn_from_through_pipelines_and_searches(threshold):
    estimator = threshold(searching(make_pipeline(StandardScaler(), FOREST))).fit(X, codes == 1)
    np.testing.assert_allclose(draws_of(estimator).mean(0), estimator.predict_proba(X), atol=1e-12)


def test_members_are_those_of_the_model_by_itself():
    scaled = StandardScaler().fit_transform(X)
    alone = draws_of(clone(FOREST).fit(scaled, y), scaled)
    for wrapped in (
        make_pipeline(StandardScaler(), GridSearchCV(FOREST, {}, cv=2)),
        GridSearchCV(make_pipeline(StandardScaler(), FOREST), {}, cv=2),
        make_pipeline(StandardScaler(), Search(make_pipeline("passthrough", FOREST))),
    ):
        np.testing.assert_array_equal(draws_of(wrapped.fit(X, y)), alone)


def test_a_frame_reaches_a_stateless_step_as_a_frame():
    frame = pd.DataFrame(X, columns=list("abcd"))
    ratio = FunctionTransformer(lambda rows: rows[["a"]].to_numpy() / rows[["b"]].to_numpy())
    estimator = make_pipeline(ratio, FOREST).fit(frame, y)
    np.testing.assert_allclose(draws_of(estimator, frame).mean(0), estimator.predict_proba(frame), atol=1e-12)


# --- training data


def squares_of_scaled(Z):
    return np.square(StandardScaler().fit(X).transform(Z))


WITH_TRAINING_DATA = {
    "pipeline": (lambda m: make_pipeline(StandardScaler(), FunctionTransformer(np.square), m), squares_of_scaled),
    "search in pipeline": (lambda m: make_pipeline(Stateless(), Search(m)), np.log1p),
    "pipeline in search": (lambda m: Search(make_pipeline(Stateless(), m)), np.log1p),
    "another package's wrapper": (lambda m: Fitting(make_pipeline(Stateless(), m)), np.log1p),
    "frozen": (lambda m: FrozenEstimator(make_pipeline(Stateless(), m).fit(X, y)), np.log1p),
}


@pytest.mark.parametrize("name", WITH_TRAINING_DATA)
def test_training_data_get_to_the_model_as_rows_do(name):
    model = LogisticRegression(max_iter=500)
    wrap, transform = WITH_TRAINING_DATA[name]
    estimator, alone = wrap(clone(model)).fit(X, y), clone(model).fit(transform(X), y)
    through = draws_of(estimator, X, 20, X_training=X, y_training=y)
    expected = draws_of(alone, transform(X), 20, X_training=transform(X), y_training=y)
    np.testing.assert_allclose(through, expected, rtol=1e-6, atol=1e-9)


def test_labelled_rows_behind_a_resampler_are_those_that_were_labelled():
    estimator = resampling(StandardScaler(), Resampler(), LogisticRegression()).fit(X, y)
    scaled = estimator.steps[0][1].transform(X)
    through = draws_of(estimator, X, 10, X_training=X, y_training=y)
    expected = draws_of(estimator.steps[-1][1], scaled, 10, X_training=scaled, y_training=y)
    np.testing.assert_array_equal(through, expected)


# --- targets


def test_draws_and_labels_pass_a_transformed_target():
    inner = make_pipeline(StandardScaler(), BayesianRidge())
    estimator = GridSearchCV(TransformedTargetRegressor(inner, transformer=StandardScaler()), {}, cv=2).fit(X_reg, t)
    alone = clone(inner).fit(X_reg, (t - t.mean()) / t.std())
    expected = t.mean() + t.std() * draws_of(alone, X_reg, 30)
    np.testing.assert_allclose(draws_of(estimator, X_reg, 30), expected, rtol=1e-9)


def test_the_mean_of_a_forest_passes_an_affine_target():
    estimator = make_pipeline(StandardScaler(), TransformedTargetRegressor(FOREST_REG, transformer=StandardScaler()))
    estimator.fit(X_reg, t)
    np.testing.assert_allclose(draws_of(estimator, X_reg).mean(0), estimator.predict(X_reg))


def test_noise_is_that_of_the_model_inside_unless_y_is_transformed():
    model = BayesianRidge()
    for wrap in (
        lambda model: make_pipeline(StandardScaler(), model),
        lambda model: GridSearchCV(make_pipeline(StandardScaler(), model), {}, cv=2),
        lambda model: HalvingGridSearchCV(model, {}, cv=2, random_state=0),
        lambda model: FrozenEstimator(make_pipeline(Stateless(), model).fit(np.abs(X_reg), t)),
    ):
        fitted = wrap(model).fit(X_reg, t)
        assert noise_variance(fitted) == 1 / innermost(fitted).alpha_
    with pytest.raises(ValueError, match="TransformedTargetRegressor has none"):
        noise_variance(TransformedTargetRegressor(model, transformer=StandardScaler()).fit(X_reg, t))
    with pytest.raises(ValueError, match="LinearRegression has none"):
        noise_variance(make_pipeline(StandardScaler(), TransformedTargetRegressor()).fit(X_reg, t)[-1].regressor_)


def test_outliers_that_a_consensus_left_out_change_nothing_in_the_draws():
    estimator = RANSACRegressor(BayesianRidge(), min_samples=50, random_state=0).fit(X_reg, t)
    inliers = estimator.inlier_mask_
    alone = BayesianRidge().fit(X_reg[inliers], t[inliers])
    np.testing.assert_allclose(draws_of(estimator, X_reg, 9), draws_of(alone, X_reg, 9))


# --- calibration


@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
@pytest.mark.parametrize("labels", [y, y == "setosa"], ids=["three classes", "two classes"])
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


def test_a_sigmoid_is_applied_to_each_draw():
    model = clone(FOREST).fit(X[::2], codes[::2] == 1)
    estimator = CalibratedClassifierCV(FrozenEstimator(model)).fit(X[1::2], codes[1::2] == 1)
    sigmoid = estimator.calibrated_classifiers_[0].calibrators[0]
    expected = expit(-(sigmoid.a_ * draws_of(model)[..., 1] + sigmoid.b_))
    np.testing.assert_allclose(draws_of(estimator)[..., 1], expected)


def test_one_calibration_for_all_folds_draws_from_its_model_and_several_are_draws_themselves():
    alone = CalibratedClassifierCV(FOREST, cv=3, ensemble=False).fit(X, y)
    assert draws_of(alone).shape == (8, 150, 3)
    assert draws_of(CalibratedClassifierCV(FOREST, cv=3).fit(X, y)).shape == (3, 150, 3)
    # calibrated by values of a decision function, which draws do not have
    frozen = FrozenEstimator(LogisticRegression(max_iter=500).fit(X, y))
    estimator = CalibratedClassifierCV(frozen).fit(X, y)
    np.testing.assert_allclose(draws_of(estimator)[0], estimator.predict_proba(X))


# --- what is no wrapper of one model


def test_a_template_beside_members_is_no_model_inside():
    for ensemble in (BaggingClassifier(GaussianNB(), 3), FOREST, AdaBoostClassifier(n_estimators=3)):
        assert unwrap(clone(ensemble).fit(X, y)) is None
    with pytest.raises(NoPosteriorError, match="AdaBoostClassifier"):
        draws_of(AdaBoostClassifier(n_estimators=3).fit(X, y))


def test_a_model_that_labelled_rows_by_itself_is_not_drawn_from():
    some_known = np.where(np.arange(150) % 2, codes, -1)
    with pytest.raises(NoPosteriorError, match="SelfTrainingClassifier"):
        draws_of(SelfTrainingClassifier(FOREST).fit(X, some_known))


def test_steps_that_are_no_pairs_are_something_else():
    model = GaussianNB().fit(X, y)
    model.steps = [3, 4]
    assert unwrap(model) is None


@pytest.mark.parametrize("classes", [["p", "q", "r"], [0, 1, 2], ["setosa", "teosinte", "versicolor", "virginica"]])
def test_a_wrapper_of_other_classes_than_its_model_is_not_looked_into(classes):
    strange = Search(FOREST).fit(X, y)
    strange.classes_ = np.array(classes)
    assert unwrap(strange) is None


def test_a_pipeline_without_a_model_has_no_draws():
    with pytest.raises(NoPosteriorError, match="Pipeline"):
        draws_of(make_pipeline(StandardScaler(), "passthrough").fit(X))


@pytest.mark.parametrize(
    "estimator",
    [
        HalvingGridSearchCV(FOREST, SIZES),
        FixedThresholdClassifier(FOREST),
        TransformedTargetRegressor(FOREST_REG),
        make_pipeline(StandardScaler(), GridSearchCV(FOREST, SIZES)),
        RFE(FOREST),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_a_wrapper_that_is_not_fitted_is_a_not_fitted_error(estimator):
    with pytest.raises(NotFittedError):
        sample_posterior(estimator, None, rng())


def test_a_source_comes_before_what_is_inside():
    class Registered(Search):
        """Carries a model, and has draws that are not the model's."""

    sample_posterior.register(Registered, lambda estimator, n_draws, rng: lambda X: np.full((2, len(X), 3), 1 / 3))
    estimator = make_pipeline(StandardScaler(), Registered(FOREST)).fit(X, y)
    assert innermost(estimator) is estimator[-1]
    assert draws_of(estimator).shape == (2, 150, 3)


# --- refits and labels


def test_a_bootstrap_refits_what_searches_found():
    for search in (
        HalvingGridSearchCV(FOREST, SIZES, cv=2, random_state=0),
        Search(FOREST),
        Search(GridSearchCV(FOREST, {}, cv=2)),
    ):
        search.fit(X, y)
        assert without_searches(search) is innermost(search)
        np.testing.assert_array_equal(
            bootstrap(search, X, y, 3, rng())(X), bootstrap(clone(FOREST).fit(X, y), X, y, 3, rng())(X)
        )


class Column(RegressorMixin, BaseEstimator):
    def fit(self, X, y):
        return self

    def predict(self, X):
        return np.zeros(len(X))


@pytest.mark.parametrize(
    ("wrap", "is_column"),
    [
        (lambda model: make_pipeline(Stateless(), model), True),
        (lambda model: HalvingGridSearchCV(model, {}), True),
        (lambda model: make_pipeline(GridSearchCV(TransformedTargetRegressor(model), {})), True),
        (RANSACRegressor, False),
    ],
)
def test_labels_get_to_a_model_in_the_shape_that_it_may_want(wrap, is_column):
    column = t[:, np.newaxis]
    assert labels_to_fit(wrap(Column()), column).shape == (column.shape if is_column else t.shape)
    assert labels_to_fit(wrap(FOREST_REG), column).shape == t.shape


# --- imbalanced-learn itself, where it is installed


def test_pipelines_of_imbalanced_learn_are_drawn_from():
    over_sampling = pytest.importorskip("imblearn.over_sampling")
    pipeline = pytest.importorskip("imblearn.pipeline")
    sampler = over_sampling.RandomOverSampler(random_state=0)
    for steps in ([StandardScaler(), sampler, FOREST], [sampler, StandardScaler(), FOREST]):
        estimator = GridSearchCV(pipeline.make_pipeline(*steps), {}, cv=2).fit(X[10:], y[10:])
        np.testing.assert_allclose(draws_of(estimator).mean(0), estimator.predict_proba(X), atol=1e-12)
