"""The accuracy of a campaign's model, from the labels of its batches.

Rows that a query picks are not like the pool, so they are weighted by their probabilities, as in `skactive.risk`, and
compared with out-of-fold predictions. That estimates sums over the pool: of errors, of rows of a class. What is known
of the labelled rows is subtracted, and what is left is the sum over the rows without a label, whose guesses a user
exports. Labels that came with the table were not picked: they are used to fit, and to estimate only if there is nothing
else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .._utils import html
from ..risk import RiskEstimate, estimate_risk, lure_weights
from ..risk._estimates import counted
from ..risk._parts import largest_bound
from ._ledger import State
from ._models import Judged
from ._picks import Picks, as_if_drawn

FEWEST = 20  # labels for an estimate
FEWEST_OF_CLASS = 10  # labels or guesses, for its recall or precision
FEWEST_GROUPS = 10  # with labels: the spread of fewer is not known
WIDEST = 0.5  # interval beside which a value is told
UNSTABLE = 0.1  # part of the guesses that differ, which a sentence speaks of
OF_DIFFERENCE = 0.75  # of guesses that differ, which the model may have right beyond its folds: a tree on xor needs it
MOST_CLASSES = 2  # that a sentence tells of

Floats = NDArray[np.float64]


class Interval(NamedTuple):
    """An estimate, and the ends of its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Accuracy:
    """How good a campaign's model is, with 95 % intervals: its accuracy, or for numbers the root mean squared error.

    Attributes
    ----------
    value, low, high : float
        On the rows without a label: of the guesses that `Campaign.to_frame` and ``skactive export --guesses`` give. For
        numbers, ``high`` is infinite: a few large errors may not have been seen. If each row has a label, out of fold
        on all of them.
    measure : {"accuracy", "root mean squared error"}
    n_labels : int
        Labels that the estimate uses.
    n_rows : int
        Rows that ``value`` is a mean over.
    overall : tuple of three float
        Value and ends of the interval on these rows and the labelled ones together.
    n_overall : int
        Rows that ``overall`` is a mean over.
    weighted : bool
        True: from weighted picks. False: as if rows that came with a label, or were asked for with unknown
        probabilities, were like the others.
    classes : DataFrame
        A row for each class, the rarest first, each number with the ends of its interval (``_low``, ``_high``):
        ``labelled``, how many rows have this label; ``left``, how many without a label are of this class; ``share``,
        their part of the rows without a label; ``found``, the part of the class that is labelled; ``recall`` and
        ``precision`` of the guesses, NaN with fewer than ten labels or guesses of the class. None for numbers.
    differ : float
        The share of the guesses for rows without a label in which the models of the folds differ from the model itself:
        upper ends allow for three quarters of it, lower ends for the rest. 0 for numbers.
    n_skipped, n_open : int
        Among the picks, rows that were skipped, which are left out, and rows without an answer: they count as wrong for
        the lower end, and as right for the upper one.
    n_uncounted : int
        Labels without known probabilities, which are not used: typical rows, batches with limits, the top of a ranking.
    n_apart : int
        Labels from other batches, not used because rows were added, withdrawn or labelled unasked in between.
    first_batch : int
        First batch whose labels are used.
    is_of_table : bool
        Whether the value is that of all rows of the table without a label; otherwise some came later, or are gone.
    groups : str or None
        The column whose groups are kept whole when data are split into folds.
    n_groups : int
        Groups with labels that are used. With fewer than ten there is no interval: its ends are what is possible.

    See Also
    --------
    campaign.Status : Holds it.
    risk.estimate_risk : The estimate in it.
    """

    value: float
    low: float
    high: float
    measure: str
    n_labels: int
    n_rows: int
    overall: Interval
    n_overall: int
    weighted: bool
    classes: pd.DataFrame | None = None
    differ: float = 0.0
    n_skipped: int = 0
    n_open: int = 0
    n_uncounted: int = 0
    n_apart: int = 0
    first_batch: int = 1
    is_of_table: bool = True
    groups: str | None = None
    n_groups: int = 0

    @property
    def is_told(self) -> bool:
        """Whether the interval is narrow enough to tell a value beside it."""
        return self.measure != "accuracy" or self.high - self.low <= WIDEST

    def __str__(self) -> str:
        return ". ".join(filter(None, (self.on_rows(), self.on_classes())))

    @property
    def commonest(self) -> Any:
        """The class with the largest share of the rows without a label."""
        shares = {} if self.classes is None else dict(self.classes["share"].fillna(0.0).items())
        return max(shares, key=lambda label: shares[label], default=None)

    def on_rows(self) -> str:
        """The accuracy, and how it was estimated."""
        first = f"{self.measure} {self._shown(self)} {self._of_which_rows()}"
        if self.n_overall > self.n_rows:
            others = f"these and the {self.n_overall - self.n_rows:,} labelled"
            whole = f"all {self.n_overall:,}" if self.is_of_table else others
            first += f", {self._shown(self.overall)} of the model on {whole} rows"
        return ". ".join(filter(None, (first, self._on_guess(), *self._remarks(), self._not_counted())))

    def on_classes(self) -> str:
        """What is found of the rarest classes and what is left, and how well it is guessed."""
        rarest = [] if self.classes is None else [*self.classes.iterrows()][: min(MOST_CLASSES, len(self.classes) - 1)]
        listed = "; ".join(_of_class(label, row) for label, row in rarest)
        where = "" if self.is_of_table else f", and what is left of these {self.n_rows:,} rows"
        return f"By class, the rarest first{where}: {listed}" if listed else ""

    def to_dict(self) -> dict[str, Any]:
        """All numbers by their names, those of classes and of ``overall`` as dicts."""
        classes = None if self.classes is None else self.classes.to_dict(orient="index")
        return {**vars(self), "overall": self.overall._asdict(), "classes": classes}

    def tables(self) -> list[html.Table]:
        """The classes, for a page."""
        if self.classes is None:
            return []
        head = ["", "labelled", "left without a label", "share labelled", "recall", "precision"]
        rows = [[str(label), *_cells(row)] for label, row in self.classes.iterrows()]
        return [html.Table(rows, head=head, title="Classes, the rarest first, with 95 % intervals")]

    def _shown(self, interval: Any) -> str:
        if self.measure != "accuracy":
            error, low = (_count(end) if abs(end) >= 999.5 else f"{end:.3g}" for end in (interval.value, interval.low))
            return f"{error} (95 %: at least {low})"
        ends = f"{percent(interval.low)} to {percent(interval.high)}"
        return f"{percent(interval.value)} (95 % interval {ends})" if self.is_told else f"{ends} (95 % interval)"

    def _of_which_rows(self) -> str:
        if self.n_overall == self.n_rows:
            return f"out of fold on all {self.n_rows:,} rows, which have a label"
        when = "" if self.is_of_table else f" that were there before batch {self.first_batch}, not for later ones"
        return f"of the guesses for the {self.n_rows:,} rows without a label{when}"

    def _on_guess(self) -> str:
        if self.classes is None:
            return ""
        return f"Always guessing {str(self.commonest)!r} is right in {_part(self.classes.loc[self.commonest], 'share')}"

    def _remarks(self) -> list[str]:
        label = "1 label" if self.n_labels == 1 else f"{self.n_labels} labels"
        if self.n_groups:
            label += f" of {self.n_groups} groups"
        like = "" if self.weighted else ", as if the rows with a label were like the others"
        remarks = [f"From {label} by out-of-fold predictions{like}"]
        if self.groups is not None:
            remarks.append(f"Each row is judged by a model without labels of its {self.groups!r}, as if that were new")
            if self.n_groups < FEWEST_GROUPS:
                remarks.append(f"An interval needs labels of at least {FEWEST_GROUPS} groups")
        elif not self.is_told:
            remarks.append("Too few labels for a point estimate")
        if self.differ >= UNSTABLE:
            remarks.append(
                f"{percent(self.differ)} of the guesses change if a fifth of the labels is left out, as for the models "
                "that judge: the model may be better or worse than they are, and the interval allows for it"
            )
        if self.measure != "accuracy":
            remarks.append("There is no upper end: a few large errors may not have been seen yet")
        return remarks

    def _not_counted(self) -> str:
        parts = (
            (self.n_skipped, "skipped and left out"),
            (self.n_open, "waiting among these, counted as wrong for the lower end and as right for the upper one"),
            (self.n_apart, "not counted: from batches before or after rows were added, withdrawn or labelled unasked"),
            (self.n_uncounted, "not counted: chosen as typical, under limits or as the top of a ranking"),
        )
        listed = "; ".join(f"{n} {what}" for n, what in parts if n)
        return f"Other rows: {listed}" if listed else ""


