"""The delays of the coalescer: short at first, doubling while changes continue (docs/protocol.md, section 5)."""

from __future__ import annotations

from random import Random

import pytest

from subord.core.address.network import Network
from subord.core.settings import LAN, Settings
from subord.core.state.coalescer import Coalescer
from subord.core.state.context import Context


def new() -> tuple[Context, Coalescer]:
    settings = Settings(network=Network.parse("10.0.0.0/24"), fanout=2, guest_slots=2, timing_name="lan")
    context = Context(settings, 1, 1000, Random(1), now=100.0)
    return context, Coalescer(context)


def delays(context: Context, coalescer: Coalescer, times: int) -> list[float]:
    """The delay of each of `times` changes, each made as soon as the one before was sent."""
    waits = []
    for _ in range(times):
        waits.append(coalescer.next_at - context.now)
        context.now = coalescer.next_at
        coalescer.sent()
    return waits


def test_steady_changes_are_sent_with_doubling_delays() -> None:
    context, coalescer = new()
    first = LAN.report_s
    assert delays(context, coalescer, 6) == pytest.approx(
        [first, first, 2 * first, 4 * first, LAN.answer_s, LAN.answer_s]
    )


def test_after_a_quiet_time_the_first_delay_counts_again() -> None:
    context, coalescer = new()
    delays(context, coalescer, 6)
    context.now += 2 * LAN.answer_s + 0.01
    assert delays(context, coalescer, 2) == pytest.approx([LAN.report_s, LAN.report_s])


def test_a_change_long_after_the_last_message_waits_the_shortest_delay() -> None:
    context, coalescer = new()
    delays(context, coalescer, 3)
    context.now += 60
    assert coalescer.next_at - context.now == pytest.approx(LAN.report_s)
