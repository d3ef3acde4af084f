"""Look at the built pages in a browser: ``python docs/check_layout.py docs/_build`` opens the front page and the guide.

At 1280 and 390 pixels no page may be wider than the window, the header is one row high, and every picture is loaded and
has an alternative text. At 1280 no code block is wider than its box, and no table than its own; on a phone both may
scroll. Prints what is wrong, and exits with 1 if anything is. ``--shots FOLDER`` keeps screenshots of the front page.

It needs what the tests of the page for labelling need: selenium, Chromium and its driver.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "cli"))

from page_browser import Browser, started

WIDE, PHONE = (1280, 900), (390, 844)
HEADER = 80
"""Pixels of a header of one row; two rows have more."""

LOOK = """(() => {
    const seen = (e) => e.getClientRects().length > 0;
    const words = (e) => e.textContent.trim().replace(/\\s+/g, ' ').slice(0, 50);
    const all = (selector) => [...document.querySelectorAll(selector)].filter(seen);
    const wider = (e) => e.scrollWidth > e.clientWidth + 1;
    const tops = all('.bd-header .navbar-nav > li').map((e) => Math.round(e.getBoundingClientRect().top));
    return {
        page: document.documentElement.scrollWidth - window.innerWidth,
        header: Math.round(document.querySelector('.bd-header').getBoundingClientRect().height),
        rows: new Set(tops).size,
        code: all('article pre').filter(wider).map((e) => `${e.scrollWidth - e.clientWidth} px: ${words(e)}`),
        tables: all('article .pst-scrollable-table-container').filter(wider).map(words),
        pictures: all('article img').filter((e) => !e.complete || !e.naturalWidth).map((e) => e.src),
        alts: all('article img').filter((e) => !(e.alt || '').trim()).map((e) => e.src),
    };
})()"""


def faults(browser: Browser, page: Path, size: tuple[int, int]) -> Iterator[str]:
    """What is wrong with a page at this size of the window."""
    browser.open(page, size)
    found = browser.js(LOOK)
    if found["page"] > 0:
        yield f"the page is {found['page']} px wider than the window"
    if found["header"] > HEADER or found["rows"] > 1:
        yield f"the header has more than one row ({found['header']} px)"
    yield from (f"a picture is not there: {source}" for source in found["pictures"])
    yield from (f"a picture has no alternative text: {source}" for source in found["alts"])
    if size == WIDE:
        yield from (f"code is wider than its box by {block}" for block in found["code"])
        yield from (f"a table is wider than its box: {table}" for table in found["tables"])


def pages(html: Path) -> list[Path]:
    return [html / "index.html", *sorted((html / "user_guide").glob("*.html"))]


def shoot(browser: Browser, page: Path, folder: Path) -> None:
    """Screenshots of the whole page, in both sizes, light and dark."""
    import base64

    folder.mkdir(parents=True, exist_ok=True)
    for size in (WIDE, PHONE):
        for dark in (False, True):
            browser.open(page, size, dark=dark)
            name = f"{page.stem}_{size[0]}_{'dark' if dark else 'light'}.png"
            shot = browser.cdp("Page.captureScreenshot", captureBeyondViewport=True)
            (folder / name).write_bytes(base64.b64decode(shot["data"]))


def main() -> int:
    parser = argparse.ArgumentParser(description="Look at the built documentation in a browser.")
    parser.add_argument("html", type=Path, help="where sphinx wrote it")
    parser.add_argument("--shots", type=Path, help="keep screenshots of the front page in this folder")
    options = parser.parse_args()
    built = [page.resolve() for page in pages(options.html)]
    if len(built) < 2 or not built[0].exists():
        parser.error(f"no documentation in {options.html}: build it by `python -m sphinx docs {options.html}`.")
    n_faults = 0
    with tempfile.TemporaryDirectory() as folder, started(Path(folder)) as browser:
        for page in built:
            for size in (WIDE, PHONE):
                for fault in faults(browser, page, size):
                    print(f"{page.relative_to(options.html.resolve())} at {size[0]} px: {fault}")
                    n_faults += 1
        if options.shots:
            shoot(browser, built[0], options.shots)
    print(f"{len(built)} pages at {WIDE[0]} and {PHONE[0]} px: {n_faults or 'no'} faults")
    return int(n_faults > 0)


if __name__ == "__main__":
    sys.exit(main())