def percent(share: float) -> str:
    return "unknown" if math.isnan(share) else f"{100 * share:.0f} %"


def _count(number: float) -> str:
    return "unknown" if math.isnan(number) else f"{number:,.0f}"


def _cells(row: Mapping[str, Any]) -> list[str]:
    counts = [f"{row['labelled']:,.0f}", f"{_count(row['left'])} {_ends(row, 'left', _count)}"]
    names = ("found", "recall", "precision")
    return [*counts, *("" if math.isnan(row[f"{x}_low"]) else _part(row, x) for x in names)]


def _ends(row: Mapping[str, Any], name: str, show: Callable[[float], str] = percent) -> str:
    return f"({show(row[f'{name}_low'])} to {show(row[f'{name}_high'])})"


def _part(row: Mapping[str, Any], name: str) -> str:
    """A part of a class with its interval, which stands alone where it is too wide for a value."""
    is_told = row[f"{name}_high"] - row[f"{name}_low"] <= WIDEST
    return f"{percent(row[name])} {_ends(row, name)}" if is_told else _ends(row, name)[1:-1]


def _of_class(label: Any, row: Mapping[str, Any]) -> str:
    """What is known of a class, in words."""
    text = f"{label!r}: {row['labelled']:.0f} labelled, about {_count(row['left'])} left {_ends(row, 'left', _count)}"
    for name in ("recall", "precision"):
        if not math.isnan(row[f"{name}_low"]):
            text += f", {name} {_part(row, name)}"
    return text


