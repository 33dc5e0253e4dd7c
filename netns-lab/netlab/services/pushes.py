"""One file brought to all nodes of a lab: how long it takes, which nodes have it, and what each node sends for it.

A node has the file when its bytes are those that were sent; each push is of new bytes. What nodes send is read from
the counters of their links: all traffic meanwhile, with Ethernet headers.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from netlab.common.results import Record
from netlab.common.waiting import wait_until
from netlab.errors import LabError
from netlab.lab import Lab
from netlab.services import kills
from netlab.services.console import SUBORD, Console

PUSH_S_MAX = 900.0
BROUGHT_S_MAX = 120.0
HEADERS = 1.05  # times the content: what headers, keys and the other traffic may take


class Way(NamedTuple):
    """`words`: the command that brings a file to the /srv of all nodes; `srv`: position -> where that is."""

    settings: str
    console: Console
    words: Callable[[Path], Sequence[str]]
    srv: Callable[[int], Path]


def push(file: Path) -> Sequence[str]:
    """As an operator of subord types it."""
    return (SUBORD, "files", "push", "-a", "--to", "/srv", "--json", str(file))


def speed(lab: Lab, way: Way, directory: Path, times: int, size: int) -> Record:
    """Several pushes, whose commands may end as they like; bytes as times the size of the file."""
    taken_s, whole, sent_most = [], [], []
    for number in range(times):
        file = directory / f"pushed-{number}"  # rsync takes a file of the same second and size for the same
        content = new_content(file, size)
        before = lab.ports()
        taken_s.append(way.console.run(*way.words(file), seconds=PUSH_S_MAX).took_s)
        sent_most.append(max(sent_between(before, lab.ports()).values()) / size)
        whole.append(len(holders(lab, way, file.name, content)))
    return {
        "settings": way.settings,
        "file_bytes": size,
        "took_s": taken_s,
        "whole_least": min(whole),
        "sent_most_times": sent_most,
    }


def new_content(file: Path, size: int) -> bytes:
    content = os.urandom(size)
    file.write_bytes(content)
    return content


def holders(lab: Lab, way: Way, name: str, content: bytes) -> list[int]:
    """The positions whose file has this content."""
    return [each for each in lab.positions if _is(way.srv(each) / name, content)]


def _is(file: Path, content: bytes) -> bool:
    return file.is_file() and file.read_bytes() == content


def sent_between(before: Any, after: Any) -> dict[str, int]:
    """Bytes by address."""
    return {address: octets - before["sent"][address][0] for address, (octets, _) in after["sent"].items()}


# -- an interior node is killed --------------------------------------------------------------------------------------


def killed(lab: Lab, way: Way, directory: Path, times: int, size: int) -> Record:
    """By turns with all daemons alive, and with one killed while the content comes to it."""

    def give(name: str, victim: int | None) -> Record:
        file = directory / name
        content = new_content(file, size)
        before = lab.ports()
        command = way.console.begin(*way.words(file))
        brought = None
        if victim is not None:
            brought = _await_brought(lab, before, victim, size // 2)
            lab.kill(victim)
        done = command.done(PUSH_S_MAX)
        have = holders(lab, way, name, content)
        kills.recover(lab, victim)
        lacking = set(lab.positions) - set(have) - {victim}
        return {
            "took_s": done.took_s,
            "code": done.code,
            "brought_before": brought,
            "missing": kills.missing(kills.answer(done)),
            "lacking": sorted(map(lab.address, lacking)),
        }

    return {"file_bytes": size, **kills.figures(kills.by_turns(lab, times, way.console.position, give))}


def _await_brought(lab: Lab, before: Any, victim: int, least: int) -> int:
    """So many bytes have come to the node; how many did. Raises LabError."""
    address, octets = lab.address(victim), 0

    def are_there() -> bool:
        nonlocal octets
        octets = lab.ports()["brought"][address][0] - before["brought"][address][0]
        return octets >= least

    if not wait_until(are_there, BROUGHT_S_MAX, 0.01):
        raise LabError(f"Only {octets} bytes came to {address} within {BROUGHT_S_MAX:g} s.")
    return octets


def faults_of_speed(record: Record) -> list[str]:
    most, aim = max(record["sent_most_times"]), (record["fanout"] + 1) * HEADERS
    bad = {
        f"{record['whole_least']} of {record['nodes']} nodes had the file": record["whole_least"] != record["nodes"],
        f"a node sent {most:.1f} times the file": most > aim,
    }
    return [words for words, holds in bad.items() if holds]


def faults_of_killed(record: Record) -> list[str]:
    return kills.faults_of_turns(record, lambda turn: [f"{each} lacks the file" for each in turn["lacking"]])
