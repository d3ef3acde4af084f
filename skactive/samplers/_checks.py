"""What a sampler refuses or warns of, and in which words."""

from __future__ import annotations

from typing import Any

from .._checks import warn


def warn_few_positive(n_positive: int, k: int) -> None:
    if n_positive < k:
        warn(
            f"Only {n_positive} rows have a positive score, and {k} were asked for: under power sampling the positive "
            f"ones come first and the other {k - n_positive} are chosen uniformly at random. BALD is 0 where all draws "
            "agree: a model that learned nothing from few labels, say, or is sure of everything.",
        )


def check_has_law(sampler: Any) -> None:
    if not hasattr(sampler, "log_weights"):
        name = getattr(sampler, "__name__", type(sampler).__name__)
        raise ValueError(
            f"`epsilon` above 0 needs a sampler whose law is known, and {name!r} has no `log_weights`. Use one of "
            "skactive.samplers, or give your sampler that function."
        )
