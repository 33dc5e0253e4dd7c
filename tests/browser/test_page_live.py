"""The page during changes of the cluster, of its daemon and of the network."""

from __future__ import annotations

import json

import pytest
from chromium import Browser, Keys

from subord.api.handlers.changes import CHANGES_MAX
from subord.api.http.slots import READERS_MAX
from subord.api.models.document import time_text
from subord.core.view import Liveness
from tests.api.fake_node_api import World
from tests.api.served_node import fixed_answer, hanging
from tests.browser.conftest import PageOf
from tests.browser.page_reader import ROWS, addresses, box, events, figures, focused, open_to, row, shape
from tests.browser.served_page import large, streams

LIVE = "live"


def connection(browser: Browser) -> str:
    return browser.text("#connection-text")


def is_live(browser: Browser) -> None:
    browser.until(lambda: connection(browser) == LIVE and events(browser), "events and a tree")


def test_a_change_is_seen_without_reloading(browser: Browser, page_of: PageOf) -> None:
    world = World()
    node = page_of(world.node(1))
    is_live(browser)
    browser.until(lambda: not browser.text("#age"), "the update that the first events cause, which may be planned")
    browser.until(lambda: browser.text("#age"), "an update that is 3 s old: no request is under way")
    browser.run("window.notReloaded = true")
    browser.run("for (let id = setTimeout(() => {}); id > 0; id--) clearTimeout(id)")  # no further polling
    node.change(lambda: world.liveness.update({11: Liveness.MISSING}))
    browser.until(lambda: figures(browser)["down"] == "1", "one is missing, by an event")
    assert shape(browser, "10.0.0.11") == "#mark-down"
    browser.until(lambda: events(browser)[0] == "10.0.0.11 is missing, was led by 10.0.0.5", "its event")
    assert browser.driver.title == "1 down, 10 nodes - subord"
    # Its leader forgets it, and the register still has it.
    node.change(lambda: (world.leaders.pop(11), world.liveness.clear()))
    node.change(lambda: world.leaders.update({10: 4}))  # causes an event
    browser.until(lambda: events(browser)[0] == "10.0.0.10 moved from 10.0.0.5 to 10.0.0.4, as a guest", "it moved")
    browser.until(lambda: figures(browser)["guests"] == "1", "a guest")
    browser.until(lambda: "10.0.0.10" in addresses(browser)[:6], "it moved in the tree, too")
    assert addresses(browser)[-4:] == ["10.0.0.11", "10.0.0.3", "10.0.0.6", "10.0.0.7"], "still below 10.0.0.5"
    assert shape(browser, "10.0.0.11") == "#mark-down"
    assert figures(browser)["down"] == "1"
    node.change(lambda: world.leaders.update({11: 5, 10: 5}))
    browser.until(lambda: "10.0.0.11 is back, led by 10.0.0.5" in events(browser)[:2], "it is back")
    browser.until(lambda: shape(browser, "10.0.0.11") == "#mark-home", "it is at home")
    assert figures(browser)["down"] == "0"
    assert browser.run("return window.notReloaded")


def test_an_update_keeps_focus_and_position(browser: Browser, page_of: PageOf) -> None:
    world = large(500)
    node = page_of(world.node(1))
    is_live(browser)
    open_to(browser, "all")
    browser.press("/")
    browser.press("10.0.1.20", Keys.ENTER)
    browser.press(Keys.ESCAPE)
    assert focused(browser) == "10.0.1.20"
    browser.press(Keys.ARROW_DOWN)
    browser.press(Keys.ARROW_UP)
    before = box(browser, row("10.0.1.20"))["top"]
    # A whole branch above it goes away.
    branch = {10, *(position for position in world.leaders if 10 in world.path(position))}
    node.change(lambda: [world.leaders.pop(position) for position in branch])
    node.change(lambda: world.liveness.update({500: Liveness.MISSING}))  # causes an event at once
    browser.until(lambda: figures(browser)["nodes"] == str(499 - len(branch)), "the branch has left")
    assert focused(browser) == "10.0.1.20"
    assert box(browser, row("10.0.1.20"))["top"] == pytest.approx(before, abs=1)
    assert browser.text("#node-title") == "10.0.1.20"


