"""The panel of virtual machines: shown while a plan was published, with the last round and a bar of each server."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from chromium import Browser, Keys

from subord.runtime.machines.state import Amount, JobState, KindCount, SeenServer
from subord.services.machines.shown.documents import MachinesShownDocument, ShownType
from subord.services.machines.shown.public import PATH
from tests.api.machines_nodes import MachinesNodes
from tests.api.served_node import fixed_answer
from tests.browser.conftest import PageOf
from tests.browser.elastic_world import elastic_document
from tests.browser.machines_world import (
    SILENT,
    amount,
    figures,
    machines_document,
    part,
    server,
)
from tests.browser.page_reader import box
from tests.browser.panel import Panel
from tests.browser.served_page import large
from tests.browser.shares_world import shares_document

PANEL = Panel("machines", PATH)
answers = PANEL.answers
rows = PANEL.rows
items = PANEL.items
is_shown = PANEL.is_shown
shown = PANEL.shown
ask_again = PANEL.ask_again


def silent(**other: Any) -> MachinesShownDocument:
    """The queue's node has not answered."""
    fields: dict[str, Any] = {"state": None, "figures": None, "whys": (), "servers": (), "types": ()}
    return machines_document(0, **fields, missing=(SILENT,), told=0, complete=False, **other)


def names(browser: Browser) -> list[str]:
    return [each[0].split()[0] for each in rows(browser)]


def bars(browser: Browser, row: int, kind: str = "cores") -> list[tuple[str, float, float]]:
    """The colour, the begin and the width of each piece."""
    found: list[list[Any]] = browser.run(
        "return [...document.querySelectorAll("
        "`#machines-rows tr:nth-child(${arguments[0]}) .${arguments[1]} rect`)].map((each) => "
        "[each.getAttribute('class') ?? each.style.fill, +each.getAttribute('x'), +each.getAttribute('width')])",
        row,
        kind,
    )
    return [(str(colour), float(begin), float(width)) for colour, begin, width in found]


def order_by(browser: Browser, order: str) -> None:
    browser.run(
        "const choice = document.getElementById('machines-order'); choice.value = arguments[0];"
        "choice.dispatchEvent(new Event('change'))",
        order,
    )


def test_each_server_is_shown_with_its_machines_by_type(browser: Browser, page_of: PageOf) -> None:
    few = (
        server("10.0.0.9", part("alma", 2), part("", 1), coming=(1, 4096)),
        server("10.0.0.10", part("deb", 1), have=amount(8, 8192)),
    )
    page_of(large(30).node(4), answers(machines_document(servers=few, figures=figures(few))))
    shown(browser)
    assert browser.text("#machines-summary") == (
        "Round 12, 4 s ago: 20 jobs wait, 13 of them get nothing now; 61 run. 10.0.0.1 has the queues."
    )
    assert browser.text("#machines-told") == "2 of 2 servers serve; 12 of 24 cores, 30 of 68 GiB used."
    assert items(browser, "why") == [
        "9 jobs: 6 machines of the type deb are on, and 6 are the most.",
        "4 jobs: no server has room for a machine of the type alma.",
    ]
    assert items(browser, "notes") == []
    assert rows(browser) == [
        [
            "10.0.0.9",
            "11/16 cores: alma 8 (2 machines), not ours 2 (1 machine), coming 1, free 5",
            "26/60 GiB: alma 16 (2 machines), not ours 6 (1 machine), coming 4, free 34",
        ],
        ["10.0.0.10", "1/8 cores: deb 1 (1 machine), free 7", "4/8 GiB: deb 4 (1 machine), free 4"],
    ]
    assert bars(browser, 1) == [
        ("free", 0, 100),
        ("var(--type-0)", 0, 50),
        ("coming", 50, 6.25),
        ("foreign", 56.25, 12.5),
    ]
    assert bars(browser, 2, "memory") == [("free", 0, 100), ("var(--type-1)", 0, 50)]


