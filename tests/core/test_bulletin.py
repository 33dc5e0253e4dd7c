"""The pace of news: the first at once, the next ones ever more seldom (protocol section 5)."""

from __future__ import annotations

from random import Random

import pytest

from subord.core.address.network import Network
from subord.core.pacing.coalescer import Bulletin
from subord.core.state.context import Context
from subord.core.state.settings import LAN, Settings


def new() -> tuple[Context, Bulletin]:
    settings = Settings(network=Network.parse("10.0.0.0/24"), fanout=2, guest_slots=2, timing_name="lan")
    context = Context(settings, 1, 1000, Random(1), now=100.0)
    return context, Bulletin(context)


def told(context: Context, bulletin: Bulletin, times: int) -> list[float]:
    """After how long each of so many changes is told that come as soon as the one before was told."""
    waits = []
    for _ in range(times):
        waits.append(bulletin.next_at - context.now)
        context.now = bulletin.next_at
        bulletin.sent()
    return waits


def test_news_that_keep_coming_are_told_ever_more_seldom() -> None:
    context, bulletin = new()
    first = LAN.report_s
    assert told(context, bulletin, 6) == pytest.approx(
        [first, first, 2 * first, 4 * first, LAN.answer_s, LAN.answer_s]
    )


def test_after_a_quiet_time_news_are_told_at_once_again() -> None:
    context, bulletin = new()
    told(context, bulletin, 6)
    context.now += 2 * LAN.answer_s + 0.01
    assert told(context, bulletin, 2) == pytest.approx([LAN.report_s, LAN.report_s])


def test_what_comes_long_after_the_last_news_waits_only_for_company() -> None:
    context, bulletin = new()
    told(context, bulletin, 3)
    context.now += 60
    assert bulletin.next_at - context.now == pytest.approx(LAN.report_s)
