"""Neural nets with Monte Carlo dropout as scikit-learn estimators, trained by skorch.

`MCDropoutClassifier` and `MCDropoutRegressor` share one base class (`_base`). It checks the parameters (`_parameters`)
and turns data into float32 tensors on the device (`_data`); a skorch net runs the epochs over batches of those tensors
(`_training`). All random numbers of building and training a net (weights, shuffling, dropout) come from generators of
the estimator (`_own_random`), so torch's and numpy's global states are neither read nor written. Predictions are means
over fixed dropout masks that belong to the fitted model.
"""

from ._classifier import MCDropoutClassifier
from ._regressor import MCDropoutRegressor

__all__ = ["MCDropoutClassifier", "MCDropoutRegressor"]
