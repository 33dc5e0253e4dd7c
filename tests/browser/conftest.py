"""One real Chromium for all tests of the page."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack

import pytest
from chromium import MISSING, Browser, chromium, programs

from subord.api.http.server import Handler
from tests.api.fake_node_api import FakeNode
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
    """It must have nothing to complain of at the end; a test that provokes complaints asks for them itself."""
    yield chromium_of_all
    chromium_of_all.driver.get("about:blank")
    assert chromium_of_all.complaints() == []


@pytest.fixture
def page_of(browser: Browser) -> Iterator[PageOf]:
    """The page of a node, open in the browser, with its tree on the screen."""
    with ExitStack() as stack:

        def opened(
            shown: FakeNode, handlers: Mapping[str, Handler] | None = None, prefix: str = "", named: str = ""
        ) -> Served:
            node = stack.enter_context(served(shown, handlers, prefix))
            browser.open(node.url + named)
            browser.until(lambda: browser.all("[role=treeitem]"), "a first tree")
            return node

        yield opened
        browser.driver.get("about:blank")
