"""The tree of the page in a real browser: what is visible, found and opened."""

from __future__ import annotations

import json

import msgspec
import pytest
from chromium import Browser, Keys

from subord.api.models import nodes, trees
from subord.core.view import Liveness
from tests.api.fake_node_api import World
from tests.api.served_node import fixed_answer
from tests.browser.conftest import PageOf
from tests.browser.page_reader import ROWS, addresses, box, figures, focused, found, open_to, row, shape
from tests.browser.served_page import large


def rgba(colour: str) -> str:
    """As Selenium writes it."""
    return colour.replace("rgb(", "rgba(").replace(")", ", 1)")


DEPTH_FIRST = [f"10.0.0.{n}" for n in (1, 2, 4, 8, 9, 5, 10, 11, 3, 6, 7)]


def test_a_small_tree_is_open_and_complete(browser: Browser, page_of: PageOf) -> None:
    page_of(World().node(4))
    assert addresses(browser) == DEPTH_FIRST
    assert [each.get_attribute("aria-level") for each in browser.all(ROWS)] == list("12344344233")
    assert shape(browser, "10.0.0.1") == "#mark-root"
    assert browser.one(row("10.0.0.1")).accessible_name == "10.0.0.1 root 1 min"
    assert figures(browser) == {
        "nodes": "11",
        "down": "0",
        "guests": "0",
        "at home": "11",
        "depth": "3",
        "root": "10.0.0.1",
        "quiet for": "5 s",
    }
    assert browser.text("#cluster") == "10.0.0.0/16, fan-out 2, ip mapping"
    assert browser.driver.title == "11 nodes - subord"
    assert browser.text(f"{row('10.0.0.9')} .since") == "1 min"


def test_a_large_tree_begins_with_what_fits(browser: Browser, page_of: PageOf) -> None:
    page_of(large(500).node(1))
    assert addresses(browser) == [f"10.0.0.{n}" for n in range(1, 10)]
    assert figures(browser)["nodes"] == "500"
    open_to(browser, "2")
    assert len(addresses(browser)) > 15
    assert browser.one(row("10.0.0.4")).get_attribute("aria-expanded") == "true"
    open_to(browser, "1")
    assert len(addresses(browser)) == 9


def test_branches_with_trouble_are_open(browser: Browser, page_of: PageOf) -> None:
    world = large(500)
    world.liveness |= {30: Liveness.MISSING, 31: Liveness.HELD}
    world.leaders[40] = 3  # a guest is no trouble
    page_of(world.node(1))
    assert browser.driver.title == "1 down, 499 nodes - subord"
    assert addresses(browser) == [f"10.0.0.{n}" for n in (1, 2, 3, 4, *range(26, 34), 5, 6, 7, 8, 9)]
    # A closed branch shows the states inside, also to screen readers.
    browser.one(f"{row('10.0.0.4')} .twist").click()
    branch = browser.one(row("10.0.0.4"))
    assert branch.get_attribute("aria-expanded") == "false"
    assert browser.text(f"{row('10.0.0.4')} .inside") == "71 nodes below 1 down 1 held"
    assert branch.accessible_name == "10.0.0.4 71 nodes below 1 down 1 held 1 min"
    open_to(browser, "1")
    assert len(addresses(browser)) == 9, "a level that the user chose is obeyed"


def test_only_visible_rows_exist(browser: Browser, page_of: PageOf) -> None:
    page_of(large(500).node(1))
    open_to(browser, "all")
    assert 15 < len(browser.all(ROWS)) < 80
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
    assert browser.text(f"{row('10.0.0.175')} mark") == "0.0.17", "what was searched for is marked"
    assert not browser.all(f"{row('10.0.0.22')} mark")
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


