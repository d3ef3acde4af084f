"""What a parameter must be, said once and checked in one way."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


def is_integer(value: Any) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, _NO_NUMBERS)


def is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, _NO_NUMBERS)


_NO_NUMBERS = (bool, np.bool_, np.timedelta64)  # numpy calls a duration an integer


class ParameterError(ValueError, TypeError):
    """A parameter that breaks its rule. As in scikit-learn, it is a ``ValueError`` and a ``TypeError``."""


@dataclass(frozen=True)
class Rule:
    """What a parameter must be: a test that takes any object, its wording, and what to do otherwise."""

    holds: Callable[[Any], bool]
    text: str
    remedy: str = ""

    def check(self, name: str, value: Any) -> Any:
        """The value, if it keeps the rule."""
        if not self.holds(value):
            remedy = f" {self.remedy}" if self.remedy else ""
            raise ParameterError(f"`{name}` must be {self.text}. Got {shown(value)} instead.{remedy}")
        return value

    def or_none(self) -> Rule:
        return Rule(lambda value: value is None or self.holds(value), f"None or {self.text}", self.remedy)

    def or_word(self, *words: str) -> Rule:
        """The same, where some words may stand in the place of such a value."""
        names = ", ".join(f'"{word}"' for word in words)
        holds = self.holds
        return Rule(lambda v: (isinstance(v, str) and v in words) or holds(v), f"{names} or {self.text}", self.remedy)


Rules = dict[str, Rule]


def check_parameters(rules: Rules, values: Mapping[str, Any]) -> None:
    """Check every value that has a rule, at the start of a public call.

    The rules of a class are its attribute ``rules``, and the values its ``get_params(deep=False)``.
    """
    for name, rule in rules.items():
        if name in values:
            rule.check(name, values[name])


def shown(value: Any) -> str:
    """A value in a message: an array by its shape, all else by a ``repr`` of a line."""
    if len(getattr(value, "shape", ())):
        return f"a {type(value).__name__} of shape {tuple(value.shape)}"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    text = " ".join(repr(value).split())
    return text if len(text) <= 100 else f"{text[:97]}..."


def number(
    low: float = -math.inf, high: float = math.inf, *, ends: str = "[]", text: str = "", remedy: str = ""
) -> Rule:
    """A finite real number between two bounds, which ``ends`` takes in, "[" and "]", or leaves out, "(" and ")"."""

    def holds(value: Any) -> bool:
        above = value >= low if ends[0] == "[" else value > low
        return above and (value <= high if ends[1] == "]" else value < high)

    return Rule(lambda v: is_number(v) and _is_finite(v) and holds(v), text or _span(low, high, ends), remedy)


def _is_finite(value: Any) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer that no float64 can hold
        return False


def _span(low: float, high: float, ends: str) -> str:
    if high == math.inf:
        floor = f", {low:g} or larger" if ends[0] == "[" else f" larger than {low:g}"
        return "a finite number" + (floor if low > -math.inf else "")
    if ends == "[]":
        return f"a number from {low:g} to {high:g}"
    if ends == "()":
        return f"a number between {low:g} and {high:g}"
    return f"a number from {low:g} up to {high:g}, without " + (f"{low:g}" if ends[0] == "(" else f"{high:g}")


def integer(low: int = 1) -> Rule:
    return Rule(lambda value: is_integer(value) and value >= low, f"an integer, {low} or larger")


def one_of(names: Iterable[str]) -> Rule:
    names = sorted(names)
    return Rule(lambda value: isinstance(value, str) and value in names, f"one of {names}")


def name_or_callable(names: Iterable[str], *, what: str = "a callable") -> Rule:
    rule = one_of(names)
    return Rule(lambda value: callable(value) or rule.holds(value), f"{what} or {rule.text}")


N_JOBS = Rule(lambda v: v is None or (is_integer(v) and v != 0), "None or an integer other than 0")
FLAG = Rule(lambda value: isinstance(value, bool | np.bool_), "True or False")


BETA = number(0, text="a finite number, 0 (uniform) or larger", remedy='The limit of a large beta is sampler="topk".')


def check_k(k: Any, n_points: int, name: str = "k", of: str = "scores") -> int:
    """Check that k is an integer from 1 to ``n_points``."""
    if is_integer(k) and 1 <= k <= n_points:
        return int(k)
    if is_integer(k) and n_points == 0:
        raise ValueError(f"Cannot choose `{name}`={k} rows from 0 {of}.")
    raise ParameterError(
        f"`{name}` must be an integer from 1 to the number of {of}, {n_points}. Got {shown(k)} instead."
    )


def check_n_instances(n_instances: Any, n_candidates: int, n_points: int) -> int:
    if n_points == 0:
        raise ValueError(f"`X_pool` is empty: there are 0 rows to choose n_instances={n_instances!r} from.")
    of = "rows of the pool" if n_candidates == n_points else f"candidates among the {n_points} rows of the pool"
    return check_k(n_instances, n_candidates, "n_instances", of)


def look_up(kind: str, value: Any, registry: Mapping[str, Any]) -> Any:
    """A registered function by its name, or a callable as it is."""
    if callable(value) and not isinstance(value, type):
        return value
    names = ", ".join(repr(name) for name in sorted(registry))
    if not isinstance(value, str):
        raise TypeError(f"`{kind}` must be a callable or one of {names}. Got {shown(value)} instead.")
    if value not in registry:
        raise ValueError(f"`{kind}` must be a callable or one of {names}. Got {value!r} instead.")
    return registry[value]


def check_one_of(first: str, first_value: Any, second: str, second_value: Any) -> None:
    if (first_value is None) == (second_value is None):
        got = "neither" if first_value is None else "both"
        raise ValueError(f"Either `{first}` or `{second}` must be given. Got {got}.")


def check_reference(reference: str | None, queries: Sequence[str]) -> str:
    if reference is None:
        return "uniform" if "uniform" in queries else queries[0]
    if reference not in queries:
        raise ValueError(f"`reference` must be one of {list(queries)}. Got {reference!r} instead.")
    return reference


def check_part(top: Any, bottom: Any) -> tuple[float, int]:
    """The fraction of the rows that is asked for, and 1 if it is the top, -1 if it is the bottom."""
    if top is not None and bottom is not None:
        raise ValueError(f"Only one of `top` and `bottom` may be given. Got top={top!r} and bottom={bottom!r}.")
    name, part, sign = ("top", top, 1) if bottom is None else ("bottom", bottom, -1)
    rule = number(0, 1, ends="(]", text="a fraction of the rows, above 0 and at most 1", remedy="0.01 is one per cent.")
    return float(rule.check(name, 1.0 if part is None else part)), sign
