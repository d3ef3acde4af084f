"""
Text: which sentences to label?
===============================

A linear model on word counts is a strong start for text, and it is fitted in milliseconds. How many labels does active
learning save it? The texts are the first paragraphs of scipy's documentation, and the labels say from which of six
modules each comes.
"""

# %%
# Texts and a model
# -----------------

import importlib
import inspect

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

topic_of = {}
for topic in ("interpolate", "linalg", "ndimage", "optimize", "signal", "stats"):
    module = importlib.import_module(f"scipy.{topic}")
    for name in module.__all__:
        text = " ".join((inspect.getdoc(getattr(module, name)) or "").split("\n\n")[0].split())
        if callable(getattr(module, name)) and len(text) > 20:
            topic_of[text] = topic
texts, topics = np.array(list(topic_of), dtype=object), np.array(list(topic_of.values()))
print(f"{len(texts)} texts, such as {texts[0]!r} ({topics[0]})")

model = make_pipeline(TfidfVectorizer(sublinear_tf=True), LogisticRegression(C=30, max_iter=1000))

# %%
# Paired trials
# -------------
# In each of eight trials another third of the texts is for testing, and both queries start from the same labels.

from skactive import LearningCurveDisplay, StochasticBatchQuery, run_experiment

queries = {"default": StochasticBatchQuery(), "uniform": StochasticBatchQuery(sampler="uniform")}
sizes = {"test_size": 1 / 3, "n_initial": 20, "batch_size": 20, "n_rounds": 7}
result = run_experiment(model, queries, texts, topics, scoring="accuracy", random_state=0, **sizes)

import matplotlib.pyplot as plt

# Picture: Accuracy by the number of labels, from 20 to 160, in 95 % bands: the default is above random choice.
LearningCurveDisplay.from_result(result)
plt.show()

# %%
saved = next(row["saved"] for row in result.label_savings(reference="uniform").rows)
print(
    f"The default needed {saved.mean:.0f} fewer of 160 labels than random choice "
    f"(95 % interval {saved.low:.0f} to {saved.high:.0f}, {result.settings['n_trials']} paired trials)."
)
