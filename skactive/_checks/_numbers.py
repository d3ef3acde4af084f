"""The door through which numbers enter: what is an array of real numbers, and what only looks like one.

numpy makes numbers of much that is none: the hidden entries of a masked array, text, dates, the real parts of complex
numbers, None. Scores, losses, log-probabilities, effects, weights and the answers of a user's functions all pass here.
"""

from __future__ import annotations

import decimal
import numbers
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._rules import shown

REAL = "be an array of real numbers"


def float64_array(name: str, values: Any, *, rule: str = REAL, booleans: bool = True) -> NDArray[np.float64]:
    """`real_array` as float64 on the host; no copy of what is that already."""
    array = real_array(name, values, rule=rule, booleans=booleans)
    if hasattr(array, "detach"):
        array = array.cpu().double().numpy()
    return np.asarray(array, dtype=np.float64)


def real_array(name: str, values: Any, *, rule: str = REAL, booleans: bool = True, objects: bool = True) -> Any:
    """Real numbers as the array or tensor that holds them, or as an array made of what does.

    True and False count as 1 and 0 where ``booleans`` may be meant; they are no log-probabilities, say. Arrays of
    ``objects`` are taken where they are small.
    """
    array = plain_array(name, values, rule=rule, objects=objects)
    if not is_real(array) or (not booleans and str(array.dtype).removeprefix("torch.") == "bool"):
        got = shown(values) if array.ndim == 0 and array.dtype == object else f"dtype {array.dtype}"
        raise TypeError(f"`{name}` must {rule}. Got {got} instead. {_remedy(array)}")
    return array


def numbers_in_place(name: str, values: Any) -> Any:
    """What rows of numbers can be taken from by position: the array, tensor, sparse or dask array itself, or a copy."""
    is_array = hasattr(values, "dtype") and not hasattr(values, "iloc") and not np.ma.isMaskedArray(values)
    return values if is_array and is_real(values) else float64_array(name, values)


def plain_array(name: str, values: Any, *, rule: str = "be an array", objects: bool = True) -> Any:
    """An array or a tensor without gradients, of anything; ``objects`` that are all numbers become float64."""
    if hasattr(values, "detach"):
        return values.detach()
    if _has_mask(values):
        raise TypeError(
            f"`{name}` must {rule}, without a mask. Got a masked array, whose hidden entries would count. Leave them "
            "out, with .compressed(), or say what they are, with .filled(value)."
        )
    try:
        array = np.asarray(values)
        return array.astype(np.float64) if objects and array.dtype == object and _all_numbers(array) else array
    except (OverflowError, RuntimeError, TypeError, ValueError) as error:
        raise ValueError(
            f"`{name}` must {rule}, all rows of one length. Got a {type(values).__name__} that is none: {error}"
        ) from error


def is_real(array: Any) -> bool:
    """Whether the type of an array's or a tensor's elements is one of real numbers."""
    if hasattr(array.dtype, "is_complex"):  # torch's
        return not array.dtype.is_complex
    return array.dtype.kind in "fiub"


def as_array(draws: Any) -> NDArray[Any]:
    """An array of a tensor on any device, or of what else can be one; bfloat16, which numpy lacks, as float32."""
    if not hasattr(draws, "detach"):
        return np.asarray(draws)
    draws = draws.detach().cpu()
    return (draws.float() if str(draws.dtype) == "torch.bfloat16" else draws).numpy()


def _has_mask(values: Any) -> bool:
    """Whether it is a masked array, or a list that holds one or an entry of one."""
    if not isinstance(values, list | tuple):
        return np.ma.isMaskedArray(values)
    return any(_has_mask(value) for value in values if isinstance(value, list | tuple | np.ma.MaskedArray))


def _all_numbers(array: NDArray[Any]) -> bool:
    kinds = {type(value) for value in array.ravel().tolist()}
    return np.timedelta64 not in kinds and all(
        issubclass(kind, numbers.Real | decimal.Decimal | np.bool_) for kind in kinds
    )


def _remedy(array: Any) -> str:
    odd = [] if str(array.dtype) != "object" else [v for v in array.ravel().tolist() if not isinstance(v, numbers.Real)]
    if odd and array.ndim:
        return f"It holds {shown(odd[0])}. Leave out what is missing, and convert the rest with .astype(float)."
    return "Convert it if it holds numbers, with .astype(float), say."
