"""The events of the page: folded, in order, with the clock of 24 hours; and the changes of the last hour."""

from __future__ import annotations

import json
import time

from chromium import Browser
from loops import over

from subord.api.models.document import time_text
from tests.api.fake_node_api import World
from tests.api.served_node import fixed_answer
from tests.browser.conftest import PageOf
from tests.browser.page_reader import event_lines, events
from tests.browser.served_page import large, streams

AT = 1.6e9


def change(kind: str, node: int, at: float, leader: int | None = None, old: int | None = None) -> dict[str, object]:
    def address(of: int | None) -> str | None:
        return None if of is None else f"10.0.0.{of}"

    named = {"address": address(node), "leader": address(leader), "former_leader": address(old)}
    return {"number": node, "time": time_text(at), "kind": kind, "place": "home", **named}


def moves(nodes: range, at: float, leader: int, old: int) -> list[dict[str, object]]:
    return [change("moved", node, at + number / 10, leader, old) for number, node in enumerate(nodes)]


@over(
    ("changes", "expected"),
    [
        ([change("missing", 24, AT, old=3)], ["10.0.0.24 is missing, was led by 10.0.0.3"]),
        # As in a real failure; the moves are reported before the death, which was earlier.
        (
            [*moves(range(60, 66), AT + 1, 25, 24), change("missing", 24, AT, old=3)],
            ["6 nodes moved from 10.0.0.24 to .25", "10.0.0.24 is missing, was led by 10.0.0.3"],
        ),
        # To several leaders; and back from several.
        (
            [*moves(range(60, 62), AT, 25, 24), *moves(range(62, 64), AT, 26, 24)],
            ["4 nodes moved from 10.0.0.24 to 2 others"],
        ),
        ([*moves(range(60, 62), AT, 24, 25), change("moved", 62, AT, 24, 26)], ["3 nodes moved to 10.0.0.24"]),
        # What has nothing in common is not joined, nor what is far apart in time, nor a node with itself.
        (
            [change("moved", 60, AT, 25, 24), change("moved", 61, AT, 8, 7)],
            ["10.0.0.61 moved from 10.0.0.7 to 10.0.0.8", "10.0.0.60 moved from 10.0.0.24 to 10.0.0.25"],
        ),
        (
            [change("left", 60, AT, old=24), change("left", 61, AT + 11, old=24)],
            ["10.0.0.61 left, was led by 10.0.0.24", "10.0.0.60 left, was led by 10.0.0.24"],
        ),
        (
            [change("restarted", 60, AT, 24), change("restarted", 60, AT + 1, 24)],
            ["10.0.0.60 was restarted, led by 10.0.0.24"] * 2,
        ),
        (
            [change("missing", node, AT, old=node // 8) for node in (40, 41, 42, 50)],
            ["4 nodes are missing: 10.0.0.[40-42,50]"],
        ),
        ([change("found", node, AT, 1) for node in range(2, 9)], ["7 nodes were found, led by 10.0.0.1"]),
        # Kinds of a later release.
        ([change("new", 60, AT), change("new", 61, AT)], ["10.0.0.61 new", "10.0.0.60 new"]),
    ],
)
def test_alike_events_are_one_line(
    page_modules: Browser, changes: list[dict[str, object]], expected: list[str]
) -> None:
    script = """
      const [changes] = arguments;
      const entries = changes.map((change) => ({ change, ms: Date.parse(change.time) }));
      entries.sort((one, other) => one.ms - other.ms);
      return import("./groups.js").then(({ grouped, sentenceOf, sentenceOfMany }) => grouped(entries).map((group) => {
        if (group.events.length > 1) return `${group.addresses.size} nodes ${sentenceOfMany(group)}`;
        const [{ change }] = group.events;
        return `${change.address} ${sentenceOf(change)}`;
      }));
    """
    assert page_modules.run(script, changes) == expected


def stream(changes: list[dict[str, object]]) -> bytes:
    return b"".join(b"event: change\ndata: %s\n\n" % json.dumps(each).encode() for each in changes)


def test_the_list_is_folded_in_order_and_opens(browser: Browser, page_of: PageOf) -> None:
    half_past_three = time.mktime((2026, 11, 20, 15, 30, 0, 0, 0, -1))
    changes = [
        *moves(range(60, 66), half_past_three + 1, 25, 24),
        change("missing", 24, half_past_three, old=3),
        change("returned", 24, half_past_three + 30, 3),
    ]
    page_of(World().node(1), {"/v1/events": streams(stream(changes))})
    browser.until(lambda: len(events(browser)) == 8, "all events")
    assert event_lines(browser) == [
        "10.0.0.24 is back, led by 10.0.0.3",
        "6 nodes moved from 10.0.0.24 to .25",
        "10.0.0.24 is missing, was led by 10.0.0.3",
    ]
    assert [each.text for each in browser.all("#event-list > li time")][:2] == ["20 Nov 15:30:30", "20 Nov 15:30:01"]
    line = browser.one("#event-list summary")
    assert not browser.one("#event-list details li").is_displayed()
    line.click()
    inside = [each.text for each in browser.all("#event-list details li")]
    assert inside[0] == "20 Nov 15:30:01 10.0.0.65 moved from 10.0.0.24 to 10.0.0.25"
    assert len(inside) == 6
    browser.one("#event-list details button").click()
    assert browser.text("#node-title") == "10.0.0.65"
    assert browser.one("#event-list details").get_attribute("open"), "it stays open"


def test_an_open_group_stays_open_when_it_grows(browser: Browser, page_of: PageOf) -> None:
    world = large(30)
    node = page_of(world.node(1))
    browser.until(lambda: events(browser), "events")
    node.change(lambda: world.leaders.update({10: 3, 11: 3}))
    browser.until(lambda: event_lines(browser)[0] == "2 nodes moved from 10.0.0.2 to .3, as guests", "a group")
    browser.one("#event-list summary").click()
    node.change(lambda: world.leaders.update({12: 3}))
    browser.until(lambda: event_lines(browser)[0] == "3 nodes moved from 10.0.0.2 to .3, as guests", "one more")
    assert browser.one("#event-list details").get_attribute("open")
    assert len([each for each in browser.all("#event-list details li") if each.is_displayed()]) == 3


def bars(browser: Browser, kind: str = "all") -> list[float]:
    found: list[float] = browser.run(
        "return [...document.querySelectorAll(arguments[0])].map((each) => Number(each.getAttribute('x')) / 2)",
        f"#hour rect.{kind}",
    )
    return found


def test_the_changes_of_the_last_hour(browser: Browser, page_of: PageOf) -> None:
    now = time.time()
    changes = [
        change("left", 5, now - 7200, old=2),  # too old
        *(change("found", node, now - 3000, 1) for node in range(2, 9)),  # no change
        change("moved", 9, now - 1800, 3, 4),
        change("missing", 10, now - 600, old=5),
        change("missing", 11, now - 600, old=5),
        change("joined", 12, now + 300, 5),  # of a root whose clock is ahead
    ]
    page_of(World().node(1), {"/v1/events": streams(stream(changes)), "/v1/errors": fixed_answer(b"{}")})
    browser.until(lambda: browser.text("#hour-text") == "4 changes in the last hour, 2 missing", "the text")
    at = bars(browser)
    assert [round(59 - each) for each in at] == [30, 10, 0]
    assert bars(browser, "missing") == at[1:2]
    assert browser.all("#hour .known")
    assert not browser.all("#hour .unknown")


def test_the_part_of_the_hour_that_is_not_known(browser: Browser, page_of: PageOf) -> None:
    opened = time.time()
    began = opened - 1200
    page_of(World().node(1), {"/v1/events": streams(stream([change("moved", 9, began, 3, 4)]))})
    at = time.localtime(began)
    yesterday = at.tm_yday != time.localtime().tm_yday  # within 20 minutes of midnight: the page then says the day
    since = time.strftime("%-d %b %H:%M" if yesterday else "%H:%M", at)
    browser.until(lambda: browser.text("#hour-text") == f"1 change since {since}", "the text")
    drawn = browser.one("#hour .unknown").get_attribute("d")
    minutes = time.time() // 60 - opened // 60  # that have begun since, each a bar less
    assert drawn in [f"M0 19.5H{78 - 2 * each:.0f}" for each in range(int(minutes) + 1)]
