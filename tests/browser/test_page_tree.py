"""The tree of the page in a real browser: what is visible, found and opened."""

from __future__ import annotations

import pytest
from chromium import Browser, Keys

from subord.core.view import Standing
from tests.api.fake_node_api import World
from tests.browser.conftest import PageOf
from tests.browser.page_reader import ROWS, addresses, box, figures, focused, found, open_to, row, shape
from tests.browser.served_page import large

DEPTH_FIRST = [f"10.0.0.{n}" for n in (1, 2, 4, 8, 9, 5, 10, 11, 3, 6, 7)]


def test_a_small_tree_is_open_and_complete(browser: Browser, page_of: PageOf) -> None:
    page_of(World().node(4))
    assert addresses(browser) == DEPTH_FIRST
    assert [each.get_attribute("aria-level") for each in browser.all(ROWS)] == list("12344344233")
    assert shape(browser, "10.0.0.1") == "#mark-root"
    assert browser.one(row("10.0.0.1")).accessible_name == "10.0.0.1 root 1 min"
    assert figures(browser) == {
        "nodes": "11",
        "at home": "11",
        "guests": "0",
        "missing": "0",
        "depth": "3",
        "root": "10.0.0.1",
        "quiet for": "5 s",
        "asked": "10.0.0.1",
    }
    assert browser.text("#cluster") == "10.0.0.0/16, fan-out 2, ip mapping"
    assert browser.driver.title == "11 nodes - subord"
    assert browser.text(f"{row('10.0.0.9')} .since") == "1 min"


def test_a_large_tree_begins_with_what_fits(browser: Browser, page_of: PageOf) -> None:
    world = large(500)
    world.standing |= {30: Standing.MISSING, 31: Standing.HELD}
    page_of(world.node(1))
    assert addresses(browser) == [f"10.0.0.{n}" for n in range(1, 10)]
    assert figures(browser)["nodes"] == "499"
    assert browser.driver.title == "1 missing, 499 nodes - subord"
    # A closed branch shows the states inside, also to screen readers.
    branch = browser.one(row("10.0.0.4"))
    assert branch.get_attribute("aria-expanded") == "false"
    assert browser.text(f"{row('10.0.0.4')} .inside") == "71 nodes below 1 missing 1 held"
    assert branch.accessible_name == "10.0.0.4 71 nodes below 1 missing 1 held 1 min"
    open_to(browser, "2")
    assert len(addresses(browser)) > 20
    assert browser.one(row("10.0.0.4")).get_attribute("aria-expanded") == "true"
    open_to(browser, "1")
    assert len(addresses(browser)) == 9


def test_only_visible_rows_exist(browser: Browser, page_of: PageOf) -> None:
    page_of(large(500).node(1))
    open_to(browser, "all")
    assert 20 < len(browser.all(ROWS)) < 80
    browser.one(row("10.0.0.1")).click()
    browser.press(Keys.END)
    assert focused(browser) == addresses(browser)[-1] == "10.0.0.73"
    assert len(browser.all(ROWS)) < 80
    tree, last = box(browser, "#tree"), box(browser, row("10.0.0.73"))
    assert tree["top"] <= last["top"] < last["bottom"] <= tree["bottom"] + 1
    browser.press(Keys.PAGE_UP)
    browser.press(Keys.HOME)
    assert focused(browser) == "10.0.0.1"
    # The row with the focus stays when it is scrolled away, and keys continue from it.
    browser.run("document.getElementById('tree').scrollTop = 6000")
    browser.until(lambda: "10.0.0.2" not in addresses(browser), "the first rows are no more")
    assert focused(browser) == "10.0.0.1"
    # Screen readers meet the rows from top to bottom.
    heights = [box(browser, row(each))["top"] for each in addresses(browser)]
    assert heights == sorted(heights)


def test_search_shows_hits_and_their_ancestors(browser: Browser, page_of: PageOf) -> None:
    world = large(500)
    page_of(world.node(1))
    browser.press("/")
    assert focused(browser) == "search"
    browser.press("0.0.17")
    browser.until(lambda: not browser.all(row("10.0.0.9")), "the others are hidden")
    hits = {17, *range(170, 180)}
    above = {each for position in hits for each in world.path(position)}
    assert set(addresses(browser)) == {f"10.0.0.{n}" for n in hits | above}
    assert found(browser) == {f"10.0.0.{n}" for n in hits}
    assert browser.text("#found") == "11 nodes found. Esc shows everything again."
    browser.press(Keys.ENTER)
    assert focused(browser) == "10.0.0.17"
    browser.press(Keys.ESCAPE)
    assert browser.all(row("10.0.0.9"))
    assert browser.one("#search").get_attribute("value") == ""
    browser.press("/")
    browser.press("nothing")
    browser.until(lambda: browser.text("#tree-empty"), "a sentence instead of nothing")
    assert (browser.text("#tree-empty"), addresses(browser)) == ("No node matches.", [])
    browser.press(Keys.ESCAPE)
    assert browser.all(row("10.0.0.9"))