# --- estimates ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Sample:
    """Labelled rows, as a sample of the pool of some picks. A part of them is 0 or 1, or a loss, for each."""

    picks: Picks
    rows: NDArray[np.int64]  # with a label
    weight: Floats  # of each row of the table
    is_open: NDArray[np.bool_]  # which picks have no answer yet
    groups: NDArray[Any] | None  # of each row of the table
    largest: float  # that a part can be
    is_of_others: bool = True  # of rows without a label; else of all rows, which have one

    @cached_property
    def at(self) -> NDArray[np.int64]:
        """Where among the labelled rows each pick is; -1 if it has no label."""
        where = np.full(len(self.weight), -1, dtype=np.int64)
        where[self.rows] = np.arange(len(self.rows))
        return where[self.picks.rows]

    @cached_property
    def whole(self) -> Interval:
        """The weight of the rows without a label that can be labelled: what is left but for rows like the skipped."""
        is_skipped = (self.at < 0) & ~self.is_open
        of_picks = self.weight[self.picks.rows] * is_skipped
        known = self._known(np.ones(len(self.rows))) + of_picks.sum()
        left = float(self.weight[self.picks.pool].sum() - known)
        if not is_skipped.any():
            return Interval(left, left, left)
        value, low, high = (min(max(end - of_picks.sum(), 0.0), left) for end in self._sum(of_picks))
        return Interval(left - value, left - high, left - low)

    def left(self, part: Floats) -> Interval:
        """The sum of a part over the rows of the pool without a label; open picks have it for the upper end only."""
        of_picks, known = self._of_picks(part), self._known(part)
        value, low, high = self._sum(of_picks)
        if self.is_open.any():
            high = self._sum(of_picks + self.is_open * self.weight[self.picks.rows]).high
        return Interval(*(max(end - known, 0.0) for end in (value, low, high)))

    def share(self, part: Floats, other: Floats, unsure: float = 0.0) -> Interval:
        """The share of a part in it and another one, of which ``unsure`` may belong to the other one of them."""
        a, b = self.left(part), self.left(other)
        correlation = self._correlation(part, other)
        up, down = OF_DIFFERENCE * unsure, (1 - OF_DIFFERENCE) * unsure
        low = _least_share(_moved(a, -down), _moved(b, down), correlation)
        high = 1 - _least_share(_moved(b, -up), _moved(a, up), correlation)
        return Interval(_ratio(a.value, a.value + b.value), low, high)

    def accuracy(self, right: Floats, unsure: float) -> Interval:
        """The share of the rows that are right, from the smaller sum where the number of all is known."""
        wrong, whole = self.left(1 - right), self.whole
        if whole.low < whole.high or whole.value <= 0:  # or no row is left that is known to be like those with a label
            return self.share(right, 1 - right, unsure)
        found, low, high = 1 - _ratio(wrong.value, self._answered), whole.low - wrong.high, whole.low - wrong.low
        if (those := self.left(right)).value < wrong.value:  # the noise of the weights is less in it
            found, low, high = _ratio(those.value, self._answered), those.low, those.high
        # guesses that hang on few labels are right together, by chance, in more folds than one: of coins, say
        low, high = low - (1 - OF_DIFFERENCE) * unsure, high + OF_DIFFERENCE * unsure
        low, high = (float(np.clip(end / whole.value, 0, 1)) for end in (low, high))
        return Interval(float(np.clip(found, low, high)), low, high)

    def mean(self, loss: Floats) -> Interval:
        """The mean of a loss without a bound."""
        a = self.left(loss)
        return Interval(_ratio(a.value, self._answered), _ratio(a.low, self.whole.high), math.inf)

    @property
    def _answered(self) -> float:
        """The estimate of the weight of the rows like those with a label."""
        of_open = self.weight[self.picks.rows] * self.is_open
        return self.whole.value - (self._sum(of_open).value if self.is_open.any() else 0.0)

    @cached_property
    def _weight_of_others(self) -> Floats:
        """The weights of the rows of the pool that were never picked."""
        is_picked = np.zeros(len(self.weight), dtype=bool)
        is_picked[self.picks.rows] = True
        return self.weight[self.picks.pool[~is_picked[self.picks.pool]]]

    def _of_picks(self, part: Floats) -> Floats:
        return np.where(self.at < 0, 0.0, (self.weight[self.rows] * part)[self.at])

    def _correlation(self, part: Floats, other: Floats) -> float:
        """That of the estimates of two parts, of which a row can have one only."""
        errors = [self._estimates(self._of_picks(one))[0].standard_error for one in (part, other, part + other)]
        product = 2 * errors[0] * errors[1]
        return min(max((errors[2] ** 2 - errors[0] ** 2 - errors[1] ** 2) / product, -1.0), 0.0) if product > 0 else 0.0

    def _sum(self, of_picks: Floats) -> Interval:
        """The sum over the pool of what each pick has."""
        risks = self._estimates(of_picks)
        tail = 0.025 if math.isfinite(self.largest) else 0.05
        # the higher one of lower ends that are wrong half as often each; one pick can take a risk past other upper ends
        low = max(risk.interval(1 - tail / len(risks), side="lower")[0] for risk in risks)
        high = max(risks[-1].interval(1 - tail, side="upper")[1], low)
        value = min(max(risks[0].value, low), high)
        return Interval(*(self.picks.n_pool * end for end in (value, low, high)))

    def _estimates(self, of_picks: Floats) -> list[RiskEstimate]:
        """The estimate by equal picks, and if these can have large weights, the one where such picks count less."""
        picks, log_proba, n_pool = self.picks, self.picks.log_proba, self.picks.n_pool
        # without a bound: the sum of all, and not what it is less than the largest, is compared with other sums
        risk = estimate_risk(of_picks, log_proba, n_pool, largest_loss=math.inf)
        least, left = risk.limits[0], self._weight_of_others
        if not len(left):  # nothing is estimated
            return [risk]
        largest = self.largest * largest_bound(left, picks.sure.sum(), n_pool)
        limits = least, least + self.largest * left.sum() / n_pool
        risks = [replace(risk, largest_loss=largest, limits=limits)]
        if picks.sure.min() < 1:
            risks.append(counted(risks[0], of_picks, log_proba, picks.sure))
        groups = self.groups
        return risks if groups is None else [self._by_group(one, of_picks, groups[picks.rows]) for one in risks]

    def _known(self, part: Floats) -> float:
        """The sum over labelled rows of the pool, which is taken off; nothing if these are all there are."""
        is_in_pool = np.isin(self.rows, self.picks.pool) & self.is_of_others
        return float(np.sum(self.weight[self.rows] * part * is_in_pool))

    def _by_group(self, risk: RiskEstimate, losses: Floats, groups: NDArray[Any]) -> RiskEstimate:
        """With the standard error of sums over groups, if that is larger."""
        apart = lure_weights(self.picks.log_proba, self.picks.n_pool) * (losses - risk.value)
        of_group = np.unique(groups, return_inverse=True)[1]
        sums, sizes = np.bincount(of_group, apart), np.bincount(of_group)
        n = len(sizes)
        if n < FEWEST_GROUPS:
            return replace(risk, standard_error=math.nan)  # whose interval is what is possible
        # the design effect of Kish: labels tell as much as that many times fewer without groups
        effect = max(float(n / (n - 1) * np.sum(sums**2) / max(np.sum(apart**2), 1e-300)), 1.0)
        return replace(risk, standard_error=risk.standard_error * math.sqrt(effect), step=risk.step * effect)


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole > 0 else math.nan


