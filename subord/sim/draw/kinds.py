"""The kinds of fault that a seed can draw, and the steps that each becomes.

Inputs are a random generator, the positions and the cluster; output is a list of steps. The order of the tables and
of the random calls decides what a seed means: a change of either changes all scenarios.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from random import Random
from typing import Literal

from subord.core.view import Position
from subord.sim.draw import masses, members, persisting, remembering, rotating
from subord.sim.draw.aim import NODES_MAX
from subord.sim.scenario import definition
from subord.sim.scenario.definition import Cluster, Step, folded

LARGE = 150  # a cluster of more nodes is dense, or a list
STEPS = ((16, 20), (50, 12), (LARGE, 8), (NODES_MAX, 4))
"""(up to this many nodes, steps at most): the cost of a step grows with the nodes."""
PAUSES_S = (0.0, 0.0, 0.01, 0.1, 0.5, 2.0, 5.0, 15.0)
ORDERS: tuple[Literal["ascending", "reverse", "random"], ...] = ("ascending", "reverse", "random", "random")
BABBLES: tuple[Literal["malformed", "oversized", "version", "terms"], ...] = (
    "malformed",
    "oversized",
    "version",
    "terms",
)
USUAL = (
    *("kill", "vanish", "leave", "restart", "reuse", "pause", "slow", "jump", "hangup", "cut", "block"),
    *("partition", "weather", "babble", "churn"),
)
"""Small faults, one step each."""
REPAIRS = ("resume", "mend", "start")
"""Drawn with every other kind."""
Make = Callable[[Random, list[Position], Cluster], list[Step]]
LARGER: dict[str, Make] = {
    "many": masses.many,
    "rack": masses.rack,
    "power": masses.power,
    "rolling": masses.rolling,
    "exodus": masses.exodus,
    "steady-weather": persisting.steady_weather,
    "steady-partition": persisting.steady_partition,
    "lossy-links": persisting.lossy_links,
    "slow-links": persisting.slow_links,
    "small-mtu": persisting.small_mtu,
    "pairs": persisting.pairs,
    "flapping": persisting.flapping,
    "hours": persisting.hours,
    "replay": persisting.replay,
    "flip": persisting.flip,
    "set-back": persisting.set_back,
    "old-disk": persisting.old_disk,
    "moved": persisting.moved,
    "liars": members.liars,
    "misfits": members.misfits,
    "releases": members.releases,
    "twins": members.twins,
    "impostors": members.impostors,
    "rotation": rotating.rotation,
    "memory": remembering.memory,
}
"""Faults of several steps, or of a large share of the nodes, or that last."""
LARGER_WEIGHT = 4
CLUSTERS = ("one-guest", "wide", "ipv6", "sparse", "sealed")
"""Shapes of clusters, not faults: clusters.py."""
RARE = (
    *("steady-weather", "steady-partition", "lossy-links", "slow-links", "small-mtu", "pairs", "flapping", "sparse"),
)
"""Five times as expensive as the others, so one seed in forty draws one of them."""
RARE_SHARE = 0.025
OF_SERVICES = (*USUAL, "many", "rack", "power", "rolling", "exodus")
"""What a campaign of orders draws."""
BY_NAME = ("hours", "memory")
"""Drawn only by name: a seed takes minutes, or is judged by rules of its own."""
KINDS = (*USUAL, *LARGER, *CLUSTERS)
MORE_SHARE = 0.4  # of the seeds draw more than the usual
MORE_MAX = 3
SEALED = ("sealed", "rotation")
"""Drawn from a generator of their own, as the rare ones, so that the other seeds stay the same."""
SEALED_SHARE = 0.05  # of the seeds for each of the two
IMPOSTORS = "impostors"
IMPOSTORS_SHARE = 0.2  # of the seeds, apart as well; only identities prevent what they do


def kinds_of(seed: int) -> tuple[str, ...]:
    """What a seed draws when no kinds are named: the usual ones, and in two of five seeds a few others."""
    chance, own_chance = Random(f"{seed}/kinds"), Random(f"{seed}/rare")
    which = int(Random(f"{seed}/sealed").random() / SEALED_SHARE)
    rare = (own_chance.choice(RARE),) if own_chance.random() < RARE_SHARE else ()
    impostors = (IMPOSTORS,) * (Random(f"{seed}/impostors").random() < IMPOSTORS_SHARE)
    apart = (*SEALED[which : which + 1], *impostors, *rare)
    if chance.random() >= MORE_SHARE:
        return (*USUAL, *apart)
    others = [kind for kind in (*LARGER, *CLUSTERS) if kind not in (*RARE, *BY_NAME, *SEALED, IMPOSTORS)]
    return (*USUAL, *sorted(chance.sample(others, chance.randint(1, MORE_MAX)), key=others.index), *apart)


class KindDraw:
    """Draws steps of some kinds for one cluster."""

    def __init__(self, chance: Random, positions: list[Position], cluster: Cluster, kinds: Collection[str]) -> None:
        self._chance = chance
        self._cluster = cluster
        self._positions = positions
        self._kinds = kinds

    def steps(self) -> list[Step]:
        """A start, and some faults with pauses between them. The player ends all faults afterwards."""
        if tuple(self._kinds) == ("memory",):
            return remembering.memory(self._chance, self._positions, self._cluster)
        found = self._starts()
        steps_max = next(most for up_to, most in STEPS if len(self._positions) <= up_to)
        for _ in range(self._chance.randint(1, steps_max)):
            found += self._fault()
            pause_s = self._chance.choice(PAUSES_S)
            if pause_s:
                found.append(definition.Pass(s=pause_s))
        if self._chance.random() < 0.5:
            found.append(definition.Start(order=self._chance.choice(ORDERS)))
        return found

    def _starts(self) -> list[Step]:
        chance = self._chance
        gap_s = chance.choice((0.0, 0.0, 0.0, 0.002, 0.05))
        first = definition.Start(
            nodes=self._some(0.5) if chance.random() < 0.2 else "all", order=chance.choice(ORDERS)
        )
        weather = self._weather()
        rough = chance.random() < 0.3 and "weather" in self._kinds
        return [weather] * rough + [
            definition.Start(nodes=first.nodes, order=first.order, gap_s=gap_s),
            definition.Pass(s=chance.choice((0.0, 0.1, 1.0, 5.0, 30.0))),
        ]

    def _some(self, share_max: float = 0.3) -> str:
        """One node, a few, or the lowest ones, on which most others depend."""
        chance, positions = self._chance, self._positions
        draw = chance.random()
        if draw < 0.4:
            return str(chance.choice(positions))
        if draw < 0.6:
            return folded(positions[: chance.randint(1, min(4, len(positions)))])
        if draw < 0.7:
            return "root"
        count = max(1, min(20, int(len(positions) * share_max * chance.random())))
        return folded(chance.sample(positions, count))

    def _fault(self) -> list[Step]:
        some = self._some()
        usable = {kind: maker for kind, maker in self._makers(some).items() if kind in self._kinds or kind in REPAIRS}
        weights, makers = zip(*usable.values(), strict=True)
        maker: Callable[[], Step | list[Step]] = self._chance.choices(makers, weights)[0]
        made = maker()
        return made if isinstance(made, list) else [made]

    def _makers(self, some: str) -> dict[str, tuple[int, Callable[[], Step | list[Step]]]]:
        """Every kind, with its weight."""
        given = self._chance, self._positions, self._cluster
        return self._usual(some) | {kind: (LARGER_WEIGHT, partial(make, *given)) for kind, make in LARGER.items()}

    def _usual(self, some: str) -> dict[str, tuple[int, Callable[[], Step | list[Step]]]]:
        chance = self._chance
        return {
            "kill": (2, lambda: definition.Kill(nodes=some)),
            "vanish": (1, lambda: definition.Vanish(nodes=some)),
            "leave": (1, lambda: definition.Leave(nodes=some)),
            "restart": (
                2,
                lambda: definition.Restart(nodes=some, down_s=chance.choice((0.0, 0.02, 0.1, 0.3, 1.0))),
            ),
            "reuse": (1, lambda: definition.Reuse(nodes=some)),
            "pause": (2, lambda: definition.Pause(nodes=some)),
            "resume": (2, definition.Resume),
            "slow": (1, lambda: self._slow(some)),
            "jump": (1, lambda: definition.Jump(nodes=some, seconds=chance.choice((0.3, 1.0, 10.0, 1000.0)))),
            "hangup": (1, lambda: definition.Hangup(nodes=some)),
            "cut": (1, lambda: definition.Cut(nodes=some)),
            "block": (1, lambda: self._block(some)),
            "partition": (1, self._partition),
            "weather": (1, self._weather),
            "mend": (1, definition.Mend),
            "babble": (1, lambda: self._babble(some)),
            "churn": (1, self._churn),
            "start": (3, lambda: definition.Start(nodes="all", order=chance.choice(ORDERS))),
        }

    def _slow(self, some: str) -> Step:
        chance = self._chance
        return definition.Slow(
            nodes=some,
            stopped_s=chance.choice((0.05, 0.4, 0.7, 2.0)),
            running_s=chance.choice((0.01, 0.1, 1.0)),
            for_s=chance.choice((1.0, 5.0, 20.0)),
        )

    def _block(self, some: str) -> Step:
        chance = self._chance
        source, target = (some, "all") if chance.random() < 0.5 else ("all", some)
        return definition.Block(
            source=source,
            target=self._some() if chance.random() < 0.5 else target,
            protocol=chance.choice(("all", "udp", "tcp")),
        )

    def _partition(self) -> Step:
        chance, positions = self._chance, self._positions
        if chance.random() < 0.5:
            at = chance.randrange(len(positions))
            return definition.Partition(groups=(folded(positions[: at + 1]),))
        groups = chance.randint(2, 3)
        shuffled = chance.sample(positions, len(positions))
        parts = [shuffled[i::groups] for i in range(groups)]
        return definition.Partition(groups=tuple(folded(part) for part in parts if part))

    def _weather(self) -> Step:
        chance = self._chance
        return definition.Weather(
            loss=chance.choice((0.0, 0.02, 0.1, 0.3, 0.6)),
            delay_s=chance.choice((0.0, 0.0, 0.01, 0.2)),
            jitter_s=chance.choice((0.0, 0.001, 0.05, 0.5, 4.0)),
            doubled=chance.choice((0.0, 0.0, 0.1, 0.5)),
        )

    def _babble(self, some: str) -> Step:
        chance = self._chance
        return definition.Babble(
            source=str(chance.choice(self._positions)),
            target=some,
            what=chance.choice(BABBLES),
            per_s=chance.choice((5.0, 50.0)),
            for_s=chance.choice((0.2, 1.0)),
        )

    def _churn(self) -> Step:
        chance = self._chance
        return definition.Churn(
            percent_per_min=chance.choice((10.0, 100.0, 1000.0)),
            for_s=chance.choice((1.0, 5.0)),
            down_s=chance.choice((0.05, 0.5, 3.0)),
            ways=("kill", "leave", "vanish"),
        )
