"""What the labels of given rows tell together."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._checks import check_max_outcomes
from ._kept_draws import as_tensor
from ._outcomes import Outcomes


def joint_information(draws_KNC: Any, rows: NDArray[np.int64], max_outcomes: int, rng: np.random.Generator) -> float:
    """Information about the model in the labels of these rows, one or more, in nats."""
    max_outcomes = check_max_outcomes(max_outcomes, draws_KNC.shape[2])
    draws_KkC = as_tensor(draws_KNC[:, rows])
    outcomes = Outcomes.of_no_labels(len(draws_KkC), draws_KkC.device)
    before = outcomes.left
    for i in range(len(rows)):
        outcomes = outcomes.extended(draws_KkC[:, i], max_outcomes, rng)
    return before - outcomes.left
