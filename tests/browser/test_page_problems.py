"""What the page shows while no node is chosen: the problems of the cluster, folded as `subord errors` does."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

import pytest
from chromium import Browser, Keys

from subord.client.folding import folded, in_short
from subord.core.address.network import Network
from subord.core.carriage.engine.interface import Overview
from subord.core.settings import Settings
from subord.core.view import Liveness, Refusal
from tests.api.fake_node_api import World
from tests.api.served_node import fixed_answer
from tests.browser.conftest import PageOf
from tests.browser.page_reader import addresses, box, found, row
from tests.browser.served_page import large

NONE: dict[str, object] = {
    "asked": "10.0.0.1",
    "complete": True,
    "note": None,
    "nodes": 11,
    "problems": [],
    "more": 0,
}


def problem(kind: str, text: str, *nodes: str, **more: object) -> dict[str, object]:
    return {"kind": kind, "text": text, "nodes": len(nodes), "addresses": nodes, "since_s": None, **more}


def lines(browser: Browser) -> list[str]:
    script = "return [...document.querySelectorAll('#problem-list li')].map((each) => each.innerText)"
    return [" ".join(each.split()) for each in browser.run(script)]


def summary(browser: Browser) -> str:
    return browser.text("#problems-summary")


def test_sets_are_folded_as_in_the_command_line(page_modules: Browser) -> None:
    draw = random.Random(7)
    sets = [[], ["10.0.0.1"], ["fd00::1", "fd00::2", "fd00::9"], ["10.0.0.9", "10.0.0.10", "10.0.1.9", "10.0.1.10"]]
    for size in (2, 5, 30, 400):
        sets += [
            [f"10.{draw.randrange(2)}.{draw.randrange(3)}.{draw.randrange(256)}" for _ in range(size)],
            [f"fd00::{draw.randrange(1, 3 * size):x}" for _ in range(size)],
        ]
    script = (
        "return import('./fold.js').then(({ folded, inShort }) => "
        "arguments[0].map((each) => [folded(each), inShort(each), inShort(each, 1000)]))"
    )
    expected = [[folded(each), in_short(each), in_short(each, total=1000)] for each in sets]
    assert page_modules.run(script, sets) == expected


def test_a_healthy_cluster_has_no_problems(browser: Browser, page_of: PageOf) -> None:
    page_of(World().node(4))
    browser.until(lambda: summary(browser) == "11 nodes answered, no problems.", "the answer")
    assert lines(browser) == []
    assert not browser.one("#node").is_displayed()


def orders(browser: Browser) -> list[str]:
    script = "return [...document.querySelectorAll('#order-list li')].map((each) => each.innerText)"
    return [" ".join(each.split()) for each in browser.run(script)]


def test_orders_under_way_are_shown_with_their_coverage(browser: Browser, page_of: PageOf) -> None:
    node = World().node(4)
    node.orders.past = [(Overview("ping", 4, True, 11, 10, 1, 0.6, 0.2), 4.0)]
    address = page_of(node)
    last = "None under way. The last one, 4 s ago: ping: 10 of 11 nodes answered, 1 missing."
    browser.until(lambda: browser.text("#orders-summary") == last, "the last one")
    assert orders(browser) == []
    held = [Overview("errors", 5, False, 3, 2, 0, 0.3, 5.0), Overview("keys", 4, True, 0, 0, 0, 0.0, 3.0)]
    address.change(lambda: node.orders.held.extend(held))
    browser.until(lambda: browser.text("#orders-summary") == "2 orders under way.", "the orders")
    assert orders(browser) == [
        "errors from 10.0.0.5: 2 of 3 nodes answered; ends within 5 s",
        "keys: no answer yet; ends within 3 s",
    ]


def test_each_problem_is_shown_once_with_its_nodes(browser: Browser, page_of: PageOf) -> None:
    world = large(30)
    world.refusals = (Refusal(address="10.0.0.77", by="us", reason="fan-out 8, we use 4", ago_s=12.0, times=3),)
    world.liveness |= dict.fromkeys((23, 24, 26), Liveness.MISSING)
    world.hung.add(9)
    page_of(world.node(1))
    browser.until(lambda: lines(browser), "problems")
    assert summary(browser) == "26 nodes answered, 3 problems."
    assert lines(browser) == [
        "10.0.0.77 refused: fan-out 8, we use 4 (last 10 s ago)",
        "10.0.0.[23-24,26] down: ended or vanished without goodbye",
        "10.0.0.9 no answer (silent)",
    ]
    # Several nodes are picked out, one node is chosen.
    browser.one("[data-problem='1']").click()
    assert found(browser) == {"10.0.0.23", "10.0.0.24", "10.0.0.26"}
    assert (
        browser.text("#found")
        == "3 nodes found: down: ended or vanished without goodbye. Esc shows everything again."
    )
    browser.press(Keys.ESCAPE)
    assert not browser.one("#found").is_displayed()
    browser.one("[data-problem='2']").click()
    assert browser.text("#node-title") == "10.0.0.9"
    assert not browser.one("#problems").is_displayed()
    browser.until(lambda: browser.text("#why") == "10.0.0.9 does not answer.", "its silence")
    browser.one("#close").click()
    assert browser.one("#problems").is_displayed()
    assert not browser.all(".row.chosen")
    browser.until(browser.complaints, "the browser's complaint about the answer 504")


def test_escape_releases_the_chosen_node(browser: Browser, page_of: PageOf) -> None:
    node = page_of(World().node(1), named="#10.0.0.9")
    assert browser.text("#node-title") == "10.0.0.9"
    browser.press(Keys.ESCAPE)
    assert browser.one("#problems").is_displayed()
    assert browser.driver.current_url == node.url


def test_a_new_problem_is_seen_and_the_focus_stays(browser: Browser, page_of: PageOf) -> None:
    world = World()
    world.liveness[11] = Liveness.MISSING
    node = page_of(world.node(1))
    browser.until(lambda: lines(browser), "a problem")
    browser.run("document.querySelector('[data-problem]').focus()")
    node.change(lambda: world.liveness.update({10: Liveness.MISSING}))
    browser.until(lambda: lines(browser)[0].startswith("10.0.0.[10-11]"), "both")
    assert browser.run("return document.activeElement.dataset.problem") == "0"


def test_problems_without_room_and_an_incomplete_answer(browser: Browser, page_of: PageOf) -> None:
    many = [f"10.0.{n}.{n}" for n in range(50)]
    answer = {
        **NONE,
        "problems": [problem("dropped", "its datagrams are dropped: bad_tag", *many, nodes=60)],
        "more": 4,
        "silent": ["10.0.0.2"],
        "silent_nodes": 1,
        "coverage": {"missing": [{"cause": "silent", "count": 1, "addresses": ["10.0.0.2"]}]},
        "older": ["10.0.0.3"],
        "older_nodes": 1,
        "complete": False,
        "maintained": 2,
        "note": "10.0.0.1 (root) could not be asked, nor another node that lists all members",
    }
    page_of(World().node(4), {"/v1/errors": fixed_answer(json.dumps(answer).encode())})
    browser.until(lambda: lines(browser), "problems")
    assert summary(browser) == "11 nodes answered, 7 problems; 2 nodes under maintenance left out."
    assert browser.text("#problems-note") == f"Not the whole cluster: {answer['note']}."
    assert lines(browser) == [
        f"{in_short(many, total=60)} its datagrams are dropped: bad_tag",
        "10.0.0.2 no answer (silent)",
        "10.0.0.3 older release: its problems are not known",
        "and 4 more, for which there was no room",
    ]


def test_a_failure_is_said(browser: Browser, page_of: PageOf) -> None:
    refusal = fixed_answer(json.dumps({"error": "the daemon stops"}).encode(), 503)
    page_of(World().node(1), {"/v1/errors": refusal})
    browser.until(lambda: browser.text("#problems-note"), "the failure")
    assert browser.text("#problems-note") == "The problems are not known now: the daemon stops."
    browser.until(browser.complaints, "the browser's complaint about the answer 503")


def test_nothing_is_asked_while_the_list_is_not_visible(browser: Browser, page_of: PageOf) -> None:
    world = World()
    node = page_of(world.node(1), named="#10.0.0.9")
    browser.until(lambda: browser.all("#why table"), "its reasons")
    browser.requested()
    node.change(lambda: world.liveness.update({11: Liveness.MISSING}))
    browser.run("return new Promise((done) => setTimeout(done, 7000))")  # it would be asked after 6 s
    asked = browser.requested()
    assert any("/v1/tree" in each for each in asked)
    assert not any("/v1/errors" in each for each in asked)
    browser.one("#close").click()
    browser.until(lambda: lines(browser), "asked at once")


# -- a small screen -------------------------------------------------------------------------------------------------


CUT = """
return [...document.querySelectorAll('.row .address')]
  .filter((each) => each.scrollWidth > each.clientWidth || each.getBoundingClientRect().right > innerWidth
    || each.offsetHeight > each.closest('.row').offsetHeight)
  .map((each) => each.textContent)
