"""The report on a learner after a batch: what it measures, and its verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np
from scipy import stats

from .. import _containers as containers
from .._utils import html
from .._utils.randomness import check_random_state
from .._utils.types import Auto, LossName, StoppingMeasure, Verdict
from .._utils.validation import ParameterError, Rule, Rules, check_parameters, integer, number, one_of, task, whole_fit
from .._utils.validation.rules import warn
from ..risk import ActiveTester, RiskDifference, RiskEstimate
from ..risk._estimates import looked_at
from ._evidence import MEASURES, MOST_BATCHES, Gains, Known, Snapshot, Taught, Tested, Trust, scoring_for
from ._sentences import on_rows, sentences_of

HUNDRED = 100  # labels that the tolerance is the price of
HANDFUL = 5  # labels of a class, which are too few to say that further ones are not worth their price
FOUND = 100  # labels of the rarest class; below, five points of average precision are within its own chance
MOST_MODELS = 6  # earlier models that are kept within `patience` labels, about


@dataclass(frozen=True)
class StoppingReport:
    """Whether more labels are worth their cost, judged by what the last ones brought.

    Make one after every batch with `from_learner`, and pass each to the next as ``previous``. Its ``verdict`` is

    - "stop" if the risk is known to have reached its target, no row is left, or the ``rate`` over ``patience`` labels
      or more is below ``tolerance``, or clearly is by ``test``, and there is no ``doubt`` about the model;
    - "go on" if the rate is clearly not below it, by the lower end of ``trust`` or by ``test``;
    - "too early" without two previous reports, with labels of only one class, or over fewer than ``patience`` labels;
    - "cannot be told" if labels bring enough only by the model's own probabilities, which are not known to be reliable;
      if each row that was looked at equals one with a label; or if labels seem to bring less, and a class has at most
      five labels (for average precision, a hundred), or there is a ``doubt``.

    Attributes
    ----------
    labels : tuple of int
        How many labels the model had at each report so far.
    gains : tuple of float
        What the labels between two reports brought, in terms of ``measure``, on rows that still have no label. Those of
        "probabilities" are known one report later, as neither model judges itself. What changes back and forth counts
        each time: their sum estimates nothing.
    recent, n_recent : float, int
        What the last ``n_recent`` labels brought, between the model before them and the one after them.
    scoring : {"accuracy", "average_precision", "balanced_accuracy", "log_loss"} or None
        The score that gains refer to. None for regressors, and before there are two classes.
    measure : {"probabilities", "changes", "movement"}
        "probabilities": how much better, in terms of ``scoring``, the later model's predictions are than the earlier
        one's by the predict_proba of the model after both, times the slope of ``trust``. "changes", for models without
        predict_proba, whose predictions are not the most probable labels, or that cannot be copied: the fraction of
        predictions that changed, an upper bound on the change in accuracy on these rows. "movement", for regressors:
        the mean square of the change, in units of the variance of the labels.
    trust : Trust
        How far the model can be believed about itself, on labels of the last ten batches, which it had not been taught
        when they were bought: ``slope`` of labels (1 or 0 for each class) against its probabilities, both less the
        shares of the classes, ``low`` and ``high`` its 99 % interval, ``n_labels`` their number, ``confidence`` how
        sure it was, ``right`` how often it was right, and ``guess`` how often the commonest class was.
    advantage : float
        How much better than always guessing the class with the most labels, ``commonest``, the model is in terms of
        ``scoring``, by its probabilities on rows without a label, drawn towards the shares by the slope of ``trust``.
    known : Known or None
        By ``risk``, ``test``, or out-of-fold answers of a campaign: the accuracy (``value``, ``low``), that of always
        guessing one class (``guess``), and whether the interval is at most half of what is possible (``is_told``).
    doubt : {"", "unknown", "no better", "perhaps no better"}
        Why you should not stop with this model: its accuracy is not known yet; or it is no better than a guess; or, by
        ``trust.low``, ``advantage`` and ``known.low``, perhaps no better.
    fewest : int
        Labels of the rarest class; 0 for regressors. With only one class ``one_class`` is True.
    tested : RiskDifference or None
        With ``test``: how much larger the risk was before the last labels, of ``n_recent`` and the batch after them.
    changed : float
        Fraction of ``n_rows`` predictions that differ from the previous model's, on rows of the pool of the last batch
        without those bought: a thousand at random, or the ``whole_pool``. NaN in the first report, and for regressors.
    n_pool : int
        Rows without a label.
    risk, tolerance, patience, target_risk
        As passed to `from_learner`.

    References
    ----------
    Bloodgood and Vijay-Shanker (2009), A Method for Stopping Active Learning Based on Stabilizing Predictions and the
    Need for User-Adjustable Stopping, for comparing predictions on rows without labels; Bloodgood and Grothendieck
    (2013), Analysis of Stopping Active Learning based on Stabilizing Predictions, for bounds from their agreement.

    Examples
    --------
    >>> import numpy as np
    >>> from modAL.models import ActiveLearner
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skactive import StochasticBatchQuery, StoppingReport
    >>> X, y = load_digits(return_X_y=True)
    >>> X, left = X / 16, np.arange(50, len(y))
    >>> learner = ActiveLearner(
    ...     LogisticRegression(), StochasticBatchQuery(random_state=0), X_training=X[:50], y_training=y[:50]
    ... )
    >>> report = StoppingReport.from_learner(learner, X[left], random_state=0)
    >>> while report.verdict != "stop":
    ...     idx, _ = learner.query(X[left], n_instances=10)
    ...     learner.teach(X[left[idx]], y[left[idx]])
    ...     left = np.delete(left, idx)
    ...     report = StoppingReport.from_learner(learner, X[left], report, random_state=0)
    >>> print(report)
    1... labels: stop. The last ... labels brought ... of accuracy, by the model's own probabilities: ... points per 100
    labels. You asked to stop when 100 further labels bring less than 5 points of accuracy (`tolerance`). The last batch
    changed ... % of the predictions on 9... rows; below ... % on the pool, with 95 % confidence.
    """

    rules: ClassVar[Rules] = {
        "tolerance": number(
            0,
            1,
            text="between 0 and 1: the accuracy gain per 100 labels below which labelling should stop",
            remedy="0.05 is five points.",
        ),
        "patience": integer(),
        "scoring": one_of(["auto", *MEASURES]),
        "test": Rule(lambda test: isinstance(test, ActiveTester), "an ActiveTester, as of skactive.risk").or_none(),
        "risk": Rule(lambda risk: isinstance(risk, RiskEstimate), "a RiskEstimate, as of skactive.risk").or_none(),
        "target_risk": number(text="a finite number, the risk that is good enough").or_none(),
        "level": number(0, 1, ends="()", remedy="0.95 is usual."),
    }

    labels: tuple[int, ...]
    gains: tuple[float, ...]
    measure: str
    changed: float
    n_rows: int
    whole_pool: bool
    n_pool: int
    one_class: bool
    risk: RiskEstimate | None
    tolerance: float
    patience: int
    target_risk: float | None
    scoring: StoppingMeasure | None
    recent: float
    n_recent: int
    fewest: int
    trust: Trust
    advantage: float
    commonest: Any
    known: Known | None
    tested: RiskDifference | None
    _past: tuple[Snapshot, ...] = field(repr=False, compare=False)
    _batches: tuple[Tested, ...] = field(repr=False, compare=False)
    _taught: frozenset[Any] = field(repr=False, compare=False)

    @classmethod
    def from_learner(
        cls,
        learner: Any,
        X_pool: Any,
        previous: StoppingReport | None = None,
        *,
        tolerance: float = 0.05,
        patience: int = 30,
        risk: RiskEstimate | None = None,
        target_risk: float | None = None,
        scoring: StoppingMeasure | Auto = "auto",
        test: ActiveTester | None = None,
        X_training: Any = None,
        y_training: Any = None,
        random_state: Any = None,
    ) -> StoppingReport:
        """Report on a learner that was just taught, and the remaining pool.

        The cost is predictions for at most three thousand rows and the new labels, and a copy of the model.

        Parameters
        ----------
        learner : modAL learner, or fitted estimator
        X_pool : array-like of shape (n_points, ...)
            Rows without a label, in any container that `StochasticBatchQuery.select` takes; may be empty.
        previous : StoppingReport, optional
            The report after the previous batch.
        tolerance : float, default=0.05
            The accuracy gain per 100 labels below which labelling should stop: 0.05 is five points, or half a point for
            ten labels.
        patience : int, default=30
            Number of labels over which the mean gain must be below ``tolerance``.
        risk : RiskEstimate, optional
            Risk, or `~skactive.risk.ActiveTester.accuracy`, of this model or of the one before the last batch.
        target_risk : float, optional
            The risk, or accuracy, that is good enough.
        scoring : {"auto", "accuracy", "balanced_accuracy", "average_precision", "log_loss"}, default="auto"
            The score to improve, and the unit of ``tolerance``. "auto": accuracy; average precision if a class is rare,
            as a model that never predicts it is then mostly right: of two classes, with less than 30 % of the
            labels in any report so far; of more, with less than a fifth of an equal share in the first one. Of two
            classes, average precision is that of the rarer one, else the mean over classes. Log loss is in nats.
        test : ActiveTester, optional
            Separate labels to measure real differences: the risk of the model ``n_recent`` labels ago and that of now,
            on the same rows. Where their interval, which allows for a look after every batch, is on one side of
            ``tolerance``, it decides. None of its labels may be used in training.
        X_training, y_training : optional
            As in `StochasticBatchQuery.select`.
        random_state : None, int, numpy Generator or RandomState
            For the choice of rows.
        """
        check_parameters(cls.rules, locals())
        if risk is not None and risk.greater_is_better and target_risk is not None and not 0 <= target_risk <= 1:
            raise ValueError(
                f"`target_risk` must be a number from 0 to 1 for an accuracy. Got {target_risk}: give 0.85 for 85 %."
            )
        now = Taught.checked(learner, X_pool, X_training, y_training)
        rng = check_random_state(random_state)
        before = _Before.of(previous, now, patience)
        if scoring != "auto" and not now.is_classifier:
            raise ParameterError(
                f'`scoring` must be left at "auto" for a regressor. Got {scoring!r}, which is for classes.'
            )
        measured = scoring_for(now.counts, scoring, None if previous is None else previous.scoring)
        in_terms_of = measured or "accuracy"
        trust = Trust.of(before.batches)
        gains = Gains()
        with whole_fit(now.estimator, lambda: containers.take_rows(now.X, np.arange(1)), now.y):
            snapshot = Snapshot.of(now, rng)
            if previous is not None:
                left = before.past[-1].without(now.keys)
                previous._check_recognised(left, now)
                gains = Gains(previous.gains).after(now, before.past, left, trust.slope, in_terms_of)
            tested = _difference(test, before.past, snapshot.model, in_terms_of)
            known = Known.of(risk, test, now.estimator, snapshot)
            advantage = snapshot.advantage(trust.slope, in_terms_of) if now.is_classifier else np.nan
        report = cls(
            labels=(*before.labels, now.n_labels),
            n_pool=now.n_pool,
            one_class=len(now.counts) == 1,
            scoring=measured,
            fewest=int(now.counts.min()) if now.is_classifier else 0,
            trust=trust,
            advantage=advantage,
            commonest=snapshot.commonest,
            known=known,
            tested=tested,
            **vars(gains),
            risk=risk,
            tolerance=tolerance,
            patience=patience,
            target_risk=target_risk,
            _past=(*before.past, snapshot),
            _batches=before.batches,
            _taught=frozenset(now.keys),
        )
        if not report.n_rows and on_rows(report):  # a loop that waits for "stop" would use up the pool
            warn(on_rows(report))
        return report

    def _window(self, patience: int) -> tuple[Snapshot, ...]:
        """What is kept of earlier reports: from the last one that is ``patience`` labels back on, some of them."""
        past = self._past
        is_back = [then.n_labels <= self.labels[-1] - patience for then in past]
        past = past[max(0, sum(is_back) - 1) :]
        chosen = [past[0]] if len(past) > 2 else []
        for then in past[1:-2]:
            if then.n_labels - chosen[-1].n_labels >= max(1, patience // MOST_MODELS):
                chosen.append(then)
        return (*chosen, *past[-2:])

    def _check_earlier(self, now: Taught) -> None:
        """Check that a later report, on this pool and these labels, can follow this one."""
        if now.n_labels <= self.labels[-1]:
            raise ValueError(
                f"`previous` must be a report with fewer labels than the model has now. Got one with {self.labels[-1]} "
                f"labels, but now there are {now.n_labels}. Report once after each batch; omit `previous` if "
                "training starts again."
            )
        row = containers.take_rows(now.X_pool, np.arange(1)) if now.n_pool else self._past[-1].X
        if containers.layout(self._past[-1].X) != containers.layout(row):
            raise ValueError(
                "`previous` must be a report on rows like those of `X_pool`, with the same container and columns."
            )

    def _check_recognised(self, left: Snapshot, now: Taught) -> None:
        """Check that rows that left the pool are among the training rows, if those of the whole pool are known."""
        n_bought = now.n_labels - self.labels[-1]
        if left.is_all and len(left.predictions) == self.n_pool and 0 < now.n_pool <= self.n_pool - n_bought:
            raise ValueError(
                "`X_training` must hold the labelled rows with the values that they had in the pool. Got none "
                f"of the {self.n_pool} rows of the previous pool, though {self.n_pool - now.n_pool} have left it. "
                "Teach the rows that `learner.query` returns, or omit `previous` to start again."
            )

    @property
    def verdict(self) -> Verdict:
        """Whether to "go on" or to "stop", that it is "too early" to decide, or that this "cannot be told"."""
        by_gains = self.by_gains
        return "cannot be told" if by_gains == "stop" and self.n_pool and self.doubt else by_gains

    @property
    def by_gains(self) -> Verdict:
        """What the verdict would be if there were no doubt about the model."""
        if self.standing == "reached" or self.n_pool == 0:
            return "stop"
        if not self.gains or self.one_class:
            return "too early"
        is_enough = self.n_recent >= self.patience
        low, high = self._tested_rates()
        if low >= self.tolerance or high < self.tolerance:
            return "go on" if low >= self.tolerance else "stop" if is_enough else "too early"
        if self._surely() >= self.tolerance:
            return "go on"
        if not is_enough:
            return "too early"
        is_handful = 0 < self.fewest <= (FOUND if self.scoring == "average_precision" else HANDFUL)
        return "stop" if self.rate < self.tolerance and not is_handful else "cannot be told"

    @property
    def doubt(self) -> Literal["", "unknown", "no better", "perhaps no better"]:
        known = self.known
        if known and self.scoring == "accuracy" and known.value <= known.guess:
            return "no better"
        if known and not known.is_told and self.standing != "reached":
            return "unknown"
        is_better = (self.trust.low > 0 and self.advantage > 0) or (known and known.low > known.guess)
        is_better = is_better or self.standing == "reached" or self.commonest is None
        return "" if is_better else "perhaps no better"

    @property
    def rate(self) -> float:
        """What the last ``n_recent`` labels brought, for 100 of them; NaN if unknown."""
        return HUNDRED * self.recent / self.n_recent if self.n_recent else np.nan

    @property
    def labels_alone_fail(self) -> bool:
        """Whether a hundred labels or more have not shown that the model is better than a guess, and bring little."""
        return self.verdict != self.by_gains and "better" in self.doubt and self.labels[-1] >= HUNDRED

    def _surely(self) -> float:
        """The least that the rate is, as far as the model's word about itself is known to count; none of a bound."""
        if self.measure == "movement":
            return self.rate
        is_known = self.measure == "probabilities" and self.trust.slope > 0
        return self.rate * self.trust.low / self.trust.slope if is_known else 0.0

    def _tested_rates(self) -> tuple[float, float]:
        """Ends of the gain for 100 labels, as seen on test labels; infinite where it was not."""
        if self.tested is None or self.scoring not in _LOSSES or not np.isfinite(self.tested.more.largest_loss):
            return -np.inf, np.inf  # the interval of a loss without a bound, as a squared error, tells nothing
        low, high = self._tested_ends(self.tested)
        n_labels = self.labels[-1] - self._past[0].n_labels
        return HUNDRED * low / n_labels, HUNDRED * high / n_labels

    def _tested_ends(self, tested: RiskDifference) -> tuple[float, float]:
        """Those that decide: every report is a look, also at labels that were asked for once."""
        more, less = (looked_at(part, len(self.labels)) for part in (tested.more, tested.less))
        return replace(tested, more=more, less=less).interval(every_look=True)

    def changed_interval(self, level: float = 0.95) -> tuple[float, float]:
        """Confidence interval of ``changed`` on the whole pool (Clopper and Pearson)."""
        self.rules["level"].check("level", level)
        if np.isnan(self.changed) or self.whole_pool:
            return self.changed, self.changed
        n_changed = round(self.changed * self.n_rows)
        interval = stats.binomtest(n_changed, self.n_rows).proportion_ci(level)
        return float(interval.low), float(interval.high)

    def __str__(self) -> str:
        return " ".join([self._in_short(), *sentences_of(self).values()])

    def _repr_html_(self) -> str:
        return html.card(self._in_short(), [html.Table(list(sentences_of(self).items()), is_sentences=True)])

    def _in_short(self) -> str:
        return f"{self.labels[-1]} labels: {self.verdict}."

    @property
    def _risk_ends(self) -> tuple[float, float]:
        """Those of the risk that decide, each to 95 % for as many looks as reports at least; infinite if not known."""
        risk = self.risk and looked_at(self.risk, len(self.labels))
        if risk is None or (risk.step == risk.standard_error == 0 and risk.n_labelled < risk.n_pool):
            return -np.inf, np.inf  # all losses are equal, so their spread alone gives no interval
        low = risk.interval(side="lower", every_look=True)[0]
        return low, risk.interval(side="upper", every_look=True)[1]

    @property
    def standing(self) -> str:
        """Whether the risk is surely (to 95 %) on the good side of its target, on the other, or ("") neither."""
        if self.risk is None or self.target_risk is None:
            return ""
        above, below = self._risk_ends[0] >= self.target_risk, self._risk_ends[1] <= self.target_risk
        reached, missed = (above, below) if self.risk.greater_is_better else (below, above)
        return "reached" if reached else "missed" if missed else ""


