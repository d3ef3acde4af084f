"""Neural nets with Monte Carlo dropout as scikit-learn estimators, trained by skorch.

Their random numbers come from generators of the estimator: torch's and numpy's global states are neither read nor
written. Predictions are means over fixed dropout masks that belong to the fitted model.
"""

from ._estimators import MCDropoutClassifier, MCDropoutRegressor

__all__ = ["MCDropoutClassifier", "MCDropoutRegressor"]
