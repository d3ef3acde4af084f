"""The page for labelling: what it holds, and what it does in a real browser under a person's keys."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import os
import re
import time
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from page_browser import CHROMIUM, DRIVER, ActionChains, By, Keys, started

from skactive.campaign import Accuracy, Campaign, _page
from skactive.campaign._curve import curve_of
from skactive.campaign._page import labelling_page
from skactive.cli import main
from skactive.cli._tables import read_table

PARTS = {name: (resources.files(_page) / name).read_text("utf-8") for name in ("page.html", "page.css", "page.js")}
TWO = pd.DataFrame({"text": ["one", "two"]}, index=["03", "3"])
PIXEL = base64.b64decode("R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7")


def page_of(frame=TWO, *, id="id", target="y", title="week 1", **options):
    return labelling_page(frame, id=id, target=target, title=title, **options)


def tags_of(page: str) -> list[tuple[str, dict]]:
    found, parser = [], HTMLParser()
    parser.handle_starttag = lambda tag, attributes: found.append((tag, dict(attributes)))
    parser.feed(page)
    parser.close()
    return found


def inside(page: str) -> list[str]:
    """The style, the batch and the script."""
    found = re.findall(r"<(style|script)\b[^>]*>(.*?)</\1>", page, re.DOTALL)
    assert [tag for tag, _ in found] == ["style", "script", "script"]
    return [text for _, text in found]


def batch_in(page: str) -> dict:
    return json.loads(inside(page)[1])


NASTY = ["</script><script>alert(1)</script>", "<!-- <script>", "\u2028", "\ud800", "$title ${batch} $$", "\0\r\n"]
texts = st.one_of(st.text(st.characters(exclude_categories=())), st.sampled_from(NASTY))
IDS = st.one_of(st.integers(), st.text(min_size=1).filter(lambda text: text.strip() and "\0" not in text))


@given(cells=st.lists(st.tuples(IDS, texts), min_size=1, max_size=4), column=st.text(), title=texts)
def test_any_text_and_id_come_back_from_the_page_and_no_text_becomes_a_tag(cells, column, title):
    ids, cells = map(list, zip(*cells, strict=True))
    frame = pd.DataFrame({column: pd.Series(cells, dtype=object)}).set_axis(pd.Index(ids, dtype=object))
    page = page_of(frame, title=title)
    assert page.isascii()
    assert [tag for tag, _ in tags_of(page)] == [tag for tag, _ in tags_of(page_of())]
    batch = batch_in(page)
    assert batch["columns"] == [column]
    assert [row["id"] for row in batch["rows"]] == [str(id) for id in ids]
    shown = [cell["text"] if isinstance(cell, dict) else cell for row in batch["rows"] for cell in row["cells"]]
    assert shown == cells


def test_the_page_runs_its_own_script_and_style_names_nothing_else_and_makes_no_markup_of_text():
    tags = tags_of(page_of())
    (policy,) = [a["content"] for _, a in tags if a.get("http-equiv") == "Content-Security-Policy"]
    style, script = (
        base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in inside(page_of())[::2]
    )
    assert dict(rule.split(" ", 1) for rule in policy.split("; ")) == {
        "default-src": "'none'",
        "script-src": f"'sha256-{script}'",
        "style-src": f"'sha256-{style}'",
        "img-src": "'self' file: data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        "require-trusted-types-for": "'script'",
    }
    assert [value for _, a in tags for key, value in a.items() if key in {"src", "href"}] == ["data:,"]
    assert "://" not in page_of()
    for word in ("innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval", "Function("):
        assert word not in PARTS["page.js"]
    assert all(part.isascii() for part in PARTS.values())  # others would be escaped, and in a script that changes it


def shown_of(value, **options):
    frame = pd.DataFrame({"a": pd.Series([value], dtype=object)})
    return batch_in(page_of(frame, **options))["rows"][0]["cells"][0]


def test_values_are_shown_as_people_write_them():
    for value, shown in [
        (3.0, "3"),
        (np.float32(0.1), "0.1"),
        (True, "True"),
        (pd.Timestamp("2026-03-01"), "2026-03-01"),
        *((gap, None) for gap in (None, float("nan"), pd.NaT, pd.NA)),
    ]:
        assert shown_of(value) == shown, value
    frame = pd.DataFrame({"a": pd.array([1, None], "Int64"), "d": pd.Categorical(["a", None])})
    assert [row["cells"] for row in batch_in(page_of(frame))["rows"]] == [["1", "a"], [None, None]]


@pytest.mark.skipif(os.name == "nt", reason="paths of another system")
def test_an_image_has_an_address_and_a_web_address_is_text():
    for text, folder, src in [
        ("../a.JPEG", None, "./../a.JPEG"),
        ("50%/a b#1?.webp", None, "./50%25/a%20b%231%3F.webp"),
        ("/data/img/a.gif", None, "file:///data/img/a.gif"),
        ("/data/img/a.gif", Path("/data/pages"), "./../img/a.gif"),
    ]:
        assert shown_of(text, folder=folder) == {"src": src, "text": str(text)}
    no_files = ["javascript:alert(1)//.png", "https://example.com/a.png", "//example.com/a.png", "file:///data/a.png"]
    no_images = ["data:image/png,a.png", "\\\\machine\\a.png", "two lines\na.png", "\ud800.png", "a.png.txt", ".png"]
    for text in no_files + no_images:
        assert shown_of(text, folder=Path("/data")) == text


def test_labels_are_kept_for_each_batch_apart_and_found_by_a_page_made_anew():
    def key(frame=TWO, **options):
        return batch_in(page_of(frame, **options))["key"]

    frames = [TWO[:1], TWO.rename(columns={"text": "b"}), TWO.replace("one", "1"), TWO.set_axis(["3", "03"])]
    options = [{"target": "z"}, {"id": "number"}, {"labels": ["a"]}, {"title": "A second time"}, {"kind": "number"}]
    assert len({key(), *map(key, frames), *(key(**one) for one in options)}) == 10
    images = pd.DataFrame({"a": ["/data/a.png"]})
    assert key(images) == key(images, guesses=[("a", 0.5)], folder=Path("/data"))


def test_labels_are_written_as_given_and_a_guess_with_its_probability():
    for labels, texts, numeric, opened in [
        (pd.Series(["spam", "no spam"]), ["spam", "no spam"], False, True),
        (np.array([0, 1]), ["0", "1"], True, True),
        ([0.0, 0.5], ["0.0", "0.5"], True, True),
        (np.array([False, True]), ["False", "True"], False, False),
    ]:
        batch = batch_in(page_of(labels=labels))
        assert (batch["labels"], batch["numeric"], batch["open"]) == (texts, numeric, opened)
    guesses = [("spam", 0.834), (1, np.float64(1)), (2.5, float("nan")), (1 / 3, None), (np.nan, np.nan), (None, 0.5)]
    rows = batch_in(page_of(pd.DataFrame({"a": range(6)}), guesses=guesses))["rows"]
    assert [row["guess"] for row in rows] == ["spam (83%)", "1 (100%)", "2.5", "0.333333", None, None]


def test_what_a_csv_cannot_hold_is_refused():
    for text in (" ", "a\0", "\ud800"):
        for bad in ({"frame": TWO.set_axis(pd.Index(["a", text], dtype=object))}, {"labels": ["a", text]}):
            with pytest.raises(ValueError, match="cannot save"):
                page_of(**bad)
    for names in ({"id": "y"}, {"id": "skip"}, {"target": "skip"}):
        with pytest.raises(ValueError, match="three names"):
            page_of(**names)


SIZES = {"1280 light": ((1280, 800), False), "390 dark": ((390, 844), True)}


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    if not (CHROMIUM and DRIVER):
        pytest.fail("needs Chromium and its driver: apt-get install chromium chromium-driver")
    with started(tmp_path_factory.mktemp("browser")) as browser:
        yield browser


@pytest.fixture
def show(chromium, tmp_path):
    """Shows a page of this name; at the end nothing may have been loaded from elsewhere or been complained about."""

    def show(page: str, name: str = "week1.html", size: str = "1280 light"):
        (tmp_path / name).write_text(page, encoding="ascii")
        size, dark = SIZES[size]
        chromium.open(tmp_path / name, size, dark=dark)
        return chromium

    (tmp_path / "blank.html").write_text("")
    chromium.open(tmp_path / "blank.html")
    chromium.js("localStorage.clear()")
    chromium.complaints()
    yield show
    assert [url for url in chromium.requests() if not url.startswith(("file:", "data:", "blob:", "about:"))] == []
    assert [line for line in chromium.complaints() if "missing.png" not in line] == []


def sticks_out(browser) -> bool:
    """Whether the page is wider than the screen, or was made smaller to fit."""
    return browser.js("document.documentElement.scrollWidth > innerWidth || visualViewport.scale !== 1")


def asks_before_it_is_left(browser) -> bool:
    # A driven browser answers the question itself: the page's own listener is asked instead.
    return not browser.js("dispatchEvent(new Event('beforeunload', { cancelable: true }))")


ROWS = {
    "03": ('</script><script>document.title = "broken"</script> <b>bold</b> &amp;', 1.5),
    "3": ('He said "no",\nand left\r\n\u2028 \U0001f600', np.nan),
    'a "b", c': ("\u05e9\u05dc\u05d5\u05dd, \u05e2\u05d5\u05dc\u05dd", 3),
    "two\nlines": ("unbreakable" * 900, 4),
    "=1+1": (None, 5),
    "<i>": ("", 6),
}
MESSAGES = pd.DataFrame.from_dict(ROWS, orient="index", columns=["message", "amount"])


@pytest.mark.parametrize("size", SIZES)
def test_a_person_labels_skips_takes_back_reloads_and_saves_with_keys_alone(show, size, tmp_path):
    browser = show(page_of(MESSAGES, id="Nr; id", target="kind, of", labels=["spam", "\u00e4ndern"]), size=size)
    assert browser.see("#told") == "Choose kind, of for each row, then save."
    assert browser.see("#place") == "Row 1 of 6 \u00b7 Nr; id 03"
    assert browser.see("#progress") == "0 of 6 labelled"
    assert not asks_before_it_is_left(browser)
    assert not sticks_out(browser)
    browser.keys("2")
    assert browser.see("#place").startswith("Row 2 of 6")
    browser.keys("s")
    assert browser.see("#progress") == "1 of 6 labelled, 1 skipped"
    assert not sticks_out(browser)
    browser.keys("u")
    assert (browser.see("#place"), browser.see("#progress")) == ("Row 2 of 6 \u00b7 Nr; id 3", "1 of 6 labelled")
    browser.keys("r", 'blurred, "s" or 1', Keys.ENTER)  # in a field, keys are letters
    browser.keys("n", ' "new", s1 ', Keys.ENTER)
    assert not sticks_out(browser)
    browser.keys("s")
    assert not sticks_out(browser)  # the row of 9900 characters without a space
    assert asks_before_it_is_left(browser)

    browser.reload()
    assert browser.see("#place").startswith("Row 4 of 6")
    assert browser.see("#progress") == "2 of 6 labelled, 1 skipped"
    browser.keys(Keys.BACKSPACE)  # what was done before can still be taken back
    assert browser.see("#progress") == "2 of 6 labelled"
    browser.keys("s", "3", Keys.ARROW_RIGHT, "1")  # the new label has a key; row 5 stays open
    assert browser.see("#end") == "All 6 rows"
    assert "1 row is still open" in browser.see("#todo")
    assert not sticks_out(browser)
    shown = browser.see("#list").splitlines()
    assert [word for word in shown if word in {"open", "skipped"}] == ["skipped", "open"]
    assert browser.js("document.title") == "week 1"
    sizes = "[...document.body.querySelectorAll('*')].map((element) => parseFloat(getComputedStyle(element).fontSize))"
    assert min(browser.js(sizes)) >= 16
    assert browser.js("getComputedStyle(document.activeElement).outline").endswith("solid 3px")

    browser.keys(Keys.ENTER)
    content = browser.downloaded("week1_labelled.csv")
    assert "week1_labelled.csv" in browser.see("#message")
    assert not asks_before_it_is_left(browser)
    labels = ["\u00e4ndern", '"new", s1', "", '"new", s1', "", "spam"]
    remarks = ["", 'blurred, "s" or 1', "", "", "", ""]
    expected = [*zip(MESSAGES.index, labels, ["", "", "1", "", "", ""], remarks, strict=True)]
    rows = [tuple(row) for row in csv.reader(io.StringIO(content.decode("utf-8"), newline=""), strict=True)]
    assert rows == [("Nr; id", "kind, of", "skip", "remark"), *expected]
    (tmp_path / "saved.csv").write_bytes(content)
    told = read_table(str(tmp_path / "saved.csv"), text=rows[0])
    assert [*told.fillna("").itertuples(index=False, name=None)] == expected
    assert content.startswith(b'"Nr; id","kind, of",skip,remark\r\n03,\xc3\xa4ndern,,\r\n')

    browser.keys(*[Keys.TAB] * 2, Keys.ENTER)  # by way of "Go to the first open row" to row 1
    assert browser.see("#place").startswith("Row 1 of 6")
    assert browser.js("document.querySelector('#labels [aria-pressed=true] bdi').textContent") == "\u00e4ndern"
    browser.keys("1")
    assert browser.see("#unsaved") == "not saved yet"
    browser.ctrl("s")
    assert browser.downloaded("week1_labelled.csv").splitlines()[1] == b"03,spam,,"


def test_markup_is_shown_as_text_and_a_gap_as_a_dash(show):
    browser = show(page_of(MESSAGES, labels=["spam"]))
    cells = []
    for _ in range(len(MESSAGES)):
        cells.append(browser.js("[...document.querySelectorAll('dd')].map((cell) => cell.textContent)"))
        browser.keys("1")
    no_value = "\u2013no value"
    assert [message for message, _ in cells] == [*MESSAGES["message"][:4], no_value, "(empty)"]
    assert cells[1][1] == no_value
    assert browser.js("document.querySelectorAll('script').length") == 2


def test_images_come_from_files_and_what_does_not_load_is_text(show, tmp_path):
    (tmp_path / "50% #1?.gif").write_bytes(PIXEL)
    paths = ["50% #1?.gif", str(tmp_path / "50% #1?.gif"), "missing.png", "https://example.com/a.png"]
    browser = show(page_of(pd.DataFrame({f"c{i}": [path] for i, path in enumerate(paths)}), folder=tmp_path))
    loaded = "[...document.images].map((image) => [image.alt, image.complete, image.naturalWidth])"
    assert browser.js(loaded) == [[path, True, 1] for path in paths[:2]]
    shown = [browser.see(f"#cells div:nth-child({i}) dd") for i in (3, 4)]
    assert shown == ["missing.png (no image there)", *paths[3:]]


def test_numbers_are_typed_and_keys_work_beside_them(show):
    frame = pd.DataFrame({"house": list("abcd")}, index=[7, 8, 9, 10])
    browser = show(page_of(frame, target="price", kind="number"), "houses.HTM")
    browser.keys("1,5", Keys.ENTER)
    assert browser.see("#message") == "1,5 is not a number. Write it like 12 or -3.5, with a point."
    browser.keys("o")
    assert browser.see("#message").startswith("You typed 1,5.")  # what is half typed is not lost
    browser.keys(Keys.ESCAPE, "1.50", Keys.ENTER, "s", "-2e3", Keys.ENTER, "u", Keys.ARROW_LEFT, Keys.ARROW_LEFT)
    assert browser.js("document.activeElement.value") == "1.50"
    browser.keys(Keys.ENTER, Keys.ARROW_RIGHT, "-2e3", Keys.ENTER)
    assert browser.see("#progress") == "2 of 4 labelled, 1 skipped"
    browser.ctrl("s")
    assert browser.downloaded("houses_labelled.csv") == b"id,price,skip\r\n7,1.50,\r\n8,,1\r\n9,-2e3,\r\n10,,\r\n"


def test_a_page_of_a_table_with_decimal_commas_shows_takes_and_saves_them(show, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("pool.csv").write_text("id;x;price\n1;0,006;\n2;0,006;\n3;0,006;\n")
    start = "start c.db --pool pool.csv --id id --target price --task regression"
    assert [main(line.split()) for line in (start, "ask c.db -n 3 -o g.html")] == [0, 0]
    browser = show(Path("g.html").read_text())
    assert browser.see("dd") == "0,006"
    browser.keys("1.5", Keys.ENTER, Keys.BACKSPACE * 3, "1,028", Keys.ENTER, "980", Keys.ENTER, "7,5", Keys.ENTER)
    browser.ctrl("s")
    Path("g.csv").write_bytes(browser.downloaded("week1_labelled.csv"))
    assert main(["tell", "c.db", "g.csv"]) == 0
    assert sorted(Campaign.open("c.db").history()["label"].dropna()) == [1.028, 7.5, 980]


def test_more_labels_than_keys_are_found_by_typing_and_one_that_begins_another_is_new_where_all_have_keys(show):
    def given(browser):
        return [None if answer is None else answer["label"] for answer in browser.js("state.answers")]

    labels = [f"topic {i}" for i in range(1, 13)] + ["Hamster"]
    browser = show(page_of(pd.DataFrame({"a": range(5)}), labels=labels))
    browser.keys("9", "n", "ham", Keys.ENTER, "n", "topic 1", Keys.ENTER)
    browser.keys("n", "ham", Keys.TAB, Keys.ENTER)  # ... and one that is a part of another is added with its button
    browser.keys("n", "opic 12", Keys.ENTER)
    assert given(browser) == ["topic 9", "Hamster", "topic 1", "ham", "topic 12"]
    browser = show(page_of(pd.DataFrame({"a": range(3)}), labels=["hamster", "cat"]))
    browser.keys("n", "ham", Keys.ENTER, "n", "CAT", Keys.ENTER, "3")
    assert given(browser) == ["ham", "cat", "ham"]


def test_a_digit_is_its_own_key(show):
    cases = [(range(10), "0123456789"), ([1.0, 0.0], "10"), (["b", "1", "a"], "213"), ([True, False], "12")]
    for labels, pressed in [*cases, (["1.5", "10"], "12")]:
        browser = show(page_of(pd.DataFrame({"a": range(len(labels))}), labels=labels, closed=True))
        browser.keys(*pressed)
        assert [answer["label"] for answer in browser.js("state.answers")] == [str(label) for label in labels]
        assert not browser.js("document.getElementById('field').checkVisibility()")


def test_where_no_label_is_known_the_first_is_typed_at_once_and_numbers_take_no_word(show):
    browser = show(page_of())
    assert browser.see("#told") == "Type y for each row, then save."
    browser.keys("blue", Keys.ENTER, "1")
    assert browser.see("#progress") == "2 of 2 labelled"
    browser = show(page_of(labels=[0, 1]))
    browser.keys("n", "two", Keys.ENTER)
    assert browser.see("#message").startswith("two is not a number.")
    browser.keys(Keys.BACKSPACE * 3, "1.0", Keys.ENTER)
    assert browser.js("state.answers[0].label") == "1"


def test_guesses_are_hidden_until_asked_for_at_each_row(show):
    guesses = [("spam", 0.834), (None, None)]
    browser = show(page_of(labels=["spam", "ham"], guesses=guesses))
    assert browser.see("#message") == ""
    browser.keys("g")
    assert browser.see("#message") == "The model's guess: spam (83%)"
    browser.keys("2", "g")
    assert browser.see("#message") == browser.see("#peek") == ""


def test_what_is_done_in_one_tab_counts_in_another(show):
    browser = show(page_of(labels=["a", "b"]), "one.html")
    browser.keys("1")
    first = browser.driver.current_window_handle
    browser.driver.switch_to.new_window("tab")
    show(page_of(labels=["a", "b"]), "copy2.html")
    assert browser.see("#progress") == "1 of 2 labelled"
    browser.keys("2")
    browser.driver.close()
    browser.driver.switch_to.window(first)
    assert browser.sees("#progress", "2 of 2 labelled")
    browser.keys("u")
    assert browser.see("#progress") == "1 of 2 labelled"


def test_a_browser_that_keeps_nothing_is_said_to(show):
    browser = show(page_of(labels=["a", "b"]))
    assert browser.see("#forgetful") == ""
    refuse = "Object.defineProperty(window, 'localStorage', { get() { throw new DOMException('', 'SecurityError'); } })"
    script = browser.cdp("Page.addScriptToEvaluateOnNewDocument", source=refuse)
    try:
        browser = show(page_of(labels=["a", "b"]))
        assert "does not keep your labels" in browser.see("#forgetful")
        browser.keys("1")
        browser.reload()  # ... and yet a reload loses nothing
        browser.keys("2")
        browser.ctrl("s")
        assert browser.downloaded("week1_labelled.csv") == b"id,y,skip\r\n03,a,\r\n3,b,\r\n"
    finally:
        browser.cdp("Page.removeScriptToEvaluateOnNewDocument", **script)


def test_a_key_held_down_labels_one_row(show):
    browser = show(page_of(pd.DataFrame({"a": range(5)}), labels=["a", "b"]))
    key = {"key": "1", "code": "Digit1", "text": "1"}
    for held in (False, True, True):
        browser.cdp("Input.dispatchKeyEvent", type="keyDown", autoRepeat=held, **key)
    assert browser.see("#progress") == "1 of 5 labelled"


# --- with a server ----------------------------------------------------------------------------------


@pytest.fixture
def live(chromium, tmp_path):
    """A campaign of sixty rows in the browser, at an address of `anna`, and the truth by id."""
    a = np.random.default_rng(0).normal(size=60)
    frame = pd.DataFrame(
        {"id": [f"{i:02d}" for i in range(60)], "a": a, "picture": "no.png", "text": "long " * 30, "y": None}
    )
    given = {"target": "y", "id": "id", "labels": ["neg", "pos"], "model": "logistic", "random_state": 0}
    campaign = Campaign.start(tmp_path / "y.db", frame, **given)
    served = campaign.serve(["anna", "ben"], batch=10)
    truth = dict(zip(frame["id"], np.where(a > 0, "2", "1"), strict=True))
    yield chromium, campaign, served, truth
    first, *others = chromium.driver.window_handles
    for window in others:
        chromium.driver.switch_to.window(window)
        chromium.driver.close()
    chromium.driver.switch_to.window(first)
    chromium.driver.get("about:blank")
    chromium.complaints()
    served.stop()


def visit(browser, address, size="1280 light"):
    browser.open(address, SIZES[size][0], dark=SIZES[size][1])
    return row_shown(browser)


def row_shown(browser, other_than=None):
    """The id of the row that is shown, as soon as there is one."""
    deadline = time.monotonic() + 60
    while not (place := browser.see("#place")) or place.split()[-1] == other_than:
        assert time.monotonic() < deadline, browser.see("#trouble")
        time.sleep(0.02)
    return place.split()[-1]


def answers(campaign):
    history = Campaign.open(campaign.path).history()
    return history[history["kind"] == "tell"]


def test_two_annotators_label_by_keys_while_batches_come_and_the_model_is_judged(live):
    browser, campaign, served, truth = live
    tabs = {}
    for name, address in served.addresses.items():
        browser.driver.switch_to.new_window("window")
        visit(browser, address)
        tabs[name] = browser.driver.current_window_handle
    for turn in range(32):
        browser.driver.switch_to.window(tabs["anna" if turn % 2 else "ben"])
        browser.keys(truth[row_shown(browser)])
    deadline = time.monotonic() + 20
    while len(found := answers(campaign)) < 32 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert found["annotator"].value_counts().to_dict() == {"anna": 16, "ben": 16}
    assert found["id"].is_unique
    assert [{"neg": "1", "pos": "2"}[label] for label in found["label"]] == [truth[id] for id in found["id"]]
    deadline = time.monotonic() + 30
    while not (panel := browser.see("#panel")).startswith("Accuracy") and time.monotonic() < deadline:
        time.sleep(0.1)
    assert "always" in panel


def test_the_curve_is_drawn_and_told_in_words(live):
    browser, _, served, _ = live
    visit(browser, served.addresses["anna"])
    found = [
        (n, Accuracy(v, v - 0.1, v + 0.1, "accuracy", n, 9, (v, 0, 1), 9, True)) for n, v in ((20, 0.5), (30, 0.8))
    ]
    browser.driver.execute_script("showPanel(arguments[0])", {"head": "", "lines": [], "curve": curve_of(found)})
    assert "20 labels, 50 % (40 % to 60 %); 30 labels, " in browser.js("document.querySelector('#curve img').alt")
    assert browser.js("document.querySelector('#curve img').decode().then(() => true)")


@pytest.mark.parametrize("size", SIZES)
def test_what_is_answered_without_a_connection_is_kept_said_and_sent_once(live, size):
    browser, campaign, served, truth = live
    first = visit(browser, served.addresses["anna"], size)
    assert not sticks_out(browser)
    browser.keys("r", "1 of 2", Keys.ENTER)
    browser.cdp("Network.enable")
    offline = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    browser.cdp("Network.emulateNetworkConditions", offline=True, **offline)
    browser.keys(truth[first])
    assert browser.sees("#unsaved", "not saved yet")
    assert browser.see("#trouble").startswith("No connection")
    assert asks_before_it_is_left(browser)
    second = row_shown(browser, first)
    browser.keys("s")
    assert len(answers(campaign)) == 0
    browser.cdp("Network.emulateNetworkConditions", offline=False, **offline)
    assert browser.sees("#unsaved", "")
    assert browser.sees("#trouble", "")
    assert answers(campaign)[["id", "remark"]].values.tolist() == [[first, "1 of 2"]]
    assert Campaign.open(campaign.path).history()["kind"].value_counts()["skip"] == 1
    assert second != first
    assert not sticks_out(browser)


def test_an_answer_that_one_page_after_the_other_cannot_send_waits_for_the_next(live):
    browser, campaign, served, truth = live
    first = visit(browser, served.addresses["anna"])
    script = browser.cdp("Page.addScriptToEvaluateOnNewDocument", source="window.fetch = () => Promise.reject()")
    browser.js("window.fetch = () => Promise.reject()")
    browser.keys(truth[first])
    browser.reload()
    browser.cdp("Page.removeScriptToEvaluateOnNewDocument", **script)
    browser.reload()
    row_shown(browser)
    assert answers(campaign)["id"].tolist() == [first]


def test_what_is_taken_back_is_so_in_the_campaign_and_a_remark_on_a_row_put_off_outlives_a_reload(live):
    browser, campaign, served, _ = live
    first = visit(browser, served.addresses["anna"])
    browser.keys(*"22suuu")
    assert browser.sees("#message", "Your last answer is taken back.")
    browser.keys("r", "torn", Keys.ENTER, "l")
    assert browser.sees("#unsaved", "")
    assert Campaign.open(campaign.path).to_frame()["y"].isna().all()
    browser.reload()
    assert row_shown(browser) == first
    browser.keys("1")
    assert browser.sees("#unsaved", "")
    assert answers(campaign)[["id", "label", "remark"]].values.tolist()[2:] == [[first, "neg", "torn"]]


def test_a_double_click_labels_one_row_undo_and_another_key_correct_it_and_later_comes_back(live):
    browser, campaign, served, _ = live
    first = visit(browser, served.addresses["anna"])
    ActionChains(browser.driver).double_click(browser.driver.find_element(By.CSS_SELECTOR, "#labels button")).perform()
    second = row_shown(browser, first)
    assert browser.sees("#unsaved", "")
    browser.keys("u", "2")
    assert browser.sees("#unsaved", "")
    browser.keys(Keys.ARROW_RIGHT)
    third = row_shown(browser, second)
    assert answers(campaign)[["id", "label"]].values.tolist() == [[first, "neg"], [first, "pos"]]
    browser.js("document.querySelector('#labels button').focus()")
    time.sleep(2.5)  # while the page asks the server anew
    assert browser.js("document.activeElement.closest('#labels') !== null")
    browser.keys("o")
    assert browser.see("#todo").endswith("still open.")
    browser.driver.refresh()
    assert row_shown(browser) == second
    assert third != second
