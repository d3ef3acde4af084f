"""What a report on a learner says in words."""

from __future__ import annotations

from typing import Any

import numpy as np

NEAR = 0.95  # fraction of the ceiling above which a score would rise with more draws


def sentences_of(report: Any) -> dict[str, str]:
    """What there is to say of a `StoppingReport`, by what it is about."""
    found = {
        "labels": _on_labels(report),
        "gain": _on_gains(report),
        "trust": _on_trust(report),
        "test": _on_test(report),
        "predictions": _on_predictions(report),
        "risk": _on_risk(report),
        "scores": _on_scores(report),
    }
    return {topic: sentences for topic, sentences in found.items() if sentences}


def _on_labels(report: Any) -> str:
    if report.n_pool == 0:
        return "No rows are left."
    if report.one_class:
        return "They are all of one class, which is too few to learn from."
    if report.gains or report.verdict == "stop":
        return ""
    return "Pass this report as `previous` after the next batch."


def _on_gains(report: Any) -> str:
    if not report.gains or report.one_class or np.isnan(report.rate):
        return ""
    name, unit = report.scoring.replace("_", " "), _nats if report.scoring == "log_loss" else _points
    brought = {
        "probabilities": f"brought {unit(report.recent)} of {name}, by the model's own probabilities",
        "changes": f"brought at most {_points(report.recent)} of accuracy, since no more predictions changed",
        "movement": f"moved predictions by {_percent(report.recent)} of the variance of the labels",
    }[report.measure]
    of_hundred = (_percent if report.measure == "movement" else unit)(report.rate)
    few = f", over at least {report.patience} labels (`patience`)" if report.verdict == "too early" else ""
    asked = f"{report.tolerance:g}" if unit is _nats else f"{100 * report.tolerance:g}"
    return f"The last {report.n_recent} {brought}: {of_hundred} per 100 labels; `tolerance` asks for {asked}{few}."


def _on_trust(report: Any) -> str:
    if report.measure == "movement" or not report.gains or report.one_class:
        return ""
    trust, parts = report.trust, []
    if trust.n_labels and trust.is_wrong_about_itself:
        parts.append(
            f"The model is overconfident: on the last {trust.n_labels} labels it was {_percent(trust.confidence)} "
            f"confident but {_percent(trust.right)} accurate before training on them. Estimated gains are scaled by "
            f"{trust.slope:.2g}."
        )
    if report.verdict != "cannot be told":
        return " ".join(parts)
    if report.rate < report.tolerance:
        parts.append(f"A class has {report.fewest} labels only, which say little about the next ones.")
    elif report.measure == "changes":
        parts.append("This is only an upper bound. Pass `test=` (labelled test rows) to measure the gain.")
    else:
        parts.append(
            "Its confidence is not known to mean anything. Pass `test=` (labelled test rows) to measure the gain."
        )
    return " ".join(parts)


def _on_test(report: Any) -> str:
    if report.tested is None:
        return ""
    low, high = (100 * end for end in report.tested.interval())
    if report.scoring == "log_loss" or report.measure == "movement":
        return f"On {report.tested.n_labelled} test labels the loss fell by {report.tested.value:.2g} over these."
    return (
        f"On {report.tested.n_labelled} test labels these brought {100 * report.tested.value:+.2g} points of accuracy "
        f"(95 % interval {low:+.2g} to {high:+.2g})."
    )


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
    if report.standing == "reached":
        return f"The {name} has reached its target of {report.target_risk:g}: {report.risk}."
    if report.standing == "missed" and report.verdict == "stop":
        remedy = "Another model, or other columns, may help where labels do not."
        return f"The {name} misses its target of {report.target_risk:g}: {report.risk}. {remedy}"
    return f"The {name} is not known to have reached its target of {report.target_risk:g}: {report.risk}."


def _on_scores(report: Any) -> str:
    if np.isnan(report.best_score):
        return ""
    if report.best_score > NEAR * report.ceiling:
        return "The draws disagree as much as they can: with more draws, scores would rank rows better."
    if report.best_score <= report.floor:
        return "Scores differ by no more than the noise of the draws: use more draws, or choose rows at random."
    times = report.best_score / report.mean_score
    if report.ceiling == np.inf:
        return f"The model is {times:.2g} times as uncertain in the best tenth of the pool as in its average row."
    return f"By BALD, the best tenth of the pool is {times:.2g} times as informative as its average row."


def _points(gain: float) -> str:
    return f"{100 * gain:.2g} points"


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %" if share < 0.995 else f"{100 * share:.0f} %"


def _nats(gain: float) -> str:
    return f"{gain:.2g} nats"