def test_a_closed_branch_stays_closed(browser: Browser, page_of: PageOf) -> None:
    world = World()
    node = page_of(world.node(1))
    is_live(browser)
    browser.one(f"{row('10.0.0.4')} .twist").click()
    assert not browser.all(row("10.0.0.8"))
    node.change(lambda: world.liveness.update({9: Liveness.MISSING}))
    browser.until(lambda: browser.text(f"{row('10.0.0.4')} .inside") == "1 node below 1 down", "visible from outside")
    assert not browser.all(row("10.0.0.8"))


def test_the_focus_of_a_removed_row_goes_to_its_leader(browser: Browser, page_of: PageOf) -> None:
    world = World()
    node = page_of(world.node(1))
    is_live(browser)
    browser.one(row("10.0.0.9")).click()
    node.change(lambda: (world.leaders.pop(9), world.leaders.update({10: 4})))
    browser.until(lambda: not browser.all(row("10.0.0.9")), "it has left")
    assert focused(browser) == "10.0.0.4"
    assert browser.text("#node-title") == "10.0.0.9"
    assert browser.text("#node-gone") == "It is not in the tree any more; this is its last known state."
    browser.until(lambda: browser.text("#why") == "10.0.0.9 does not answer.", "nor does it answer")
    browser.until(browser.complaints, "the browser's complaint about the answer 504")


def test_time_passes_without_asking(browser: Browser, page_of: PageOf) -> None:
    page_of(World().node(1))
    browser.until(lambda: browser.text(f"{row('10.0.0.9')} .since") == "1 min", "a time")
    browser.run(
        "window.fetch = () => new Promise(() => {}); const now = Date.now; Date.now = () => now() + 3 * 3600e3"
    )
    browser.until(lambda: browser.text(f"{row('10.0.0.9')} .since") == "3 h", "three hours more")


def test_a_daemon_that_stops_and_returns(browser: Browser, page_of: PageOf) -> None:
    world = World()
    node = page_of(world.node(1))
    is_live(browser)
    node.shut()
    browser.until(lambda: connection(browser) == "no answer: trying again", "the loss is shown")
    browser.until(lambda: browser.text("#age").startswith("last update "), "and the age of the tree")
    assert len(addresses(browser)) == 11, "the last known tree"
    node.open_again()
    browser.until(lambda: connection(browser) == LIVE, "live again")
    node.change(lambda: world.liveness.update({11: Liveness.MISSING}))
    browser.until(lambda: events(browser)[0] == "10.0.0.11 is missing, was led by 10.0.0.5", "events again")
    # No event is listed twice.
    assert len(events(browser)) == len(set(events(browser)))
    browser.until(browser.complaints, "the browser's complaint about the closed server")


def test_without_a_connection_the_tree_dims_and_ages_stop(browser: Browser, page_of: PageOf) -> None:
    node = page_of(World().node(1))
    is_live(browser)
    opacity = (
        "return ['#tree', '#overview', '#counts']"
        ".map((each) => getComputedStyle(document.querySelector(each)).opacity)"
    )
    assert browser.run(opacity) == ["1"] * 3
    node.shut()
    browser.until(lambda: browser.run(opacity) == ["0.5"] * 3, "dimmed")
    assert browser.run("return getComputedStyle(document.getElementById('connection')).opacity") == "1"
    browser.one(row("10.0.0.9")).click()
    browser.run("const now = Date.now; Date.now = () => now() + 3 * 3600e3")
    browser.until(lambda: browser.text("#age") == "last update 3 h ago", "the age of the tree goes on")
    assert browser.text(f"{row('10.0.0.9')} .since") == "1 min"
    assert figures(browser)["quiet for"] == "5 s"
    assert "1 min, since" in browser.text("#facts")
    node.open_again()
    browser.until(lambda: browser.run(opacity) == ["1"] * 3, "live again")
    browser.until(browser.complaints, "the browser's complaint about the closed server")