def _moved(sum_of: Interval, by: float) -> Interval:
    return Interval(*(max(end + by, 0.0) for end in sum_of))


def _least_share(a: Interval, b: Interval, correlation: float) -> float:
    """The lower end of a / (a + b), from r with which an interval of a - r b by Zou and Donner (2008) reaches 0."""
    below, above = a.value - a.low, b.high - b.value
    common = a.value * b.value - correlation * below * above
    root = math.sqrt(max(common**2 - (b.value**2 - above**2) * (a.value**2 - below**2), 0.0))
    ratio = (a.value**2 - below**2) / (common + root) if common + root > 0 else 0.0
    return ratio / (1 + ratio)


def accuracy_of(
    judged: Judged, state: State, picks: Picks | None, kind: str, weight: pd.Series | None, groups: pd.Series | None
) -> Accuracy | None:
    """The accuracy, from guesses for the labelled rows; ``weight`` and ``groups`` are of all rows of the table."""
    sample = _sample_of(state, picks, kind, weight, groups)
    if sample is None:
        return None
    y, guess = np.array(list(state.labels.values())), judged.out_of_fold["guess"].to_numpy()
    own = np.array(judged.own)
    if kind == "numbers":
        value, known, classes = sample.mean((guess - y) ** 2), (own - y) ** 2, None
    else:
        right, known = (guess == y).astype(np.float64), (own == y).astype(np.float64)
        value = sample.accuracy(right, judged.differ * sample.whole.value)
        classes = _classes(sample, y, guess, judged.differ_of)
    found = _accuracy(sample, state, kind, value, known, classes=classes, differ=judged.differ)
    return found if groups is None else replace(found, groups=str(groups.name))


