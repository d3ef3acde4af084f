"""Results of benchmarks as text for a terminal and as reStructuredText for the documentation."""

from __future__ import annotations

from typing import Any

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
    lines = [f"Measured on {machine}.", "", ".. list-table::", "   :header-rows: 1", ""]
    for cells in [("work", *HEADER), *_documented(result)]:
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
