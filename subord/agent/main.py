"""`subord-agent`: starts the agent of this node, from the configuration file of the daemon.

systemd gives it the listening socket (sd_listen_fds(3)) and starts it when the daemon has an order; without systemd
`--socket` makes it listen at agent.socket. Exit codes are those of `subord run`. Invariant: files that others than
root could have written are not read, because the agent acts as root.
"""

from __future__ import annotations

import argparse
import logging
import os
import pwd
import signal
import socket
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import ExitStack
from math import inf
from pathlib import Path
from typing import Final

import trio

from subord import __version__
from subord.agent import check
from subord.agent.journal import Journal
from subord.agent.judge import Judge
from subord.agent.revoked import RevokedList
from subord.agent.serving import Server
from subord.api.http.sockets import BindError, bind_unix, unlink
from subord.config.load import load
from subord.config.schema import Config
from subord.config.source import ConfigError
from subord.core.messages import Terms
from subord.runtime.log.logger import Log
from subord.runtime.net.interfaces import InterfaceError, choose
from subord.runtime.security import operators_file
from subord.runtime.security.operators import Operators
from subord.runtime.starting import CONFIGURATION, TRY_AGAIN, StartError, start_programs_without_lock
from subord.services.acting import act_of, carries_out_orders, has_effects, recover_all

logger = logging.getLogger("subord")

LISTEN_FD: Final = 3
"""The first descriptor that systemd passes."""
STOP_S_MAX: Final = 10.0
"""For orders that run when the agent is to end; the outcome of others is unknown afterwards."""


def main(words: Sequence[str] | None = None) -> int:
    """Run the agent until it has no more work, or a signal ends it; returns the exit code."""
    arguments = parser().parse_args(words)
    try:
        config = load(arguments.config, arguments.set)
    except ConfigError as error:
        print(f"subord-agent: {error}", file=sys.stderr)
        return TRY_AGAIN if error.passing else CONFIGURATION
    if arguments.check:
        return _checked(config)
    with Log() as log, ExitStack() as resources:
        log.open(config.node.log_format)
        log.choose(config)
        try:
            _check_files(config)
            listener = _listener(config, resources, binds=arguments.socket)
            start_programs_without_lock()
            trio.run(_run, config, listener, log, inf if arguments.socket else config.agent.idle_s)
        except (StartError, BindError, InterfaceError) as error:
            log.put_error(f"subord-agent: {error}")
            return error.exit_code if isinstance(error, StartError) else TRY_AGAIN
    return 0


def _checked(config: Config) -> int:
    """Prints what is found."""
    found = list(check.lines(config))
    for text, _ in found:
        print(text)
    return 0 if all(is_sound for _, is_sound in found) else CONFIGURATION


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="subord-agent",
        description="Carry out orders of operators on this node. The daemon passes them on; the agent checks the "
        "signature and the policy of this node itself, and acts at most once on each. systemd starts it when an "
        "order comes.",
        allow_abbrev=False,
    )
    made.add_argument("--version", action="version", version=f"subord-agent {__version__}")
    made.add_argument("--config", metavar="FILE", required=True, help="the configuration of the daemon, in TOML")
    made.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="override a key of the file, such as agent.idle_s=60; may be given again",
    )
    made.add_argument(
        "--socket", action="store_true", help="listen at agent.socket, and do not end without work (default: systemd)"
    )
    made.add_argument(
        "--check",
        action="store_true",
        help="start nothing; say which node this is, and whether operators, policy and journal can be used",
    )
    return made


async def _run(config: Config, listener: socket.socket, log: Log, idle_s: float) -> None:
    server = _server(config, idle_s, log)
    await trio.to_thread.run_sync(recover_all, config.agent.state_directory)
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(log.report_due_forever)
            nursery.start_soon(_stop_on_signal, server, signals)
            await server.run(listener)
            nursery.cancel_scope.cancel()


async def _stop_on_signal(server: Server, signals: AsyncIterator[int]) -> None:
    async for _ in signals:
        server.stop(STOP_S_MAX)


def _server(config: Config, idle_s: float, log: Log) -> Server:
    """Raises InterfaceError, StartError."""
    network = config.cluster.network
    chosen = choose(network, config.node.interface or None, config.node.address or None)
    log.node = chosen.address
    cluster = config.cluster.cluster_name, Terms.of(config.cluster).network
    operators = Operators(config.node.operators)
    directory = config.agent.state_directory
    judge = Judge(
        cluster,
        network.position_of(chosen.address) or 0,
        verifier=operators,
        revoked=RevokedList(directory, operators, cluster),
        policy_path=config.agent.policy,
        offers=carries_out_orders,
        follows=has_effects,
    )
    users = _users(config.agent.daemon_user)
    return Server(
        judge,
        Journal(directory),
        act_of,
        users,
        idle_s,
        node=chosen.address,
        socket=config.node.control_socket,
        accounts=config.agent.account_exec,
        shares=config.shares,
        elastic=config.elastic,
        network=network,
        machines=config.machines,
        transfer=config.transfer,
    )


def _users(daemon_user: str) -> frozenset[int]:
    """The uids that may give orders."""
    try:
        return frozenset((0, os.geteuid(), pwd.getpwnam(daemon_user).pw_uid))
    except KeyError:
        logger.warning("there is no user %s (agent.daemon_user); only root may give orders", daemon_user)
        return frozenset((0, os.geteuid()))


def _check_files(config: Config) -> None:
    """Raises StartError: others could say which node this is, and which policy counts."""
    for path in filter(None, (config.source, config.network_file)):
        with operators_file.opened(path) as file:
            if file.word == "bad_mode":
                raise StartError(f"{path}: {file.detail}; the agent does not read it", CONFIGURATION)


def _listener(config: Config, resources: ExitStack, *, binds: bool) -> socket.socket:
    """Raises StartError, BindError."""
    if not binds:
        return resources.enter_context(passed_socket(os.environ))
    listener = resources.enter_context(bind_unix(Path(config.agent.socket)))
    resources.callback(unlink, config.agent.socket, os.stat(config.agent.socket).st_ino)
    return listener


def passed_socket(environment: Mapping[str, str]) -> socket.socket:
    """The socket that systemd passes to this process (sd_listen_fds(3)). Raises StartError."""
    is_passed = environment.get("LISTEN_PID") == str(os.getpid()) and environment.get("LISTEN_FDS") == "1"
    if not is_passed:
        raise StartError("systemd passes no socket: start subord-agent.socket, or give --socket", CONFIGURATION)
    os.set_inheritable(LISTEN_FD, False)
    return socket.socket(fileno=LISTEN_FD)
