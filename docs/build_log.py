"""Lines of the log for the documents: the lines of the daemon when a leader dies, in each log format."""

from __future__ import annotations

import logging
import os
import time
from types import SimpleNamespace
from typing import Any

import trio
import trio.testing

from subord.core.address.network import Network
from subord.core.events import LeaderLost, PlaceChanged
from subord.core.settings import Settings
from subord.core.state.states import Phase
from subord.core.view import Place
from subord.runtime.counters import Counters
from subord.runtime.log import formats
from subord.runtime.log.event_log import EventLog
from subord.runtime.log.notices import Notices
from subord.runtime.systemd import Systemd

NODE = "10.0.0.4"
BEGAN = 1795358974.426  # 14:49:34, UTC


def text() -> str:
    """On a terminal."""
    zone = os.environ.get("TZ")
    os.environ["TZ"] = "UTC"
    time.tzset()
    try:
        return _block("text", formats.text, _records())
    finally:
        os.environ.pop("TZ") if zone is None else os.environ.update(TZ=zone)
        time.tzset()


def as_json() -> str:
    """In a file or pipe: the last line of the same."""
    return _block("json", formats.as_json, _records()[-1:])


def _block(language: str, render: formats.Render, records: list[logging.LogRecord]) -> str:
    return f"```{language}\n" + b"".join(render(each, NODE) for each in records).decode() + "```\n"


def _records() -> list[logging.LogRecord]:
    """Of a node that joins, and loses its leader half a minute later."""
    found: list[logging.LogRecord] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            record.created = BEGAN + trio.current_time() - began
            found.append(record)

    settings = Settings(network=Network.parse("10.0.0.0/24"), fanout=2, guest_slots=2)
    node: Any = SimpleNamespace(context=SimpleNamespace(settings=settings), phase=Phase.GONE)
    began = 0.0

    async def live() -> None:
        nonlocal began
        began = trio.current_time()
        teller = Notices(node, EventLog("", NODE), Systemd({}), Counters())
        teller.tell(PlaceChanged(Place.HOME, 2, None, 0, "its computed leader"))
        await trio.sleep(30)
        teller.tell(LeaderLost(2, "closed", 0.61))
        await trio.sleep(0.02)
        teller.tell(PlaceChanged(Place.GUEST, 3, 2, 1, "the nearest with a free guest slot"))

    logger = logging.getLogger("subord")
    before, kept = (logger.level, logger.propagate), Kept()
    logger.addHandler(kept)
    logger.setLevel("INFO")
    logger.propagate = False
    try:
        trio.run(live, clock=trio.testing.MockClock(autojump_threshold=0))
    finally:
        logger.removeHandler(kept)
        logger.level, logger.propagate = before
        logger.setLevel(before[0])
    return found


PARTS = {"log-text": text, "log-json": as_json}
