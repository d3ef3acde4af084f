"""What a score refuses or warns of, and in which words."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._checks import ProbabilityError, _not_binary_error, weights_error


def check_positive_by_point(name: str, value: Any, shape: Any) -> None:
    """Check a tensor of positive numbers of shape (), (n_points,) or (n_draws, n_points)."""
    n_draws, n_points = shape
    if tuple(value.shape) not in [(), (1,), (n_points,), (n_draws, n_points)]:
        raise ValueError(
            f"`{name}` must be a number, or have shape ({n_points},) or ({n_draws}, {n_points}) as the draws. "
            f"Got shape {tuple(value.shape)} instead."
        )
    if not bool(((value > 0) & (value < float("inf"))).all()):
        raise ValueError(f"`{name}` must be positive and finite. Got {value.min().item()} as the smallest.")


def check_target_draws(target_draws: Any, draws: Any) -> Any:
    """Draws at one target or more, as many draws and classes as those of the points."""
    if not hasattr(target_draws, "detach"):
        target_draws = np.asarray(target_draws)
    shape, wanted = tuple(target_draws.shape), (draws.shape[0], draws.shape[2])
    if len(shape) != 3 or (shape[0], shape[2]) != wanted or shape[1] == 0:
        raise ValueError(
            f"`target_draws` must have shape ({wanted[0]}, n_targets, {wanted[1]}), with one target or more: the same "
            f"draws and classes as `draws`. Got shape {shape} instead."
        )
    return target_draws


def check_target_weights(weights: Any, n_targets: int) -> None:
    """Check a tensor of weights of targets."""
    if tuple(weights.shape) != (n_targets,):
        raise ValueError(
            f"`target_weights` must have shape ({n_targets},), one weight a target. Got shape {tuple(weights.shape)}."
        )
    if not bool(((weights >= 0) & (weights < float("inf"))).all()) or not bool(weights.sum() > 0):
        raise weights_error("target_weights", str(weights.min().item()) + " as the smallest")


def check_block(block: Any, first_point: int, tolerance: float | None) -> None:
    """Check that a float64 tensor holds probabilities (n_draws, n_classes, n), or predicted values (n_draws, ..., n).

    The latter have no tolerance, that is, sums over classes.
    """
    if tolerance is None:
        if not bool(block.isfinite().all()):
            where = (~block.isfinite()).nonzero()[0].tolist()
            raise ValueError(
                f"`draws` must be finite. "
                f"Got {block[tuple(where)].item()} in draw {where[0]} of point {first_point + where[-1]}."
            )
        return
    sums = block.sum(1)
    if bool(block.amin() >= 0) and bool((sums - 1).abs().amax() <= tolerance):
        return
    wrong = ~((block >= 0).all(1) & ((sums - 1).abs() <= tolerance))
    draw, point = wrong.nonzero()[0].tolist()
    raise ProbabilityError("draws", block[draw, :, point], f"draw {draw} of point {first_point + point}", tolerance)


def check_treatment_by_point(name: str, value: Any, shape: Any) -> None:
    """Check a tensor of zeros and ones, one a point."""
    _check_one_a_point(name, value, shape)
    if not bool(((value == 0) | (value == 1)).all()):
        raise _not_binary_error(value[(value != 0) & (value != 1)][0].item())


def check_propensity_by_point(name: str, value: Any, shape: Any) -> None:
    """Check a tensor of probabilities between 0 and 1, one a point."""
    _check_one_a_point(name, value, shape)
    if not bool(((value > 0) & (value < 1)).all()):
        raise ValueError(
            f"`{name}` must be above 0 and below 1: an effect can be known only where both treatments can happen. Got "
            f"{value[~((value > 0) & (value < 1))][0].item()}. Leave such rows out, or give `propensity` a classifier "
            "that is less sure: calibrated, regularised, a forest of larger leaves."
        )


def _check_one_a_point(name: str, value: Any, shape: Any) -> None:
    if tuple(value.shape) != (shape[1],):
        raise ValueError(
            f"`{name}` must have shape ({shape[1]},), one number a point. Got shape {tuple(value.shape)} instead."
        )
