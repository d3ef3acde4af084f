"""What a report on a learner says in words."""

from __future__ import annotations

from typing import Any

import numpy as np

_HARDLY_ANY = 0.1  # of the rows that were looked at, on which little can be compared


def sentences_of(report: Any) -> dict[str, str]:
    """What there is to say of a `StoppingReport`, by what it is about."""
    found = {
        "labels": _on_labels(report),
        "gain": _on_gains(report),
        "rows": on_rows(report),
        "trust": _on_trust(report),
        "guess": _on_guess(report),
        "test": _on_test(report),
        "predictions": _on_predictions(report),
        "risk": _on_risk(report),
    }
    return {topic: sentences for topic, sentences in found.items() if sentences}


def _on_labels(report: Any) -> str:
    if report.n_pool == 0:
        return "No rows are left."
    if report.one_class:
        return "They all have one class, and a model needs two."
    if report.gains or report.verdict == "stop":
        return ""
    return "Pass this report as `previous` after the next batch."


def _on_gains(report: Any) -> str:
    if not report.gains or report.one_class or np.isnan(report.rate):
        return ""
    moved = report.measure == "movement"
    unit = _percent if moved else _nats if report.scoring == "log_loss" else _points
    name = "the variance of the labels" if moved else (report.scoring or "accuracy").replace("_", " ")
    brought = {
        "probabilities": f"brought {unit(report.recent)} of {name}, by the model's own probabilities",
        "changes": f"brought at most {_points(report.recent)} of accuracy, since no more predictions changed",
        "movement": f"moved predictions by {unit(report.recent)} of {name}",
    }[report.measure]
    last = "label" if report.n_recent == 1 else f"{report.n_recent} labels"
    few = f", over {report.patience} or more (`patience`)" if report.verdict == "too early" else ""
    return (
        f"The last {last} {brought}: {unit(report.rate)} per 100 labels. You asked to stop when 100 further labels "
        f"bring less than {unit(report.tolerance)} of {name} (`tolerance`){few}."
    )


def on_rows(report: Any) -> str:
    """What to do where hardly any row is left to compare predictions on."""
    n_looked = len(report._past[-1].predictions)
    if not report.gains or report.one_class or report.n_rows >= _HARDLY_ANY * n_looked:
        return ""
    few = f"Only {report.n_rows} of {n_looked} unlabelled rows differ from all labelled ones: too few to compare."
    return f"{few} Set a number of labels at which to stop. Pass `test=` (labelled test rows) to measure the gain."


def _on_trust(report: Any) -> str:
    if report.measure == "movement" or not report.gains or report.one_class or np.isnan(report.rate):
        return ""
    trust, parts = report.trust, []
    if report.measure == "probabilities" and trust.high < 1 and trust.right < trust.confidence:
        parts.append(
            f"The model is overconfident: on the last {trust.n_labels} labels it was {_percent(trust.confidence)} "
            f"confident but {_percent(trust.right)} accurate before training on them. Estimated gains are scaled by "
            f"{trust.slope:.2g}."
        )
    if report.by_gains != "cannot be told":
        return " ".join(parts)
    if report.rate < report.tolerance:
        parts.append(
            f"A class has only {report.fewest} label{'s' * (report.fewest != 1)}, too few to predict the next ones."
        )
    elif report.measure == "changes":
        parts.append("This is only an upper bound. Pass `test=` (labelled test rows) to measure the gain.")
    else:
        parts.append(
            "Its confidence is not known to be reliable. Pass `test=` (labelled test rows) to measure the gain."
        )
    return " ".join(parts)


def _on_guess(report: Any) -> str:
    """How good it is to name always the commonest class, and why nobody should stop with this model."""
    known, trust, parts = report.known, report.trust, []
    if known is not None and known.commonest is not None:
        of_what = " of the labels taught"
        if not np.isnan(known.ends[0]):
            of_what = " ({} to {})".format(*(_percent(min(max(end, 0.0), 1.0)) for end in known.ends))
        parts.append(f"Always guessing {str(known.commonest)!r} is right in {_percent(known.guess)}{of_what}.")
    if report.verdict == report.by_gains:
        return " ".join(parts)
    if report.doubt == "unknown":
        return " ".join([*parts, "Its accuracy is not known yet: label more rows."])
    if report.doubt == "no better":
        parts.append("The model is no better than always guessing the commonest class.")
    else:
        parts.append(
            f"It is not known to be better than always guessing {str(report.commonest)!r}: before training on the last "
            f"{trust.n_labels} labels the model was right in {_percent(trust.right)} of them, that guess in "
            f"{_percent(trust.guess)}."
        )
    remedy = "Labels alone have not helped: try other columns or another model, or test it (`test=`)."
    return " ".join([*parts, remedy if report.labels_alone_fail else "More labels will show."])


def _on_test(report: Any) -> str:
    if report.tested is None:
        return ""
    if report.scoring == "log_loss" or report.commonest is None:
        return f"On {report.tested.n_labelled} test labels these reduced the loss by {report.tested.value:.2g}."
    low, high = (100 * end for end in report._tested_ends(report.tested))
    brought = f"these brought {100 * report.tested.value:+.2g} points of accuracy"
    ends = f"95 % interval, {_for_looks(report, report.tested.more)}, {low:+.2g} to {high:+.2g}"
    return f"On {report.tested.n_labelled} test labels {brought} ({ends})."


def _on_predictions(report: Any) -> str:
    if np.isnan(report.changed):
        return ""
    below = f"; below {_percent(report.changed_interval(0.9)[1])} on the pool, with 95 % confidence"
    return (
        f"The last batch changed {_percent(report.changed)} of the predictions on {report.n_rows} rows"
        f"{'' if report.whole_pool else below}."
    )


def _on_risk(report: Any) -> str:
    if report.risk is None:
        return ""
    name = "accuracy" if report.risk.greater_is_better else "risk"
    if report.target_risk is None:
        return f"The {name} is {report.risk}."
    target, found = f"its target of {report.target_risk:g}", f"{_deciding(report)}: {report.risk}."
    if report.standing == "reached":
        return f"The {name} has reached {target}{found}"
    if report.standing == "missed" and report.verdict == "stop":
        remedy = "Another model, or other columns, may help where labels do not."
        return f"The {name} misses {target}{found} {remedy}"
    return f"The {name} is not known to have reached {target}{found}"


def _deciding(report: Any) -> str:
    """The end of the interval that decides, if there is one."""
    is_upper = report.risk.greater_is_better == (report.standing == "missed")
    end, side = report._risk_ends[is_upper], "below" if is_upper else "above"
    return f" ({_for_looks(report, report.risk)}, {side} {end:.3g})" if np.isfinite(end) else ""


def _for_looks(report: Any, risk: Any) -> str:
    n = max(risk.n_looks, len(report.labels))
    return f"allowing for {n} look{'s' * (n > 1)}"


def _points(gain: float) -> str:
    number = _number(100 * gain)
    return f"{number} point{'' if number == '1' else 's'}"


def _percent(share: float) -> str:
    return f"{_number(100 * share)} %"


def _number(value: float) -> str:
    """Two digits, or all before the point."""
    return f"{value:.2g}" if abs(value) < 99.5 else f"{value:.0f}"


def _nats(gain: float) -> str:
    return f"{_number(gain)} nats"
