#!/usr/bin/env python3
"""Measures what a round about virtual machines costs the queue's node, by the number of servers.

    .venv/bin/python docs/measure_machines.py [--servers N ...] [--jobs N] [--json FILE]

Servers have 20 machines of four types each, 32 cores and 64 GB; jobs wait in all four queues. Printed is, for each
state in which the machines are, the processor time of one round (join the answers of servers with the hosts of the
batch system, decide, and make the state for the daemon), that of the decision alone, and how many actions it has.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

import measure_growth
import measures

from subord.runtime.machines.state import MANAGES
from subord.runtime.machines.state import State as Told
from subord.services.machines.deciding.iteration import decide
from subord.services.machines.fencing import Process
from subord.services.machines.managing import telling
from subord.services.machines.managing.rounds import Batch, Host, Rounds
from subord.services.machines.model import Capacity, Job, Machine, Server, State
from subord.services.machines.orders import Fence
from subord.services.machines.plan import Plan, Type
from subord.services.machines.servers import Answer

MACHINES = 20
NOW = 1000.0


class Scene(NamedTuple):
    """`on`: part of the machines that are on. `is_busy`: they have a job each, otherwise half of them are open."""

    name: str
    on: float
    is_busy: bool


SCENES = (
    Scene("all off", 0.0, is_busy=False),
    Scene("a third on, idle", 0.3, is_busy=False),
    Scene("a third on, busy", 0.3, is_busy=True),
    Scene("nearly all on, idle", 0.9, is_busy=False),
    Scene("nearly all on, busy", 0.9, is_busy=True),
    Scene("all on, busy", 1.0, is_busy=True),
)


def rounds_of(servers: int, jobs: int, scene: Scene) -> tuple[Rounds, Batch]:
    random = Random(1)
    types = tuple(
        Type(
            name=f"type{number}",
            template=f"template{number}",
            queues=(f"queue{number}",),
            cores=number,
            memory_mb=1000 * number,
            image_mb=2000,
            slots=number,
        )
        for number in range(1, 5)
    )
    rounds = Rounds(Plan(manager=1, types=types, store_mb=1 << 30), Process(Fence(1, 1), 0.0, NOW, NOW))
    rounds.asked(NOW)
    hosts = dict[str, Host]()
    for number in range(servers):
        machines = [Machine(each.template, each.need) for each in types]
        for index in range(MACHINES):
            kind, is_on = random.choice(types), random.random() < scene.on
            name = f"{kind.name}-{number * MACHINES + index:05}"
            machines.append(Machine(name, kind.need, State.ON if is_on else State.OFF, kind.name))
            is_open = is_on and random.random() < 0.5
            hosts[name] = Host(is_on, is_open, kind.slots if is_on and scene.is_busy else 0)
        name = f"10.0.{number // 250}.{number % 250 + 1}"
        server = Server(name, Capacity(32, 64_000, 0, 64), 2000, tuple(machines))
        server = server._replace(mhz=random.choice((2000, 2400, 3000)))
        rounds.hear(Answer(server, Fence(1, 1), NOW), NOW, NOW)
    waiting = (random.choice(types) for _ in range(jobs))
    return rounds, Batch(
        tuple(Job(f"{at}", each.queues[0], random.choice((1, each.slots))) for at, each in enumerate(waiting)), hosts
    )


def measured(servers: int, jobs: int, scene: Scene) -> measures.Row:
    """In seconds of processor time."""
    rounds, batch = rounds_of(servers, jobs, scene)
    began = time.process_time()
    rounds.decide(batch, NOW)
    assert rounds.seen is not None
    told = telling.with_servers(Told(word=MANAGES), rounds.servers(batch, NOW), {}, rounds.plan, NOW)
    telling.with_decision(told, rounds.seen, rounds.last, rounds.plan)
    round_s = time.process_time() - began
    began = time.process_time()
    decide(rounds.plan, rounds.seen)
    decide_s = time.process_time() - began
    return {
        "servers": servers,
        "jobs": jobs,
        "machines": scene.name,
        "round_s": round(round_s, 3),
        "decide_s": round(decide_s, 3),
        "actions": len(rounds.last.given),
        "unmet": len(rounds.last.unmet),
    }


def rows(sizes: list[int], jobs: int) -> Iterator[measures.Row]:
    for servers in sizes:
        for scene in SCENES:
            yield measured(servers, jobs, scene)


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description="what a round about virtual machines costs the queue's node")
    sizes = [100, 1000, 5000]
    parser.add_argument("--servers", type=measures.natural, nargs="+", default=sizes, metavar="N")
    parser.add_argument("--jobs", type=measures.natural, default=500, metavar="N", help="that wait (%(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to this file")
    given = parser.parse_args(words)
    document = {**measure_growth.about(), "runs": []}
    for row in rows(given.servers, given.jobs):
        measure_growth.add_row(document, row, json.dumps(row), given.json)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
