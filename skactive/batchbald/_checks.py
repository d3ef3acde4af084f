"""What BatchBALD refuses or warns of, and in which words."""

from __future__ import annotations

from typing import Any

from .._checks import is_integer, warn


def check_max_outcomes(max_outcomes: Any, n_classes: int) -> int:
    """Check that there is room for the outcomes of one label, at least."""
    if not is_integer(max_outcomes):
        raise TypeError(f"`max_outcomes` must be an integer, n_classes={n_classes} or more. Got {max_outcomes!r}.")
    if max_outcomes < n_classes:
        raise ValueError(
            f"`max_outcomes` must be n_classes={n_classes} or more, to hold the outcomes of one label. Got "
            f"{max_outcomes}. A thousand or more resolve what each row adds to a batch."
        )
    return int(max_outcomes)


def warn_information_gone(
    n_found: int, k: int, information: float, ceiling: float, why: str, *, is_limited: bool = False
) -> None:
    why = f" {why}" if why else ""
    gain = "gain of a row that `limits` allow" if is_limited else "gain"
    warn(
        f"BatchBALD chose {n_found} of the {k} rows by their gain; together they carry {information:.4g} of at most "
        f"log(n_draws) = {ceiling:.4g} nats. Any further {gain} is within rounding of 0, so the other {k - n_found} "
        f"rows were drawn by power sampling from the BALD scores.{why}"
    )
