"""One real Chromium for all tests of the page."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack

import pytest
from chromium import MISSING, Browser, chromium, programs

from subord.api.http.server import Handler
from tests.api.fake_node_api import FakeNode, World
from tests.browser.served_page import Served, served

PageOf = Callable[..., Served]


@pytest.fixture(scope="session")
def chromium_of_all() -> Iterator[Browser]:
    if programs() is None:
        if os.environ.get("CI"):
            pytest.fail(MISSING)
        pytest.skip(MISSING)
    with chromium() as browser:
        yield browser


@pytest.fixture
def browser(chromium_of_all: Browser) -> Iterator[Browser]:
    """Fails a test if the browser has complaints at its end; a test that provokes complaints collects them itself."""
    yield chromium_of_all
    chromium_of_all.driver.get("about:blank")
    assert chromium_of_all.complaints() == []


@pytest.fixture
def page_of(browser: Browser) -> Iterator[PageOf]:
    """The page of a node, open in the browser, with its tree on the screen."""
    with ExitStack() as stack:

        def opened(
            node: FakeNode, handlers: Mapping[str, Handler] | None = None, prefix: str = "", named: str = ""
        ) -> Served:
            web_address = stack.enter_context(served(node, handlers, prefix))
            browser.open(web_address.url + named)
            browser.until(lambda: browser.all("[role=treeitem]"), "a first tree")
            return web_address

        yield opened
        browser.driver.get("about:blank")


@pytest.fixture(scope="module")
def page_modules(chromium_of_all: Browser) -> Iterator[Browser]:
    """A browser on the page, in which its modules can be imported."""
    with served(World().node(1)) as node:
        chromium_of_all.open(node.url)
        yield chromium_of_all
        chromium_of_all.driver.get("about:blank")
