"""A campaign on a million rows: what asking and telling take beside the model's predictions of these rows."""

from __future__ import annotations

import tempfile

import numpy as np
import pandas as pd
from common import bench
from sklearn.linear_model import LogisticRegression

from skactive import Campaign

N = 1_000_000


def campaign_of() -> tuple[Campaign, pd.DataFrame]:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"id": [f"{i:07d}" for i in range(N)], **{f"x{j}": rng.normal(size=N) for j in range(8)}})
    frame["y"] = None
    path = f"{tempfile.mkdtemp()}/campaign.db"
    campaign = Campaign.start(path, frame, target="y", id="id", model=LogisticRegression(), random_state=0)
    batch = campaign.ask(100)
    campaign.tell({id: "a" if x > 0 else "b" for id, x in zip(batch.index, batch["x0"], strict=True)})
    return campaign, frame


@bench("ask for 100 of 1,000,000 rows")
def ask() -> dict:
    campaign, frame = campaign_of()
    model, rows = campaign.model(), frame.drop(columns=["id", "y"])
    return {"skactive": lambda: campaign.ask(100), "the model's predictions": lambda: model.predict_proba(rows)}


@bench("tell 100 of 1,000,000 rows")
def tell() -> dict:
    campaign, _ = campaign_of()
    ids = campaign.ask(100).index
    answers = iter(range(10**9))

    def told() -> object:
        label = "ab"[next(answers) % 2]  # another one each time, or nothing would be written
        return campaign.tell(dict.fromkeys(ids, label))

    return {"skactive": told}


@bench("open a campaign of 1,000,000 rows")
def open_() -> dict:
    campaign, frame = campaign_of()
    return {
        "skactive": lambda: Campaign.open(campaign.path, frame, model=LogisticRegression()),
        "without the table": lambda: Campaign.open(campaign.path),
    }
