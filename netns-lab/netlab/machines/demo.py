"""`lab machines`: servers turn virtual machines on for the jobs of a real Grid Engine, in some minutes.

Inputs are how many servers and jobs; output is what the queue's node decides, as it decides it. Machines are those of
libvirt's test driver, each with an execd on a host of its own. The same cluster can be looked at from another
terminal meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Final

from netlab.cli.terminal import Terminal
from netlab.elastic import gridengine
from netlab.elastic.hosted import HEAD
from netlab.errors import LabError
from netlab.machines import cluster
from netlab.machines.cluster import Kind, MachinesLab, Server

SMALL, LARGE = Kind("small"), Kind("large", cores=2, slots=2, window_s=60)
KINDS: Final = (SMALL, LARGE)
CORES: Final = 4
WAITS: Final = {"order_s": 5, "answer_s": 8}
PERIOD_S: Final = 3
END_S_MAX: Final = 900.0
LOOK_S: Final = 0.5


def run(servers: int, jobs: int, seconds: float) -> int:
    """0. Raises LabError."""
    if packages := [*gridengine.missing(), *cluster.missing()]:
        raise LabError(f"Programs are missing: apt-get install {' '.join(packages)}")
    terminal = Terminal()
    terminal.progress("starting Grid Engine, libvirt, and daemons with their agents", 0, 0)
    places = [Server(CORES, 2000 + 100 * each, (SMALL.machine(each + 1),)) for each in range(servers)]
    guests = [kind.machine(each + 1).name for kind in KINDS for each in range(servers * CORES)]
    with MachinesLab(places, KINDS, guests=guests, boot_s=2.0, copy_s=5.0) as lab:
        terminal.say(how_to_look(lab))
        lab.publish(period_s=PERIOD_S, waits=WAITS)
        terminal.say("The queue's node asks all servers; it decides when an earlier process could not any more.")
        lab.await_deciding()
        for number in range(jobs):
            lab.submit(KINDS[number % len(KINDS)], seconds)
        terminal.say(f"{jobs} jobs of {seconds:g} s are submitted.\n")
        began, seen = time.monotonic(), set[tuple[Any, ...]]()
        while lab.engine.lines():
            if time.monotonic() - began > END_S_MAX:
                raise LabError(f"Not all jobs had ended after {END_S_MAX:g} s. {lab.facts()}")
            for line in _decided(lab, seen):
                terminal.say(f"{time.monotonic() - began:4.0f} s  {line}")
            time.sleep(LOOK_S)
        terminal.say("\nAll jobs have ended. All of it is gone again.")
    return 0


def how_to_look(lab: MachinesLab) -> str:
    """From another terminal."""
    name, head = lab.lab.options.name, lab.lab.address(HEAD)
    return (
        f"The queue's node is {head}. From another terminal:\n"
        f"  netns-lab/lab exec --name {name} {HEAD} -- subord machines status\n"
        f"  netns-lab/lab exec --name {name} {HEAD} -- subord machines list -a\n"
        "and for Grid Engine, as root:\n"
        f'  ge() {{ {lab.way_to_queue()} "$@"; }}\n'
        "  ge qstat -f\n"
        "  ge qhost\n"
    )


def _decided(lab: MachinesLab, seen: set[tuple[Any, ...]]) -> Iterator[str]:
    """Actions that were not told yet, the first one first."""
    try:
        actions = lab.state()["actions"]
    except LabError:
        return
    for each in sorted(actions, key=lambda each: each["time"]):
        key = each["time"], each["action"], each["machine"]
        if key not in seen:
            seen.add(key)
            where = f" on {each['server']}" if each["server"] else ""
            yield f"{each['action']} {each['machine']}{where}: {each['why']}"
