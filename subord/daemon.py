"""The composition root: configuration in, one running node out, one nursery at the top.

Intuition: the day a shop opens. First everything that can be missing is fetched (address, ports, sockets), so that
a shop that cannot open says so in one line and leaves nothing behind. Then the doors open, all tasks run in
one nursery, and at closing time the goodbyes go out while everything still runs.
"""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack
from functools import partial
from math import inf
from pathlib import Path
from random import Random, SystemRandom
from typing import NamedTuple

import msgspec
import trio

from subord import __version__
from subord.api.handlers.control import control_app, control_changes
from subord.api.http import server
from subord.api.http.host_check import host_check
from subord.api.http.sockets import BindError, bind_tcp, bind_unix
from subord.api.http.web import web_app
from subord.api.models import nodes
from subord.api.node_api import AskFailure, Question
from subord.api.query import peer_answers
from subord.config import load
from subord.config.schema import Config
from subord.config.source import ConfigError
from subord.core import snapshots
from subord.core.events import (
    Gone,
    Healed,
    Known,
    LeaderLost,
    Leave,
    Neighbourhood,
    Notice,
    Performance,
    PlaceChanged,
    Seeds,
    Start,
)
from subord.core.messages import Terms
from subord.core.node import Node
from subord.core.state.settings import Settings
from subord.core.state.view import Position, RosterView, Snapshot, Why
from subord.runtime.counters import Counters
from subord.runtime.driver import Driver
from subord.runtime.jobs.meter import PerformanceMeter
from subord.runtime.log.event_log import EventLog
from subord.runtime.log.logger import ASKED, Log
from subord.runtime.log.notices import Notices
from subord.runtime.net import multicast, udp
from subord.runtime.net.edge import Edge
from subord.runtime.net.interfaces import InterfaceError, choose
from subord.runtime.net.seeds import SeedList
from subord.runtime.net.streams import Streams, streams_allowed
from subord.runtime.net.transport import Transport
from subord.runtime.security.credentials import Credentials, CredentialsError, dump_no_core, log_unraisable_seldom
from subord.runtime.state.store import SAVE_S_MAX, Store
from subord.runtime.state.tracker import Tracker
from subord.runtime.systemd import Systemd
from subord.sealing.incarnation import next_life
from subord.sealing.keys import Keyring, KeyringError
from subord.sealing.sealer import Sealer

logger = logging.getLogger("subord")

TRY_AGAIN = 75  # EX_TEMPFAIL: an address or a port may be free later
CONFIGURATION = 78  # EX_CONFIG: trying again would not mend it
SAVE_S = 5.0
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


class StartError(Exception):
    """The daemon cannot start. One plain line that says what to do; nothing was left behind."""

    def __init__(self, message: str, exit_code: int = TRY_AGAIN) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def main(given: Config) -> int:
    """Run until told to stop; the exit code."""
    with Log() as log:
        log.open(given.node.log_format)
        log.choose(given)
        log_unraisable_seldom()
        if given.key_file:
            dump_no_core()
        try:
            trio.run(_live_and_live_again, given, log)
        except StartError as error:
            log.put_error(f"subord: {error}")
            return error.exit_code
        return 0


class Legacy(NamedTuple):
    """What a life leaves to the next one in the same process."""

    config: Config
    incarnation: int
    read_again: bool  # SIGHUP came too late for this life


async def _live_and_live_again(given: Config, log: Log) -> None:
    """One daemon after the other, in one process: another network means other positions, hence another node."""
    heir: Config | None = given
    legacy: Legacy | None = None
    # Caught before anybody can learn that we are ready: an uncaught signal ends the process. What comes between two
    # lives waits for the second.
    with trio.open_signal_receiver(*SIGNALS) as signals:
        while heir is not None:
            with ExitStack() as doors:
                daemon = _open(heir, doors, log, legacy)
                await daemon.run(signals)
            heir, legacy = daemon.heir, daemon.legacy


def _open(given: Config, doors: ExitStack, log: Log, legacy: Legacy | None) -> Daemon:
    """The next life; with the old configuration if that fails. Raises StartError."""
    try:
        return Daemon(given, doors, log, legacy)
    except StartError as error:
        if legacy is None:
            raise
        logger.error("cannot start in the new network, the old configuration goes on: %s", error)
        doors.close()
        return Daemon(legacy.config, doors, log, legacy)


