"""What a parameter must be, checked in one way; how the package warns, shows progress, and explains others' errors."""

from __future__ import annotations

import importlib.util
import math
import numbers
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np


def is_integer(value: Any) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, _NO_NUMBERS)


def is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, _NO_NUMBERS)


_LARGEST = sys.float_info.max  # neither infinity and NaN nor a huge integer is at most this
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

    def or_word(self, word: str) -> Rule:
        """The same, where a word may stand in the place of such a value."""
        text = f'"{word}" or {self.text}'
        return Rule(lambda v: (isinstance(v, str) and v == word) or self.holds(v), text, self.remedy)


Rules = dict[str, Rule]


def check_parameters(rules: Rules, values: Mapping[str, Any]) -> None:
    """Check every value that has a rule, at the start of a public call: `get_params` of a class by its ``rules``."""
    for name, rule in rules.items():
        if name in values:
            rule.check(name, values[name])


def shown(value: Any) -> str:
    """A value in a message: an array by its shape, all else by a ``repr`` of a line."""
    if len(getattr(value, "shape", ())):
        return f"a {type(value).__name__} of shape {tuple(value.shape)}"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    text = " ".join(repr(value.item() if isinstance(value, np.generic) else value).split())
    return text if len(text) <= 100 else f"{text[:97]}..."


def number(
    low: float = -math.inf, high: float = math.inf, *, ends: str = "[]", text: str = "", remedy: str = ""
) -> Rule:
    """A finite real number between two bounds, which ``ends`` takes in, "[" and "]", or leaves out, "(" and ")"."""

    def holds(value: Any) -> bool:
        above = value >= low if ends[0] == "[" else value > low
        return above and (value <= high if ends[1] == "]" else value < high)

    return Rule(
        lambda v: is_number(v) and _magnitude(v) <= _LARGEST and holds(v), text or _span(low, high, ends), remedy
    )


def _magnitude(value: Any) -> float:
    try:
        return abs(float(value))  # of a float32, which cannot be compared with the largest float64
    except OverflowError:  # an integer beyond all floats
        return math.inf


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
    if not isinstance(value, str) or value not in registry:
        names = ", ".join(repr(name) for name in sorted(registry))
        raise ParameterError(f"`{kind}` must be a callable or one of {names}. Got {shown(value)} instead.")
    return registry[value]


def check_reference(reference: str | None, queries: Sequence[str]) -> str:
    if reference is None:
        return "uniform" if "uniform" in queries else queries[0]
    if reference not in queries:
        raise ValueError(f"`reference` must be one of {list(queries)}. Got {reference!r} instead.")
    return reference


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    warnings.warn(message, category, stacklevel=_stack_level())


@contextmanager
def each_warning_once() -> Iterator[None]:
    """Show each text once, however many fits give it; filters stay as they are."""
    show, said, is_over = warnings.showwarning, set(), False

    def show_new(message: Warning | str, *more: Any, **named: Any) -> None:
        # Python has one place for this in a process: what another thread put back after the end hides nothing.
        if is_over or str(message) not in said:
            said.add(str(message))
            show(message, *more, **named)

    warnings.showwarning = show_new
    try:
        yield
    finally:
        is_over, warnings.showwarning = True, show


def _stack_level() -> int:
    """The stack level, seen from the caller, of the first frame outside this package (and outside modAL)."""
    frame, level = sys._getframe(1), 1
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] in {"skactive", "modAL"}:
        frame, level = frame.f_back, level + 1  # type: ignore[assignment]
    return level


@contextmanager
def failure_explained(doing: str) -> Iterator[None]:
    """Chain an error of the model or of a user's score under one sentence that says what was being done."""
    try:
        yield
    except (ValueError, TypeError) as error:
        kind = ValueError if isinstance(error, ValueError) else TypeError
        raise kind(f"{doing} failed: {error}") from error
    except Exception as error:
        raise RuntimeError(f"{doing} failed: {type(error).__name__}: {error}") from error


def import_optional(module: str, needed_by: str, package: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f"`{needed_by}` needs {package}: python -m pip install {package}") from error


def progress(
    steps: Iterable[Any] | None = None, *, doing: str, unit: str, total: int | None = None, verbose: int
) -> Any:
    """A bar of tqdm over these steps, or one to ``update`` within ``with``; without ``verbose`` it is not seen."""
    if importlib.util.find_spec("ipywidgets") is None:  # `tqdm.auto` would warn
        from tqdm import tqdm
    else:
        from tqdm.auto import tqdm
    return tqdm(steps, desc=doing, unit=unit, total=total, disable=not verbose)