def test_without_events_the_tree_is_polled(browser: Browser, page_of: PageOf) -> None:
    sentence = f"{READERS_MAX} readers of events or orders are connected already: try again later"
    page_of(World().node(1), {"/v1/events": fixed_answer(json.dumps({"error": sentence}).encode(), 503)})
    browser.until(lambda: connection(browser) == "no events: trying again", "shown")
    assert len(addresses(browser)) == 11
    browser.until(browser.complaints, "the browser's complaint about the refusal")


WRONG = [
    (b"not JSON", 200, "the answer is not a valid document: trying again"),
    (b"{}", 200, "the answer is no tree: trying again"),
    (b"null", 200, "the answer is no tree: trying again"),
    (b'{"rows": [{}, 7, null]}', 200, "the answer is no tree: trying again"),
    (b'{"error": "the root is silent"}', 503, "the root is silent: trying again"),
    (b"<h1>502</h1>", 502, "the daemon answered with status 502: trying again"),
]


def test_an_answer_that_is_no_tree_changes_nothing(browser: Browser, page_of: PageOf) -> None:
    node = page_of(World().node(1))
    is_live(browser)
    right = node.handlers["/v1/tree"]
    for body, status, expected in WRONG:
        wrong = fixed_answer(body, status)
        node.change(lambda handler=wrong: node.handlers.update({"/v1/tree": handler}))
        browser.run("dispatchEvent(new Event('online'))")
        browser.until(lambda wanted=expected: connection(browser) == wanted, expected)
        assert len(addresses(browser)) == 11
        node.change(lambda: node.handlers.update({"/v1/tree": right}))
        browser.run("dispatchEvent(new Event('online'))")
        browser.until(lambda: connection(browser) == LIVE, "live again")
    assert all("50" in each for each in browser.complaints())


# -- why --------------------------------------------------------------------------------------------------------


def test_the_reasons_of_a_node(browser: Browser, page_of: PageOf) -> None:
    page_of(World().node(1))
    browser.one(row("10.0.0.4")).click()
    browser.until(lambda: browser.all("#why table"), "its reasons")
    assert browser.text("#why > p").lower() == "the computed leader accepted."
    lines = [line.text for line in browser.all("#why tbody tr")]
    assert lines[0].startswith("10.0.0.1 1 0 not asked")
    assert lines[1].startswith("* 10.0.0.2 2 1 accepted (3 s ago)")
    browser.one("#why [data-go='10.0.0.2']").click()
    assert browser.text("#node-title") == "10.0.0.2"


def test_a_hung_node_blocks_nothing(browser: Browser, page_of: PageOf) -> None:
    world = World()
    world.hung.add(9)
    node = page_of(world.node(1))
    is_live(browser)
    browser.one(row("10.0.0.9")).click()
    browser.until(lambda: browser.text("#why") == "Asking 10.0.0.9.", "it is being asked")
    node.change(lambda: world.liveness.update({11: Liveness.MISSING}))
    browser.until(lambda: figures(browser)["down"] == "1", "the page is live")
    browser.until(lambda: browser.text("#why") == "10.0.0.9 does not answer.", "shown")
    node.change(world.hung.clear)
    browser.one("#ask-again").click()
    browser.until(lambda: browser.all("#why table"), "asked again, it answers")
    browser.until(browser.complaints, "the browser's complaint about the answer 504")


def test_a_daemon_that_never_answers_why(browser: Browser, page_of: PageOf) -> None:
    page_of(World().node(1), {"/v1/why": hanging})
    browser.one(row("10.0.0.9")).click()
    browser.until(lambda: browser.text("#why") == "Asking 10.0.0.9.", "it is being asked")
    browser.one(row("10.0.0.4")).click()
    browser.until(lambda: browser.text("#why") == "Asking 10.0.0.4.", "another one can be chosen")
    browser.until(lambda: browser.text("#why") == "No answer within 5 s.", "it ends")


