"""Unbiased estimates of the risk of a model, with a standard error, from labels that a query chose.

The rows that a query chooses do not represent the pool, but the probability of each pick, given those before it, is
known exactly, and gives each pick a weight that removes the bias. Letters: N rows before the first pick, M picks with
probabilities q_1 ... q_M, each among the rows left, losses L_1 ... L_M. Every row must have a probability above 0
(``epsilon`` of the query), and the model must not have been trained on these labels.
"""

from ._estimates import RiskDifference, RiskEstimate, estimate_risk
from ._parts import LOSSES, lure_weights
from ._tester import ActiveTester

__all__ = ["LOSSES", "ActiveTester", "RiskDifference", "RiskEstimate", "estimate_risk", "lure_weights"]
