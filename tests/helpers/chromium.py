"""A real headless Chromium, for tests and for the pictures of the documents."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import Any

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

WAIT_S_MAX = 60.0
SWITCHES = (
    "--headless=new",
    "--no-sandbox",  # tests may run as root, in a container
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--force-color-profile=srgb",
    "--window-size=1280,800",
    "--lang=en-GB",
)
MISSING = "no chromium and chromedriver here: apt-get install chromium chromium-driver"


def programs() -> tuple[str, str] | None:
    """Paths of Chromium and of its driver; None: one of them is missing."""
    found = shutil.which("chromium"), shutil.which("chromedriver")
    return None if found[0] is None or found[1] is None else (found[0], found[1])


class Browser:
    """One browser with one tab."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def open(self, url: str) -> None:
        """Open a page without state of the former one, except the browser's storage."""
        self.driver.get("about:blank")
        self.complaints()
        self.driver.get(url)

    def run(self, script: str, *arguments: object) -> Any:
        """The result of a script, or of the promise that it returns."""
        return self.driver.execute_script(script, *arguments)

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements("css selector", selector)

    def one(self, selector: str) -> WebElement:
        return self.driver.find_element("css selector", selector)

    def text(self, selector: str) -> str:
        """The visible text of the matching elements, joined by spaces; "" if there is none."""
        found = self.run(
            "return [...document.querySelectorAll(arguments[0])].map((each) => each.innerText).join(' ')", selector
        )
        return " ".join(str(found).split())

    def press(self, *keys: str) -> None:
        """Press a key at the focus."""
        self.driver.switch_to.active_element.send_keys(*keys)

    def until(self, condition: Callable[[], Any], what: str, within_s: float = WAIT_S_MAX) -> Any:
        """Wait for a condition."""
        until = time.monotonic() + within_s
        while not (found := condition()):
            assert time.monotonic() < until, f"waited {within_s:g} s in vain: {what}"
            time.sleep(0.03)
        return found

    def emulate(self, command: str, **parameters: object) -> None:
        """A command of the Chrome DevTools Protocol."""
        self.driver.execute_cdp_cmd(command, parameters)

    def complaints(self) -> list[str]:
        """Errors and warnings about the page since the last call."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requested(self) -> set[str]:
        """All requested addresses since the last call, also failed ones."""
        asked = set()
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                asked.add(message["params"]["request"]["url"])
        return asked


@contextmanager
def chromium() -> Iterator[Browser]:
    """Raises AssertionError without Chromium: call `programs` first."""
    paths = programs()
    assert paths is not None, MISSING
    options = webdriver.ChromeOptions()
    options.binary_location = paths[0]
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    with TemporaryDirectory(prefix="subord-chromium-") as profile:
        for switch in (*SWITCHES, f"--user-data-dir={profile}"):
            options.add_argument(switch)
        # With the path of the driver Selenium looks for none, and downloads none.
        service = Service(paths[1], log_output=subprocess.DEVNULL)
        driver = webdriver.Chrome(options=options, service=service)
        try:
            yield Browser(driver)
        finally:
            driver.quit()


__all__ = ["MISSING", "Browser", "Keys", "chromium", "programs"]
