"""Public data sets, from the files in which their authors give them away."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Data = tuple[Floats, Floats, Floats]

CONTINUOUS = ["bw", "b.head", "preterm", "birth.o", "nnhealth", "momage"]
# fmt: off
BINARY = [
    "sex", "twin", "b.marr", "mom.lths", "mom.hs", "mom.scoll", "cig", "first", "booze",
    "drugs", "work.dur", "prenatal", "ark", "ein", "har", "mia", "pen", "tex", "was",
]
# fmt: on


def load_idx(folder: Path, prefix: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Images (n, 28, 28) and labels of a pair of IDX files, as MNIST and its like have them: "train", "t10k", ..."""
    images, labels = (_read_idx(next(folder.rglob(f"{prefix}-{kind}?idx?-ubyte*"))) for kind in ("images", "labels"))
    return images, labels.astype(np.int64)


def _read_idx(path: Path) -> NDArray[np.uint8]:
    """Four bytes, of which the last is the number of axes; their lengths, big-endian; and the values."""
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    n_axes = content[3]
    shape = np.frombuffer(content, ">u4", n_axes, offset=4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * n_axes).reshape(shape)


def load_clinc150(path: Path, split: str) -> tuple[list[str], list[str]]:
    """Sentences and intents of a split, from the authors' JSON or a CSV with the columns split, intent and text."""
    if path.suffix == ".json":
        texts, intents = zip(*json.loads(path.read_text(encoding="utf-8"))[split], strict=True)
        return list(texts), list(intents)
    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    rows = table[table["split"] == split]
    return rows["text"].tolist(), rows["intent"].tolist()


def make_ihdp(path: Path, rng: np.random.Generator) -> Data:
    r"""Covariates and treatment (747, 26), outcomes and effects: Hill (2011), response surface B.

    The file holds the data frame ``ihdp`` of the R package npci. Without the treated children of mothers who are not
    white the trial is no longer randomised. Outcomes are :math:`\exp((x + 0.5)^T \beta)` without the treatment and
    :math:`(x + 0.5)^T \beta - \omega` with it, plus noise; :math:`\omega` makes the mean effect on the treated 4. The
    constants are those of the code of Jesson et al. (2021).
    """
    table = pd.read_csv(path)
    table = table[(table["treat"] == 0) | (table["momwhite"] == 1)]
    treatment = table["treat"].to_numpy(np.float64)
    X = table[CONTINUOUS + BINARY].to_numpy(np.float64)
    scaled = X[:, : len(CONTINUOUS)]
    scaled[:] = (scaled - scaled.mean(axis=0)) / scaled.std(axis=0, ddof=1)
    beta = rng.choice([0.0, 0.1, 0.2, 0.3, 0.4], size=X.shape[1], p=[0.6, 0.1, 0.1, 0.1, 0.1])
    linear = (X + 0.5) @ beta
    untreated = np.exp(linear)
    treated = linear - (linear - untreated)[treatment == 1].mean() + 4
    y = np.where(treatment == 1, treated, untreated) + rng.standard_normal(len(X))
    return np.column_stack([X, treatment]), y, treated - untreated
