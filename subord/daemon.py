"""The composition root: configuration in, one running node out, one nursery at the top.

Intuition: the day a shop opens. First everything that can be missing is fetched (address, ports, sockets), so that
a shop that cannot open says so in one line and leaves nothing behind. Then the doors open, all tasks run in
one nursery, and at closing time the goodbyes go out while everything still runs.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack
from math import inf
from pathlib import Path
from random import Random, SystemRandom

import msgspec
import trio

from subord import __version__, config
from subord.api import documents, serve
from subord.api.control import control_app
from subord.api.metrics import metrics_app
from subord.api.shown import AskFailure, Topic
from subord.api.sockets import BindError, bind_tcp, bind_unix
from subord.config import Config, ConfigError
from subord.core import showing
from subord.core.events import Gone, Healed, Known, Leave, Notice, PlaceChanged, Start
from subord.core.messages import Terms
from subord.core.node import Node
from subord.core.settings import Settings
from subord.core.view import RosterView, Snapshot, Why
from subord.runtime import udp
from subord.runtime.counters import Counters
from subord.runtime.driver import Driver
from subord.runtime.edge import Edge
from subord.runtime.eventlog import EventLog
from subord.runtime.interfaces import InterfaceError, choose
from subord.runtime.store import Store
from subord.runtime.streams import Streams, streams_allowed
from subord.runtime.systemd import Systemd
from subord.runtime.telling import Teller

logger = logging.getLogger("subord")

TRY_AGAIN = 75  # EX_TEMPFAIL: an address or a port may be free later
SAVE_S = 5.0
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)


class StartError(Exception):
    """The daemon cannot start. One plain line that says what to do; nothing was left behind."""


def main(given: Config) -> int:
    """Run until told to stop; the exit code."""
    _set_up_log(given.node.log_level)
    try:
        with ExitStack() as doors:
            daemon = Daemon(given, doors)
            trio.run(daemon.run)
    except StartError as error:
        print(f"subord: {error}", file=sys.stderr)
        return TRY_AGAIN
    return 0


class Daemon:
    """One running node. What the API may see of it is `subord.api.shown.Shown`."""

    def __init__(self, given: Config, doors: ExitStack) -> None:
        """Open everything that can fail. Raises StartError; `doors` closes what was opened."""
        self.config = given
        self.settings: Settings = given.cluster
        self.port = given.port
        self.counters = Counters()
        self.started_mono = time.monotonic()
        self._streams_max = streams_allowed()
        network = given.cluster.network
        try:
            chosen = choose(network, given.node.interface or None, given.node.address or None)
            self.address = chosen.address
            self._socket = udp.UdpSocket(self.address, self.port, self.counters)
            doors.callback(self._socket.close)
            self._stream_listener = doors.enter_context(bind_tcp(self.address, self.port))
            # Removed only if it is ours: another daemon's socket at this path makes `bind_unix` fail.
            self._control_listener = doors.enter_context(bind_unix(Path(given.node.control_socket)))
            doors.callback(_remove, given.node.control_socket, os.stat(given.node.control_socket).st_ino)
            listener = given.node.metrics_listener
            self._metrics_listener = doors.enter_context(bind_tcp(*listener)) if listener else None
        except (InterfaceError, udp.BindError, BindError) as error:
            raise StartError(str(error)) from None
        self.position = network.position_of(self.address) or 0
        try:
            self.events = EventLog(given.node.event_log, self.address)
        except OSError as error:
            message = f"cannot open the event log {given.node.event_log}: {error.strerror}; set node.event_log"
            raise StartError(message) from None
        self._systemd = Systemd()

    # -- life ---------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Until told to stop."""
        # Caught before anybody can learn that we are ready: an uncaught signal ends the process.
        with trio.open_signal_receiver(*SIGNALS) as signals:
            await self._live(signals)

    async def _live(self, signals: AsyncIterator[int]) -> None:
        """The one nursery."""
        self._store = Store(self.config.node.state_directory, Terms.of(self.settings), self.position)
        remembered = self._store.load()
        incarnation = max(int(time.time() * 1000), remembered.incarnation + 1 if remembered else 0)
        chance = Random(SystemRandom().getrandbits(64))
        node = Node(self.settings, self.position, incarnation, chance, trio.current_time())
        self._driver = Driver(node, self._socket, self.port, self.counters, self._observe)
        self._streams = Streams(
            self.address,
            self.port,
            user_timeout_s=self.settings.timing.leader_silence_s,
            counters=self.counters,
            answer=lambda topic: documents.answer(self, topic),
            is_ours=lambda address: self.settings.network.position_of(address) is not None,
            edge_closed=self._driver.edge_closed,
            streams_max=self._streams_max,
        )
        self._edge = Edge(self._streams, chance, self._leader_address, self._driver.edge_closed)
        self._teller = Teller(node, self.events, self._systemd, self.counters)
        self._remember = trio.Event()
        self._reload_asked = trio.Event()
        self.events.write("started", pid=os.getpid(), position=self.position, incarnation=incarnation)
        logger.info("subord %s: %s is position %d of %s", __version__, self.address, self.position, self._network)
        async with trio.open_nursery() as nursery:
            self._scope = nursery.cancel_scope
            nursery.start_soon(self._obey, signals)
            nursery.start_soon(self._reload_forever)
            nursery.start_soon(self._driver.run)
            if remembered is not None:
                leader = (remembered.leader,) if remembered.leader else ()
                self._driver.feed(Known((*leader, *remembered.peers)))
            self._driver.feed(Start())
            nursery.start_soon(self._streams.serve, self._stream_listener)
            nursery.start_soon(serve.serve, control_app(self), self._control_listener)
            if self._metrics_listener is not None:
                nursery.start_soon(serve.serve, metrics_app(self), self._metrics_listener)
            nursery.start_soon(self._edge.hold_forever)
            nursery.start_soon(self._systemd.pat_watchdog)
            if self.config.node.state_directory:
                nursery.start_soon(self._save_forever)
        self.events.write("stopped")
        logger.info("stopped")

    @property
    def _network(self) -> str:
        return self.settings.network.text

    async def _obey(self, signals: AsyncIterator[int]) -> None:
        async for number in signals:
            if number == signal.SIGHUP:
                self._reload_asked.set()
            elif number == signal.SIGUSR1:
                # Asked for, so it is said at whatever level.
                state = msgspec.json.encode(documents.status(self)).decode()
                logger.log(max(logger.level, logging.INFO), "state: %s", state)
            elif self._scope.deadline < inf:
                self._scope.cancel()  # asked twice: at once
            else:
                self._leave()

    def _leave(self) -> None:
        """Goodbyes go out normally while everything still runs; the deadline is the second lock."""
        grace_s = self.config.node.grace_s
        self._systemd.tell("STOPPING=1", "STATUS=saying goodbye")
        logger.info("leaving: goodbyes for up to %g s", grace_s)
        self._scope.deadline = trio.current_time() + grace_s + 0.5
        self._driver.feed(Leave(grace_s))

    async def _reload_forever(self) -> None:
        """On SIGHUP, in a thread and not in the way of SIGTERM: the file may lie on a disk that does not answer."""
        while True:
            await self._reload_asked.wait()
            self._reload_asked = trio.Event()
            await trio.to_thread.run_sync(self._reload, abandon_on_cancel=True)

    def _reload(self) -> None:
        try:
            fresh = config.reload(self.config)
        except ConfigError as error:
            logger.error("the configuration was not read again, the old one goes on: %s", error)
            return
        taken, ignored = config.changes(self.config, fresh)
        self.config = msgspec.structs.replace(
            self.config,
            node=msgspec.structs.replace(
                self.config.node, grace_s=fresh.node.grace_s, log_level=fresh.node.log_level
            ),
        )
        logger.setLevel(fresh.node.log_level.upper())
        if ignored:
            logger.warning("changed, but taken over only by a restart: %s", ", ".join(ignored))
        logger.info("configuration read again: %s", ", ".join(taken) or "nothing changed that can change now")

    def _observe(self, notice: Notice) -> None:
        self._teller.tell(notice)
        if isinstance(notice, PlaceChanged):
            self._edge.move()
            self._remember.set()
        elif isinstance(notice, Healed):
            self._edge.look_again()
        elif isinstance(notice, Gone):
            self._scope.cancel()

    def _leader_address(self) -> str | None:
        leader = self._driver.node.following.leader
        return self.settings.network.address_text_of(leader.position) if leader else None

    # -- tasks --------------------------------------------------------------------------------------------

    async def _save_forever(self) -> None:
        """Remember the neighbourhood after each change of place, outside the event loop."""
        while True:
            await self._remember.wait()
            await trio.sleep(SAVE_S)  # one change is often followed by another
            self._remember = trio.Event()
            neighbourhood = showing.neighbourhood(self._driver.node)
            # A disk that does not answer must not keep us from leaving; the old file stays whole.
            await trio.to_thread.run_sync(self._store.save, neighbourhood, abandon_on_cancel=True)

    # -- what the API sees ------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        return showing.snapshot(self._driver.node, trio.current_time())

    def roster(self) -> RosterView:
        return showing.roster(self._driver.node, trio.current_time())

    def why(self) -> Why:
        return showing.why(self._driver.node, trio.current_time())

    async def ask(self, address: str, what: Topic, timeout_s: float) -> bytes | AskFailure:
        return await self._streams.ask(address, what, timeout_s)


def _remove(path: str, inode: int) -> None:
    """Take our control socket away; what somebody else put in its place stays."""
    try:
        if os.stat(path).st_ino == inode:
            os.unlink(path)
    except OSError:
        return  # nothing is lost: the next daemon replaces a stale file


def _set_up_log(level: str) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    logger.handlers[:] = [handler]
    logger.propagate = False
    logger.setLevel(level.upper())
