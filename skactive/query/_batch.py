"""What a query chooses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Batch:
    """Rows that `BatchQuery.choose` chose among the candidates of a pool.

    Attributes
    ----------
    positions : ndarray of shape (k,), int64
        Distinct candidates, most preferred first.
    scores : ndarray of shape (n_candidates,), float64
        What they were chosen by; NaN where there is no score.
    law : object or None
        ``law.log_proba()`` are the log-probabilities (k,) of each pick given those before it, ``law.first_log_proba()``
        those of each candidate to be the first, (n_candidates,). None where the law is not known.

    See Also
    --------
    query.BatchQuery : Its ``choose`` returns one.
    """

    positions: NDArray[np.int64]
    scores: NDArray[np.float64]
    law: Any = None
