"""The page "What we could and could not reproduce" and one page a study, from the files of results."""

from __future__ import annotations

import importlib
import inspect
import json
import math
import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import study
from scipy import optimize, stats

from skactive._utils.statistics import holm

PARTS = {
    "The paper: accuracy and seconds": (
        "repeated_mnist",
        "repeated_digits",
        "many_trials",
        "table_1",
        "large_pools",
        "tabular",
        "characters",
        "clinc",
        "causal",
        "last_layer",
    ),
    "The paper: size of batches, coldness, other scores": ("batch_size", "beta", "other_scores"),
    "The paper: why it works": ("score_distributions", "rank_correlations", "hypo_exponential"),
    "Beyond the paper: which query": (
        "which_query",
        "probabilities",
        "laplace",
        "epig",
        "cold_start",
        "model_choice",
        "several_outputs",
    ),
    "Beyond the paper: when to stop, and how good a model is": ("stopping", "unbiased_risk", "risk_intervals"),
}
"""Studies by what they are about, the paper's in its order."""

HEADER = ("claim", "setting", "units", "found", "p, adjusted", "verdict")
VERDICTS = {
    "seen": "seen",
    "hinted": "hint",
    "cannot be told": "untold",
    "not seen": "unseen",
    "the opposite hinted": "untold",
    "the opposite": "opposite",
}
"""Verdicts, and the roles of reStructuredText that mark them."""
ROLES = [f".. role:: {role}" for role in dict.fromkeys(VERDICTS.values())]
HINTS = {name: f"{name} hinted" for name in ("the opposite", "better", "worse")} | {"seen": "hinted"}
"""What is left of a verdict whose p-value is above 0.05 after the correction."""
OPENING = ("topk", "uniform", "BADGE", "BatchBALD")


def read(folder: Path) -> dict[str, dict[str, Any]]:
    """Results by study, in the order of the page, with p-values and verdicts after the correction."""
    records = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*.json")}
    order = [name for names in PARTS.values() for name in names]
    if nowhere := records.keys() - set(order):
        raise ValueError(f"`PARTS` must name every study whose results lie in {folder}. It lacks {sorted(nowhere)}.")
    records = {name: records[name] for name in order if name in records}
    _adjust([claim for record in records.values() for claim in record["claims"]])
    return records


def as_rst(records: Mapping[str, dict[str, Any]]) -> str:
    """All claims in a few tables, one row a claim, with links to the pages of the studies."""
    lines = [*ROLES, "", f"{_counts(records.values())}.", "", *_opening(list(records.values()))]
    for title, names in PARTS.items():
        if studies := [records[name] for name in names if name in records]:
            lines += [title, "-" * len(title), "", f"{_counts(studies)}.", ""]
            lines += [".. toctree::", "   :hidden:", f"   :caption: {title}", ""]
            lines += [*(f"   {_short(record['title'])} <paper/{record['study']}>" for record in studies), ""]
            rows = [row for record in studies for row in _verdicts(record)]
            lines += table("", ("claim", "verdict", "found", "units", "study"), rows, widths=(37, 13, 30, 5, 15))
    return "\n".join(lines).rstrip() + "\n"


def _counts(records: Iterable[dict[str, Any]]) -> str:
    """How many claims there are, and what became of them."""
    counts = Counter(claim["verdict"].split(";")[0] for record in records for claim in record["claims"])
    return f"{sum(counts.values())} claims: " + ", ".join(f"{counts[name]} {name}" for name in VERDICTS if counts[name])


def _verdicts(record: dict[str, Any]) -> list[tuple[str, ...]]:
    claims, link = record["claims"], f":ref:`{_short(record['title'])} <{record['study']}>`"
    return [
        (_in_words(claim, claims), _marked(claim["verdict"]), _main_number(claim["ours"]), str(claim["trials"]), link)
        for claim in claims
    ]


def _short(title: str) -> str:
    return title if len(title) <= 32 else re.split("[:,] ", title)[0]