@pytest.mark.parametrize(("mark", "position"), [("missing", 11), ("stale", 9), ("held", 7), ("guest", 10)])
def test_one_state_is_picked_out(browser: Browser, page_of: PageOf, mark: str, position: int) -> None:
    world = World()
    world.standing |= {11: Standing.MISSING, 9: Standing.STALE, 7: Standing.HELD}
    world.leaders[10] = 4  # its home is 5
    page_of(world.node(1))
    address = f"10.0.0.{position}"
    chip = browser.one(f"[data-mark={mark}]")
    assert chip.text.split()[-1] == "1"
    chip.click()
    assert chip.get_attribute("aria-pressed") == "true"
    assert found(browser) == {address}
    # By shape and by word, not by colour alone.
    assert shape(browser, address) == f"#mark-{mark}"
    assert browser.text(f"{row(address)} .words") == mark
    chip.click()
    assert len(addresses(browser)) == 11


def test_the_arrow_keys_move_through_the_tree(browser: Browser, page_of: PageOf) -> None:
    page_of(large(500).node(1))
    browser.run("document.querySelector('[role=treeitem]').focus()")
    steps = [
        (Keys.ARROW_DOWN, "10.0.0.2"),
        (Keys.ARROW_RIGHT, "10.0.0.2"),  # it opens
        (Keys.ARROW_RIGHT, "10.0.0.10"),
        (Keys.ARROW_DOWN, "10.0.0.11"),
        (Keys.ARROW_LEFT, "10.0.0.2"),
        (Keys.ENTER, "10.0.0.2"),  # it closes
        (Keys.ARROW_DOWN, "10.0.0.3"),
        ("*", "10.0.0.3"),  # all on its level open
        (Keys.ARROW_RIGHT, "10.0.0.18"),
        (Keys.ARROW_UP, "10.0.0.3"),
        (Keys.ARROW_LEFT, "10.0.0.3"),  # it closes
        (Keys.ARROW_LEFT, "10.0.0.1"),
        (Keys.ARROW_UP, "10.0.0.1"),  # there is no row above
    ]
    for step, (key, address) in enumerate(steps):
        browser.press(key)
        assert focused(browser) == address, f"after step {step}"
        assert browser.text("#node-title") == address
        assert [each.get_attribute("data-key") for each in browser.all(f"{ROWS}[tabindex='0']")] == [address]


def test_the_path_to_the_root_is_marked_and_can_be_climbed(browser: Browser, page_of: PageOf) -> None:
    page_of(World().node(1))
    browser.one(row("10.0.0.11")).click()
    assert [each.get_attribute("data-key") for each in browser.all(".row.on-path")] == [
        "10.0.0.1",
        "10.0.0.2",
        "10.0.0.5",
    ]
    assert browser.text("#path") == "10.0.0.1 10.0.0.2 10.0.0.5 10.0.0.11"
    browser.one("#path button[data-go='10.0.0.2']").click()
    assert browser.text("#node-title") == "10.0.0.2"
    assert browser.all(".row.chosen")[0].get_attribute("data-key") == "10.0.0.2"


def test_the_address_of_the_page_names_a_node(browser: Browser, page_of: PageOf) -> None:
    node = page_of(large(500).node(1), named="#10.0.1.44")
    assert browser.all(f"{row('10.0.1.44')}.chosen"), "its branches are open"
    browser.one(row("10.0.0.1")).click()
    assert browser.driver.current_url == f"{node.url}#10.0.0.1"


def test_what_was_measured_is_shown(browser: Browser, page_of: PageOf) -> None:
    world = World()
    world.numbers[4] = (0.00021, 92.0)
    page_of(world.node(1))
    assert browser.text(f"{row('10.0.0.4')} .numbers") == "92 jobs, 0.21 ms"
    assert browser.text(f"{row('10.0.0.5')} .numbers") == ""


def test_an_incomplete_tree_has_a_note(browser: Browser, page_of: PageOf) -> None:
    world = World()
    world.gone.add(1)
    page_of(world.node(2))
    assert (
        browser.text("#note")
        == "Not the whole cluster: 10.0.0.1 (root) does not answer: this is what 10.0.0.2 knows."
    )
    assert figures(browser)["nodes"] == "7"


def test_all_rows_are_printed(browser: Browser, page_of: PageOf) -> None:
    page_of(large(500).node(1))
    open_to(browser, "all")
    browser.run("dispatchEvent(new Event('beforeprint'))")
    browser.emulate("Emulation.setEmulatedMedia", media="print")
    assert len(browser.all(ROWS)) == 500
    heights = [box(browser, row(each))["top"] for each in addresses(browser)[::50]]
    assert heights == sorted(set(heights))
    browser.emulate("Emulation.setEmulatedMedia", media="")
    browser.run("dispatchEvent(new Event('afterprint'))")
    assert len(browser.all(ROWS)) < 80
