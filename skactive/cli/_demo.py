"""``skactive demo``: watch a modAL loop buy labels in batches, by sampling and by taking the top.

Repeated-digits: scikit-learn's digits, repeated with Gaussian noise. The rows with the highest scores are then often
copies of each other, which wastes labels of top-k. All strategies start from the same labels and the same weights.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import joblib
import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from .._checks import Rules, number
from .._types import SamplerName
from ..datasets import make_repeated
from ..scores import SCORES
from ._parser import Parser
from ._tables import atomic_write

if TYPE_CHECKING:
    from ..experiment import ExperimentResult

STRATEGIES: dict[str, tuple[SamplerName, float]] = {
    "power, beta=1": ("power", 1.0),
    "power, beta=4": ("power", 4.0),
    "softmax, beta=8": ("softmax", 8.0),
    "softrank, beta=1": ("softrank", 1.0),
    "topk": ("topk", 1.0),
    "uniform": ("uniform", 1.0),
}

CLASS_SCORES = sorted(
    name
    for name, score in SCORES.items()
    if "classifier" in score.tasks and name != "epig"  # type: ignore[attr-defined] # which needs targets
)


RULES: Rules = {
    "trials": number(1, 1000),
    "rounds": number(1, text="1 or more"),
    "batch_size": number(1, text="1 or more"),
    "initial": number(10, text="10 or more, one of each digit"),
    "repeats": number(1, 100),
    "noise": number(0, 1000),
    "draws": number(1, 10_000),
    "epochs": number(1, 100_000),
    "seed": number(0, 2**31, text=f"a number from 0 to {2**31}"),
}
N_CLEAN, N_TEST = 1797, 500  # digits in all, and in a test set
PICTURES = (".png", ".pdf", ".svg")


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """Options of the command."""
    parser = Parser(
        prog="skactive demo",
        description="A modAL loop on Repeated-digits buys labels in batches, by several strategies on the same trials.",
        epilog='Next: a loop on your own data is in README.md, "In a modAL loop"; skactive.run_experiment compares '
        "strategies on them, with checkpoints for long runs.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--trials", type=int, default=3, help="paired trials: split, first labels, weights")
    parser.add_argument("--rounds", type=int, default=15, help="batches bought in a trial")
    parser.add_argument("--batch-size", type=int, default=10, help="labels bought in a round")
    parser.add_argument("--initial", type=int, default=20, help="labels to begin with, the same number of each digit")
    parser.add_argument("--repeats", type=int, default=4, help="copies of each digit in the pool")
    parser.add_argument("--noise", type=float, default=0.1, help="standard deviation of the noise, features in [0, 1]")
    parser.add_argument("--score", choices=CLASS_SCORES, default="bald", help="what makes a row worth a label")
    parser.add_argument("--draws", type=int, default=50, help="posterior draws in a query")
    parser.add_argument("--epochs", type=int, default=150, help="full-batch training steps of a refit")
    parser.add_argument("--jobs", type=int, default=joblib.cpu_count(), help="processes, of one thread each; -1: all")
    parser.add_argument("--seed", type=int, default=0, help="seed of everything")
    parser.add_argument("--output", default="learning_curves.png", help="where the picture goes")
    parser.add_argument("--force", action="store_true", help="overwrite the picture if it exists")
    parser.add_argument("--json", action="store_true", help="print the result for ExperimentResult.from_json, no table")
    options = parser.parse_args(arguments)
    for check in (check_values, check_picture, check_size):
        check(options, parser.error)
    return options


def check_values(options: argparse.Namespace, error: Callable[[str], NoReturn]) -> None:
    """Each option by itself."""
    for name, rule in RULES.items():
        if not rule.holds(getattr(options, name)):
            error(f"--{name.replace('_', '-')} must be {rule.text}. Got {getattr(options, name)}.")
    n_cpus = joblib.cpu_count()
    if options.jobs == 0 or not -n_cpus <= options.jobs <= 4 * n_cpus:
        error(f"--jobs must be from 1 to {4 * n_cpus}, four for a processor, or -1 for all. Got {options.jobs}.")
    if options.draws == 1 and not getattr(SCORES[options.score], "one_draw", True):
        error(f"--draws must be 2 or more for --score {options.score}. Got 1.")


def check_picture(options: argparse.Namespace, error: Callable[[str], NoReturn]) -> None:
    """A picture can be made, and none is there already."""
    picture = Path(options.output)
    if not picture.absolute().parent.is_dir() or picture.suffix.lower() not in PICTURES:
        error(f"--output must be a file {', '.join(PICTURES)} in a folder that exists. Got {options.output!r}.")
    if picture.exists() and not picture.is_file():
        error(f"--output must be a file. Got {options.output!r}, which is none.")
    if picture.exists() and not options.force:
        error(f"{options.output!r} exists. --force overwrites it, --output names another file.")


def check_size(options: argparse.Namespace, error: Callable[[str], NoReturn]) -> None:
    """The pool has enough rows."""
    n_pool = (N_CLEAN - N_TEST) * options.repeats
    n_labels = options.initial + options.rounds * options.batch_size
    if n_labels > n_pool:
        error(
            f"--initial and --rounds times --batch-size must be at most the rows of the pool, {n_pool}. Got {n_labels}."
        )


def repeated_digits(options: argparse.Namespace) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """All digits as they are, then all their noisy copies."""
    X, y = load_digits(return_X_y=True)
    X = (X / 16).astype(np.float32)
    copies, labels = make_repeated(X, y, options.repeats, options.noise, np.random.default_rng(options.seed))
    return np.concatenate([X, copies]), np.concatenate([y, labels])


def split_digits(
    y: NDArray[np.int64], options: argparse.Namespace
) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Rows to train on, noisy copies of some digits, and to test on, other digits without noise: no copy may leak."""
    n = len(y) // (options.repeats + 1)
    splits = []
    for trial in range(options.trials):
        rows, seed = np.arange(n), options.seed + trial
        digits, test = train_test_split(rows, test_size=N_TEST, stratify=y[:n], random_state=seed)
        splits.append((np.concatenate([digits + n * copy for copy in range(1, options.repeats + 1)]), test))
    return splits


