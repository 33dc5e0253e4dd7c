"""One iteration: what is done now, and why each job that waits has what it has.

Input is the plan and what is seen; output are actions for the batch system and the agents of servers. The order of
the steps is that of the text, but for two: servers that are overbooked, and windows that are over, come before the
jobs, so that no job is offered a machine that has to go. Invariants: with what was pending, no server is overbooked
by the actions; no machine has two actions; nothing is done to a machine that is not ours or is always on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from subord.services.machines.deciding import emptying, headroom, offering, releasing
from subord.services.machines.deciding.picture import Given, Picture, Seen
from subord.services.machines.orders import Forget
from subord.services.machines.plan import Plan, wants_of


class Decision(NamedTuple):
    """`whys`: of each job that waits. `notes`: about machines and servers. `unmet`: jobs that get nothing now, or
    not all that they want."""

    given: tuple[Given, ...]
    whys: Mapping[str, str]
    notes: tuple[str, ...]
    unmet: frozenset[str] = frozenset()


def decide(plan: Plan, seen: Seen) -> Decision:
    wants, whys = wants_of(seen.jobs, plan.by_queue())
    picture = Picture(plan, seen)
    emptying.empty(picture)
    releasing.withdraw_ended(picture)
    unmet = set(whys)
    provided = offering.provide(picture, wants)
    whys.update(provided.whys)
    unmet.update(provided.unmet)
    releasing.release(picture)
    headroom.keep(picture)
    for each in picture.records:
        if picture.servers[each.server].is_reachable:
            picture.give(Forget(each.machine.name, each.server), "", f"{each.machine.name} has arrived elsewhere")
    return Decision(tuple(_one_each(picture.given)), whys, tuple(picture.notes), frozenset(unmet))


def _one_each(given: list[Given]) -> list[Given]:
    """Of a machine only the first action: the others are decided again when that one is seen."""
    first = dict[str, Given]()
    for each in given:
        first.setdefault(each.action.machine, each)
    return list(first.values())
