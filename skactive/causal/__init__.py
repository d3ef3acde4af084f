r"""CausalBALD: which outcomes to observe, to learn what a treatment does and to whom.

Each row of a pool has covariates and a treatment, 0 or 1, that was given already; its outcome costs money. A regressor
of the outcome on both is asked twice for each row, with the treatment set to 0 and to 1: draws of two potential
outcomes, by the same functions, whose difference is the row's effect. Scores of these draws (`skactive.scores`: mu,
tau, rho, mu_rho, mu_pi) prefer rows whose outcome is uncertain and whose like were treated otherwise.

An effect found so is causal if covariates hold all that treatment and outcome have in common, which data cannot show.
"""

from ._effects import (
    EffectEstimate,
    estimate_effects,
    predict_effects,
    sqrt_pehe,
    sqrt_pehe_scorer,
)
from ._query import CausalBALDQuery

__all__ = [
    "CausalBALDQuery",
    "EffectEstimate",
    "estimate_effects",
    "predict_effects",
    "sqrt_pehe",
    "sqrt_pehe_scorer",
]
