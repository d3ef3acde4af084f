"""What BatchBALD refuses or warns of, and in which words."""

from __future__ import annotations

from typing import Any

from .._checks import is_integer, warn


def check_max_outcomes(max_outcomes: Any, n_classes: int) -> int:
    """Check that the outcomes of one label, at least, can be told apart."""
    if not is_integer(max_outcomes):
        raise TypeError(f"`max_outcomes` must be an integer, n_classes={n_classes} or more. Got {max_outcomes!r}.")
    if max_outcomes < n_classes:
        raise ValueError(
            f"`max_outcomes` must be n_classes={n_classes} or more, to hold the outcomes of one label. Got "
            f"{max_outcomes}. A thousand and more tell apart what rows add to a batch."
        )
    return int(max_outcomes)


def warn_information_gone(n_found: int, k: int, information: float, ceiling: float, why: str) -> None:
    warn(
        f"BatchBALD found {n_found} of the {k} rows asked for, which tell {information:.4g} nats of the log(n_draws) = "
        f"{ceiling:.4g} that so many draws can tell. What another row would add can't be told from 0: the rest of the "
        f"batch ({k - n_found}) is drawn by power sampling of the BALD scores. {why}"
    )
