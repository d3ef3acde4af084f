"""Time and memory of the parts of skactive beside the plain ways of doing the same.

``python tests/benchmarks`` runs all topics, ``python tests/benchmarks selection draws`` some, ``--list`` names them.
``--write`` also keeps the results in docs/benchmarks/<topic>.json, beside those of cases that were not run, and makes
the tables of the documentation from them.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import common
import tables

HERE = Path(__file__).parent
RESULTS = HERE.parents[1] / "docs" / "benchmarks"
TOPICS = sorted(path.stem.removeprefix("bench_") for path in HERE.glob("bench_*.py"))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python tests/benchmarks", description=__doc__.partition("\n")[0])
    parser.add_argument("topics", nargs="*", choices=[*TOPICS, []], help=f"some of: {', '.join(TOPICS)}")
    parser.add_argument("--only", default="", help="run the cases with this in their names")
    parser.add_argument("--threads", type=int, default=1, help="threads for torch and BLAS (default: 1)")
    parser.add_argument("--list", action="store_true", help="name the cases and run none")
    parser.add_argument("--write", action="store_true", help="keep the results for the documentation")
    parser.add_argument("--case", type=int, help=argparse.SUPPRESS)  # how this command calls itself
    return parser.parse_args()


@functools.cache
def cases(topic: str) -> list[common.Case]:
    """Those of a topic, in the order of its file: importing it registers them."""
    common.CASES.clear()
    importlib.import_module(f"bench_{topic}")
    return list(common.CASES)


def run_here(topic: str, number: int) -> None:
    import torch

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    print("\n" + json.dumps(common.measure(cases(topic)[number])))


def run_apart(topic: str, number: int, case: common.Case, threads: int) -> dict[str, Any]:
    """One case in a process of its own: its memory is its own, and so is its failure."""
    threads = case.threads or threads
    of_threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
    command = [sys.executable, str(HERE), topic, "--case", str(number)]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | of_threads, check=False)
    if done.returncode:
        return {"name": case.name, "threads": threads, "error": done.stderr.strip().splitlines()[-1:]}
    return {"name": case.name, "threads": threads, "rows": json.loads(done.stdout.splitlines()[-1])}


def machine() -> dict[str, Any]:
    import numpy
    import sklearn
    import torch

    with open("/proc/cpuinfo") as info:
        names = [line.partition(":")[2].strip() for line in info if line.startswith("model name")]
    versions = {"numpy": numpy.__version__, "scikit-learn": sklearn.__version__, "torch": torch.__version__}
    return {"cpu": f"{len(names)} x {names[0]}", "python": platform.python_version(), **versions}


def with_earlier(topic: str, records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """These records, and what was kept of the topic's other cases if it is from the same machine and versions."""
    path = RESULTS / f"{topic}.json"
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    earlier = kept["cases"] if kept.get("machine") == machine() else []
    by_name = {record["name"]: record for record in [*earlier, *records]}
    return [by_name[case.name] for case in cases(topic) if case.name in by_name]


def main() -> None:
    wanted = arguments()
    topics = wanted.topics or TOPICS
    if wanted.case is not None:
        return run_here(topics[0], wanted.case)
    for topic in topics:
        records = []
        for number, case in enumerate(cases(topic)):
            if wanted.only not in case.name:
                continue
            if wanted.list:
                print(f"{topic}: {case.name}")
                continue
            records.append(run_apart(topic, number, case, wanted.threads))
            print(tables.as_text(records[-1]), flush=True)
        if wanted.write and records:
            RESULTS.mkdir(exist_ok=True)
            result = {"machine": machine(), "cases": with_earlier(topic, records)}
            (RESULTS / f"{topic}.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
            (RESULTS / f"{topic}.inc").write_text(tables.as_rst(result), encoding="utf-8")
            kept = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in RESULTS.glob("*.json")}
            (RESULTS / "summary.inc").write_text(tables.summary(kept), encoding="utf-8")
    return None


if __name__ == "__main__":
    main()
