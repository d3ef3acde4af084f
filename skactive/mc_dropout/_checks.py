"""What a net of ours refuses or warns of, and in which words."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from .._checks import warn


def first_partial_fit_error() -> ValueError:
    return ValueError("`classes` must be passed on the first call to partial_fit: all labels that may ever come.")


def changed_classes_error(classes: NDArray[Any], before: NDArray[Any]) -> ValueError:
    return ValueError(f"`classes` must be the same at every call to partial_fit. Got {classes}, and {before} before.")


def needs_module_error(shape: Any) -> ValueError:
    return ValueError(
        f"`X` must be 2-dimensional for the built-in net. Found rows of shape {tuple(shape)}. Give a net for such rows "
        "as `module`."
    )


def module_error(rule: str, got: str) -> ValueError:
    return ValueError(f"`module` must {rule}. Got {got} instead.")


def output_error(output: str, rule: str, remedy: str) -> ValueError:
    return ValueError(f"`output`={output!r} says that `module` returns {rule}, which its outputs are not. {remedy}")


def module_failed_error(shape: Any, error: Exception) -> ValueError:
    return ValueError(
        f"`module` could not answer float32 rows of shape {tuple(shape)}. {type(error).__name__}: {error}"
    )


def last_layer_error(n_before: int, n_now: int) -> ValueError:
    return ValueError(
        f"`classes` grew from {n_before} to {n_now}, but this `module` does not end in a torch.nn.Linear layer of one "
        "unit a class that could grow. Declare all labels with `classes` from the start, or set warm_start=False."
    )


def no_linear_layer_error() -> ValueError:
    return ValueError("`module` must run a torch.nn.Linear layer for its input to be an embedding. Got none that ran.")


def diverged_error() -> ValueError:
    return ValueError("Training diverged to weights that are not finite: lower `lr`, or scale the features.")


def device_error(device: Any, reason: str) -> ValueError:
    return ValueError(f'`device` must be "auto", "cpu" or a torch device of this machine. Got {device!r}: {reason}')


def warn_no_validation(n_rows: int) -> None:
    warn(
        f"`early_stopping` needs rows to validate on, and {n_rows} training rows leave none to spare: trained for "
        "`max_epochs` on all of them.",
    )
