"""What the engine of orders and its parts have dropped, and what orders have brought, in the counters of the daemon.

Inputs are the engine, its parts, answers and the counters; output are higher counters. Each drop is counted once.
"""

from __future__ import annotations

from collections.abc import Iterable

from subord.core.carriage.engine.causes import SENTENCES
from subord.core.carriage.engine.engine import Engine
from subord.core.carriage.engine.interface import Answer
from subord.core.carriage.engine.parts import Part
from subord.runtime.counters import Counters


def count_dropped(engine: Engine, parts: Iterable[Part], counters: Counters) -> None:
    """After each event; nearly always there is nothing."""
    if engine.dropped:
        for word, times in engine.dropped.items():
            counters.dropped[f"order_{word.replace(' ', '_')}"] += times
        engine.dropped.clear()
    for each in parts:
        if each.dropped:
            for word, times in each.dropped.items():
                counters.dropped[word.replace(" ", "_")] += times
            each.dropped.clear()


def count_answer(answer: Answer, counters: Counters) -> None:
    """Causes of other nodes may be any words."""
    counters.orders_told += answer.told
    for cause, nodes in answer.missing:
        counters.orders_missing[cause if cause in SENTENCES else "other"] += len(nodes)