def test_down_nodes_of_the_daemon_stay_in_their_places(browser: Browser, page_of: PageOf) -> None:
    """Also gone ones among the rows, without a time, and under maintenance."""
    world = World()
    document = msgspec.to_builtins(trees.tree(nodes.roster(world.settings, world.node(1).roster())))
    for line in document["rows"]:
        if line["address"] == "10.0.0.9":
            line.update(standing="gone", since_s=None, incarnation=None, maintenance="new memory")
        if line["address"] == "10.0.0.11":
            line.update(standing="missing")
    document.update(nodes=9, down=2, gone=1, maintained=1)
    page_of(world.node(1), {"/v1/tree": fixed_answer(json.dumps(document).encode())})
    assert addresses(browser) == DEPTH_FIRST
    assert (figures(browser)["nodes"], figures(browser)["down"], figures(browser)["at home"]) == ("9", "2", "9")
    assert browser.text("[data-mark=maintained]") == "1 under maintenance"
    assert browser.driver.title == "2 down, 9 nodes - subord"
    red = browser.run("return getComputedStyle(document.querySelector('.chip.is-down')).color")
    for address in ("10.0.0.9", "10.0.0.11"):
        assert shape(browser, address) == "#mark-down"
        assert browser.one(f"{row(address)} .address").value_of_css_property("color") == rgba(red)
    assert browser.text(f"{row('10.0.0.9')} .words") == "down"
    assert browser.text(f"{row('10.0.0.9')} .since") == ""
    browser.one(row("10.0.0.9")).click()
    facts = browser.text("#facts")
    assert "state down for not known last leader 10.0.0.4" in facts
    assert "maintenance new memory" in facts
    labels = (
        "return [...document.querySelectorAll('#facts dt')].filter((each) => each.scrollWidth > each.clientWidth)"
    )
    assert browser.run(labels) == []
    assert browser.text(f"{row('10.0.0.9')} .reason") == "new memory"
    browser.one("[data-mark=maintained]").click()
    assert addresses(browser) == ["10.0.0.1", "10.0.0.2", "10.0.0.4", "10.0.0.9"]


def test_what_an_operator_announced_opens_no_branch(browser: Browser, page_of: PageOf) -> None:
    world = large(100)
    document = msgspec.to_builtins(trees.tree(nodes.roster(world.settings, world.node(1).roster())))
    for line in document["rows"]:
        if line["address"] in {"10.0.0.30", "10.0.0.40"}:
            line.update(standing="gone", maintenance="new disks" if line["address"] == "10.0.0.30" else None)
    page_of(world.node(1), {"/v1/tree": fixed_answer(json.dumps(document).encode())})
    expanded = [row(f"10.0.0.{position}") for position in (4, 5)]
    assert [browser.one(each).get_attribute("aria-expanded") for each in expanded] == ["false", "true"]


def test_each_count_is_shown_once(browser: Browser, page_of: PageOf) -> None:
    world = large(60)
    world.liveness |= dict.fromkeys((40, 41, 42), Liveness.MISSING)
    page_of(world.node(1))
    header = browser.text("header")
    assert header.count("3 down") == 1
    assert header.count("57") == 2, "57 nodes, 57 at home"
    assert "missing" not in header
    assert not browser.all("#tree-part .chip")


@pytest.mark.parametrize(("mark", "position"), [("down", 11), ("stale", 9), ("held", 7), ("guest", 10)])
def test_one_state_is_picked_out(browser: Browser, page_of: PageOf, mark: str, position: int) -> None:
    world = World()
    world.liveness |= {11: Liveness.MISSING, 9: Liveness.STALE, 7: Liveness.HELD}
    world.leaders[10] = 4  # its home is 5
    page_of(world.node(1))
    address = f"10.0.0.{position}"
    chip = browser.one(f"[data-mark={mark}]")
    assert chip.text.split()[0] == "1"
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


def test_a_root_that_others_refuse_has_a_note(browser: Browser, page_of: PageOf) -> None:
    world = World()
    world.refused = "refused by 2 candidates: full"
    page_of(world.node(1))
    assert browser.text("#note") == "The root is refused by 2 candidates: full."


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