@dataclass(frozen=True)
class _Before:
    """What earlier reports left: numbers of labels, models, and tests of these on labels that came later."""

    labels: tuple[int, ...] = ()
    past: tuple[Snapshot, ...] = ()
    batches: tuple[Tested, ...] = ()

    @classmethod
    def of(cls, previous: Any, now: Taught, patience: int) -> _Before:
        if previous is None:
            return cls()
        if not isinstance(previous, StoppingReport):
            raise TypeError(
                f"`previous` must be the StoppingReport after the previous batch. Got a {type(previous).__name__}."
            )
        previous._check_earlier(now)
        past, batches = previous._window(patience), previous._batches
        last, new = past[-1], np.flatnonzero([key not in previous._taught for key in now.keys])
        if now.is_classifier:
            tested = Tested.of(last, containers.take_rows(now.X, new), now.y[new])
            batches = (*batches, *([] if tested is None else [tested]))[-MOST_BATCHES:]
        return cls(previous.labels, past, batches)


# whose differences on test labels are in units of the gain
_LOSSES: dict[str, LossName] = {"accuracy": "zero_one", "log_loss": "log_loss"}


def _difference(test: ActiveTester | None, past: Sequence[Snapshot], now: Any, scoring: str) -> RiskDifference | None:
    """How much larger the risk of the first model was on test labels; None of models that cannot be copied."""
    if test is None or not past or past[0].model is None or now is None:
        return None
    loss: LossName = "squared_error" if task(now) == "regressor" else _LOSSES.get(scoring, "zero_one")
    return test.difference(past[0].model, now, loss)