def _marked(verdict: str) -> str:
    return f":{VERDICTS[verdict.split(';')[0]]}:`{verdict}`"


def _main_number(ours: str) -> str:
    """What was found, without the margin and without long remarks in brackets."""
    return re.sub(r"; margin.*| \([^()]{40,}\)", "", ours)


def _in_words(claim: dict[str, Any], claims: Sequence[dict[str, Any]]) -> str:
    """The statement, and what tells its setting from others that the same is said of."""
    settings = [re.split("[,;] ", c["setting"]) for c in claims if c["statement"] == claim["statement"]]
    here, telling = re.split("[,;] ", claim["setting"]), []
    for i in range(min(map(len, settings))):
        known = {tuple(setting[j] for j in telling) for setting in settings}
        if len({tuple(setting[j] for j in [*telling, i]) for setting in settings}) > len(known):
            telling.append(i)
    return claim["statement"] + (f" ({', '.join(here[i] for i in telling)})" if telling else "")


def guide_parts(records: Mapping[str, dict[str, Any]]) -> dict[str, str]:
    """What pages of the guide include, by study: what one says of its findings in a few sentences."""
    modules = {name: (importlib.import_module(name), record) for name, record in records.items()}
    return {
        name: "\n\n".join(
            part
            if part.startswith((".. ", "   "))  # a table keeps its lines
            else textwrap.fill(part, 120, break_on_hyphens=False, subsequent_indent="  " * part.startswith("* "))
            for part in module.guide(record["findings"]).split("\n\n")
        )
        + "\n"
        for name, (module, record) in modules.items()
        if hasattr(module, "guide")
    }


def _adjust(claims: list[dict[str, Any]]) -> None:
    """Correct the p-values of all claims at once (Holm, 1979); a verdict whose p is then above 0.05 is a hint."""
    p_values = [np.nan if c[key] is None else c[key] for c in claims for key in ("p", "second_p")]
    for claim, p in zip(claims, np.reshape(holm(p_values), (-1, 2)), strict=True):
        said = claim["verdict"].split("; ")
        claim["verdict"] = "; ".join(HINTS.get(v, v) if q > 0.05 else v for v, q in zip(said, p, strict=False))
        claim["adjusted"] = "" if np.isnan(p[0]) else f"{p[0]:.2g}" if p[0] >= 0.001 else "< 0.001"


def settings(records: list[dict[str, Any]]) -> dict[str, dict[str, list[float]]]:
    """Independent settings, each with the values of its queries, one a trial: of a table, the mean over its models."""
    by_name = {record["study"]: record["findings"] for record in records}
    found: dict[str, dict[str, list[float]]] = {}
    for part in by_name.get("tabular", {}).values():
        for table, of_queries in next(iter(part["accuracy"].values())).items():
            of_models = [of[table] for of in part["accuracy"].values()]
            found[table] = {q: np.mean([values[q] for values in of_models], axis=0).tolist() for q in of_queries}
    for name, path in OTHER_SETTINGS.items():
        values: Any = by_name
        for key in path:
            values = values.get(key, {})
        if values:
            found[name] = values
    return found


OTHER_SETTINGS = {
    "repeated digits, net": ("repeated_digits", "net", "means"),
    "repeated MNIST": ("repeated_mnist", "means", "4"),
    "last layer": ("last_layer", "means"),
    "letter, large": ("large_pools", "letter", "accuracy", "means"),
    "shuttle, large": ("large_pools", "shuttle", "accuracy", "means"),
}


def random_effects(means: Sequence[float], errors: Sequence[float]) -> tuple[float, float, float, float]:
    """Mean over settings, the ends of its 95 % interval, and the spread between settings.

    The spread is that of Paule and Mandel (1982), the interval that of Hartung and Knapp (2001).
    """
    y, v = np.asarray(means), np.asarray(errors) ** 2
    n = len(y)

    def excess(spread: float) -> float:
        w = 1 / (v + spread)
        return float(w @ (y - w @ y / w.sum()) ** 2) - (n - 1)

    spread = float(optimize.brentq(excess, 0, 100 * np.var(y) + 1)) if excess(0) > 0 else 0.0
    w = 1 / (v + spread)
    mean = float(w @ y / w.sum())
    half = float(stats.t.ppf(0.975, n - 1) * np.sqrt(w @ (y - mean) ** 2 / ((n - 1) * w.sum())))
    return mean, mean - half, mean + half, math.sqrt(spread)