"""


@pytest.fixture
def phone(browser: Browser) -> Iterator[Browser]:
    browser.emulate("Emulation.setDeviceMetricsOverride", width=360, height=740, deviceScaleFactor=2, mobile=True)
    yield browser
    browser.emulate("Emulation.clearDeviceMetricsOverride")


def test_on_a_phone_a_chosen_node_is_in_view(phone: Browser, page_of: PageOf) -> None:
    world = large(500)
    world.liveness[451] = Liveness.MISSING
    page_of(world.node(1))
    assert phone.all(row("10.0.1.195"))
    assert phone.run(CUT) == []
    last = addresses(phone)[-1]
    for address in ("10.0.0.4", last, "10.0.1.195"):
        phone.run("location.hash = arguments[0]", address)
        phone.until(lambda wanted=address: phone.text("#node-title") == wanted, "chosen")
        panel, line = box(phone, "#node"), box(phone, row(address))
        assert 0 <= line["top"] < line["bottom"] <= panel["top"] + 1, f"the row of {address}"
        assert panel["top"] < 500
        assert panel["bottom"] == 740, "and its facts"
    assert phone.run("return document.documentElement.scrollWidth") <= 360


def test_on_a_phone_long_addresses_are_whole(phone: Browser, page_of: PageOf) -> None:
    network = Network.parse("fd00:1234:5678:9abc:def0:1234:5678:0/112")
    world = World(settings=Settings(network=network, fanout=2, guest_slots=2))
    world.liveness[11] = Liveness.MISSING
    page_of(world.node(1))
    longest = "fd00:1234:5678:9abc:def0:1234:5678:b"
    assert phone.text(f"{row(longest)} .address") == longest
    assert phone.run(CUT) == []
    assert phone.run("return document.documentElement.scrollWidth") <= 360
