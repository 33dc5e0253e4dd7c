"""`lab elastic`: a cluster with a real Grid Engine grows with its queue and shrinks again, in some minutes.

Input is how many nodes may be added, and the jobs; output are the decisions of the queue's node as it makes them, and
the stages of its nodes. Time passes faster for the queue's node, so that a paid hour takes a minute. The same cluster
can be looked at from another terminal meanwhile.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from netlab.cli.terminal import Terminal
from netlab.elastic import gridengine, growing
from netlab.elastic.cluster import PREFIX, ElasticLab
from netlab.elastic.hosted import HEAD
from netlab.errors import LabError

RATE = 60.0
WAIT_S = 60.0
"""By the clock of the machine: how long a node has to come up."""
SPARE = 2
"""Positions more than nodes, for one that has to be given up."""
END_S_MAX = 600.0
LOOK_S = 0.5
NUMBER = re.compile(r"\d+")


def run(nodes: int, at_once: int, jobs: int, seconds: float) -> int:
    """0. Raises LabError."""
    if missing := gridengine.missing():
        raise LabError(f"Programs of Grid Engine are missing: apt-get install {' '.join(missing)}")
    terminal = Terminal()
    terminal.progress("starting Grid Engine, and two daemons with their agents", 0, 0)
    with ElasticLab(1 + nodes + SPARE, rate=RATE, elastic={"wait_s": WAIT_S * RATE}) as cluster:
        terminal.say(_how_to_look(cluster))
        cluster.publish("-m", f"{nodes}", "-a", f"{at_once}")
        for _ in range(jobs):
            cluster.submit(growing.sleeper(seconds))
        terminal.say(f"{jobs} jobs of {seconds:g} s are submitted; a minute of the queue's node takes a second.\n")
        began, before, is_over = time.monotonic(), Before(), False
        while not is_over:
            if time.monotonic() - began > END_S_MAX:
                raise LabError(f"The cluster was not at rest after {END_S_MAX:g} s: {growing.facts(cluster)}")
            time.sleep(LOOK_S)
            is_over = growing.is_at_rest(cluster) and not cluster.engine.lines()
            for line in _changes(cluster, before):
                terminal.say(f"minute {RATE / 60 * (time.monotonic() - began):3.0f}  {line}")
        bought = len(cluster.bill())
        added = "1 node was" if bought == 1 else f"{bought} nodes were"
        terminal.say(f"\nAll jobs have ended; {added} added and removed. All of it is gone again.")
    return 0


def _how_to_look(cluster: ElasticLab) -> str:
    name, head = cluster.lab.options.name, cluster.lab.address(HEAD)
    return (
        f"The queue's node is {head}. From another terminal:\n"
        f"  netns-lab/lab exec --name {name} {HEAD} -- subord elastic status\n"
        f"  netns-lab/lab exec --name {name} {HEAD} -- subord elastic nodes\n"
        "and for Grid Engine, as root:\n"
        f'  ge() {{ {cluster.way_to_queue()} "$@"; }}\n'
        "  ge qstat -f\n"
        "Ages and times are wrong there, because only the queue's node has the fast clock.\n"
    )


@dataclass
class Before:
    """What the last look has found. `seen`: sentences by what they say but for numbers, and stages by names.
    `decided`: how many decisions were in the log."""

    seen: dict[str, str] = field(default_factory=dict)
    decided: int = 0


def _changes(cluster: ElasticLab, before: Before) -> Iterator[str]:
    """What the decisions and the stages say that they did not say before, but for numbers. A decision may be followed
    by another one before the next look; the log has those that added or removed a node."""
    found = cluster.lab.document(HEAD, "/v1/elastic/manager")["growth"]
    records, decided = cluster.records(), cluster.decided()
    now = {name: str(each.stage) for name, each in records.items()}
    for sentence in (*decided[before.decided :], *(found["why"] if found else ())):
        now[NUMBER.sub("", sentence)] = sentence
    for name, text in now.items():
        if before.seen.get(name, "") != text and (name not in before.seen or name in records):
            yield text if NUMBER.sub("", text) == name else f"{name} {text}"
    yield from (
        f"{name} gone" for name in before.seen if name.startswith(PREFIX) and name not in now and " " not in name
    )
    before.seen, before.decided = now, len(decided)
