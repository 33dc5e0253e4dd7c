"""Real daemons remember alike: after drawn orders of deaths, goodbyes, cut cables and changes of the root."""

from __future__ import annotations

import json
import re
import signal
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from random import Random
from typing import Any

import pytest
from netlab.lab import Lab
from netlab.peers.page_reader import PageReader

from subord.client.daemon import UnreachableError, _exchange

from .lab_helpers import command, settled, wait_until

pytestmark = pytest.mark.lab(few=True)

NODES = 12
EVENTS = 4
ALIKE_S_MAX = 90.0  # a root waits half a minute for nodes that it expects, and digests are compared once a minute
KNOWN_S_MAX = 60.0
ANSWER_S_MAX = 15.0  # of a daemon on a busy machine
ORDERS = 10
DOWN = ("missing", "gone")  # problems
HEADS = r"(\d+) nodes(?: answered)?(?:, (\d+) down)?, "  # of the tree, and of the problems


class Orders:
    """The cluster, and which nodes must be up and down."""

    def __init__(self, lab: Lab, seed: int) -> None:
        self.lab = lab
        self.chance = Random(seed)
        self.up = set(lab.positions)
        self.down: set[int] = set()

    def play(self) -> list[str]:
        """Some events; returns them in words."""
        return [self._event() for _ in range(EVENTS)]

    def _event(self) -> str:
        what = self.chance.choice(("kill", "kill the root", "leave", "start", "cut", "forget"))
        position = min(self.up) if what == "kill the root" else self.chance.choice(sorted(self.up))
        if what in ("kill", "kill the root") and len(self.up) > 4:
            self.lab.kill(position)
            self.up.discard(position)
            self.down.add(position)
            time.sleep(self.chance.choice((0.0, 3.0)))
        elif what == "leave" and len(self.up) > 4:
            self.until_alike()  # a goodbye beside a death may be taken for one
            self.lab.kill(position, signal.SIGTERM)
            self.up.discard(position)
            self.until_alike()
        elif what == "cut" and len(self.up) > 4:
            self.lab.cut(position)
            time.sleep(8.0)
            self.lab.cut(position, connected=True)
        elif what == "forget" and self.down:
            self.until_alike()
            position = self.chance.choice(sorted(self.down))
            self.command(min(self.up), "forget", self.lab.address(position), "--reason", "sold")
            self.down.discard(position)
        else:
            self.start_all()
        return f"{what} {position}"

    def short(self) -> str:
        """One event that needs no settled cluster before it."""
        what = self.chance.choice(("kill", "kill", "kill the root", "leave", "cut", "start", "forget", "power"))
        position = min(self.up) if what == "kill the root" else self.chance.choice(sorted(self.up))
        if what == "forget" and self.down:
            position = self.chance.choice(sorted(self.down))
            self.until_known(min(self.up))
            self.command(min(self.up), "forget", self.lab.address(position), "--reason", "sold")
            self.down.discard(position)
        elif what in ("kill", "kill the root", "leave") and len(self.up) > 5:
            self.lab.kill(position, signal.SIGTERM if what == "leave" else signal.SIGKILL)
            self.up.discard(position)
            if what != "leave":
                self.down.add(position)
        elif what == "cut":
            self.lab.cut(position)
            time.sleep(3.0)
            self.lab.cut(position, connected=True)
        elif what == "power":
            time.sleep(3.0)  # saved; a goodbye of the last 2 s is a death to those that start again
            for each in sorted(self.up):
                self.lab.kill(each)
            self.lab.start_and_wait(*self.up)
        else:
            self.start_all()
        return f"{what} {position}"

    def until_known(self, position: int) -> None:
        """Until a node lists all members, without which no node is forgotten. A new root needs a while."""
        until = time.monotonic() + ALIKE_S_MAX
        while not self.asked(position, "/v1/members")["complete"]:
            assert time.monotonic() < until, self.said(position, "members")
            time.sleep(0.2)

    def until_all_agree(self) -> None:
        """Until three nodes name exactly the nodes that are up and down, in each answer that names nodes."""
        up, down = (sorted(map(self.lab.address, nodes)) for nodes in (self.up, self.down))
        expected = dict.fromkeys(("tree", "members", "metrics"), (up, down))
        expected |= {"errors": ([], down), "sd": (sorted(up + down), []), "events": ([], down)}
        at = self.chance.sample(sorted(self.up), 3)
        until, found = time.monotonic() + ALIKE_S_MAX, None
        while found is None or any(each != expected for each in found.values()):
            wrong = [(at, name, told) for at, each in (found or {}).items() for name, told in each.items()]
            wrong = [each for each in wrong if each[2] != expected[each[1]]]
            assert time.monotonic() < until, f"up {up}, down {down}: {wrong}"
            time.sleep(0.2 if found is None else 0.5)
            found = {position: self.named(position) for position in at}

    def named(self, position: int) -> dict[str, tuple[list[str], list[str]]]:
        """The nodes that one node names as up and as down, by question."""
        found, of = {}, partial(self.asked, position)
        for name, target, rows in (("tree", "/v1/tree?form=rows", "rows"), ("members", "/v1/members", "members")):
            document = of(target)
            by = {each["address"]: each["standing"] for each in document.get(rows, ())}
            live = sorted(address for address, standing in by.items() if standing == "live")
            found[name] = live, sorted(address for address, standing in by.items() if standing in ("missing", "gone"))
            if not document.get("complete"):
                found[name] = [], []
        gauges = dict(re.findall(r'subord_member_live\{address="([^"]+)"\} (\d)', of("/metrics/members")))
        found["metrics"] = tuple(sorted(a for a, value in gauges.items() if value == sign) for sign in "10")
        targets = of("/sd?of=cluster")
        listed = [each["targets"][0].partition(":")[0] for each in targets] if isinstance(targets, list) else []
        found["sd"] = sorted(listed), []
        missing = {a for each in of("/v1/errors")["problems"] if each["kind"] in DOWN for a in each["addresses"]}
        found["errors"] = [], sorted(missing)
        last: dict[str, str] = {}
        for each in of("/v1/changes?last=10000")["changes"]:
            last[each["address"]] = each["kind"]
        found["events"] = [], sorted(address for address, kind in last.items() if kind == "missing")
        return found

    def asked(self, position: int, target: str) -> Any:
        """What the daemon of a node shows there. One that has just been started has no socket yet."""
        until = time.monotonic() + ANSWER_S_MAX
        while True:
            try:
                status, body = _exchange(str(self.lab.control_socket(position)), "GET", target, ANSWER_S_MAX)
            except UnreachableError:
                assert time.monotonic() < until, f"node {position} has no socket"
                time.sleep(0.05)
                continue
            assert status in (200, 503), body
            return body.decode() if target.startswith("/metrics") else json.loads(body)

    def until_numbers_agree(self, reader: PageReader, *at: int) -> None:
        """Until each answer of these nodes has as many nodes up and down as there are."""
        until, wrong = time.monotonic() + ALIKE_S_MAX, ["nothing asked"]
        while wrong:
            time.sleep(0.5)
            found = [(node, *each) for node in at for each in self.numbers(reader, node).items()]
            wrong = [f"{each}" for each in found if each[2] != (len(self.up), len(self.down))]
            assert time.monotonic() < until, f"up {self.up}, down {self.down}: {wrong}"

    def numbers(self, reader: PageReader, node: int) -> dict[str, tuple[int, int] | str]:
        """How many nodes are up and down, as one node says: by command, and by page of its web address."""
        found: dict[str, tuple[int, int] | str] = {}
        for words in (("tree",), ("members",), ("errors",), ("top", "--once")):
            text = self.said(node, *words)
            pattern = r"(\d+) live(?:, (\d+) down)?" if words[0] == "members" else HEADS
            summaries = re.findall(pattern, text)
            found[words[0]] = text
            if summaries and len(set(summaries)) == 1:  # `top` has both
                found[words[0]] = int(summaries[0][0]), int(summaries[0][1] or 0)
        address = f"http://{self.lab.address(node)}:9717"
        gauges = dict(
            re.findall(
                r"^subord_members_(live|down|expected) (\d+)", reader.get(f"{address}/metrics").text, re.MULTILINE
            )
        )
        found["gauges"] = found["expected"] = str(gauges)
        if len(gauges) == 3:
            live, down, expected = (int(float(gauges[name])) for name in ("live", "down", "expected"))
            found["gauges"], found["expected"] = (live, down), (expected - down, expected - live)
        signs = re.findall(
            r"^subord_member_live\{.*\} ([01])", reader.get(f"{address}/metrics/members").text, re.MULTILINE
        )
        found["member gauges"] = signs.count("1"), signs.count("0")
        found["sd"] = len(reader.json(f"{address}/sd?of=cluster") or ()) - len(self.down), len(self.down)
        tree, members, errors, status = (
            reader.json(f"{address}/v1/{path}") or {} for path in ("tree?form=rows", "members", "errors", "status")
        )  # the page shows the first and the third
        found["tree page"], found["errors page"] = (
            (each.get("nodes", -1), each.get("down", -1))
            if each.get("complete")
            else f"incomplete: {each.get('note')}"
            for each in (tree, errors)
        )
        for name, rows in (("rows of tree", tree.get("rows", ())), ("rows of members", members.get("members", ()))):
            standings = Counter(each["standing"] for each in rows)
            found[name] = standings["live"], standings["missing"] + standings["gone"]
        found["status"] = len(self.up), status.get("down", -1)
        return found

    def start_all(self) -> None:
        away = set(self.lab.positions) - self.up
        self.lab.start_and_wait(*away)
        self.up |= away
        self.down -= away

    def command(self, position: int, *words: str) -> str:
        done = command(self.lab, position, *words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def said(self, position: int, *words: str) -> str:
        """The output of a command that may find problems."""
        done = command(self.lab, position, *words)
        return done.stdout + done.stderr

    def answers(self) -> dict[int, Any]:
        """By node: (is it complete, the addresses that are up, those that are down)."""
        found = {}
        for position in sorted(self.up):
            document = self.asked(position, "/v1/members")
            down = [
                each["address"] for each in document.get("members", ()) if each["standing"] in ("missing", "gone")
            ]
            live = [each["address"] for each in document.get("members", ()) if each["standing"] == "live"]
            found[position] = (document.get("complete"), sorted(live), sorted(down))
        return found

    def until_alike(self) -> None:
        """Until all nodes that are up answer alike, and name exactly the nodes that are down."""
        addresses = [sorted(map(self.lab.address, nodes)) for nodes in (self.up, self.down)]
        expected = (True, *addresses)
        until = time.monotonic() + ALIKE_S_MAX
        while set(map(repr, (found := self.answers()).values())) != {repr(expected)}:
            assert time.monotonic() < until, (expected, found)
            time.sleep(0.5)


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with settled(KNOWN_S_MAX, nodes=NODES, fanout=3, timing="lab") as lab:
        yield lab


def begun(lab: Lab, seed: int) -> Orders:
    """All nodes are known: one that dies sooner never was."""
    orders = Orders(lab, seed)
    orders.until_alike()
    time.sleep(6.0)
    return orders


def play(lab: Lab, seed: int) -> None:
    orders = begun(lab, seed)
    events = orders.play()
    try:
        orders.until_alike()
    except AssertionError as error:
        raise AssertionError(f"seed {seed}: {', '.join(events)}: {error}") from None
    orders.start_all()
    orders.until_alike()


def test_ten_orders_end_with_the_same_answers_everywhere(lab: Lab) -> None:
    """Each order begins where the one before has ended. Three nodes are asked in all ways that name nodes."""
    orders = begun(lab, 23)
    played: list[str] = []
    for _ in range(ORDERS):
        played.append(orders.short())
        try:
            orders.until_all_agree()
        except AssertionError as error:
            raise AssertionError(f"{'; '.join(played)}: {error}") from None
    orders.start_all()
    orders.until_alike()


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10))
def test_all_nodes_answer_alike_in_long_orders(lab: Lab, seed: int) -> None:
    play(lab, seed)


