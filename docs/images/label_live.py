"""The picture of the page of `skactive label`: ``python docs/images/label_live.py`` writes label_live.png.

It needs what the tests need: selenium, Chromium and its driver.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "tests" / "cli"))

from page_browser import started

from skactive import Campaign, datasets

KEYS = {"Adelie": "1", "Chinstrap": "2", "Gentoo": "3"}
N_LABELS = 50

if __name__ == "__main__":
    table, species = datasets.load_table("penguins")
    ids = [f"{i:03d}" for i in range(len(table))]
    truth = dict(zip(ids, species, strict=True))
    with tempfile.TemporaryDirectory() as folder, started(Path(folder)) as browser:
        path = Path(folder) / "penguins.db"
        frame = table.assign(id=ids, species=None)
        served = Campaign.start(path, frame, target="species", id="id", labels=[*KEYS], random_state=1).serve()
        browser.resize((1280, 760))
        browser.driver.get(str(served))
        for _ in range(N_LABELS):
            while not (place := browser.see("#place")):
                time.sleep(0.1)
            browser.keys(KEYS[truth[place.split()[-1]]])
            time.sleep(0.3)
        deadline = time.monotonic() + 60
        while not browser.js("document.querySelector('#curve img')") and time.monotonic() < deadline:
            time.sleep(1)
        browser.driver.save_screenshot(str(HERE / "label_live.png"))
        browser.driver.get("about:blank")
        served.stop()
