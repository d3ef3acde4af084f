"""Errors of a coldness that sets itself, in words."""

from __future__ import annotations

from typing import Any


def no_beta_error(sampler: Any) -> ValueError:
    name = getattr(sampler, "__name__", type(sampler).__name__)
    return ValueError(
        f'`beta`="auto" needs a sampler that has a coldness: "power", "softmax" or "softrank", or one of your own with '
        f"a function `log_weights(scores, beta)`. Got {name!r}, for which `beta` must be a number."
    )


def word_for_beta_error(beta: str) -> TypeError:
    return TypeError(f'`beta` must be a number, 0 or larger, or "auto". Got {beta!r} instead.')
