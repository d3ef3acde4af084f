"""A real Chromium without a window, driven by its keyboard, for pages that lie in a folder."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")


class Browser:
    """Keys and looks. What is saved lands in the folder ``downloads``."""

    def __init__(self, driver: webdriver.Chrome, downloads: Path):
        self.driver, self.downloads = driver, downloads

    def resize(self, size: tuple[int, int]) -> None:
        phone = size[0] < 600
        self.cdp("Emulation.setDeviceMetricsOverride", width=size[0], height=size[1], deviceScaleFactor=1, mobile=phone)

    def open(self, page: Path | str, size: tuple[int, int] = (1280, 800), *, dark: bool = False) -> None:
        self.resize(size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.cdp("Emulation.setEmulatedMedia", features=[scheme])
        self.driver.get(page if isinstance(page, str) else page.as_uri())

    def reload(self) -> None:
        self.driver.execute_script("window.isOld = true")
        self.driver.refresh()
        if self.js("window.isOld"):
            raise AssertionError("the page was not loaded again")

    def cdp(self, command: str, **parameters):
        return self.driver.execute_cdp_cmd(command, parameters)

    def keys(self, *keys: str) -> None:
        ActionChains(self.driver).send_keys(*keys).perform()

    def ctrl(self, key: str) -> None:
        ActionChains(self.driver).key_down(Keys.CONTROL).send_keys(key).key_up(Keys.CONTROL).perform()

    def see(self, selector: str) -> str:
        """What is seen of the first element that fits the selector: nothing if it is hidden."""
        return self.driver.find_element(By.CSS_SELECTOR, selector).text

    def sees(self, selector: str, text: str) -> bool:
        """Whether the text is seen there within some seconds."""
        deadline = time.monotonic() + 5
        while not (found := self.see(selector) == text) and time.monotonic() < deadline:
            time.sleep(0.02)
        return found

    def js(self, expression: str):
        return self.driver.execute_script(f"return {expression}")

    def downloaded(self, name: str) -> bytes:
        """A file that was saved, as soon as it is whole, as it was a moment before; it is then removed."""
        path, deadline, content = self.downloads / name, time.monotonic() + 20, b""
        while not (path.exists() and content and path.read_bytes() == content):
            if time.monotonic() > deadline:
                raise AssertionError(f"{name} was not saved. There is {sorted(self.downloads.iterdir())}")
            content = path.read_bytes() if path.exists() else b""
            time.sleep(0.05)
        path.unlink()
        return content

    def requests(self) -> list[str]:
        """Addresses that pages asked for since the last call."""
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        return [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]

    def complaints(self) -> list[str]:
        """What the console said since the last call."""
        return [entry["message"] for entry in self.driver.get_log("browser")]


@contextmanager
def started(folder: Path) -> Iterator[Browser]:
    """A browser with a new profile in ``folder``, and its downloads there."""
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--hide-scrollbars"):
        options.add_argument(flag)
    options.add_argument(f"--user-data-dir={folder / 'profile'}")
    downloads = folder / "downloads"
    downloads.mkdir()
    options.add_experimental_option("prefs", {"download.default_directory": str(downloads)})
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    try:
        here = Browser(driver, downloads)
        here.driver.get("about:blank")
        time.sleep(1)  # just after its start Chromium can show a page an empty store
        here.requests()  # of the browser's own first tab
        yield here
    finally:
        driver.quit()
