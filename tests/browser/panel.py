"""A panel of the page that shows the document of one path: what a reader sees of it, and another answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
from chromium import Browser

from subord.api.http.server import Handler
from tests.api.served_node import fixed_answer
from tests.browser.served_page import Served


@dataclass(frozen=True)
class Panel:
    """`name`: the id of its element, and the begin of those in it. `path`: of its document."""

    name: str
    path: str

    def answers(self, found: msgspec.Struct) -> Mapping[str, Handler]:
        return {self.path: fixed_answer(msgspec.json.encode(found))}

    def rows(self, browser: Browser) -> list[list[str]]:
        """The cells as they are read."""
        found: list[list[str]] = browser.run(
            "return [...document.querySelectorAll(`#${arguments[0]}-rows tr`)].map((row) => "
            "[...row.children].map((cell) => cell.textContent))",
            self.name,
        )
        return found

    def items(self, browser: Browser, part: str) -> list[str]:
        """Of a list."""
        found: list[str] = browser.run(
            "return [...document.querySelectorAll(`#${arguments[0]} li`)].map((each) => each.textContent)",
            f"{self.name}-{part}",
        )
        return found

    def is_shown(self, browser: Browser, selector: str = "") -> bool:
        """The panel, or an element."""
        return browser.one(selector or f"#{self.name}").is_displayed()

    def shown(self, browser: Browser) -> None:
        """Returns when it is."""
        browser.until(lambda: self.is_shown(browser) and browser.text(f"#{self.name}-summary"), "the panel")

    def ask_again(self, browser: Browser, page: Served, found: msgspec.Struct | Handler) -> None:
        """Another answer, asked for at once: a hidden tab asks when it is visible again."""
        handler = self.answers(found)[self.path] if isinstance(found, msgspec.Struct) else found
        page.change(lambda: page.handlers.update({self.path: handler}))
        browser.run("document.dispatchEvent(new Event('visibilitychange'))")
