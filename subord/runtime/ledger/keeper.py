"""Connects the ledger of this node with its disks: takes records of writers, empties the spool, stores as a sink.

Inputs are records of writers, and actions of the engine; outputs are events for it, and what a writer is told. The
disks are used in threads, so one that does not answer stops records and nothing else. The spool is opened when there
is a file of it, or at the first record. Invariant: a writer is told that its records are accepted after they are on
the disk.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

import trio

from subord.config.schema import LedgerConfig
from subord.core.address.network import Network
from subord.core.carriage.engine.interface import PartEvent
from subord.core.carriage.engine.tree import Tree
from subord.core.carriage.ledger.bodies import Key, Record
from subord.core.carriage.ledger.interface import SinkIs, Spooled, Store, StoreEnded, Take, Taken
from subord.core.carriage.ledger.ledger import Ledger
from subord.runtime import late
from subord.runtime.counters import Counters

if TYPE_CHECKING:
    from subord.runtime.ledger.restores import WatchedSink
    from subord.runtime.ledger.sinks import Row
    from subord.runtime.ledger.spool import SqliteSpool

logger = logging.getLogger("subord")
SPOOL_FILE: Final = "spool.sqlite"
REOPEN_S: Final = 5.0
"""Until a sink that failed is opened again."""
CLOSE_S_MAX: Final = 1.0
"""For a database that may no longer answer."""
ROWS_MAX: Final = 16_384
"""Records of one transaction of a sink; one batch always fits."""
FULL: Final = (
    "the spool of this node is full: no record of this request is kept; write again when a sink has caught up"
)
NO_DIRECTORY: Final = "this node keeps no records: set node.state_directory; no record of this request is kept"
FAILED: Final = "the spool of this node cannot be written: no record of this request is kept; the log says why"


async def _close(sink: WatchedSink) -> None:
    """SQLite brings its log into the file, which may be copied."""
    with suppress(Exception):
        await trio.to_thread.run_sync(sink.close, abandon_on_cancel=True)


class LedgerKeeper:
    """The ledger of one daemon. `directory` "": no spool."""

    def __init__(self, config: LedgerConfig, directory: str, network: Network, counters: Counters) -> None:
        self.feed: Callable[[PartEvent], None]
        self._config = config
        self._directory = directory
        self._network = network
        self._counters = counters
        self._life = 0
        self._spool: SqliteSpool | None = None
        self._opening = trio.Lock()
        self._stores: dict[Key, Sequence[Record]] = {}
        self._has_stores = trio.Event()
        self._nursery: trio.Nursery | None = None
        self._warned = self._found = ""
        counters.spool_bytes_max = config.spool_bytes_max if directory else 0
        counters.spool_state = "keeps" if directory else ""

    def part_of(self, tree: Tree) -> Ledger:
        """The part of the engine."""
        self._life = tree.incarnation
        return Ledger(tree)

    @property
    def actions(self) -> dict[Any, Callable[[Any], None]]:
        """What carries out the actions of the part."""
        return {Take: self._begin_take, Store: self._begin_store}

    async def run(self) -> None:
        """Serve the disks until cancelled."""
        async with trio.open_nursery() as self._nursery:
            if self._directory and (Path(self._directory) / SPOOL_FILE).exists() and await self._open() is not None:
                self.feed(Spooled())
            if self._config.sink:
                self._nursery.start_soon(self._serve_sink)
            await trio.sleep_forever()

    # -- the spool ----------------------------------------------------------------------------------------

    async def append(self, records: tuple[Record, ...]) -> str:
        """Keep all of them; the answer: "", or a sentence that says why none is kept."""
        if not self._directory:
            return NO_DIRECTORY
        spool = await self._open()
        if spool is None:
            return FAILED
        token = trio.lowlevel.current_trio_token()

        def work() -> bool:
            """In a thread, which goes on when the request is cancelled; at its end it tells the engine."""
            is_kept = spool.append(records)
            if is_kept:
                with suppress(trio.RunFinishedError):
                    token.run_sync_soon(self._kept, spool, len(records))
            return is_kept

        try:
            is_kept = await trio.to_thread.run_sync(work, abandon_on_cancel=True)
        except Exception as error:
            self._fail(f"cannot write the spool in {self._directory}: {error}")
            return FAILED
        if not is_kept:
            self._counters.records_refused += len(records)
            return FULL
        return ""

    def _kept(self, spool: SqliteSpool, count: int) -> None:
        """Records are on the disk."""
        self._counters.records_accepted += count
        self._show(spool)
        self.feed(Spooled())

    async def _open(self) -> SqliteSpool | None:
        """The spool; None: it cannot be opened, which was logged."""
        async with self._opening:
            if self._spool is None and await late.load("subord.runtime.ledger.spool"):
                from subord.runtime.ledger.spool import SqliteSpool  # noqa: PLC0415 - few nodes have records

                path, bytes_max = Path(self._directory) / SPOOL_FILE, self._config.spool_bytes_max
                try:
                    self._spool = await trio.to_thread.run_sync(
                        SqliteSpool, path, self._life, bytes_max, abandon_on_cancel=True
                    )
                    self._show(self._spool)
                except Exception as error:
                    self._fail(f"cannot open the spool {path}: {error}")
            return self._spool

    def _show(self, spool: SqliteSpool) -> None:
        """It has just worked."""
        self._counters.spool_state = "keeps"
        self._counters.spool_records, self._counters.spool_bytes = spool.count, spool.used_bytes
        self._counters.spool_oldest_at = spool.oldest_at

    def _begin_take(self, action: Take) -> None:
        assert self._nursery is not None
        self._nursery.start_soon(self._take, action)

    async def _take(self, action: Take) -> None:
        spool, event = self._spool, Taken(ok=False)
        assert spool is not None, "records without a spool"

        def work() -> Taken:
            if action.stored is not None:
                spool.delete(action.stored)
            oldest = spool.oldest()
            return Taken() if oldest is None else Taken(*oldest)

        try:
            event = await trio.to_thread.run_sync(work, abandon_on_cancel=True)
            self._show(spool)
        except Exception as error:
            self._fail(f"cannot read the spool in {self._directory}: {error}")
        self.feed(event)

    def _fail(self, words: str) -> None:
        """The spool fails."""
        self._counters.spool_state = "fails"
        self._warn(words)

    def _warn(self, words: str) -> None:
        """Log it, unless it was the last that was logged."""
        if words != self._warned:
            self._warned = words
            logger.error("%s", words)

    # -- the sink -----------------------------------------------------------------------------------------

    def _begin_store(self, action: Store) -> None:
        self._stores[action.key] = action.records
        self._has_stores.set()

    async def _serve_sink(self) -> NoReturn:
        """Hold the database open, and store; after a failure open it again."""
        self._counters.sink_state = "fails"
        while True:
            sink = await self._open_sink()
            if sink is not None:
                self._warned = ""
                self._counters.sink_state = "stores"
                self.feed(SinkIs(able=True))
                try:
                    await self._store_until_failure(sink)
                    self._counters.sink_state = "fails"
                    self.feed(SinkIs(able=False))
                finally:
                    with trio.move_on_after(CLOSE_S_MAX, shield=True):  # also at the end of the daemon
                        await _close(sink)
            await trio.sleep(REOPEN_S)

    async def _open_sink(self) -> WatchedSink | None:
        if not await late.load("subord.runtime.ledger.restores"):
            return None
        from subord.runtime.ledger.restores import open_watched  # noqa: PLC0415
        from subord.runtime.ledger.sinks import SinkError  # noqa: PLC0415

        try:
            sink = await trio.to_thread.run_sync(
                open_watched, self._config.sink, self._directory, abandon_on_cancel=True
            )
        except SinkError as error:
            self._warn(f"cannot open ledger.sink, records stay in the spools of their nodes: {error}")
            return None
        self._counters.records_missing = sink.missing
        if sink.found != self._found:
            self._found = sink.found
            logger.log(logging.ERROR if sink.missing else logging.INFO, "%s", sink.found)
        return sink

    async def _store_until_failure(self, sink: WatchedSink) -> None:
        """All batches that wait go into one transaction, up to a bound."""
        from subord.runtime.ledger.sinks import SinkError  # noqa: PLC0415

        while True:
            await self._has_stores.wait()
            keys, rows = self._waiting_rows()
            try:
                await trio.to_thread.run_sync(sink.store, rows, abandon_on_cancel=True)
            except SinkError as error:
                self._warn(f"ledger.sink takes no records, they stay in the spools of their nodes: {error}")
                for key in [*keys, *self._stores]:
                    self.feed(StoreEnded(key, ok=False))
                self._stores.clear()
                self._has_stores = trio.Event()
                return
            self._counters.records_stored += len(rows)
            for key in keys:
                self.feed(StoreEnded(key))

    def _waiting_rows(self) -> tuple[list[Key], list[Row]]:
        """Take what waits, as rows."""
        from subord.runtime.ledger.sinks import Row  # noqa: PLC0415

        keys, rows = list[Key](), list[Row]()
        while self._stores and len(rows) < ROWS_MAX:
            key = next(iter(self._stores))
            records = self._stores.pop(key)
            if key.origin > self._network.size:  # of no node; a member may send any number
                self._counters.dropped["records_of_no_node"] += len(records)
                continue
            node = self._network.address_text_of(key.origin)
            keys.append(key)
            rows += [Row(node, key.life, key.first + at, each.kind, each.body) for at, each in enumerate(records)]
        if not self._stores:
            self._has_stores = trio.Event()
        return keys, rows