def test_a_node_shows_what_the_queues_node_tells(browser: Browser, page_of: PageOf) -> None:
    """Without a document in between: from the state of the node to the bars."""
    nodes = MachinesNodes()
    alma = KindCount(type="alma", on=3, cores=12, memory=24_576)
    have, used = Amount(16, 30_720, 0, 64), Amount(12, 24_576, 0, 3)
    serves = SeenServer(name="10.0.0.2", asked_at=nodes.now - 5, have=have, used=used, kinds=(alma,))
    gone = SeenServer(name="10.0.0.3", fault="is silent")
    nodes.manage(
        kinds=(alma,),
        servers=(serves, gone),
        servers_all=2,
        unreachable=1,
        have=have,
        used=used,
        waiting=3,
        unmet=2,
        jobs=(JobState(id="4711", why="no server has room", tasks=2, is_unmet=True), JobState(id="4712")),
    )
    page_of(nodes.node)
    shown(browser)
    assert "3 jobs wait, 2 of them get nothing now; 0 run. 10.0.0.1 has the queues." in browser.text(
        "#machines-summary"
    )
    assert (
        browser.text("#machines-told") == "1 of 2 servers serve; 12 of 16 cores, 24 of 30 GiB used, 1 as last seen."
    )
    assert items(browser, "why") == ["2 jobs: no server has room."]
    assert items(browser, "notes") == ["10.0.0.3 does not serve: is silent."]
    assert rows(browser) == [
        ["10.0.0.2", "12/16 cores: alma 12 (3 machines), free 4", "24/30 GiB: alma 24 (3 machines), free 6"],
        ["10.0.0.3 not known", "–", "–"],  # noqa: RUF001 - as the page writes it
    ]


def test_what_a_server_lacks_is_beyond_its_end(browser: Browser, page_of: PageOf) -> None:
    few = (
        server("10.0.0.2", part("alma", 5)),
        server("10.0.0.3", part("alma", 4)),
        server("10.0.0.4", part("alma", 99)),
        server("10.0.0.5", part("alma", 1), have=amount(0, 0), overbooked=True),
    )
    page_of(large(30).node(4), answers(machines_document(servers=few, figures=figures(few))))
    shown(browser)
    assert rows(browser)[0][:2] == [
        "10.0.0.2 overbooked",
        "20/16 cores: alma 20 (5 machines), 4 cores more than the server has",
    ]
    end = round(100 / 1.5, 2)
    for row, beyond in ((1, end / 4), (3, 100 - end), (4, 100 - end)):
        colour, begin, width = bars(browser, row)[-1]
        assert (colour, begin) == ("beyond", end)
        assert abs(width - beyond) < 0.02
    assert [each[0] for each in bars(browser, 2)] == ["free", "var(--type-0)"]
    assert "overbooked" in items(browser, "key")
    assert "3 overbooked" in browser.text("#machines-told")


def test_what_is_not_known_of_servers_is_said(browser: Browser, page_of: PageOf) -> None:
    page_of(large(30).node(4), answers(machines_document(12, servers_left_out=400)))
    shown(browser)
    assert items(browser, "notes") == [
        "10.0.0.3 does not serve: it has last answered 310 s ago.",
        "10.0.0.4 does not serve: libvirt does not answer.",
    ]
    told = browser.text("#machines-told")
    assert told.startswith("10 of 12 servers serve, 1 overbooked, 1 drained; ")
    assert told.endswith(" GiB used, 2 as last seen. Bars of 12 servers; 400 are not shown.")
    assert [each[0] for each in rows(browser)[:4]] == [
        "10.0.0.2 overbooked",
        "10.0.0.3 5 min old",
        "10.0.0.4 not known",
        "10.0.0.5 drained",
    ]
    assert rows(browser)[2][1:] == ["–", "–"]  # noqa: RUF001 - as the page writes it
    assert [each.get_attribute("class") for each in browser.all("#machines-rows tr.is-old")] == ["is-old"] * 2


