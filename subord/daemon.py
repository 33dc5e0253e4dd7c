"""The composition root: builds a node from the configuration and runs it in one nursery.

In: a checked configuration and signals. Out: a running node, and an exit code. Everything that can fail is opened
before the first task starts, so a daemon that cannot start reports one line and leaves nothing behind. Goodbyes are
sent while all tasks still run.
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

import msgspec
import trio

from subord import __version__
from subord.api.handlers import peer_answers
from subord.api.http import server
from subord.api.http.host_check import host_check
from subord.api.http.sockets import BindError, bind_tcp, bind_unix, unlink
from subord.api.models import nodes
from subord.api.node_api import AskFailure, Question
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
    Wakeup,
)
from subord.core.members.membership import Membership
from subord.core.messages import Terms
from subord.core.node import Node
from subord.core.settings import Settings
from subord.core.state.context import GivenIdentity
from subord.core.view import RosterView, Snapshot, Why
from subord.runtime.counters import Counters
from subord.runtime.driver import Driver
from subord.runtime.jobs.meter import PerformanceMeter
from subord.runtime.log.event_log import EventLog
from subord.runtime.log.logger import ASKED, Log
from subord.runtime.log.notices import Notices
from subord.runtime.names import ResolvedNames
from subord.runtime.net import multicast, udp
from subord.runtime.net.carrier import Carrier
from subord.runtime.net.edge import Edge
from subord.runtime.net.interfaces import InterfaceError, check_place, choose
from subord.runtime.net.seeds import SeedList
from subord.runtime.net.streams import Streams, streams_allowed
from subord.runtime.net.transport import Transport
from subord.runtime.security.credentials import Credentials, CredentialsError, limit_unraisable_log, protect_memory
from subord.runtime.security.effects import Effects, is_strict
from subord.runtime.security.gate import Gate
from subord.runtime.security.operators import Operators
from subord.runtime.starting import CONFIGURATION, Handover, StartError, start_programs_without_lock
from subord.runtime.state.memory import Memory
from subord.runtime.state.store import SAVE_S_MAX, Store
from subord.runtime.state.tracker import Tracker
from subord.runtime.systemd import Systemd
from subord.sealing.incarnation import next_life
from subord.sealing.keys import Keyring, KeyringError
from subord.sealing.sealer import Sealer
from subord.services.driving import carriage_of
from subord.services.serving import Served

logger = logging.getLogger("subord")

SAVE_S = 5.0
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def main(config: Config) -> int:
    """Run until a signal stops the daemon; the exit code."""
    with Log() as log:
        log.open(config.node.log_format)
        log.choose(config)
        limit_unraisable_log()
        protect_memory()
        start_programs_without_lock()
        try:
            trio.run(_run_all, config, log)
        except StartError as error:
            log.put_error(f"subord: {error}")
            return error.exit_code
        return 0


async def _run_all(config: Config, log: Log) -> None:
    """Run one node after the other in one process: another network means other positions, hence another node."""
    next_config: Config | None = config
    handover: Handover | None = None
    # Caught before READY=1: an uncaught signal ends the process. Signals between two nodes wait for the second.
    with trio.open_signal_receiver(*SIGNALS) as signals:
        while next_config is not None:
            with ExitStack() as resources:
                daemon = _open(next_config, resources, log, handover)
                await daemon.run(signals)
            next_config, handover = daemon.next_config, daemon.handover


def _open(config: Config, resources: ExitStack, log: Log, handover: Handover | None) -> Daemon:
    """The next node, with the old configuration if the new one fails. Raises StartError."""
    try:
        return Daemon(config, resources, log, handover)
    except StartError as error:
        if handover is None:
            raise
        logger.error("cannot start in the new network, the old configuration stays in use: %s", error)
        resources.close()
        return Daemon(handover.config, resources, log, handover)


class Daemon:
    """One running node. subord/api/node_api.py lists what the API uses of it."""

    def __init__(self, config: Config, resources: ExitStack, log: Log, handover: Handover | None = None) -> None:
        """Open everything that can fail. Raises StartError; `resources` closes what was opened."""
        self.config, self.metrics, self.log = config, config.metrics, log
        self.next_config: Config | None = None
        """The configuration to start again with after the goodbyes; None: the process ends."""
        self.settings: Settings = config.cluster
        self.port = config.port
        self.web_port = config.node.metrics_listener[1] if config.node.metrics_listener else None
        self._incarnation = handover.incarnation + 1 if handover else 0
        self._reload_pending = handover is not None and handover.reload_pending
        self.counters = Counters()
        self.resolved_names = ResolvedNames()
        self.started_mono = time.monotonic()
        self.performance = PerformanceMeter(config.node, self.counters, lambda n: self._driver.feed(Performance(n)))
        self._streams_max = streams_allowed()
        try:
            chosen = choose(config.cluster.network, config.node.interface or None, config.node.address or None)
            self.address = log.node = chosen.address
            self._socket = udp.UdpSocket(self.address, self.port, self.counters)
            resources.callback(self._socket.close)
            self._group = multicast.join(self._socket, chosen, self.port) if config.node.announce else None
            if self._group is not None:
                resources.callback(self._group.close)
            self._stream_listener = resources.enter_context(bind_tcp(self.address, self.port))
            # `bind_unix` fails if another daemon has the path, so this node removes only its own socket.
            self._control_listener = resources.enter_context(bind_unix(Path(config.node.control_socket)))
            resources.callback(unlink, config.node.control_socket, os.stat(config.node.control_socket).st_ino)
            web = config.node.metrics_listener
            self._web_listener = resources.enter_context(bind_tcp(web[0] or self.address, web[1])) if web else None
        except (InterfaceError, udp.BindError, BindError) as error:
            raise StartError(str(error)) from None
        try:
            self._credentials = Credentials(config, self.address)
        except CredentialsError as error:
            raise StartError(str(error), CONFIGURATION) from None
        self.key_ring = self._credentials.key_ring
        self.operators_path = config.node.operators
        self.identity, self.peers = self._credentials.identity, self._credentials.peers
        self.position = self.settings.network.position_of(self.address) or 0
        try:
            self.events = EventLog(config.node.event_log, self.address, log.put_line)
        except OSError as error:
            message = f"cannot open the event log {config.node.event_log}: {error.strerror}; set node.event_log"
            raise StartError(message, CONFIGURATION) from None
        resources.callback(self.events.close)
        self._systemd = Systemd()
        self._last_neighbourhood: Neighbourhood | None = None  # at the start of the goodbyes

    # -- start and end ---------------------------------------------------------------------------------------------

    async def run(self, signals: AsyncIterator[int]) -> None:
        """Run the node until a signal or another network ends it."""
        remembered = await self._remember()
        chance = Random(SystemRandom().getrandbits(64))
        memory = Memory(self.config.node.state_directory, self.settings, self.position)
        node = self._make_node(memory.membership, chance)
        sealer = self._credentials.sealer(self.port, self._incarnation)
        transport = Transport(self._socket, self.port, self.counters, sealer, self._group, is_ours=self._is_ours)
        self._driver = Driver(node, transport, self.counters, self._observe)
        self.tracker = self._make_tracker(node, memory)
        self.counters.tables = lambda: self._sizes(sealer)
        carriage = carriage_of(self, node, self.config)
        self.orders, self.ledger, self.blobs, self.held_blobs, _, self.shares, *_ = carriage
        self.elastic, self.hosts, self.machines, self.transfer = carriage[-4:]
        self._streams = self._make_streams(self._driver, sealer)
        self._seeds = SeedList(
            self.settings.network,
            self.position,
            lambda positions: self._driver.feed(Seeds(positions)),
            lambda: node.uplink.leader is not None,
        )
        self._edge = Edge(self._streams, chance, self._leader_address, self._driver.edge_closed)
        self._notices = Notices(node, self.events, self._systemd, self.counters)
        self._save_due = trio.Event()
        self._reload_asked = trio.Event()
        if self._reload_pending:
            self._reload_asked.set()
        self.events.write("started", pid=os.getpid(), position=self.position, incarnation=self._incarnation)
        logger.info(
            "subord %s: %s is position %d of %s", __version__, self.address, self.position, self.settings.network.text
        )
        async with trio.open_nursery() as nursery:
            self._scope = nursery.cancel_scope
            nursery.start_soon(self._handle_signals, signals)
            nursery.start_soon(self._reload_forever)
            nursery.start_soon(self.log.report_due_forever)
            nursery.start_soon(self._driver.run)
            carriage.start(self, nursery)
            if remembered is not None:
                self._driver.feed(Known(remembered.peers, remembered.leader, remembered.led, remembered.standing))
            self._seeds.replace(self.config.node.seeds)
            nursery.start_soon(self._seeds.keep_forever)
            self.performance.tell_fixed()
            nursery.start_soon(self.performance.measure_forever)
            self._effects.tell_core()
            nursery.start_soon(self._effects.forgive_forever)
            self._driver.feed(Start(full_scan=self.config.node.full_scan))
            nursery.start_soon(self._streams.serve, self._stream_listener)
            self.tracker.start(nursery)
            self._credentials.start(nursery)
            self._serve(nursery)
            nursery.start_soon(self._edge.hold_forever)
            nursery.start_soon(self._systemd.notify_watchdog)
            if self.config.node.state_directory:
                nursery.start_soon(self._save_forever)
        await self._save_at_end()
        self.events.write("stopped")
        logger.info("stopped")

    async def _remember(self) -> Neighbourhood | None:
        """The last neighbourhood; this incarnation is later than its."""
        self._store = Store(self.config.node.state_directory, Terms.of(self.settings), self.position)
        remembered = self._store.load()
        saved = remembered.incarnation + 1 if remembered else 0
        self._incarnation = next_life(int(time.time() * 1000), saved, self._incarnation)
        if remembered is not None and self._incarnation <= saved:
            await self._store.save_incarnation(remembered, self._incarnation)
        return remembered

    def _make_node(self, membership: Membership, chance: Random) -> Node:
        assert membership.pins is not None
        name, strict = self.settings.cluster_name, is_strict(membership)
        given = GivenIdentity(signer=self.identity.signer, pins=membership.pins, cluster_name=name, strict=strict)
        return Node(self.settings, self.position, self._incarnation, chance, trio.current_time(), **given)

    def _make_tracker(self, node: Node, memory: Memory) -> Tracker:
        """The tracker, the gate in front of its documents, and their effects behind it."""
        operators, membership = Operators(self.operators_path), memory.membership
        cluster = self.settings.cluster_name, Terms.of(self.settings).network
        self.gate = Gate(operators, cluster, membership.revocations, self.counters)
        tracker = Tracker(node, memory, self.gate.judge)
        self._effects = Effects(membership, operators, self.key_ring, self.peers, self.settings.network)
        self._effects.feed = self._driver.feed
        tracker.on_documents.append(self._effects.follow)
        tracker.on_pins = lambda: self._driver.feed(Wakeup())
        return tracker

    def _make_streams(self, driver: Driver, sealer: Sealer | None) -> Streams:
        return Streams(
            self.address,
            self.port,
            user_timeout_s=self.settings.timing.leader_silence_s,
            counters=self.counters,
            answer=lambda question: peer_answers.answer(self, question),
            is_ours=self._is_ours,
            edge_closed=driver.edge_closed,
            streams_max=self._streams_max,
            key_ring=self.key_ring,
            tls=self._credentials.tls,
            carrier=Carrier(self.tracker),
            orders=self.orders,
            is_known=lambda address: sealer is not None and sealer.has_met((address, self.port)),
            leader_address=self._leader_address,
        )

    def _serve(self, nursery: trio.Nursery) -> None:
        """Serve the API on the control socket and on the web address."""
        served = Served(self)
        nursery.start_soon(server.serve, served.control, self._control_listener)
        if self._web_listener is not None:
            is_our_host = host_check(self, self.config.node.web_names)
            serve = partial(server.serve, tls=lambda: self._credentials.metrics_context, is_our_host=is_our_host)
            nursery.start_soon(serve, served.web, self._web_listener)

    def _sizes(self, sealer: Sealer | None) -> dict[str, int]:
        """The entries of every table outside the core that can grow; core/snapshots.py has the others."""
        secured = {**(sealer.sizes() if sealer else {}), **self.gate.sizes(), **self._effects.sizes()}
        shown = {"problems": len(self.counters.problems), "names": len(self.resolved_names), **self.orders.sizes()}
        membership = {**self.tracker.membership.sizes(), "identities": len(self.peers)}
        return {**self._driver.sizes(), **membership, **secured, **shown}

    @property
    def names(self) -> Mapping[str, str]:
        return self.config.names

    @property
    def handover(self) -> Handover:
        return Handover(self.config, self._incarnation, self._reload_pending)

    async def _handle_signals(self, signals: AsyncIterator[int]) -> None:
        async for number in signals:
            if number == signal.SIGHUP:
                self._reload_pending = True
                self._reload_asked.set()
            elif number == signal.SIGUSR1:
                self.log.log_always("state: %s", msgspec.json.encode(nodes.status(self)).decode())
            elif number == signal.SIGUSR2:
                self.log.toggle_debug()
            elif self._is_leaving and self.next_config is None:
                self._last_neighbourhood = None
                self._scope.cancel()  # the second signal ends the daemon at once
            else:
                self._leave(None)

    @property
    def _is_leaving(self) -> bool:
        return self._scope.deadline < inf

    def _leave(self, next_config: Config | None) -> None:
        """Say goodbye, then end, at the latest at the deadline. `next_config`: start again with it."""
        self.next_config = next_config
        if next_config is None:
            self._systemd.tell("STOPPING=1", "STATUS=saying goodbye")
        else:
            # READY=1 follows when the next node has its place.
            since = f"MONOTONIC_USEC={time.monotonic_ns() // 1000}"
            self._systemd.tell("RELOADING=1", since, "STATUS=saying goodbye, to start again in another network")
        if self._is_leaving:
            return  # a restart was under way; it becomes an end
        grace_s = self.config.node.grace_s
        logger.info("leaving: goodbyes for up to %g s", grace_s)
        self._scope.deadline = trio.current_time() + grace_s + 0.5
        self._last_neighbourhood = snapshots.neighbourhood(self._driver.node)
        self.tracker.leave()
        self._driver.feed(Leave(grace_s))

    async def _reload_forever(self) -> None:
        """Reload on SIGHUP, in a thread, so that a disk that does not answer cannot delay SIGTERM."""
        while True:
            await self._reload_asked.wait()
            self._reload_asked = trio.Event()
            if self._is_leaving:
                continue  # the next node reloads, if there is one
            self._reload_pending = False
            found = await trio.to_thread.run_sync(self._read_again, abandon_on_cancel=True)
            if self._is_leaving:
                self._reload_pending = True
            elif found is not None:
                self._apply(*found)

    def _read_again(self) -> tuple[Config, Keyring | None] | None:
        """The configuration and the operator's key ring; None: an error, which was logged. Blocks."""
        try:
            fresh = load.reload(self.config)
            if fresh.cluster.network != self.settings.network:
                check_place(fresh, self.address)
            return fresh, None if self.key_ring is None else self.key_ring.read_again()
        except (ConfigError, InterfaceError, KeyringError) as error:
            logger.error("the configuration was rejected, the old one stays in use: %s", error, extra=ASKED)
            return None

    def _apply(self, fresh: Config, ring: Keyring | None) -> None:
        keys_changed = ring is not None and self.key_ring is not None and self.key_ring.apply(ring)
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
            logger.warning("changed, effective only after a restart: %s", ", ".join(ignored), extra=ASKED)
        applied = (*taken, *(["the key ring"] if keys_changed else [])) or ("no change that takes effect now",)
        logger.info("configuration read again: %s", ", ".join(applied), extra=ASKED)

    def _observe(self, notice: Notice) -> None:
        self._notices.tell(notice)
        self.tracker.observe(notice)
        if snapshots.is_memorable(self._driver.node, notice):
            self._save_due.set()
        self._edge.observe(notice)
        if isinstance(notice, PlaceChanged | LeaderLost | Healed):
            self._seeds.look_again()
        elif isinstance(notice, Gone):
            self._scope.cancel()

    def _is_ours(self, address: str) -> bool:
        return self.settings.network.position_of(address) is not None

    def _leader_address(self) -> str | None:
        leader = self._driver.node.uplink.leader
        return self.settings.network.address_text_of(leader.position) if leader else None

    # -- tasks --------------------------------------------------------------------------------------------

    async def _save_forever(self) -> None:
        """Save the neighbourhood in a thread, SAVE_S after it may have changed."""
        while True:
            await self._save_due.wait()
            await trio.sleep(SAVE_S)  # further changes often follow
            self._save_due = trio.Event()
            neighbourhood = snapshots.neighbourhood(self._driver.node)
            if neighbourhood is not None and not self._is_leaving:
                # A disk that does not answer must not delay the end; the old file stays intact.
                await trio.to_thread.run_sync(self._store.save, neighbourhood, abandon_on_cancel=True)

    async def _save_at_end(self) -> None:
        """Save the key ring and the last neighbourhood, also after a recent change. Waits up to SAVE_S_MAX."""
        with trio.move_on_after(SAVE_S_MAX, shield=True):
            if self.key_ring is not None:
                await self.key_ring.save()
            await self.tracker.memory.save()
            if self._last_neighbourhood is not None:
                await trio.to_thread.run_sync(self._store.save, self._last_neighbourhood, abandon_on_cancel=True)

    # -- for the API ------------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        return snapshots.snapshot(self._driver.node, trio.current_time())

    def roster(self) -> RosterView:
        return snapshots.roster(self._driver.node, trio.current_time())

    def why(self) -> Why:
        return snapshots.why(self._driver.node, trio.current_time())

    async def ask(self, address: str, question: Question, timeout_s: float) -> bytes | AskFailure:
        return await self._streams.ask(address, question, timeout_s)
