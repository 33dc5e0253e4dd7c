"""The panel of the shares: shown while an operator has set them, with the nodes that the decisions cover."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from chromium import Browser, Keys

from subord.services.shares.past import keeping
from subord.services.shares.past.public import PATH
from tests.api.fake_node_api import World
from tests.api.fake_shares import branch_of, hold, overview_of, plan_of
from tests.api.served_node import fixed_answer
from tests.browser.conftest import PageOf
from tests.browser.page_reader import box
from tests.browser.panel import Panel
from tests.browser.served_page import large
from tests.browser.shares_world import FURTHER, STALE, shares_document

PANEL = Panel("shares", PATH)
answers = PANEL.answers
is_shown = PANEL.is_shown
ask_again = PANEL.ask_again


def rows(browser: Browser) -> list[list[str]]:
    """The cells as they are read: class, the curve in words, wanted, got, used."""
    found: list[list[str]] = browser.run(
        "return [...document.querySelectorAll('#shares-rows tr')].map((row) => [...row.children].map("
        "(cell) => [...cell.children].some((each) => each.hidden) ? cell.children[0].textContent : cell.textContent))"
    )
    return [[" ".join(cell.split()) for cell in row] for row in found]


def shown(browser: Browser) -> list[list[str]]:
    browser.until(lambda: is_shown(browser) and rows(browser), "the shares")
    return rows(browser)


def test_each_class_is_shown_with_its_curve_and_its_numbers(browser: Browser, page_of: PageOf) -> None:
    page_of(large(30).node(1), answers(shares_document()))
    found = shown(browser)
    assert [row[0] for row in found] == ["web", "batch needy", "test"]
    assert [row[2:] for row in found][1][0] == "30 %"
    assert found[1][1].startswith("used ")
    assert "got 28.5 % to 35 %" in found[1][1]
    assert browser.text("#shares-summary") == "Version 7, rounds of 2 s, 3 classes."
    for kind in ("wanted", "got", "used", "area"):
        assert len(browser.all(f"#shares-rows .{kind}")) == 3
    told = "500 of 500 nodes in the decisions, the oldest 1 s ago. In this time: 480 to 500 of 500 nodes."
    assert browser.text("#shares-told") == told
    assert browser.text("#shares-span") == "30 min"
    assert not is_shown(browser, "#shares-note")


def test_nothing_partial_looks_whole(browser: Browser, page_of: PageOf) -> None:
    found = shares_document(moments=100, missing=(STALE, FURTHER), undecided="<b>no</b> shares fit")
    page_of(large(30).node(1), answers(found))
    shown(browser)
    told = "495 of 500 nodes in the decisions, the oldest 1 s ago; missing: 10.0.0.7"
    assert browser.text("#shares-told").startswith(told)
    assert "stale, 1 node left out further down." in browser.text("#shares-told")
    assert browser.text("#shares-note") == "No decision in the last round: <b>no</b> shares fit."


def test_without_shares_there_is_no_panel(browser: Browser, page_of: PageOf) -> None:
    none = shares_document({}, moments=0, version=None, asked=0, told=0, address=None)
    page = page_of(large(30).node(1), answers(none))
    assert not is_shown(browser)
    ask_again(browser, page, shares_document())
    shown(browser)
    ask_again(browser, page, none)
    browser.until(lambda: not is_shown(browser), "no panel")


def test_shares_that_are_off_are_said_to_be(browser: Browser, page_of: PageOf) -> None:
    off = shares_document({}, moments=0, version=9, asked=0, told=0, address=None)
    page_of(large(30).node(1), answers(off))
    browser.until(lambda: is_shown(browser), "the panel")
    assert browser.text("#shares-summary").startswith("Off by version 9: ")
    assert not is_shown(browser, "#shares-figures")


def test_without_the_root_the_last_figures_say_that_they_are_old(browser: Browser, page_of: PageOf) -> None:
    silent = {"cause": "silent", "text": "is silent", "count": 1, "addresses": ("10.0.0.1",)}
    unknown = shares_document(
        moments=0, address=None, asked=1, told=0, complete=False, missing=(msgspec.convert(silent, type(STALE)),)
    )
    page = page_of(large(30).node(2), answers(shares_document()))
    before = shown(browser)
    ask_again(browser, page, unknown)
    browser.until(lambda: is_shown(browser, "#shares-note"), "the reason")
    assert browser.text("#shares-note").startswith(
        "The root has not told its figures: 10.0.0.1 silent. These are of "
    )
    assert rows(browser) == before
    ask_again(browser, page, fixed_answer(json.dumps({"error": "no time"}).encode(), 503))
    browser.until(lambda: "The shares are not known now: no time." in browser.text("#shares-note"), "the reason")
    assert rows(browser) == before
    assert all("503" in each for each in browser.complaints())


def test_a_node_whose_root_never_answered_shows_what_is_wanted(browser: Browser, page_of: PageOf) -> None:
    plain = shares_document(moments=0, address=None, asked=1, told=0, complete=False)
    classes = tuple(msgspec.structs.replace(each, got=None, used=None, needy=False) for each in plain.classes)
    page_of(large(30).node(2), answers(msgspec.structs.replace(plain, classes=classes)))
    assert shown(browser)[0] == ["web", "no curve", "60 %", "\u2013", "\u2013"]
    assert browser.text("#shares-told") == ""
    assert "it is not known why" in browser.text("#shares-note")


def test_a_daemon_without_the_path_has_no_panel(browser: Browser, page_of: PageOf) -> None:
    page_of(large(30).node(1), {PATH: fixed_answer(b'{"error": "no such path"}', 404)})
    assert not is_shown(browser)
    assert all("404" in each for each in browser.complaints())


def test_many_classes_are_a_table(browser: Browser, page_of: PageOf) -> None:
    wanted = {f"class-{number}": 20.0 if number % 7 == 0 else 1.0 for number in range(20)}
    page_of(large(30).node(1), answers(shares_document(wanted)))
    found = shown(browser)
    assert len(found) == 20
    assert sum(row[1] == "no curve" for row in found) == 14
    assert browser.text("#shares-summary").endswith("20 classes, curves of the 6 largest.")
    assert browser.run("return document.documentElement.scrollHeight <= innerHeight")


def test_a_line_is_broken_where_nothing_is_known(browser: Browser, page_of: PageOf) -> None:
    found = shares_document(moments=60)
    assert found.ages_s[0] == 295
    (curve, *others) = found.curves
    got = (None, *(each if at not in range(20, 30) else None for at, each in enumerate(curve.got[1:], 1)))
    curve = msgspec.structs.replace(curve, got=got)
    page_of(large(30).node(1), answers(msgspec.structs.replace(found, curves=(curve, *others))))
    shown(browser)
    assert len(browser.all("#shares-rows tr:first-child .got")) == 2
    assert len(browser.all("#shares-rows tr:first-child .used")) == 1
    assert browser.text("#shares-span") == "5 min", "the shortest span in which all fits"


def test_it_gives_way_to_a_chosen_node(browser: Browser, page_of: PageOf) -> None:
    page_of(large(30).node(1), answers(shares_document()), named="#10.0.0.4")
    browser.until(lambda: browser.one("#node").is_displayed(), "a chosen node")
    assert not is_shown(browser)
    browser.press(Keys.ESCAPE)
    shown(browser)


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_lines_differ_without_colour_and_fit(browser: Browser, page_of: PageOf, width: int, theme: str) -> None:
    browser.emulate("Emulation.setDeviceMetricsOverride", width=width, height=780, deviceScaleFactor=1, mobile=False)
    try:
        page_of(large(30).node(1), answers(shares_document({"a" * 32: 60.0, "batch": 30.0, "test": 10.0})))
        browser.run("document.documentElement.dataset.theme = arguments[0]", theme)
        shown(browser)
        assert browser.run("return document.documentElement.scrollWidth") <= width
        assert browser.run(
            "const { scrollWidth, clientWidth } = document.getElementById('shares');return scrollWidth <= clientWidth"
        )
        styles = browser.run(
            "return ['wanted', 'got', 'used'].map((kind) => getComputedStyle("
            "document.querySelector(`#shares-rows .${kind}`)).strokeDasharray)"
        )
        assert len(set(styles)) == 3
        assert box(browser, "#shares-rows svg")["width"] >= 60
    finally:
        browser.emulate("Emulation.clearDeviceMetricsOverride")


def test_it_is_reached_and_scrolled_with_keys(browser: Browser, page_of: PageOf) -> None:
    page_of(large(30).node(1), answers(shares_document({f"c{number}": 2.0 for number in range(50)})))
    shown(browser)
    browser.run("document.getElementById('shares').focus()")
    assert browser.run("return document.activeElement.id") == "shares"
    browser.press(Keys.END)
    browser.until(lambda: browser.run("return document.getElementById('shares').scrollTop") > 0, "the end")


def test_the_figures_of_a_real_root_are_shown(
    browser: Browser, page_of: PageOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the ring of the root over the order of another node to the page."""
    now = [1000.0]
    monkeypatch.setattr(keeping, "monotonic", lambda: now[0])
    world = World()
    root, node = world.node(1), world.node(5)
    branches = (
        branch_of(1, (60, 30, 10), (50, 30, 5)),
        branch_of(2, (70, 20, 10), (70, 10, 10), nodes=3, needy=(False, True, False)),
    )
    hold(root, overview_of(plan_of(), branches, asked=11))
    hold(node, overview_of(plan_of()))
    for _ in range(4):
        keeping.keep(root)
        now[0] += 5
    page_of(node)
    found: list[list[Any]] = shown(browser)
    assert found[1] == ["batch needy", "used 15 % to 15 %, got 22.5 % to 22.5 %", "30 %", "22.5 %", "15 %"]
    assert browser.text("#shares-told").startswith("4 of 11 nodes in the decisions")
