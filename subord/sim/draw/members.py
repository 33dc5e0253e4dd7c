"""Drawn members that do not fit: liars, nodes with other settings, other releases, and addresses with two hosts.

Each function returns steps of a scenario. Their effects end with the next `mend`, after which every member is judged
like the others (player.py).
"""

from __future__ import annotations

from random import Random

from subord.core.settings import TimingName
from subord.core.view import Position
from subord.sim.draw.aim import FANOUT_MAX
from subord.sim.scenario import definition
from subord.sim.scenario.definition import Cluster, Step, folded
from subord.sim.scenario.lasting import DRAWN_LIES, Lie, Pose, Refit, Release, Seize, Twin

LASTS_S = (1.0, 10.0, 30.0)
LIARS_MAX = 3
TIMINGS: tuple[TimingName, ...] = ("lab", "lan", "wan")


def liars(chance: Random, positions: list[Position], _cluster: Cluster) -> list[Step]:
    """Some members make false statements for a while."""
    count = chance.randint(1, min(LIARS_MAX, len(positions)))
    lies = [Lie(nodes=str(p), what=chance.choice(DRAWN_LIES)) for p in sorted(chance.sample(positions, count))]
    return [*lies, definition.Pass(s=chance.choice(LASTS_S))]


def impostors(chance: Random, positions: list[Position], cluster: Cluster) -> list[Step]:
    """Members speak in the names of others, forge their rows, or take an address; identities must prevent it."""
    if cluster.identities == "none":
        return [definition.Pass(s=1.0)]
    some = _few(chance, positions)
    match chance.choice(("pose", "forge", "both", "seize")):
        case "pose":
            found: list[Step] = [_pose(chance, some)]
        case "forge":
            found = [Lie(nodes=some, what="forges")]
        case "both":
            found = [Lie(nodes=some, what="forges"), _pose(chance, some)]
        case _:
            found = [Seize(nodes=str(chance.choice(positions)))]
    return [*found, definition.Pass(s=chance.choice(LASTS_S))]


def _pose(chance: Random, some: str) -> Step:
    return Pose(nodes=some, per_s=chance.choice((5.0, 50.0)), for_s=chance.choice((1.0, 10.0)))


def _few(chance: Random, positions: list[Position]) -> str:
    return folded(sorted(chance.sample(positions, min(len(positions), chance.randint(1, LIARS_MAX)))))


def misfits(chance: Random, positions: list[Position], cluster: Cluster) -> list[Step]:
    """Some nodes start with another fan-out, other guest slots, or another timing preset; all others refuse them."""
    some = _share(chance, positions)
    match chance.choice(("fanout", "guest_slots", "timing")):
        case "fanout":
            refit = Refit(nodes=some, fanout=_other(cluster.fanout))
        case "guest_slots":
            refit = Refit(nodes=some, guest_slots=_other(cluster.guest_slots or cluster.fanout))
        case _:
            refit = Refit(nodes=some, timing=chance.choice([each for each in TIMINGS if each != cluster.timing]))
    return [refit, definition.Pass(s=chance.choice(LASTS_S))]


def releases(chance: Random, positions: list[Position], _cluster: Cluster) -> list[Step]:
    """Some hosts get a later release, or return to the earlier one."""
    some = _share(chance, positions)
    restart = definition.Restart(nodes=some, down_s=chance.choice((0.0, 0.1, 1.0)))
    return [Release(nodes=some, later=chance.random() < 0.7), restart, definition.Pass(s=chance.choice(LASTS_S))]


def twins(chance: Random, positions: list[Position], _cluster: Cluster) -> list[Step]:
    """A second host takes an address in use."""
    return [Twin(nodes=str(chance.choice(positions))), definition.Pass(s=chance.choice(LASTS_S))]


def _other(count: int) -> int:
    return count + 1 if count < FANOUT_MAX else count - 1


def _share(chance: Random, positions: list[Position]) -> str:
    return folded(chance.sample(positions, max(1, round(chance.choice((0.1, 0.3, 0.5)) * len(positions)))))