def run_all(options: argparse.Namespace) -> ExperimentResult:
    """Every strategy in every trial."""
    from ..experiment import run_experiment
    from ..mc_dropout import MCDropoutClassifier
    from ..query import StochasticBatchQuery

    X, y = repeated_digits(options)
    return run_experiment(
        make_pipeline(StandardScaler(), MCDropoutClassifier(lr=3e-3, max_epochs=options.epochs, batch_size=-1)),
        {
            strategy: StochasticBatchQuery(options.score, sampler, beta, n_draws=options.draws)
            for strategy, (sampler, beta) in STRATEGIES.items()
        },
        X,
        y,
        splits=split_digits(y, options),
        n_initial=options.initial,
        batch_size=options.batch_size,
        n_rounds=options.rounds,
        n_trials=options.trials,
        scoring="accuracy",
        random_state=options.seed,
        n_jobs=min(options.jobs, len(STRATEGIES) * options.trials),
        verbose=1,
    )


def table_of(result: ExperimentResult) -> str:
    """The summary of the result, and what would tell more."""
    n_trials = result.settings["n_trials"]
    missing = " One trial has no intervals." if n_trials == 1 else ""
    return f"{result.summary(reference='topk')}\n{n_trials} paired trials.{missing} --trials 8 tells more."


def save_curves(result: ExperimentResult, output: Path, *, force: bool, title: str | None = None) -> str:
    """Draw the curves of all queries, and tell in a sentence what the file holds, or why there is none."""
    try:
        import matplotlib
    except ImportError:
        return 'No picture: matplotlib is not installed. Install it by python -m pip install "skactive[plot]".'
    from ..plotting import LearningCurveDisplay

    matplotlib.use("Agg")
    display = LearningCurveDisplay.from_result(result)
    if title is not None:
        display.ax_.set_title(title, fontsize="medium")
    with atomic_write(output, force=force) as temporary:
        display.figure_.savefig(temporary, dpi=150)
    return f"{output} shows the learning curves."


def main(arguments: list[str] | None = None) -> None:
    """Run all trials, print the table, save the picture."""
    options = parse_arguments(arguments)
    start = time.perf_counter()
    result = run_all(options)
    print(result.to_json() if options.json else table_of(result))
    title = f"Repeated-digits ×{options.repeats}, {options.score}, batches of {options.batch_size}"
    told = save_curves(result, Path(options.output), force=options.force, title=title)
    print(f"{told} {time.perf_counter() - start:.0f} seconds in all.", file=sys.stderr if options.json else sys.stdout)
