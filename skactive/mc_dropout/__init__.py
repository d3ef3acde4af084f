"""Neural nets with Monte Carlo dropout as scikit-learn estimators, trained by skorch.

Random numbers come from generators of the estimator. Predictions are means over dropout masks of the fitted model.
"""

from ._estimators import MCDropoutClassifier, MCDropoutRegressor

__all__ = ["MCDropoutClassifier", "MCDropoutRegressor"]
