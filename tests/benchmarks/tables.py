"""Results of benchmarks as text for a terminal and as reStructuredText for the documentation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

SUMMARY = {
    "20 draws of a 64-256-256-10 net for 100,000 rows": (
        ("draws", "draws, 64-256-256-10, p 0.5, 100,000 rows, 20 draws"),
        ("dropout left on", "full-width fixed masks"),
    ),
    "BALD of 200,000 rows, 20 draws, 10 classes": (
        ("scores", "BALD of (20, 200,000, 10)"),
        ("numpy, float32", "baal", "scikit-activeml"),
    ),
    "100 of 10,000,000 rows by power": (
        ("selection", "power, 100 of 10,000,000"),
        ("Generator.choice without replacement", "Gumbel noise, argpartition"),
    ),
    "a whole query of 100 of 100,000 rows, 20 draws of a 128-128 net": (
        ("query", "query of 100 of 100,000 x 32, 20 draws of a 128-128 net"),
        ("draws with dropout left on",),
    ),
    "BatchBALD, 5 of 1,000 rows": (
        ("batchbald", "(20, 1,000, 10), 10,000 outcomes, k = 5"),
        ("batchbald_redux", "scikit-activeml", "baal"),
    ),
    "BADGE, 100 of 10,000 rows, 10 classes x 512 units": (
        ("badge", "BADGE, 100 of 10,000, 10 classes x 512 units"),
        ("scikit-activeml",),
    ),
    "a refit of a net to 200 rows, 200 epochs": (
        ("fit", "refit, 200 rows, 200 epochs, batches of 64"),
        ("skorch", "MLPClassifier of scikit-learn"),
    ),
}
"""What stands on top of the page on performance: work in words, its topic and case, and ways beside ours."""

HEADER = ("way", "CPU s", "times ours", "target", "extra MiB", "runs")


def as_text(record: dict[str, Any]) -> str:
    lines = [f"\n{record['name']}  ({_threads(record)})"]
    if "error" in record:
        return "\n".join([*lines, f"  failed: {' '.join(record['error'])}"])
    widths = [max(len(row["way"]) for row in record["rows"]), 9, 10, 6, 9, 4]
    for cells in [HEADER, *map(_cells, record["rows"])]:
        way, *numbers = cells
        padded = (f"{number:>{width}}" for number, width in zip(numbers, widths[1:], strict=True))
        lines.append(f"  {way:<{widths[0]}}  {'  '.join(padded)}")
    return "\n".join(lines)


def as_rst(result: dict[str, Any]) -> str:
    machine = ", ".join(f"{key} {value}" if key != "cpu" else value for key, value in result["machine"].items())
    return f"Measured on {machine}.\n\n" + _list_table([("work", *HEADER), *_documented(result)])


def summary(results: Mapping[str, dict[str, Any]]) -> str:
    """The main ratios, from the results of all topics."""
    rows = [("work", "CPU s of skactive", "another way", "times ours")]
    for work, ((topic, name), ways) in SUMMARY.items():
        ours, *others = next(case for case in results[topic]["cases"] if case["name"] == name)["rows"]
        ratios = {row["way"]: row["ratio"] for row in others}
        cells = [(way, f"{ratios[way]:{'.2g' if ratios[way] < 10 else '.0f'}}") for way in ways]
        rows += [(work, f"{ours['cpu_s']:.2g}", *cells[0]), *(("", "", *more) for more in cells[1:])]
    return _list_table(rows)


def _list_table(rows: Sequence[tuple[str, ...]]) -> str:
    lines = [".. list-table::", "   :header-rows: 1", ""]
    for cells in rows:
        lines += [f"   {'*' if i == 0 else ' '} - {cell}".rstrip() for i, cell in enumerate(cells)]
    return "\n".join(lines) + "\n"


def _documented(result: dict[str, Any]) -> list[tuple[str, ...]]:
    rows = []
    for record in result["cases"]:
        if "error" in record:
            rows.append((f"{record['name']} ({_threads(record)})", "failed", "", "", "", "", ""))
        for i, row in enumerate(record.get("rows", [])):
            rows.append((f"{record['name']} ({_threads(record)})" if i == 0 else "", *_cells(row)))
    return rows


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    ratio = f"{row['ratio']:.3g}"
    target = "" if row["target"] is None else f"{row['target']:g}"
    return row["way"], f"{row['cpu_s']:.3g}", ratio, target, f"{row['peak_mib']:.0f}", str(row["runs"])


def _threads(record: dict[str, Any]) -> str:
    return "1 thread" if record["threads"] == 1 else f"{record['threads']} threads"
