"""Which daemons die while records are written, and when: churn, roots, sinks, all sinks at once, and the server.

Inputs are the numbers of an evaluation; output is a list of deaths in the order of time. Which node a death takes is
decided when it is due, because only then it is known which node is the root, and which nodes live.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator
from typing import Literal, NamedTuple

MINUTE_S = 60.0
DOWN_S = (1.0, 15.0)
"""A killed daemon is started again so long after its death, evenly drawn."""
SINK_KILLS = 4
"""Of the sinks by turns, beside the outage."""
OUTAGE_AT, OUTAGE_SHARE = 0.5, 0.06
"""When all sinks are killed, and how long they stay dead; as shares of the time in which records are written."""
SERVER_AT, SERVER_DOWN_S = 0.9, 10.0
What = Literal["node", "root", "sink", "sinks", "server"]


class Death(NamedTuple):
    """`sink`: the number of the sink that dies; only of the kind `sink`."""

    at_s: float
    what: What
    down_s: float
    sink: int = 0


def drawn(
    chance: random.Random,
    *,
    writes_s: float,
    nodes: int,
    percent_per_min: float,
    root_kills: int,
    sinks: int,
    has_server: bool,
) -> list[Death]:
    """All of them, within `writes_s` seconds."""

    def down_s() -> float:
        return chance.uniform(*DOWN_S)

    churned = round(nodes * percent_per_min / 100 * writes_s / MINUTE_S)
    found = [Death(at_s, "node", down_s()) for at_s in _spread(chance, churned, writes_s)]
    found += [Death((number + 0.5) / root_kills * writes_s, "root", down_s()) for number in range(root_kills)]
    found += [
        Death((number + 1) / (SINK_KILLS + 1) * writes_s, "sink", down_s(), number % sinks)
        for number in range(SINK_KILLS)
    ]
    found.append(Death(OUTAGE_AT * writes_s, "sinks", OUTAGE_SHARE * writes_s))
    if has_server:
        found.append(Death(SERVER_AT * writes_s, "server", SERVER_DOWN_S))
    return sorted(found)


def _spread(chance: random.Random, count: int, whole_s: float) -> Iterator[float]:
    """One time at random in each of `count` equal parts."""
    return ((number + chance.random()) / count * whole_s for number in range(count))


def counted(some: Collection[Death]) -> dict[What, int]:
    """How many there are of each kind."""
    kinds: tuple[What, ...] = ("node", "root", "sink", "sinks", "server")
    return {kind: sum(each.what == kind for each in some) for kind in kinds}


def victim(chance: random.Random, live: Collection[int], spared: Collection[int]) -> int | None:
    """The node that churn takes: any that lives, but for the root and the sinks, which die at times of their own.
    None: there is none."""
    found = sorted(set(live) - set(spared))
    return chance.choice(found) if found else None
