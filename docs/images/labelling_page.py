"""The picture of the page for labelling: ``python docs/images/labelling_page.py`` writes labelling_page.png.

It needs what the tests need: selenium, Chromium and its driver.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pandas as pd

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "tests" / "cli"))

from page_browser import started

from skactive.campaign._page import labelling_page

SAID = [
    "Thank you, the new router works well.",
    "I moved and the line is still not connected. I have asked three times.",
    "Please send the invoice by post from now on.",
    "Your competitor offers the same for 10 less. Can you match that?",
    "How do I change my password?",
    "My daughter moves out in May. Does the family plan make sense after that?",
    "This is the second bill for a service that I cancelled. Nobody answers the phone. What do I have to do to get my "
    "money back?",
    "All fine, thank you.",
]


def customers() -> pd.DataFrame:
    ids = [f"{1039 + 17 * i:06d}" for i in range(20)]
    return pd.DataFrame(
        {
            "plan": [["basic", "family", "premium"][i * i % 3] for i in range(20)],
            "months": [3 + 7 * i % 41 for i in range(20)],
            "monthly_fee": [19.9 + 5 * (i % 4) for i in range(20)],
            "calls_to_support": [i % 5 for i in range(20)],
            "last_message": [SAID[i % len(SAID)] for i in range(20)],
        },
        index=ids,
    )


if __name__ == "__main__":
    page = labelling_page(
        customers(),
        id="customer",
        target="churn",
        labels=["stays", "leaves", "unsure"],
        guesses=[("leaves", 0.7)] * 20,
        title="Which customers will leave?",
    )
    with tempfile.TemporaryDirectory() as folder, started(Path(folder)) as browser:
        (Path(folder) / "week1.html").write_text(page, encoding="ascii")
        browser.open(Path(folder) / "week1.html", (1100, 600))
        browser.keys(*"121s12")
        browser.driver.save_screenshot(str(HERE / "labelling_page.png"))
