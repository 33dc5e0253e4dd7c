"""How a node spends its time among classes: by chance, as a lottery for each request, or as a fluid.

Inputs are the whole tickets of the classes, what waits in their queues, and a number of requests that the node can
serve; output is the number that each class got. Invariants: no class gets more than waits, and no time is left over
while anything waits. A queue of `inf` never ends.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import cache
from itertools import accumulate
from math import comb, inf
from random import Random

Serve = Callable[[Sequence[int], Sequence[float], int], list[float]]


def lottery(rng: Random) -> Serve:
    """Each request is of a class that waits, with the chance of its tickets among those that wait."""
    chance = rng.random

    def serve(tickets: Sequence[int], queues: Sequence[float], requests: int) -> list[float]:
        if any(0 < queue < inf for queue in queues):
            return _one_by_one(tickets, queues, requests, chance)
        served, left = [0.0] * len(tickets), requests
        rest = sum(each for each, queue in zip(tickets, queues, strict=True) if queue)
        for place, queue in enumerate(queues):
            if queue:
                got = left if rest == tickets[place] else bisect_right(binomial(left, tickets[place], rest), chance())
                served[place] = got
                left -= got
                rest -= tickets[place]
        return served

    return serve


def _one_by_one(
    tickets: Sequence[int], queues: Sequence[float], requests: int, chance: Callable[[], float]
) -> list[float]:
    served = [0.0] * len(tickets)
    for _ in range(requests):
        waiting = [place for place, queue in enumerate(queues) if queue - served[place] >= 1]
        if not waiting:
            break
        sums = list(accumulate(tickets[place] for place in waiting))
        served[waiting[bisect_right(sums, chance() * sums[-1])]] += 1
    return served


@cache
def binomial(tries: int, tickets: int, of: int) -> list[float]:
    """The chances of at most 0, 1, 2, ... wins, but for the last, which is 1. Whole tickets make the tables few."""
    win = tickets / of
    chances = (comb(tries, wins) * win**wins * (1 - win) ** (tries - wins) for wins in range(tries))
    return list(accumulate(chances))


def fluid(tickets: Sequence[int], queues: Sequence[float], requests: int) -> list[float]:
    """Exact shares. A class that needs less than its share leaves the rest to the others."""
    served, left = [0.0] * len(tickets), float(requests)
    waiting = [place for place, queue in enumerate(queues) if queue > 0]
    while waiting and left > 0:
        whole = sum(tickets[place] for place in waiting)
        modest = [place for place in waiting if queues[place] <= left * tickets[place] / whole]
        if not modest:
            for place in waiting:
                served[place] = left * tickets[place] / whole
            break
        for place in modest:
            served[place] = queues[place]
        left -= sum(queues[place] for place in modest)
        waiting = [place for place in waiting if place not in modest]
    return served