def test_servers_are_in_the_order_of_names_or_of_fullness(browser: Browser, page_of: PageOf) -> None:
    few = (
        server("10.0.0.10", part("sl7", 3)),
        server("10.0.0.9", part("alma", 2)),
        server("10.0.0.100", part("alma", 3)),
        server("10.0.0.11", part("alma", 2)),
    )
    page = page_of(large(30).node(4), answers(machines_document(servers=few, figures=figures(few))))
    shown(browser)
    by_name = ["10.0.0.9", "10.0.0.10", "10.0.0.11", "10.0.0.100"]
    assert names(browser) == by_name
    order_by(browser, "fullness")
    by_fullness = ["10.0.0.10", "10.0.0.100", "10.0.0.9", "10.0.0.11"]
    assert names(browser) == by_fullness
    ask_again(browser, page, machines_document(servers=few[::-1], figures=figures(few, round=13)))
    browser.until(lambda: "Round 13" in browser.text("#machines-summary"), "another round")
    assert names(browser) == by_fullness
    order_by(browser, "name")
    assert names(browser) == by_name


def test_types_beyond_the_colours_share_one(browser: Browser, page_of: PageOf) -> None:
    kinds = [f"t{number}" for number in range(9)]
    types = tuple(ShownType(type=each, on=1, off=0, open=0, busy=0, coming=0, left_alone=0) for each in (*kinds, ""))
    parts = [msgspec.structs.replace(part("deb", 1), type=each) for each in (*kinds, None)]
    few = (server("10.0.0.2", *parts),)
    page_of(large(30).node(4), answers(machines_document(types=types, servers=few, figures=figures(few))))
    shown(browser)
    drawn = [each[0] for each in bars(browser, 1)]
    assert drawn == ["free", *(f"var(--type-{min(number, 6)})" for number in range(10))]
    assert items(browser, "key")[-3:] == ["further types", "coming", "free"]
    assert "further types 1 (1 machine)" in rows(browser)[0][1]


def test_a_round_that_fails_or_may_not_decide_says_so(browser: Browser, page_of: PageOf) -> None:
    found = machines_document(
        0,
        state="failed",
        text="the agent cannot follow the plan",
        detail="<b>libvirt</b> is missing",
        hindrance="servers are asked first",
        fault="qstat: cannot reach the qmaster",
        notes=("the server 10.0.0.2 is overbooked",),
        notes_left_out=7,
        trial=True,
        figures=figures((), waiting=1, unmet=1, running=1),
        whys=(),
        whys_left_out=1,
    )
    page_of(large(30).node(1), answers(found))
    shown(browser)
    assert items(browser, "notes") == [
        "The agent cannot follow the plan: <b>libvirt</b> is missing.",
        "Qstat: cannot reach the qmaster.",
        "Nothing is decided now: servers are asked first.",
        "The server 10.0.0.2 is overbooked.",
        "7 further notes, which subord machines status shows.",
    ]
    summary = browser.text("#machines-summary")
    assert "1 job waits, 1 of them gets nothing now; 1 runs." in summary
    assert summary.endswith("A trial: nothing is done.")
    assert items(browser, "why") == ["1 job: for other reasons."]


def test_without_a_plan_there_is_no_panel(browser: Browser, page_of: PageOf) -> None:
    none = silent(version=None, off=True, asked=0, address=None)
    page = page_of(large(30).node(1), answers(none))
    assert not is_shown(browser)
    ask_again(browser, page, machines_document())
    shown(browser)
    ask_again(browser, page, msgspec.structs.replace(none, version=4))
    browser.until(lambda: "ended by version 4" in browser.text("#machines-summary"), "the word")
    assert not is_shown(browser, "#machines-figures")
    assert items(browser, "notes") == items(browser, "why") == []
    ask_again(browser, page, none)
    browser.until(lambda: not is_shown(browser), "no panel")


def test_without_the_queues_node_the_last_bars_say_that_they_are_old(browser: Browser, page_of: PageOf) -> None:
    page = page_of(large(30).node(2), answers(machines_document()))
    shown(browser)
    before = rows(browser)
    ask_again(browser, page, silent())
    browser.until(lambda: "has not answered" in "".join(items(browser, "notes")), "the reason")
    (note,) = items(browser, "notes")
    assert note.startswith("10.0.0.1, which has the queues, has not answered: silent. This is of ")
    order_by(browser, "fullness")
    assert sorted(rows(browser)) == sorted(before)
    ask_again(browser, page, fixed_answer(json.dumps({"error": "no time"}).encode(), 503))
    browser.until(lambda: "It is not known now: no time." in "".join(items(browser, "notes")), "the reason")
    assert sorted(rows(browser)) == sorted(before)
    assert all("503" in each for each in browser.complaints())


