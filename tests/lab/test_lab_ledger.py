"""Records of real daemons: each is in the sink once, though the root, an interior node and the sink die meanwhile."""

from __future__ import annotations

import http.client
import json
import socket
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from netlab.common.waiting import wait_until
from netlab.lab import Lab

pytestmark = pytest.mark.lab

NODES, SINK = 7, 5
RECORDS, OF_ONE = 1000, 20
SETTLED_S_MAX = 60.0


class _Unix(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=10)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(10)
        self.sock.connect(str(self._path))


def write(lab: Lab, position: int, numbers: range) -> None:
    """Give records to a node."""
    connection = _Unix(lab.control_socket(position))
    connection.request("POST", "/v1/records", json.dumps([{"kind": "test", "body": str(each)} for each in numbers]))
    answer = connection.getresponse()
    assert (answer.status, json.loads(answer.read())["accepted"]) == (200, len(numbers))


def stored(lab: Lab) -> list[int]:
    """The records in the sink."""
    path = lab.control_socket(SINK).with_name("records.sqlite")
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10) as database:
        return sorted(int(body) for (body,) in database.execute("select body from record"))


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab(nodes=NODES, fanout=2, timing="lab", sinks=(f"10.0.0.{SINK}",)) as lab:
        lab.start_all()
        lab.wait_stable(SETTLED_S_MAX)
        yield lab


def test_every_record_is_in_the_sink_once(lab: Lab) -> None:
    """The root dies, then the leader of the sink, then the sink; writers go on, and all three return."""
    deaths = {RECORDS // 4: 1, RECORDS // 2: 2, 3 * RECORDS // 4: SINK}
    alive = [each for each in range(1, NODES + 1) if each not in deaths.values()]
    write(lab, 1, range(RECORDS, RECORDS + OF_ONE))  # of a node that dies
    write(lab, 3, range(OF_ONE))
    assert wait_until(lambda: set(range(OF_ONE)) <= set(stored(lab)), SETTLED_S_MAX, 0.1)
    for first in range(OF_ONE, RECORDS, OF_ONE):
        for at, position in deaths.items():
            if first <= at < first + OF_ONE:
                lab.kill(position)
        write(lab, alive[first // OF_ONE % len(alive)], range(first, first + OF_ONE))
    for position in deaths.values():
        lab.start_and_wait(position)
    assert wait_until(lambda: len(stored(lab)) >= RECORDS + OF_ONE, SETTLED_S_MAX, 0.2)
    assert stored(lab) == list(range(RECORDS + OF_ONE))
