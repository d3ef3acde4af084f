"""A variational last layer: ACS-FW beside power sampling, top-k and BADGE.

The net is fitted anew to all labels after every batch; its features are frozen, and the weights of a softmax regression
on them have a normal posterior without correlations (mean-field variational inference). Fashion-MNIST, where the data
folder has it; a part of MNIST otherwise.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import study
from lib.files import load_idx
from lib.mean_field import MeanFieldClassifier
from numpy.typing import NDArray
from sklearn.decomposition import PCA

from skactive import ACSFWQuery, BADGEQuery, MCDropoutClassifier

TITLE = "Mean-field last layer: power sampling beside ACS-FW"
ALT = (
    "Left: learning curves on Fashion-MNIST; top-k falls behind by ten points, and power, uniform, BADGE and "
    "ACS-FW lie together. Right: seconds of a query, 0.04 for uniform and 0.11 to 0.13 for the others."
)

SIZES: dict[str, dict[str, Any]] = {
    "smallest": {"n_trials": 2, "n_rounds": 1, "n_rows": 1_000},
    "quick": {"n_trials": 2, "n_rounds": 3, "n_rows": 2_000},
    "full": {"n_trials": 10, "n_rounds": 7, "n_rows": 3_000},
}
N_INITIAL, BATCH_SIZE, N_DRAWS = 20, 25, 50
FASHION = ("fashion_mnist", "FashionMNIST", "fashion-mnist")

QUERIES: dict[str, Any] = {
    "power": study.sampled("bald", sampler="power", beta=1.0, n_draws=N_DRAWS),
    "topk": study.sampled("bald", sampler="topk", n_draws=N_DRAWS),
    "uniform": study.sampled("bald", sampler="uniform", n_draws=2),
    "BADGE": BADGEQuery(),
    "ACS-FW": ACSFWQuery(n_draws=N_DRAWS),
}
MODEL = MeanFieldClassifier(
    MCDropoutClassifier((128, 32), dropout=0.2, lr=5e-3, batch_size=-1, max_epochs=40, n_draws=2, device="cpu"),
    n_draws=N_DRAWS,
)


def images(places: study.Places, n_rows: int) -> tuple[str, NDArray[np.float32], NDArray[np.int64]]:
    """The first rows as 64 principal components."""
    try:
        X, y = load_idx(places.file(*FASHION), "train")
        name, X, y = "Fashion-MNIST", X[:n_rows] / np.float32(255), y[:n_rows]
    except study.MissingDataError:
        X, y = study.mnist(places, "train")
        name, X, y = "MNIST, not Fashion-MNIST", X[:n_rows], y[:n_rows]
    return name, PCA(64, random_state=0).fit_transform(X.reshape(len(X), -1)).astype(np.float32), y


def run(size: Any, places: study.Places) -> dict[str, Any]:
    name, X, y = images(places, size.n_rows)
    result = places.compare(
        "last_layer",
        MODEL,
        QUERIES,
        X,
        y,
        n_initial=N_INITIAL,
        batch_size=BATCH_SIZE,
        n_rounds=size.n_rounds,
        n_trials=size.n_trials,
        test_size=1 / 3,
        scoring="accuracy",
    )
    seconds = {query: [r.query_seconds for r in result.rounds if r.query == query and r.round] for query in QUERIES}
    return {
        "data": name,
        "n_rows": len(X),
        "means": study.means(result),
        "curves": study.curves(result),
        "seconds": {query: round(float(np.median(times)), 4) for query, times in seconds.items()},
    }


def claims(findings: dict[str, Any]) -> list[study.Claim]:
    values, seconds = findings["means"], findings["seconds"]
    setting = (
        f"{findings['data']}, {findings['n_rows']:,} images as 64 components, a third of them for the test; batches of "
        f"{BATCH_SIZE} from {N_INITIAL} labels, net of 128 and 32 units, {N_DRAWS} draws"
    )
    slower = seconds["ACS-FW"] / seconds["power"]
    return [
        study.better("Power sampling is better than ACS-FW", setting, values, "power", "ACS-FW"),
        study.better("Power sampling is better than top-k", setting, values, "power", "topk"),
        study.better("Power sampling is better than uniform", setting, values, "power", "uniform"),
        study.alike("Power sampling is as good as BADGE", setting, values, "power", "BADGE"),
        study.Claim(
            "ACS-FW takes much longer to choose than power sampling (twice as long or more)",
            f"{setting}; median seconds by the clock, draws included, our implementations",
            len(values["power"]),
            f"{slower:.2f} times: {seconds['ACS-FW']:.3f} s beside {seconds['power']:.3f} s",
            "seen" if slower >= 2 else "not seen",
        ),
    ]


def draw(findings: dict[str, Any]) -> Any:
    figure, ((left, right),) = study.panels(2, 2, 3.4, width_ratios=[2, 1])
    study.draw_curves(left, findings["curves"], "accuracy", topk="top-k")
    left.set_title(findings["data"])
    left.legend(loc="upper left")
    seconds = findings["seconds"]
    right.barh(range(len(seconds)), list(seconds.values()), color=[study.LOOKS[query]["color"] for query in seconds])
    right.set_yticks(range(len(seconds)), ["top-k" if query == "topk" else query for query in seconds])
    right.invert_yaxis()
    right.set(xlabel="median seconds of a query")
    right.grid(visible=False, axis="y")
    return figure


if __name__ == "__main__":
    study.main(sys.modules[__name__])