def test_a_queues_node_that_never_answered_is_named(browser: Browser, page_of: PageOf) -> None:
    page_of(large(30).node(2), answers(silent()))
    shown(browser)
    assert browser.text("#machines-summary") == "10.0.0.1 has the queues."
    assert items(browser, "notes") == ["10.0.0.1, which has the queues, has not answered: silent."]
    assert not is_shown(browser, "#machines-figures")


def test_a_daemon_without_the_path_has_no_panel(browser: Browser, page_of: PageOf) -> None:
    page_of(large(30).node(1), {PATH: fixed_answer(b'{"error": "no such path"}', 404)})
    assert not is_shown(browser)
    assert all("404" in each for each in browser.complaints())


def test_the_keyboard_reaches_the_panel_and_the_order(browser: Browser, page_of: PageOf) -> None:
    page_of(large(30).node(1), answers(machines_document(100)))
    shown(browser)
    browser.run("document.getElementById('machines').focus()")
    assert browser.run("return document.activeElement.id") == "machines"
    browser.press(Keys.TAB)
    assert browser.run("return document.activeElement.id") == "machines-order"
    browser.press(Keys.ARROW_DOWN)
    browser.until(lambda: names(browser)[0] == "10.0.0.2", "the order of fullness")
    assert names(browser)[-1] == "10.0.0.4"


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("beside", [False, True])
def test_a_hundred_servers_fit_and_give_way_to_a_chosen_node(
    browser: Browser, page_of: PageOf, width: int, beside: bool
) -> None:
    handlers = {**answers(machines_document(100))}
    if beside:
        handlers["/v1/shares/past"] = fixed_answer(msgspec.json.encode(shares_document()))
        handlers["/v1/elastic/past"] = fixed_answer(msgspec.json.encode(elastic_document()))
    browser.emulate("Emulation.setDeviceMetricsOverride", width=width, height=780, deviceScaleFactor=1, mobile=False)
    try:
        page_of(large(30).node(1), handlers)
        shown(browser)
        if beside:
            browser.until(lambda: is_shown(browser, "#shares") and is_shown(browser, "#elastic"), "other panels")
        assert len(rows(browser)) == 100
        assert browser.run("return document.documentElement.scrollWidth") <= width
        assert browser.run("const { scrollWidth, clientWidth } = machines; return scrollWidth <= clientWidth")
        assert width < 1000 or browser.run("return document.documentElement.scrollHeight <= innerHeight")
        assert box(browser, "#machines")["height"] <= 780
        assert box(browser, "#machines-rows svg")["width"] >= 50
        assert box(browser, "#machines-rows tr:last-child")["height"] < (30 if width > 1000 else 42)
        browser.run("location.hash = '#10.0.0.4'; dispatchEvent(new HashChangeEvent('hashchange'))")
        browser.until(lambda: browser.one("#node").is_displayed(), "a chosen node")
        assert not is_shown(browser)
        browser.press(Keys.ESCAPE)
        shown(browser)
    finally:
        browser.emulate("Emulation.clearDeviceMetricsOverride")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colours_of_types_stand_out_from_the_sheet(browser: Browser, page_of: PageOf, theme: str) -> None:
    """At least 3 to 1, as for graphics in WCAG 2.2 (1.4.11)."""
    page_of(large(30).node(1), answers(machines_document()))
    script = """
    document.documentElement.dataset.theme = arguments[0];
    const style = getComputedStyle(document.documentElement);
    const light = (name) => {
      const text = style.getPropertyValue(name).trim().slice(1);
      const hex = text.length === 3 ? [...text].map((each) => each + each).join("") : text;
      const [r, g, b] = [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16) / 255);
      const part = (value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
      return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b) + 0.05;
    };
    const names = [...Array(7).keys()].map((at) => `--type-${at}`).concat("--foreign", "--down");
    const sheet = light("--sheet");
    return names.map((name) => Math.max(light(name), sheet) / Math.min(light(name), sheet));
    """
    found: list[float] = browser.run(script, theme)
    assert len(found) == 9
    assert min(found) >= 3, found
