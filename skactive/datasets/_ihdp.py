"""The infants of the IHDP: covariates from the table of the R package npci, outcomes simulated on top."""

from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ._checks import check_ihdp, unreadable_explained

CONTINUOUS = ("bw", "b.head", "preterm", "birth.o", "nnhealth", "momage")
# fmt: off
BINARY = (
    "sex", "twin", "b.marr", "mom.lths", "mom.hs", "mom.scoll", "cig", "first", "booze",
    "drugs", "work.dur", "prenatal", "ark", "ein", "har", "mia", "pen", "tex", "was",
)
# fmt: on

REMEDY = (
    "The data frame `ihdp` in examples/ihdp_sim/data/ihdp.RData of https://github.com/vdorie/npci, written by R's "
    "write.csv(ihdp, row.names = FALSE), is such a file."
)

Floats = NDArray[np.float64]

_COEFFICIENTS = np.array([0.0, 0.1, 0.2, 0.3, 0.4])
_PROBABILITIES = np.array([0.6, 0.1, 0.1, 0.1, 0.1])
_OFFSET = 0.5
_EFFECT_ON_THE_TREATED = 4.0


def read_covariates(path: Path) -> tuple[Floats, Floats]:
    """Covariates (n, 25), the continuous ones standardised, and treatments (n,) of an observational study.

    That is made of the randomised one by leaving out the treated children of mothers who are not white.
    """
    names = ("treat", "momwhite", *CONTINUOUS, *BINARY)
    with unreadable_explained("path", path, f"a table of CSV with the columns {', '.join(names)}", REMEDY):
        content = path.read_bytes()
        text = (gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content).decode("utf-8")
        rows = [[float(row[name]) for name in names] for row in csv.DictReader(io.StringIO(text, newline=""))]
    treatment, white, *columns = np.array(rows, dtype=np.float64).reshape(-1, len(names)).T
    check_ihdp(path, treatment, white, REMEDY)
    kept = (treatment == 0) | (white == 1)
    X = np.stack(columns, axis=1)[kept]
    continuous = X[:, : len(CONTINUOUS)]
    X[:, : len(CONTINUOUS)] = (continuous - continuous.mean(axis=0)) / continuous.std(axis=0, ddof=1)
    return X, treatment[kept]


def expected_outcomes(X: Floats, treatment: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Without and with the treatment, (n,) each: response surface B of Hill (2011), other coefficients in each call."""
    beta = rng.choice(_COEFFICIENTS, size=X.shape[1], p=_PROBABILITIES)
    linear = (X + _OFFSET) @ beta
    untreated = np.exp(linear)
    offset = (linear - untreated)[treatment == 1].mean() - _EFFECT_ON_THE_TREATED
    return untreated, linear - offset