class Daemon:
    """One running node. What the API may see of it is `subord.api.node_api.Shown`."""

    def __init__(self, given: Config, doors: ExitStack, log: Log, legacy: Legacy | None = None) -> None:
        """Open everything that can fail. Raises StartError; `doors` closes what was opened."""
        self.config = given
        self.log = log
        self.heir: Config | None = None
        """What to start again with after the goodbyes; None: nothing, the process ends."""
        self.settings: Settings = given.cluster
        self.port = given.port
        self.web_port = given.node.metrics_listener[1] if given.node.metrics_listener else None
        self._incarnation = legacy.incarnation + 1 if legacy else 0
        self._read_again_asked = legacy is not None and legacy.read_again
        self.counters = Counters()
        self.started_mono = time.monotonic()
        self.performance = PerformanceMeter(given.node, self.counters, self._tell_performance)
        self._streams_max = streams_allowed()
        network = given.cluster.network
        try:
            chosen = choose(network, given.node.interface or None, given.node.address or None)
            self.address = log.node = chosen.address
            self._socket = udp.UdpSocket(self.address, self.port, self.counters)
            doors.callback(self._socket.close)
            self._group = multicast.join(self._socket, chosen, self.port) if given.node.announce else None
            if self._group is not None:
                doors.callback(self._group.close)
            self._stream_listener = doors.enter_context(bind_tcp(self.address, self.port))
            # Removed only if it is ours: another daemon's socket at this path makes `bind_unix` fail.
            self._control_listener = doors.enter_context(bind_unix(Path(given.node.control_socket)))
            doors.callback(_remove, given.node.control_socket, os.stat(given.node.control_socket).st_ino)
            web = given.node.metrics_listener
            self._web_listener = doors.enter_context(bind_tcp(web[0] or self.address, web[1])) if web else None
        except (InterfaceError, udp.BindError, BindError) as error:
            raise StartError(str(error)) from None
        try:
            self.guard = Credentials(given, self.address)
        except CredentialsError as error:
            raise StartError(str(error), CONFIGURATION) from None
        self.keeping = self.guard.keeping
        self.position = network.position_of(self.address) or 0
        try:
            self.events = EventLog(given.node.event_log, self.address, log.put_line)
        except OSError as error:
            message = f"cannot open the event log {given.node.event_log}: {error.strerror}; set node.event_log"
            raise StartError(message, CONFIGURATION) from None
        doors.callback(self.events.close)
        self._systemd = Systemd()

    # -- life ---------------------------------------------------------------------------------------------

    async def run(self, signals: AsyncIterator[int]) -> None:
        """Until told to stop, by a signal or by another network. The one nursery."""
        self._store = Store(self.config.node.state_directory, Terms.of(self.settings), self.position)
        remembered = self._store.load()
        lived = remembered.incarnation + 1 if remembered else 0
        self._incarnation = next_life(int(time.time() * 1000), lived, self._incarnation)
        if remembered is not None and self._incarnation <= lived:
            await self._store.begin_life(remembered, self._incarnation)
        chance = Random(SystemRandom().getrandbits(64))
        node = Node(self.settings, self.position, self._incarnation, chance, trio.current_time())
        sealer = self.guard.sealer(self.port, self._incarnation)
        mail = Transport(self._socket, self.port, self.counters, sealer, self._group, is_ours=self._is_ours)
        self._driver = Driver(node, mail, self.counters, self._observe)
        self.attendance = Tracker(node)
        self.counters.tables = lambda: self._sizes(sealer)
        self._streams = self._streams_beside(self._driver, sealer)
        self._seeds = SeedList(self.settings.network, self.position, self._tell_seeds, self._has_leader)
        self._edge = Edge(self._streams, chance, self._leader_address, self._driver.edge_closed)
        self._teller = Notices(node, self.events, self._systemd, self.counters)
        self._remember = trio.Event()
        self._left_behind: Neighbourhood | None = None  # what held when we were told to leave
        self._reload_asked = trio.Event()
        if self._read_again_asked:
            self._reload_asked.set()
        self.events.write("started", pid=os.getpid(), position=self.position, incarnation=self._incarnation)
        logger.info("subord %s: %s is position %d of %s", __version__, self.address, self.position, self._network)
        async with trio.open_nursery() as nursery:
            self._scope = nursery.cancel_scope
            nursery.start_soon(self._obey, signals)
            nursery.start_soon(self._reload_forever)
            nursery.start_soon(self.log.report_due_forever)
            nursery.start_soon(self._driver.run)
            if remembered is not None:
                self._driver.feed(Known(remembered.peers, remembered.leader, remembered.led, remembered.standing))
            self._seeds.replace(self.config.node.seeds)
            nursery.start_soon(self._seeds.keep_forever)
            self.performance.tell_fixed()
            nursery.start_soon(self.performance.measure_forever)
            self._driver.feed(Start(full_scan=self.config.node.full_scan))
            nursery.start_soon(self._streams.serve, self._stream_listener)
            nursery.start_soon(self.attendance.keep_forever)
            self.guard.start(nursery)
            self._serve(nursery)
            nursery.start_soon(self._edge.hold_forever)
            nursery.start_soon(self._systemd.pat_watchdog)
            if self.config.node.state_directory:
                nursery.start_soon(self._save_forever)
        await self._save_at_end()
        self.events.write("stopped")
        logger.info("stopped")

    def _streams_beside(self, driver: Driver, sealer: Sealer | None) -> Streams:
        return Streams(
            self.address,
            self.port,
            user_timeout_s=self.settings.timing.leader_silence_s,
            counters=self.counters,
            answer=lambda question: peer_answers.answer(self, question),
            is_ours=self._is_ours,
            edge_closed=driver.edge_closed,
            streams_max=self._streams_max,
            keeping=self.keeping,
            tls=self.guard.tls,
            is_known=lambda address: sealer is not None and sealer.has_met((address, self.port)),
            leader_address=self._leader_address,
        )

    def _serve(self, nursery: trio.Nursery) -> None:
        """To commands, and to the web."""
        shown = control_app(self)
        control = partial(server.serve, changes=control_changes(self))
        nursery.start_soon(control, shown, self._control_listener)
        if self._web_listener is not None:
            is_our_host = host_check(self, self.config.node.web_names)
            web = partial(server.serve, tls=lambda: self.guard.metrics_context, is_our_host=is_our_host)
            nursery.start_soon(web, web_app(self, shown), self._web_listener)

    def _sizes(self, sealer: Sealer | None) -> dict[str, int]:
        sealing = {} if sealer is None else sealer.sizes()
        return {**self._driver.sizes(), **self.attendance.register.sizes(), **sealing}

    @property
    def names(self) -> Mapping[str, str]:
        return self.config.names

    @property
    def _network(self) -> str:
        return self.settings.network.text

    @property
    def legacy(self) -> Legacy:
        return Legacy(self.config, self._incarnation, self._read_again_asked)

    async def _obey(self, signals: AsyncIterator[int]) -> None:
        async for number in signals:
            if number == signal.SIGHUP:
                self._read_again_asked = True
                self._reload_asked.set()
            elif number == signal.SIGUSR1:
                state = msgspec.json.encode(nodes.status(self)).decode()
                self.log.log_always("state: %s", state)
            elif number == signal.SIGUSR2:
                self.log.toggle_debug()
            elif self._is_leaving and self.heir is None:
                self._left_behind = None
                self._scope.cancel()  # asked twice: at once
            else:
                self._leave(None)

    @property
    def _is_leaving(self) -> bool:
        return self._scope.deadline < inf

    def _leave(self, heir: Config | None) -> None:
        """Goodbyes go out normally while everything still runs; the deadline is the second lock."""
        self.heir = heir
        if heir is None:
            self._systemd.tell("STOPPING=1", "STATUS=saying goodbye")
        else:
            # READY=1 follows when the next life has its place.
            since = f"MONOTONIC_USEC={time.monotonic_ns() // 1000}"
            self._systemd.tell("RELOADING=1", since, "STATUS=saying goodbye, to start again in another network")
        if self._is_leaving:
            return  # was to start again, and now is not
        grace_s = self.config.node.grace_s
        logger.info("leaving: goodbyes for up to %g s", grace_s)
        self._scope.deadline = trio.current_time() + grace_s + 0.5
        self._left_behind = snapshots.neighbourhood(self._driver.node)
        self._driver.feed(Leave(grace_s))

    async def _reload_forever(self) -> None:
        """On SIGHUP, in a thread and not in the way of SIGTERM: the file may lie on a disk that does not answer."""
        while True:
            await self._reload_asked.wait()
            self._reload_asked = trio.Event()
            if self._is_leaving:
                continue  # the next life will read it, if there is one
            self._read_again_asked = False
            found = await trio.to_thread.run_sync(self._read_again, abandon_on_cancel=True)
            if self._is_leaving:
                self._read_again_asked = True
            elif found is not None:
                self._take_over(*found)

    def _read_again(self) -> tuple[Config, Keyring | None] | None:
        """It blocks. With the operator's keys. None: something is wrong, and has been said."""
        try:
            fresh = load.reload(self.config)
            if fresh.cluster.network != self.settings.network:
                self._check_place_in(fresh)
            return fresh, None if self.keeping is None else self.keeping.read_again()
        except (ConfigError, InterfaceError, KeyringError) as error:
            logger.error("the configuration was not read again, the old one goes on: %s", error, extra=ASKED)
            return None

    def _check_place_in(self, fresh: Config) -> None:
        """Raises InterfaceError if we could not start with this network."""
        network = fresh.cluster.network
        if network.position_of(self.address) is None:
            where = fresh.network_file or "cluster.network"
            raise InterfaceError(f"the new network lacks our own address {self.address}: add it to {where}")
        choose(network, fresh.node.interface or None, fresh.node.address or None)

    def _take_over(self, fresh: Config, ring: Keyring | None) -> None:
        keys_changed = ring is not None and self.keeping is not None and self.keeping.obey(ring)
        taken, ignored = load.changes(self.config, fresh)
        if "node.log_level" in taken:
            self.log.take(fresh.node.log_level, "node.log_level")
        if "cluster.network" in taken:
            words = "configuration read again, starting again with all of it: %s"
            logger.info(words, ", ".join((*taken, *ignored)), extra=ASKED)
            self._leave(fresh)
            return
        self.config = load.taken_over(self.config, fresh)
        if "node.seeds" in taken:
            self._seeds.replace(fresh.node.seeds)
        self.performance.replace(fresh.node)
        if ignored:
            logger.warning("changed, but taken over only by a restart: %s", ", ".join(ignored), extra=ASKED)
        news = (*taken, *(["the key ring"] if keys_changed else []))
        what = ", ".join(news) or "nothing changed that can change now"
        logger.info("configuration read again: %s", what, extra=ASKED)

    def _observe(self, notice: Notice) -> None:
        self._teller.tell(notice)
        self.attendance.heed(notice)
        if snapshots.is_memorable(self._driver.node, notice):
            self._remember.set()
        if isinstance(notice, PlaceChanged):
            self._edge.move()
            self._seeds.look_again()
        elif isinstance(notice, LeaderLost):
            self._seeds.look_again()
        elif isinstance(notice, Healed):
            self._edge.look_again()
            self._seeds.look_again()
        elif isinstance(notice, Gone):
            self._scope.cancel()

    def _tell_seeds(self, positions: tuple[Position, ...]) -> None:
        self._driver.feed(Seeds(positions))

    def _tell_performance(self, jobs_per_hour: float) -> None:
        self._driver.feed(Performance(jobs_per_hour))

    def _has_leader(self) -> bool:
        return self._driver.node.uplink.leader is not None

    def _is_ours(self, address: str) -> bool:
        return self.settings.network.position_of(address) is not None

    def _leader_address(self) -> str | None:
        leader = self._driver.node.uplink.leader
        return self.settings.network.address_text_of(leader.position) if leader else None

    # -- tasks --------------------------------------------------------------------------------------------

    async def _save_forever(self) -> None:
        """Remember the neighbourhood when it may have changed, outside the event loop."""
        while True:
            await self._remember.wait()
            await trio.sleep(SAVE_S)  # one change is often followed by another
            self._remember = trio.Event()
            neighbourhood = snapshots.neighbourhood(self._driver.node)
            if neighbourhood is not None and not self._is_leaving:
                # A disk that does not answer must not keep us from leaving; the old file stays whole.
                await trio.to_thread.run_sync(self._store.save, neighbourhood, abandon_on_cancel=True)

    async def _save_at_end(self) -> None:
        """Who is stopped soon after a change of place remembers it, too."""
        with trio.move_on_after(SAVE_S_MAX, shield=True):
            if self.keeping is not None:
                await self.keeping.save()
            if self._left_behind is not None:
                await trio.to_thread.run_sync(self._store.save, self._left_behind, abandon_on_cancel=True)

    # -- what the API sees ------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        return snapshots.snapshot(self._driver.node, trio.current_time())

    def roster(self) -> RosterView:
        return snapshots.roster(self._driver.node, trio.current_time())

    def why(self) -> Why:
        return snapshots.why(self._driver.node, trio.current_time())

    async def ask(self, address: str, question: Question, timeout_s: float) -> bytes | AskFailure:
        return await self._streams.ask(address, question, timeout_s)


def _remove(path: str, inode: int) -> None:
    """Take our control socket away; what somebody else put in its place stays."""
    try:
        if os.stat(path).st_ino == inode:
            os.unlink(path)
    except OSError:
        return  # nothing is lost: the next daemon replaces a stale file
