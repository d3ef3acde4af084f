"""CLINC-150 as the paper has it: DistilBERT, fine-tuned anew to all labels after every batch.

No study that runs by itself: it needs the package transformers, the weights of DistilBERT in a folder (or a network
to fetch them), and a GPU to end in hours. ``clinc.py`` asks the same of frozen embeddings in minutes.

    python examples/paper/clinc_finetune.py --data FOLDER --weights distilbert-base-uncased --trials 3

It has not been run to its end by the authors of this package: a smaller transformer was fine-tuned to the first labels.
"""

from __future__ import annotations

import argparse
import importlib.util
from pathlib import Path
from typing import Any

import clinc
import numpy as np
import study
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from skactive import StochasticBatchQuery

QUERIES: dict[str, Any] = {
    "PowerEntropy": StochasticBatchQuery("entropy", "power", beta=1.0, chunk_size=2_000),
    "entropy": StochasticBatchQuery("entropy", "topk", chunk_size=2_000),
    "uniform": StochasticBatchQuery("entropy", "uniform", chunk_size=2_000),
}


class FineTuned(ClassifierMixin, BaseEstimator):
    """A pretrained transformer with a new last layer; rows are sentences, in one column."""

    def __init__(
        self, weights: str, epochs: int = 5, lr: float = 5e-5, batch_size: int = 32, random_state: int | None = None
    ) -> None:
        self.weights = weights
        self.epochs = epochs
        self.lr = lr
        self.batch_size = batch_size
        self.random_state = random_state

    def fit(self, X: NDArray[Any], y: NDArray[Any]) -> FineTuned:
        from transformers import AutoModelForSequenceClassification, AutoTokenizer

        self.classes_, codes = np.unique(y, return_inverse=True)
        rng = np.random.default_rng(self.random_state)
        self.device_ = "cuda" if torch.cuda.is_available() else "cpu"
        with torch.random.fork_rng():
            torch.manual_seed(int(rng.integers(2**31)))
            self.tokenizer_ = AutoTokenizer.from_pretrained(self.weights)
            self.net_ = AutoModelForSequenceClassification.from_pretrained(self.weights, num_labels=len(self.classes_))
            self.net_.to(self.device_).train()
            optimizer = torch.optim.Adam(self.net_.parameters(), lr=self.lr)
            for _ in range(self.epochs):
                for rows in np.array_split(rng.permutation(len(X)), -(-len(X) // self.batch_size)):
                    target = torch.as_tensor(codes[rows], device=self.device_)
                    loss = torch.nn.functional.cross_entropy(self._logits(X[rows]), target)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
        self.net_.eval()
        return self

    def predict_proba(self, X: NDArray[Any]) -> NDArray[np.float64]:
        with torch.inference_mode():
            blocks = [self._logits(X[start : start + 256]).softmax(-1).cpu() for start in range(0, len(X), 256)]
        return torch.cat(blocks).double().numpy()

    def predict(self, X: NDArray[Any]) -> NDArray[Any]:
        return self.classes_[self.predict_proba(X).argmax(1)]

    def _logits(self, X: NDArray[Any]) -> torch.Tensor:
        words = self.tokenizer_(X[:, 0].tolist(), padding=True, truncation=True, max_length=64, return_tensors="pt")
        return self.net_(**words.to(self.device_)).logits


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="CLINC-150 with DistilBERT, fine-tuned after every batch.")
    parser.add_argument("--data", type=Path, required=True, help="folder with clinc150/")
    parser.add_argument("--weights", default="distilbert-base-uncased", help="folder, or name on the Hugging Face hub")
    parser.add_argument("--out", type=Path, default=Path("paper_results"), help="where rounds are kept")
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--each", type=int, default=10, help="first labels of each intent")
    options = parser.parse_args()
    if importlib.util.find_spec("transformers") is None:
        parser.error("this needs the package transformers: python -m pip install transformers")
    from transformers import AutoConfig

    try:
        AutoConfig.from_pretrained(options.weights)
    except Exception as error:  # of many kinds: no such folder, no network, another format
        parser.error(f"no weights at {options.weights!r}; give a folder that has them as --weights. ({error})")
    return options


def main() -> None:
    options = parse()
    places = study.Places(options.data, options.out / "rounds" / "finetune", 1)
    (train, y_train), (test, y_test) = clinc.sentences(places, "train"), clinc.sentences(places, "val")
    X = np.array([*train, *test], dtype=object)[:, np.newaxis]
    y = np.concatenate([y_train, y_test])
    size = argparse.Namespace(n_each=options.each, n_pool=len(train), n_test=len(test))
    trials = [clinc.trial(y, len(train), size, seed) for seed in range(options.trials)]
    result = places.compare(
        "clinc_finetune",
        FineTuned(options.weights),
        QUERIES,
        X,
        y,
        splits=[split for split, _ in trials],
        initial=[first for _, first in trials],
        batch_size=clinc.BATCH_SIZE,
        n_rounds=options.rounds,
        n_trials=options.trials,
        scoring="accuracy",
    )
    print(result.summary())


if __name__ == "__main__":
    main()
