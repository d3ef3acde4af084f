"""``python -m skactive``: watch a modAL loop buy labels in batches, by sampling and by taking the top.

Repeated-digits: scikit-learn's digits, repeated with Gaussian noise. The rows with the highest scores are then often
copies of each other, which wastes labels of top-k. All strategies start from the same labels and the same weights.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING

import joblib
import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from .datasets import make_repeated
from .scores import SCORES

if TYPE_CHECKING:
    from .experiment import ExperimentResult

STRATEGIES: dict[str, tuple[str, float]] = {
    "power, beta=1": ("power", 1.0),
    "power, beta=4": ("power", 4.0),
    "softmax, beta=8": ("softmax", 8.0),
    "softrank, beta=1": ("softrank", 1.0),
    "topk": ("topk", 1.0),
    "uniform": ("uniform", 1.0),
}

PICTURES = (".png", ".pdf", ".svg")
CLASS_SCORES = sorted(
    name
    for name, score in SCORES.items()
    if "classifier" in score.tasks and name != "epig"  # type: ignore[attr-defined] # which needs targets
)


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """Options of the command."""
    parser = argparse.ArgumentParser(
        prog="python -m skactive",
        description="A modAL loop on Repeated-digits buys labels in batches, by several strategies on the same trials.",
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
    parser.add_argument("--jobs", type=int, default=joblib.cpu_count(), help="processes, of one thread each")
    parser.add_argument("--seed", type=int, default=0, help="seed of everything")
    parser.add_argument("--output", default="learning_curves.png", help="where the picture goes")
    options = parser.parse_args(arguments)
    picture = Path(options.output)
    if not picture.absolute().parent.is_dir() or picture.suffix.lower() not in PICTURES:
        parser.error(f"--output must be a file {', '.join(PICTURES)} in a folder that exists. Got {options.output!r}.")
    for name in ("trials", "rounds", "batch_size", "repeats", "draws", "epochs"):
        if getattr(options, name) < 1:
            parser.error(f"--{name.replace('_', '-')} must be 1 or more. Got {getattr(options, name)}.")
    return options


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
        digits, test = train_test_split(np.arange(n), test_size=500, stratify=y[:n], random_state=options.seed + trial)
        splits.append((np.concatenate([digits + n * copy for copy in range(1, options.repeats + 1)]), test))
    return splits


def run_all(options: argparse.Namespace) -> ExperimentResult:
    """Every strategy in every trial."""
    from .experiment import run_experiment
    from .mc_dropout import MCDropoutClassifier
    from .query import StochasticBatchQuery

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
        n_jobs=options.jobs,
        verbose=1,
    )


def curves_of(result: ExperimentResult, strategy: str) -> NDArray[np.float64]:
    """Accuracies of shape (n_trials, n_evaluations)."""
    accuracies = [r.scores["accuracy"] for r in result.rounds if r.query == strategy]
    return np.reshape(accuracies, (-1, len(labels_of(result))))


def labels_of(result: ExperimentResult) -> NDArray[np.int64]:
    """Number of labels at each evaluation."""
    return np.unique([r.n_labelled for r in result.rounds])


def format_table(result: ExperimentResult) -> str:
    """Accuracy against labels, mean over acquisitions, paired difference to top-k, seconds a query."""
    labels = labels_of(result)
    n_rounds, n_trials = len(labels) - 1, result.settings["n_trials"]
    shown = sorted({*range(0, n_rounds + 1, max(1, n_rounds // 5)), n_rounds})
    header = f"{'':17}" + "".join(f"{n:>7}" for n in labels[shown]) + f"{'mean':>18}{'minus topk':>18}{'s/query':>9}"
    lines = [f"accuracy, mean of {n_trials} paired trials, by number of labels", header]
    for row in result.summary(reference="topk").rows:
        strategy, mean, gain = row["query"], row["mean"], row["difference"]
        seconds = [r.query_seconds for r in result.rounds if r.query == strategy and r.query_seconds is not None]
        lines.append(
            f"{strategy:17}"
            + "".join(f"{a:7.3f}" for a in curves_of(result, strategy).mean(axis=0)[shown])
            + f"{mean.mean:10.3f} ± {mean.half_width:.3f}"
            + (f"{gain.mean:+10.3f} ± {gain.half_width:.3f}" if strategy != "topk" else f"{'':18}")
            + f"{np.mean(seconds):9.2f}"
        )
    lines.append("mean: over all acquisitions, the first labels left out; ± 95 % intervals over trials (Student's t),")
    lines.append("which are wide with few trials: --trials 8 tells more.")
    return "\n".join(lines)


def plot_curves(result: ExperimentResult, options: argparse.Namespace) -> None:
    """Learning curves with 95 % bands, one line a strategy."""
    import matplotlib

    matplotlib.use("Agg")
    from .plotting import LearningCurveDisplay

    display = LearningCurveDisplay.from_result(result)
    display.ax_.set_title(
        f"Repeated-digits ×{options.repeats}, {options.score}, batches of {options.batch_size}", fontsize="medium"
    )
    display.figure_.savefig(options.output, dpi=150)


def main(arguments: list[str] | None = None) -> None:
    """Run all trials, print the table, save the picture."""
    options = parse_arguments(arguments)
    start = time.perf_counter()
    result = run_all(options)
    print(format_table(result))
    try:
        plot_curves(result, options)
    except ImportError:
        print('No picture: matplotlib is not installed. Install the extra "plot": python -m pip install ".[plot]"')
    else:
        print(f"{options.output} has the learning curves. {time.perf_counter() - start:.0f} seconds in all.")


if __name__ == "__main__":
    main()