def test_all_answers_have_the_same_numbers(lab: Lab) -> None:
    """Node 5 dies, then the root, then the next root. The new root, one that it leads, and a leaf are asked."""
    orders = begun(lab, 0)
    with PageReader(lab, NODES) as reader:
        orders.until_numbers_agree(reader, 1, 5, NODES)
        for position in (5, 1, 2):
            lab.kill(position)
            orders.up.discard(position)
            orders.down.add(position)
            orders.until_numbers_agree(reader, min(orders.up), 4, NODES)
        orders.start_all()
        orders.until_numbers_agree(reader, 1, 5, NODES)


def test_the_dead_are_remembered_after_all_daemons_restarted(lab: Lab) -> None:
    """Node 5 dies, then the root; no node that saw the deaths runs on."""
    orders = begun(lab, 0)
    for position in (5, 1):
        lab.kill(position)
        orders.up.discard(position)
        orders.down.add(position)
    orders.until_alike()
    time.sleep(4.0)  # saved
    for position in sorted(orders.up):
        lab.kill(position)
    lab.start_and_wait(*orders.up)
    orders.until_all_agree()
    wait_until(lambda: "10 nodes, 2 down" in orders.command(7, "tree"), "the tree of another node says so")
    orders.start_all()
    orders.until_alike()
