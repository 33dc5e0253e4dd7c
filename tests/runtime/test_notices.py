"""Notices: one log line for each change of place, and each event in the event log."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from subord.core.address.network import Network
from subord.core.events import Healed, LeaderLost, Notice, PlaceChanged, Refused, SlowAnswers, SubordinateLost
from subord.core.settings import Settings
from subord.core.state.states import Phase
from subord.core.view import Place
from subord.runtime.counters import Counters
from subord.runtime.log.dedup import Dedup
from subord.runtime.log.event_log import EventLog
from subord.runtime.log.notices import Notices
from subord.runtime.systemd import Systemd

SETTINGS = Settings(network=Network.parse("10.0.0.0/24"), fanout=2, guest_slots=2)
HOME = PlaceChanged(Place.HOME, 2, None, 0, "its computed leader")
GUEST = PlaceChanged(Place.GUEST, 3, 2, 1, "the nearest with a free guest slot")
ROOT = PlaceChanged(Place.ROOT, None, 2, 1, "no lower position answers")


class Output:
    """The lines that `Notices` logs at `info` and above, and its event log."""

    def __init__(self, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO, "subord")
        self._caplog = caplog
        self._path = folder / "events"

    async def tell(self, *notices: Notice) -> None:
        """Give notices, one each 0.1 s."""
        roster = SimpleNamespace(live=1, not_home=0)
        node: Any = SimpleNamespace(context=SimpleNamespace(settings=SETTINGS), phase=Phase.GONE, roster=roster)
        events = EventLog(str(self._path), "10.0.0.4")
        reporter = Notices(node, events, Systemd({}), Counters())
        for notice in notices:
            reporter.tell(notice)
            await trio.sleep(0.1)
        events.close()

    @property
    def lines(self) -> list[tuple[str, str]]:
        return [(each.levelname, each.getMessage()) for each in self._caplog.records]

    @property
    def records(self) -> list[logging.LogRecord]:
        return self._caplog.records

    @property
    def events(self) -> list[str]:
        return [json.loads(line)["event"] for line in self._path.read_text().splitlines()]


@pytest.fixture
def output(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Output:
    return Output(tmp_path, caplog)


SLOW = 'answers take 0.90 s, but the timing preset waits 0.4 s for one: set cluster.timing to "wan" on all nodes'
LOSS = "(lost 10.0.0.2: {}, silent for 0.61 s; 0.10 s without a leader)"


@pytest.mark.parametrize(
    ("notices", "line"),
    [
        ([HOME], ("INFO", "now at home below 10.0.0.2: its computed leader")),
        (
            [GUEST],
            ("INFO", "now guest of 10.0.0.3, no longer below 10.0.0.2: the nearest with a free guest slot"),
        ),
        (
            [LeaderLost(2, "silence", 0.61), GUEST, Healed(0.1)],
            (
                "WARNING",
                "now guest of 10.0.0.3, no longer below 10.0.0.2: the nearest with a free guest slot "
                + LOSS.format("silence"),
            ),
        ),
        (
            [LeaderLost(2, "displaced", 0.61), ROOT, Healed(0.1)],
            (
                "INFO",
                "now root, no longer below 10.0.0.2: no lower position answers " + LOSS.format("displaced"),
            ),
        ),
        (
            [LeaderLost(2, "closed", 0.61), Healed(0.1)],
            ("WARNING", "still below 10.0.0.2: it answers again " + LOSS.format("closed")),
        ),
    ],
)
async def test_one_line_for_each_change_of_place(
    output: Output, autojump_clock: MockClock, notices: list[Notice], line: tuple[str, str]
) -> None:
    await output.tell(*notices)
    assert output.lines == [line]
    names = {PlaceChanged: "place", LeaderLost: "lost", Healed: "healed"}
    assert [each for each in output.events if each != "roster"] == [names[type(each)] for each in notices]  # type: ignore[index]


@pytest.mark.parametrize(
    ("notice", "words"),
    [
        (
            SlowAnswers(0.9, 0.4, "wan"),
            SLOW,
        ),
        (
            SlowAnswers(2.0, 1.5, "wan"),
            "answers take 2.00 s, longer than the 1.5 s of the slowest timing preset",
        ),
    ],
)
async def test_slow_answers_name_the_preset_to_use(
    output: Output, autojump_clock: MockClock, notice: SlowAnswers, words: str
) -> None:
    await output.tell(notice)
    assert (output.lines, output.events) == ([("WARNING", words)], ["slow_answers"])


async def test_a_loss_is_logged_with_one_change_only(output: Output, autojump_clock: MockClock) -> None:
    await output.tell(LeaderLost(2, "closed", 0.61), GUEST, Healed(0.1), HOME)
    assert [level for level, _ in output.lines] == ["WARNING", "INFO"]
    assert output.records[0].args == {
        "place": "guest",
        "leader": "10.0.0.3",
        "old": "10.0.0.2",
        "changes": 1,
        "reason": "the nearest with a free guest slot",
        "lost": "10.0.0.2",
        "cause": "closed",
        "silence_s": 0.61,
        "without_leader_s": 0.1,
    }


async def test_repeated_changes_of_place_are_not_folded(output: Output, autojump_clock: MockClock) -> None:
    await output.tell(*[HOME, GUEST] * 5)
    dedup = Dedup()
    assert [dedup.hold(each, 0.0) for each in output.records] == [False] * 10


async def test_other_notices_have_their_fields(output: Output, autojump_clock: MockClock) -> None:
    await output.tell(SubordinateLost(8, "silence", 1.5), Refused("10.0.0.9", "us", "fan-out 2\nINFO \x1b[2J"))
    assert output.lines == [
        ("WARNING", "lost the subordinate 10.0.0.8 (silence), last heard 1.50 s ago"),
        ("WARNING", "10.0.0.9 refused (told by us): fan-out 2?INFO ?[2J"),
    ]
    assert output.records[0].args == {"subordinate": "10.0.0.8", "cause": "silence", "silence_s": 1.5}
    assert output.events == ["subordinate_lost", "refused"]
