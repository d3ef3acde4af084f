"""``python -m skactive``: watch a modAL loop buy labels in batches, by sampling and by taking the top.

Repeated-digits: scikit-learn's digits, repeated with Gaussian noise. Rows that rank high alone are then often copies of
each other, which is what top-k pays for. All strategies start from the same labels and the same weights.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray
from scipy import stats
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tqdm import tqdm

from .datasets import make_repeated
from .scores import SCORES

STRATEGIES: dict[str, tuple[str, float]] = {
    "power, beta=1": ("power", 1.0),
    "power, beta=4": ("power", 4.0),
    "softmax, beta=8": ("softmax", 8.0),
    "softrank, beta=1": ("softrank", 1.0),
    "topk": ("topk", 1.0),
    "uniform": ("uniform", 1.0),
}

PICTURES = (".png", ".pdf", ".svg")
CLASS_SCORES = sorted(name for name, score in SCORES.items() if "classifier" in score.tasks)  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Curve:
    """One strategy in one trial: accuracy before any query and after each, and the seconds the queries took."""

    strategy: str
    trial: int
    accuracies: NDArray[np.float64]
    query_seconds: NDArray[np.float64]


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """Options of the command."""
    parser = argparse.ArgumentParser(
        prog="python -m skactive",
        description="A modAL loop on Repeated-digits buys labels in batches, by several strategies on the same trials.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--trials", type=int, default=3, help="paired trials: split, noise, first labels, weights")
    parser.add_argument("--rounds", type=int, default=15, help="batches bought in a trial")
    parser.add_argument("--batch-size", type=int, default=10, help="labels bought in a round")
    parser.add_argument("--initial", type=int, default=20, help="labels to begin with, the same number of each digit")
    parser.add_argument("--repeats", type=int, default=4, help="copies of each digit in the pool")
    parser.add_argument("--noise", type=float, default=0.1, help="standard deviation of the noise, features in [0, 1]")
    parser.add_argument("--score", choices=CLASS_SCORES, default="bald", help="what makes a row worth a label")
    parser.add_argument("--draws", type=int, default=50, help="posterior draws in a query")
    parser.add_argument("--epochs", type=int, default=150, help="full-batch training steps of a refit")
    parser.add_argument("--jobs", type=int, default=joblib.cpu_count(), help="processes, of one thread each")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first trial")
    parser.add_argument("--output", default="learning_curves.png", help="where the picture goes")
    options = parser.parse_args(arguments)
    picture = Path(options.output)
    if not picture.absolute().parent.is_dir() or picture.suffix.lower() not in PICTURES:
        parser.error(f"--output must be a file {', '.join(PICTURES)} in a folder that exists. Got {options.output!r}.")
    for name in ("trials", "rounds", "batch_size", "repeats", "draws", "epochs"):
        if getattr(options, name) < 1:
            parser.error(f"--{name.replace('_', '-')} must be 1 or more. Got {getattr(options, name)}.")
    return options


def run_trial(strategy: str, trial: int, options: argparse.Namespace) -> Curve:
    """Buy ``rounds`` batches with one strategy; all else depends on the trial alone."""
    import torch
    from modAL.models import ActiveLearner

    from .mc_dropout import MCDropoutClassifier
    from .query import StochasticBatchQuery

    torch.set_num_threads(1)
    seed = options.seed + trial
    X_labelled, y_labelled, X_pool, y_pool, X_test, y_test = split_repeated_digits(seed, options)
    sampler, beta = STRATEGIES[strategy]
    net = MCDropoutClassifier(lr=3e-3, max_epochs=options.epochs, batch_size=-1, random_state=seed)
    learner = ActiveLearner(
        estimator=make_pipeline(StandardScaler(), net),
        query_strategy=StochasticBatchQuery(options.score, sampler, beta, n_draws=options.draws, random_state=seed),
        X_training=X_labelled,
        y_training=y_labelled,
    )
    accuracies, seconds = [learner.score(X_test, y_test)], []
    for _ in range(options.rounds):
        start = time.perf_counter()
        indices, X_batch = learner.query(X_pool, n_instances=options.batch_size)
        seconds.append(time.perf_counter() - start)
        learner.teach(X_batch, y_pool[indices])
        X_pool, y_pool = np.delete(X_pool, indices, axis=0), np.delete(y_pool, indices)
        accuracies.append(learner.score(X_test, y_test))
    return Curve(strategy, trial, np.array(accuracies), np.array(seconds))


def split_repeated_digits(seed: int, options: argparse.Namespace) -> tuple[NDArray[Any], ...]:
    """(X, y) of the first labels, of the pool and of the test set. Split first, then repeat: copies must not leak."""
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X / 16, y, test_size=500, stratify=y, random_state=seed)
    X, y = make_repeated(X.astype(np.float32), y, options.repeats, options.noise, np.random.default_rng(seed))
    X_labelled, X_pool, y_labelled, y_pool = train_test_split(
        X, y, train_size=options.initial, stratify=y, random_state=seed
    )
    return X_labelled, y_labelled, X_pool, y_pool, X_test.astype(np.float32), y_test


def run_all(options: argparse.Namespace) -> list[Curve]:
    """Every strategy in every trial, in processes of one thread each."""
    tasks = [(strategy, trial) for trial in range(options.trials) for strategy in STRATEGIES]
    with joblib.parallel_config("loky", inner_max_num_threads=1):
        parallel = joblib.Parallel(n_jobs=options.jobs, return_as="generator_unordered")
        curves = parallel(joblib.delayed(run_trial)(strategy, trial, options) for strategy, trial in tasks)
        return list(tqdm(curves, total=len(tasks), desc="strategies x trials", unit="loop"))


def mean_and_interval(values: Iterable[float]) -> tuple[float, float]:
    """Mean and half-width of its 95 % interval (Student's t); NaN for fewer than two values."""
    values = np.fromiter(values, dtype=float)
    half = (
        stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    )
    return float(values.mean()), float(half)


def format_table(curves: list[Curve], options: argparse.Namespace) -> str:
    """Accuracy against labels, mean over acquisitions, paired difference to top-k, seconds a query."""
    shown = sorted({*range(0, options.rounds + 1, max(1, options.rounds // 5)), options.rounds})
    labels = [options.initial + options.batch_size * r for r in shown]
    header = f"{'':17}" + "".join(f"{n:>7}" for n in labels) + f"{'mean':>18}{'minus topk':>18}{'s/query':>9}"
    lines = [f"accuracy, mean of {options.trials} paired trials, by number of labels", header]
    topk = {c.trial: c.accuracies[1:].mean() for c in curves if c.strategy == "topk"}
    for strategy in STRATEGIES:
        mine = [c for c in curves if c.strategy == strategy]
        mean = mean_and_interval(c.accuracies[1:].mean() for c in mine)
        gain = mean_and_interval(c.accuracies[1:].mean() - topk[c.trial] for c in mine)
        at = np.mean([c.accuracies for c in mine], axis=0)[shown]
        lines.append(
            f"{strategy:17}"
            + "".join(f"{a:7.3f}" for a in at)
            + f"{mean[0]:10.3f} ± {mean[1]:.3f}"
            + (f"{gain[0]:+10.3f} ± {gain[1]:.3f}" if strategy != "topk" else f"{'':18}")
            + f"{np.mean([c.query_seconds for c in mine]):9.2f}"
        )
    lines.append("mean: over all acquisitions, the first labels left out; ± 95 % intervals over trials (Student's t),")
    lines.append("which are wide with few trials: --trials 8 tells more.")
    return "\n".join(lines)


def plot_curves(curves: list[Curve], options: argparse.Namespace) -> None:
    """Learning curves with 95 % bands, one line a strategy."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    labels = options.initial + options.batch_size * np.arange(options.rounds + 1)
    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for strategy in STRATEGIES:
        accuracies = np.array([c.accuracies for c in curves if c.strategy == strategy])
        mean, half = np.array([mean_and_interval(column) for column in accuracies.T]).T
        (line,) = axes.plot(labels, mean, label=strategy, linestyle="--" if strategy == "uniform" else "-")
        axes.fill_between(labels, mean - half, mean + half, color=line.get_color(), alpha=0.12, linewidth=0)
    axes.set(
        xlabel="labels bought, the first included",
        ylabel="test accuracy",
        title=f"Repeated-digits ×{options.repeats}, {options.score}, batches of {options.batch_size}, "
        f"{options.trials} trials",
    )
    axes.legend(title="mean and 95 % interval", frameon=False, loc="lower right")
    figure.savefig(options.output, dpi=150)


def main(arguments: list[str] | None = None) -> None:
    """Run all trials, print the table, save the picture."""
    options = parse_arguments(arguments)
    start = time.perf_counter()
    curves = run_all(options)
    print(format_table(curves, options))
    try:
        plot_curves(curves, options)
    except ImportError:
        print('No picture: matplotlib is not installed. Install the extra "plot": python -m pip install ".[plot]"')
    else:
        print(f"{options.output} has the learning curves. {time.perf_counter() - start:.0f} seconds in all.")


if __name__ == "__main__":
    main()
