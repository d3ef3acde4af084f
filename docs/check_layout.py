"""Look at the built pages in a browser: ``python docs/check_layout.py docs/_build`` looks at what people read.

At 1280 and 390 pixels no page may be wider than the window, the header is one row high, and every picture is loaded and
has an alternative text. At 1280 no code block is wider than its box, and no table than its own; on a phone both may
scroll. Formulas are drawn, and nothing is loaded from elsewhere. Blocks that fold are open. Prints what is wrong, and
exits with 1 if anything is. ``--shots FOLDER`` keeps screenshots of the front page.

It needs what the tests of the page for labelling need: selenium, Chromium and its driver.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "cli"))

from page_browser import Browser, started

WIDE, PHONE = (1280, 900), (390, 844)
HEADER = 80
"""Pixels of a header of one row; two rows have more."""

LOOK = """(async () => {
    for (const block of document.querySelectorAll('article details')) block.open = true;
    if (window.MathJax) await window.MathJax.startup.promise;
    const THUMB = '.sphx-glr-thumbcontainer';  // the title below it is its text
    const seen = (e) => e.getClientRects().length > 0;
    const words = (e) => e.textContent.trim().replace(/\\s+/g, ' ').slice(0, 50);
    const all = (selector) => [...document.querySelectorAll(selector)].filter(seen);
    const wider = (e) => e.scrollWidth > e.clientWidth + 1;
    const text = document.querySelector('.bd-article-container');  // it scrolls by itself
    const tops = all('.bd-header .navbar-nav > li').map((e) => Math.round(e.getBoundingClientRect().top));
    return {
        window: window.innerWidth,
        page: Math.max(document.documentElement.scrollWidth - window.innerWidth, text.scrollWidth - text.clientWidth),
        header: Math.round(document.querySelector('.bd-header').getBoundingClientRect().height),
        rows: new Set(tops).size,
        code: all('article pre').filter(wider).map((e) => `${e.scrollWidth - e.clientWidth} px: ${words(e)}`),
        tables: all('article .pst-scrollable-table-container').filter(wider).map(words),
        pictures: all('article img').filter((e) => !e.complete || !e.naturalWidth).map((e) => e.src),
        formulas: all('article .math').filter((e) => !e.querySelector('mjx-container')).map(words),
        alts: all('article img').filter((e) => !e.alt.trim() && !e.closest(THUMB)).map((e) => e.src),
    };
})()"""


def faults(browser: Browser, page: Path) -> Iterator[str]:
    """What is wrong with a page, in both sizes of the window."""
    browser.open(page, WIDE)
    yield from (f"at {WIDE[0]} px: {fault}" for fault in faults_seen(browser.js(LOOK), WIDE))
    browser.resize(PHONE)
    yield from (f"at {PHONE[0]} px: {fault}" for fault in faults_seen(browser.js(LOOK), PHONE))
    foreign = [url for url in browser.requests() if not url.startswith(("file:", "data:"))]
    yield from (f"this is loaded from elsewhere: {url}" for url in foreign)


def faults_seen(found: dict[str, Any], size: tuple[int, int]) -> Iterator[str]:
    if found["window"] != size[0]:
        yield f"the window is {found['window']} px wide"
    if found["page"] > 0:
        yield f"the page is {found['page']} px too wide"
    if found["header"] > HEADER or found["rows"] > 1:
        yield f"the header has more than one row ({found['header']} px)"
    yield from (f"a formula is not drawn: {formula}" for formula in found["formulas"])
    yield from (f"a picture is not there: {source}" for source in found["pictures"])
    yield from (f"a picture has no alternative text: {source}" for source in found["alts"])
    if size == WIDE:
        yield from (f"code is wider than its box by {block}" for block in found["code"])
        yield from (f"a table is wider than its box: {table}" for table in found["tables"])


def pages(html: Path, *, every: bool) -> list[Path]:
    """The front page first, then by folder: all that people read, but a fourth of the reference if not ``every``."""
    others = {"genindex.html", "index.html", "py-modindex.html", "search.html"}
    top = [page for page in sorted(html.glob("*.html")) if page.name not in others]
    below = sorted(page for page in html.glob("*/**/*.html") if not {"_static", "generated"} & set(page.parts))
    reference = sorted((html / "api" / "generated").glob("*.html"))
    return [html / "index.html", *top, *below, *reference[:: 1 if every else 4]]


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
    parser.add_argument("--all", action="store_true", help="all pages of the reference, and not a fourth of them")
    options = parser.parse_args()
    built = [page.resolve() for page in pages(options.html, every=options.all)]
    if len(built) < 2 or not built[0].exists():
        parser.error(f"no documentation in {options.html}: build it by `python -m sphinx docs {options.html}`.")
    n_faults = 0
    with tempfile.TemporaryDirectory() as folder, started(Path(folder)) as browser:
        for page in built:
            for fault in faults(browser, page):
                print(f"{page.relative_to(options.html.resolve())} {fault}")
                n_faults += 1
        if options.shots:
            shoot(browser, built[0], options.shots)
    print(f"{len(built)} pages at {WIDE[0]} and {PHONE[0]} px: {n_faults or 'no'} faults")
    return int(n_faults > 0)


if __name__ == "__main__":
    sys.exit(main())