# -- events -----------------------------------------------------------------------------------------------------


def change_of(number: int, address: str = "10.0.0.9", kind: str = "moved") -> dict[str, object]:
    change = {"number": number, "time": time_text(1.6e9 + number), "kind": kind, "address": address}
    return {**change, "leader": "10.0.0.3", "former_leader": "10.0.0.4", "place": "guest"}


def test_events_can_be_held_and_narrowed(browser: Browser, page_of: PageOf) -> None:
    world = World()
    node = page_of(world.node(1))
    is_live(browser)
    before = events(browser)
    browser.one("#pause").click()
    node.change(lambda: world.leaders.update({11: 4}))
    browser.until(lambda: browser.text("#events-note") == "Paused; 1 new.", "counted")
    assert events(browser) == before
    browser.one("#pause").click()
    assert events(browser)[0] == "10.0.0.11 moved from 10.0.0.5 to 10.0.0.4, as a guest"
    browser.one(row("10.0.0.3")).click()
    browser.one("#only-branch").click()
    assert {line.split()[0] for line in events(browser)} == {"10.0.0.3", "10.0.0.6", "10.0.0.7"}
    browser.one("#event-list summary").click()
    first = browser.text("#event-list button").split()[0]  # of several events of one moment
    browser.one("#event-list button").click()
    assert browser.text("#node-title") == first
    assert {line.split()[0] for line in events(browser)} == {first}


def test_an_event_leads_to_its_node_wherever_that_is(browser: Browser, page_of: PageOf) -> None:
    page_of(large(500).node(1))
    is_live(browser)
    browser.press("/")
    browser.press("10.0.0.9")
    browser.until(lambda: not browser.all(row("10.0.0.3")), "the search hides the others")
    browser.one("#event-list summary").click()
    link = browser.one("#event-list button")
    address = link.text
    link.click()
    assert browser.all(f"{row(address)}.chosen"), "neither search nor closed branches hide it"
    assert browser.one("#search").get_attribute("value") == ""


def test_of_many_events_the_last_are_kept(browser: Browser, page_of: PageOf) -> None:
    changes = b"".join(b"event: change\ndata: %s\n\n" % json.dumps(change_of(n)).encode() for n in range(2000))
    again = b"event: change\ndata: %s\n\n" % json.dumps(change_of(1999)).encode()
    page_of(World().node(1), {"/v1/events": streams(changes + again + b"event: missed\ndata: {}\n\n")})
    browser.until(lambda: len(browser.all("#event-list li")) == 500, "the last 500")
    assert browser.text("#events-note") == "Some events were missed; the tree is not affected."
    times = [each.get_attribute("datetime") for each in browser.all("#event-list time")[:2]]
    assert times == ["2020-09-13T12:59:59.000Z", "2020-09-13T12:59:58.000Z"]
    assert CHANGES_MAX < 500


def test_a_hidden_tab_asks_nothing(browser: Browser, page_of: PageOf) -> None:
    world = World()
    node = page_of(world.node(1))
    is_live(browser)
    hide = "Object.defineProperty(document, 'hidden', {value: %s, configurable: true});"
    turn = "document.dispatchEvent(new Event('visibilitychange'))"
    browser.run(hide % "true" + turn)
    node.change(lambda: world.liveness.update({11: Liveness.MISSING}))
    browser.requested()
    browser.run("return new Promise((done) => setTimeout(done, 1500))")
    assert browser.requested() == set()
    browser.run(hide % "false" + turn)
    browser.until(lambda: figures(browser)["down"] == "1", "it asks at once")
    browser.until(lambda: "10.0.0.11 is missing, was led by 10.0.0.5" in events(browser), "and continues the events")
    assert len(browser.all(ROWS)) == 11