def _opening(records: list[dict[str, Any]]) -> list[str]:
    """What all settings together say of power sampling from BALD with beta = 1."""
    found, rows = settings(records), []
    for reference in OPENING:
        differences = {
            name: 100 * np.subtract(values["power"], values[reference])
            for name, values in found.items()
            if "power" in values and reference in values
        }
        if len(differences) < 3:
            continue
        means = [float(d.mean()) for d in differences.values()]
        errors = [float(d.std(ddof=1) / math.sqrt(len(d))) for d in differences.values()]
        mean, low, high, spread = random_effects(means, errors)
        below = sum(value < 0 for value in means)
        interval = study.with_interval(study.Estimate(mean, low, high), 1, sign=True)
        rows.append((f"power − {reference}", interval, f"{spread:.1f}", f"{below} of {len(means)}"))
    header = ("difference", "points of accuracy", "spread between settings", "settings below 0")
    caption = "All settings together: power sampling from BALD, beta = 1, minus others (random effects)"
    return table(caption, header, rows) if rows else []


def study_page(record: dict[str, Any]) -> str:
    """What a study asks, its picture, its claims with their settings, and its tables."""
    title, name = record["title"], record["study"]
    rows, above = [], ""
    for c in record["claims"]:
        setting, above = "as above" if c["setting"] == above else c["setting"], c["setting"]
        rows.append((c["statement"], setting, str(c["trials"]), c["ours"], c["adjusted"], _marked(c["verdict"])))
    lines = [*ROLES, "", f".. _{name}:", "", title, "=" * len(title), ""]
    lines += [inspect.getdoc(importlib.import_module(name)) or "", "", f"{_counts([record])}.", ""]
    lines += [f".. image:: {name}.png", f"   :alt: {importlib.import_module(name).ALT}", "   :width: 100%", ""]
    lines += table("", HEADER, rows, widths=(27, 26, 7, 24, 8, 12))
    for caption, header, cells in _tables(record):
        lines += table(caption, header, cells)
    made = f"``examples/paper/{name}.py --{record['size']}``"
    lines += [f"Made by {made} in {_duration(record['seconds'])} on {_machine(record['machine'])}.", ""]
    return "\n".join([*lines, ":doc:`All claims, and how to read them <../reproduction>`."]) + "\n"


def _tables(record: dict[str, Any]) -> list[tuple[str, Sequence[str], list[Sequence[str]]]]:
    """Tables that a study makes of its findings."""
    module = importlib.import_module(record["study"])
    return module.tables(record["findings"]) if hasattr(module, "tables") else []


def table(
    caption: str, header: Sequence[str], rows: Iterable[Sequence[str]], widths: Sequence[int] | None = None
) -> list[str]:
    lines = [f".. list-table:: {caption}".rstrip(), "   :header-rows: 1"]
    lines += ["   :class: claims", f"   :widths: {' '.join(map(str, widths))}"] if widths else []
    for row in [header, *rows]:
        lines += [""] * (row is header)
        lines += [
            f"   {'*' if i == 0 else ' '} - {_unbroken(cell) if widths else cell}".rstrip()
            for i, cell in enumerate(row)
        ]
    return [*lines, ""]


def _unbroken(cell: str) -> str:
    """The text with intervals that no line break can part."""
    return re.sub(r"(\S+) \[(\S+), (\S+)\]", r"\1{0}[\2,{0}\3]".format("\N{NO-BREAK SPACE}"), cell)


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _machine(machine: dict[str, Any]) -> str:
    return ", ".join(f"{key} {value}" if key != "cores" else f"{value} cores" for key, value in machine.items())
