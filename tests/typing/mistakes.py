"""One mistake a line. A type checker reports each of them on its line, of the kind named there, and nothing else."""

# ruff: noqa: B018, F401, F841

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import skactive
from skactive import Campaign, Limits, StochasticBatchQuery, StoppingReport, run_experiment
from skactive.query import score_pool
from skactive.risk import ActiveTester
from skactive.samplers import power
from skactive.scores import SCORES, bald, epig, gaussian_bald

Floats = NDArray[np.float64]


def names_of_the_package() -> None:

    from skactive import StochasticBatchQery  # mistake: attr-defined
    from skactive.scores import bladl  # mistake: attr-defined

    skactive.StochasticBatchQery()  # mistake: attr-defined
    skactive.risk.ActiveTest  # mistake: attr-defined


def names_of_values() -> None:
    StochasticBatchQuery(score="bladl")  # mistake: arg-type
    StochasticBatchQuery("bald", "pwoer")  # mistake: arg-type
    StochasticBatchQuery(posterior=20)  # mistake: arg-type
    StochasticBatchQuery(space="embedings")  # mistake: arg-type
    skactive.CausalBALDQuery("bald")  # mistake: arg-type
    skactive.BADGEQuery("embedding")  # mistake: arg-type
    skactive.MCDropoutClassifier(class_weight="balance")  # mistake: arg-type
    skactive.MCDropoutRegressor(activation="rleu")  # mistake: arg-type
    skactive.LastLayerClassifier(prior_precision="auto")  # mistake: arg-type
    skactive.datasets.load_table("pengiuns")  # mistake: arg-type


def names_in_calls(model: Any, X: Floats, y: Floats) -> None:
    StoppingReport.from_learner(model, X, scoring="acuracy")  # mistake: arg-type
    Campaign.start("c.db", None, target="y", model="frest")  # mistake: arg-type
    Campaign.start("c.db", None, target="y", rule="last")  # mistake: arg-type
    Campaign.start("c.db", None, target="y", query="bald")  # mistake: arg-type
    Campaign.open("c.db").ask(limits=5)  # mistake: arg-type
    run_experiment(model, {}, X, y, n_rounds=5, batch_size="atuo")  # mistake: arg-type
    StochasticBatchQuery().select(model, X, "atuo")  # mistake: arg-type
    score_pool(model, X, ["bladl"])  # mistake: list-item
    ActiveTester(model, X).risk(model).interval(side="left")  # mistake: arg-type


def keywords(model: Any, X: Floats) -> None:
    StochasticBatchQuery(samplr="power")  # mistake: call-arg
    StochasticBatchQuery().select(model, X, n_instance=5)  # mistake: call-arg
    power(X, 3, np.random.default_rng(0), bta=2.0)  # mistake: call-arg
    bald(X, noise_variance=1.0)  # mistake: call-overload
    epig(X, targets=X)  # mistake: call-overload


def attributes(model: Any, X: Floats) -> None:
    StochasticBatchQuery().selct(model, X)  # mistake: attr-defined
    skactive.LastLayerClassifier().embd(X)  # mistake: attr-defined
    Campaign.open("c.db").to_farme()  # mistake: attr-defined
    StoppingReport.from_learner(model, X).verdct  # mistake: attr-defined
    power.log_weight(X)  # mistake: attr-defined


def arrays_and_tensors(draws: Floats) -> None:
    of_tensor: Floats = bald(torch.from_numpy(draws))  # mistake: assignment
    bald(draws).clone()  # mistake: attr-defined
    SCORES["bald"].draw  # mistake: attr-defined


def not_enough(scores: Floats, k: int) -> Floats:
    return scores[:k]


def a_verdict_is_one_of_four(report: StoppingReport) -> bool:
    StochasticBatchQuery(sampler=not_enough)  # mistake: arg-type
    return report.verdict == "stopp"  # mistake: comparison-overlap