def _sample_of(
    state: State, picks: Picks | None, kind: str, weight: pd.Series | None, groups: pd.Series | None
) -> _Sample | None:
    """The labels of the picks, or, if these are few, all labels; None if these are few as well."""
    rows = np.array(list(state.labels), dtype=np.int64)
    if picks is None or np.isin(picks.rows, rows).sum() < FEWEST:
        picks = as_if_drawn(state)
    heavy = np.ones(state.n_rows) if weight is None else pd.to_numeric(weight).to_numpy(dtype=np.float64)
    is_open = ~np.isin(picks.rows, [*state.labels, *state.skipped])
    of_row = None if groups is None else groups.to_numpy()
    largest = 1.0 if kind == "classes" else math.inf
    sample = _Sample(picks, rows, heavy / heavy[picks.pool].mean(), is_open, of_row, largest)
    if len(rows) < FEWEST:
        return None
    if np.isin(picks.pool, [*state.labels, *state.skipped]).all():  # no row is left: all count, out of fold
        picks = as_if_drawn(state)
        return replace(sample, picks=picks, is_open=np.zeros(len(rows), dtype=bool), is_of_others=False)
    return sample


def _accuracy(sample: _Sample, state: State, kind: str, value: Interval, known: Floats, **found: Any) -> Accuracy:
    """With what the model has on all rows; ``known`` is what it has on the labelled ones."""
    picks, weight = sample.picks, sample.weight[sample.rows]
    left = sample.whole.value
    overall = value
    if sample.is_of_others and left > 0:
        overall = Interval(*((np.sum(weight * known) + left * end) / (weight.sum() + left) for end in value))
    if kind == "numbers":
        value, overall = (Interval(*map(math.sqrt, one)) for one in (value, overall))
    is_labelled = sample.at >= 0
    answered = [*state.labels, *state.skipped]
    others = np.setdiff1d(picks.pool, answered) if sample.is_of_others else picks.pool
    of_table = np.setdiff1d(np.arange(state.n_rows), [*answered, *state.gone])
    return Accuracy(
        *value,
        "accuracy" if kind == "classes" else "root mean squared error",
        n_labels=int(is_labelled.sum()),
        n_rows=len(others),
        overall=overall,
        n_overall=len(others) + len(sample.rows) * sample.is_of_others,
        weighted=picks.are_drawn,
        n_skipped=int((~is_labelled & ~sample.is_open).sum()),
        n_open=int(sample.is_open.sum()),
        n_uncounted=picks.n_uncounted,
        n_apart=picks.n_apart,
        first_batch=picks.first_batch,
        is_of_table=np.array_equal(others, of_table),
        n_groups=0 if sample.groups is None else len(set(sample.groups[picks.rows].tolist())),
        **found,
    )


