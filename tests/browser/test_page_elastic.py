"""The panel of elastic growth: shown while a plan was published, with what the queue's node sees and does."""

from __future__ import annotations

import json

import msgspec
import pytest
from chromium import Browser, Keys

from subord.services.elastic.past.public import PATH
from tests.api.served_node import fixed_answer
from tests.browser.conftest import PageOf
from tests.browser.elastic_world import SILENT, WHY, elastic_document, figures
from tests.browser.page_reader import box
from tests.browser.panel import Panel
from tests.browser.served_page import large
from tests.browser.shares_world import shares_document

PANEL = Panel("elastic", PATH)
answers = PANEL.answers
rows = PANEL.rows
items = PANEL.items
is_shown = PANEL.is_shown
shown = PANEL.shown
ask_again = PANEL.ask_again


def test_the_cluster_is_shown_with_its_curves_and_the_last_decision(browser: Browser, page_of: PageOf) -> None:
    page_of(large(30).node(4), answers(elastic_document()))
    shown(browser)
    text = "7 nodes of 2 to 9, 9 needed; 10.0.0.1 has the queue, polled 20 s ago."
    assert browser.text("#elastic-summary") == text
    assert browser.text("#elastic-stages") == "Under way: 1 joining for 1 min, 1 mounting for 7 min."
    assert items(browser, "why") == [f"{each}." for each in WHY]
    assert items(browser, "notes") == ["Mounting: mount.nfs: no route to host."]
    assert rows(browser) == [
        ["hosts", "2 to 7", "7"],
        ["jobs waiting", "0 to 16", "12"],
        ["jobs running", "0 to 26", "26"],
    ]
    assert browser.text("#elastic-span") == "3 h"
    assert len(browser.all("#elastic-rows .line")) == len(browser.all("#elastic-rows .area")) == 3


def test_a_manager_that_is_blocked_or_fails_says_so(browser: Browser, page_of: PageOf) -> None:
    found = elastic_document(
        state="no agent",
        text="there is no agent on the node",
        detail="<b>connection</b> refused",
        fault="qstat: cannot reach the qmaster",
        figures=figures(blocked_s=1900),
        stages=(),
        trial=True,
        why=(),
    )
    page_of(large(30).node(1), answers(found))
    shown(browser)
    assert items(browser, "notes") == [
        "There is no agent on the node: <b>connection</b> refused.",
        "The last poll failed: qstat: cannot reach the qmaster.",
        "Nodes have been wanted for 31 min, and none was added.",
    ]
    assert browser.text("#elastic-summary").endswith("A trial: nothing is done.")
    assert not is_shown(browser, "#elastic-stages")


def test_without_a_plan_there_is_no_panel(browser: Browser, page_of: PageOf) -> None:
    none = elastic_document(polls=0, version=None, off=True, asked=0, told=0, address=None, state=None)
    page = page_of(large(30).node(1), answers(none))
    assert not is_shown(browser)
    ask_again(browser, page, elastic_document())
    shown(browser)
    ask_again(browser, page, msgspec.structs.replace(none, version=4))
    browser.until(lambda: "Off by version 4" in browser.text("#elastic-summary"), "the word")
    assert not is_shown(browser, "#elastic-figures")
    assert items(browser, "notes") == items(browser, "why") == []
    assert not is_shown(browser, "#elastic-stages")
    ask_again(browser, page, none)
    browser.until(lambda: not is_shown(browser), "no panel")


def test_without_the_queues_node_the_last_figures_say_that_they_are_old(browser: Browser, page_of: PageOf) -> None:
    page = page_of(large(30).node(2), answers(elastic_document()))
    shown(browser)
    before = rows(browser)
    silent = elastic_document(polls=0, state=None, figures=None, why=(), stages=(), missing=(SILENT,), told=0)
    ask_again(browser, page, silent)
    browser.until(lambda: "has not answered" in "".join(items(browser, "notes")), "the reason")
    (note,) = items(browser, "notes")
    assert note.startswith("10.0.0.1, which has the queue, has not answered: silent. This is of ")
    assert rows(browser) == before
    ask_again(browser, page, fixed_answer(json.dumps({"error": "no time"}).encode(), 503))
    browser.until(lambda: "It is not known now: no time." in "".join(items(browser, "notes")), "the reason")
    assert rows(browser) == before
    assert all("503" in each for each in browser.complaints())


def test_a_queues_node_that_never_answered_is_named(browser: Browser, page_of: PageOf) -> None:
    silent = elastic_document(polls=0, state=None, figures=None, why=(), stages=(), missing=(SILENT,), told=0)
    page_of(large(30).node(2), answers(silent))
    shown(browser)
    assert browser.text("#elastic-summary") == "10.0.0.1 has the queue."
    assert items(browser, "notes") == ["10.0.0.1, which has the queue, has not answered: silent."]
    assert not is_shown(browser, "#elastic-figures")


def test_a_daemon_without_the_path_has_no_panel(browser: Browser, page_of: PageOf) -> None:
    page_of(large(30).node(1), {PATH: fixed_answer(b'{"error": "no such path"}', 404)})
    assert not is_shown(browser)
    assert all("404" in each for each in browser.complaints())


def test_a_line_is_broken_where_there_was_no_poll(browser: Browser, page_of: PageOf) -> None:
    found = elastic_document(polls=60)
    keep = [at for at in range(60) if at not in range(20, 45)]
    fields = ("ages_s", "num_hosts", "running", "queued")
    cut = {name: tuple(getattr(found, name)[at] for at in keep) for name in fields}
    page_of(large(30).node(1), answers(msgspec.structs.replace(found, **cut)))
    shown(browser)
    assert len(browser.all("#elastic-rows tr:first-child .line")) == 2
    assert browser.text("#elastic-span") == "1 h"


@pytest.mark.parametrize("width", [360, 1280])
def test_it_fits_beside_the_shares_and_gives_way_to_a_chosen_node(
    browser: Browser, page_of: PageOf, width: int
) -> None:
    both = {**answers(elastic_document()), "/v1/shares/past": fixed_answer(msgspec.json.encode(shares_document()))}
    browser.emulate("Emulation.setDeviceMetricsOverride", width=width, height=780, deviceScaleFactor=1, mobile=False)
    try:
        page_of(large(30).node(1), both)
        shown(browser)
        browser.until(lambda: is_shown(browser, "#shares"), "the shares")
        assert browser.run("return document.documentElement.scrollWidth") <= width
        assert width < 1000 or browser.run("return document.documentElement.scrollHeight <= innerHeight")
        assert box(browser, "#elastic-rows svg")["width"] >= 60
        browser.run("location.hash = '#10.0.0.4'; dispatchEvent(new HashChangeEvent('hashchange'))")
        browser.until(lambda: browser.one("#node").is_displayed(), "a chosen node")
        assert not is_shown(browser)
        browser.press(Keys.ESCAPE)
        shown(browser)
    finally:
        browser.emulate("Emulation.clearDeviceMetricsOverride")
