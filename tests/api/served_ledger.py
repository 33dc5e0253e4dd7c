"""A ledger in memory behind the control socket of a fake node, for tests of what writes records."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

from subord.api.handlers.records import record_handlers
from subord.core.carriage.ledger.bodies import Record
from subord.runtime.ledger.keeper import FULL
from subord.services.account.record import Job, read
from subord.services.serving import record_checks
from tests.api.fake_node_api import World
from tests.api.served_node import fake_daemon


class FakeLedger:
    """Takes requests until `room` records are there."""

    def __init__(self, room: int = 1 << 30) -> None:
        self.requests: list[tuple[Record, ...]] = []
        self._room = room

    async def append(self, records: tuple[Record, ...]) -> str:
        if self._room < len(records):
            return FULL
        self._room -= len(records)
        self.requests.append(records)
        return ""

    @property
    def kept(self) -> tuple[Record, ...]:
        return tuple(each for request in self.requests for each in request)

    @property
    def jobs(self) -> list[Job | None]:
        return [read(each.body) for each in self.kept]


@contextmanager
def served(ledger: FakeLedger) -> Iterator[str]:
    """Yields the path of the socket."""
    orders = record_handlers(SimpleNamespace(ledger=ledger), record_checks())  # type: ignore[arg-type]
    with fake_daemon(World().node(4), orders=orders) as path:
        yield path