def _classes(sample: _Sample, y: NDArray[Any], guess: NDArray[Any], differ: Mapping[Any, float]) -> pd.DataFrame:
    """`Accuracy.classes`."""
    whole, plain = sample.whole, replace(sample, weight=np.ones(len(sample.weight)))
    picked = sample.at[sample.at >= 0]
    found = {}
    for label in dict.fromkeys(y.tolist()):
        of_class, guessed = (y == label).astype(np.float64), (guess == label).astype(np.float64)
        n, unsure = int(of_class.sum()), differ[label] * whole.value
        share = plain.share(of_class, 1 - of_class)
        left = Interval(*(one * end * sample.is_of_others for one, end in zip(share, plain.whole, strict=True)))
        parts = {
            "left": left,
            "share": sample.share(of_class, 1 - of_class),
            "found": Interval(*(n / (n + end) for end in (left.value, left.high, left.low))),
        }
        for name, all_of_it in (("recall", of_class), ("precision", guessed)):
            both, missed = of_class * guessed, all_of_it - of_class * guessed
            is_enough = all_of_it[picked].sum() >= FEWEST_OF_CLASS
            parts[name] = sample.share(both, missed, unsure) if is_enough else Interval(*[math.nan] * 3)
        ends = {"": 0, "_low": 1, "_high": 2}
        found[label] = {f"{name}{end}": parts[name][i] for name in parts for end, i in ends.items()}
    frame = pd.DataFrame.from_dict(found, orient="index").rename_axis("label")
    frame.insert(0, "labelled", [int(np.sum(y == label)) for label in frame.index])
    return frame.iloc[np.argsort((frame["labelled"] + frame["left"]).to_numpy(), kind="stable")]
