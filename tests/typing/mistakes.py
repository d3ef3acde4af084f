"""One mistake a line. A type checker reports each of them on its line, of the kind named there, and nothing else."""

# ruff: noqa: B018, F401, F841

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import skactive
from skactive import Campaign, StochasticBatchQuery, StoppingReport, run_experiment
from skactive.query import score_pool
from skactive.risk import ActiveTester
from skactive.samplers import power
from skactive.scores import bald, epig

Floats = NDArray[np.float64]


def names(model: Any, X: Floats, y: Floats) -> None:
    from skactive import StochasticBatchQery  # mistake: attr-defined

    skactive.risk.ActiveTest  # mistake: attr-defined
    StochasticBatchQuery("bald", "pwoer")  # mistake: arg-type
    StochasticBatchQuery(space="embedings")  # mistake: arg-type
    skactive.CausalBALDQuery("bald")  # mistake: arg-type
    skactive.MCDropoutRegressor(activation="rleu")  # mistake: arg-type
    skactive.datasets.load_table("pengiuns")  # mistake: arg-type
    StoppingReport.from_learner(model, X, scoring="acuracy")  # mistake: arg-type
    Campaign.start("c.db", None, target="y", model="frest")  # mistake: arg-type
    run_experiment(model, {}, X, y, n_rounds=5, batch_size="atuo")  # mistake: arg-type
    score_pool(model, X, ["bladl"])  # mistake: list-item
    ActiveTester(model, X).risk(model).interval(side="left")  # mistake: arg-type


def keywords_and_attributes(model: Any, X: Floats) -> None:
    StochasticBatchQuery(samplr="power")  # mistake: call-arg
    power(X, 3, np.random.default_rng(0), bta=2.0)  # mistake: call-arg
    epig(X, targets=X)  # mistake: call-overload
    StochasticBatchQuery().selct(model, X)  # mistake: attr-defined
    Campaign.open("c.db").to_farme()  # mistake: attr-defined
    power.log_weight(X)  # mistake: attr-defined


def kinds(model: Any, draws: Floats, report: StoppingReport) -> bool:
    of_tensor: Floats = bald(torch.from_numpy(draws))  # mistake: assignment
    bald(draws).clone()  # mistake: attr-defined
    StochasticBatchQuery(posterior=20)  # mistake: arg-type
    StochasticBatchQuery(sampler=not_enough)  # mistake: arg-type
    Campaign.open("c.db").ask(limits=5)  # mistake: arg-type
    return report.verdict == "stopp"  # mistake: comparison-overlap


def not_enough(scores: Floats, k: int) -> Floats:
    return scores[:k]
