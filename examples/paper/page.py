"""The page "What we could and could not reproduce", from the files of results."""

from __future__ import annotations

import importlib
import json
import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

HEADER = ("claim", "setting", "trials", "found", "verdict")


def as_rst(folder: Path) -> str:
    """All studies whose results lie in the folder: what they claim, their tables and figures."""
    records = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
    counts = Counter(claim["verdict"] for record in records for claim in record["claims"])
    verdicts = ", ".join(f"{verdict}: {n}" for verdict, n in counts.most_common())
    lines = [f"{sum(counts.values())} claims ({verdicts}).", ""]
    return "\n".join([*lines, *(line for record in records for line in _study(record))]).rstrip() + "\n"


def guide_parts(folder: Path) -> dict[str, str]:
    """What pages of the guide include, by study: what one says of its findings in a few sentences."""
    records = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
    modules = {record["study"]: (importlib.import_module(record["study"]), record) for record in records}
    return {
        name: "\n\n".join(
            textwrap.fill(part, 120, break_on_hyphens=False, subsequent_indent="  " * part.startswith("* "))
            for part in module.guide(record["findings"]).split("\n\n")
        )
        + "\n"
        for name, (module, record) in modules.items()
        if hasattr(module, "guide")
    }


def _study(record: dict[str, Any]) -> list[str]:
    title, name = record["title"], record["study"]
    rows = [
        (c["statement"], c["setting"], str(c["trials"]), c["ours"], f"**{c['verdict']}**") for c in record["claims"]
    ]
    lines = [f".. _{name}:", "", title, "-" * len(title), ""]
    lines += [f"``{name}.py --{record['size']}``, {_duration(record['seconds'])} on {_machine(record['machine'])}.", ""]
    lines += table("", HEADER, rows, widths=(28, 28, 7, 25, 12))
    for caption, header, cells in _tables(record):
        lines += table(caption, header, cells)
    return [*lines, f".. image:: paper/{name}.png", f"   :alt: {title}", "   :width: 100%", ""]


def _tables(record: dict[str, Any]) -> list[tuple[str, Sequence[str], list[Sequence[str]]]]:
    """Tables that a study makes of its findings."""
    study = importlib.import_module(record["study"])
    return study.tables(record["findings"]) if hasattr(study, "tables") else []


def table(
    caption: str, header: Sequence[str], rows: Iterable[Sequence[str]], widths: Sequence[int] | None = None
) -> list[str]:
    lines = [f".. list-table:: {caption}".rstrip(), "   :header-rows: 1"]
    lines += [f"   :widths: {' '.join(map(str, widths))}"] if widths else []
    for row in [header, *rows]:
        lines += [""] * (row is header)
        lines += [f"   {'*' if i == 0 else ' '} - {cell}".rstrip() for i, cell in enumerate(row)]
    return [*lines, ""]


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _machine(machine: dict[str, Any]) -> str:
    return ", ".join(f"{key} {value}" if key != "cores" else f"{value} cores" for key, value in machine.items())
