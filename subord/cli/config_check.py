"""`subord config check`: checks a configuration file, and with `--here` this machine, without starting a daemon.

In: the file and the `--set` texts; with `--here` also the files, addresses and ports of this machine, as the daemon's
user finds them. Out: the settings and what was found, or one line with every fault. Nothing is written; a port is
bound for a moment only.
"""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from subord import SCHEMA_VERSION
from subord.client import exit_codes
from subord.client.errors import CommandError
from subord.client.options import add_set
from subord.client.text import columns, count

if TYPE_CHECKING:
    from subord.config.schema import Config
    from subord.runtime.net.interfaces import Chosen

DAEMON_USER = "subord"
ANSWER_S = 5.0
FREE = "free"


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the arguments."""
    parser = subparsers.add_parser("config", help="check a configuration file")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    check = actions.add_parser(
        "check",
        help="check a configuration file",
        description="Check a configuration file without starting anything. Without --here the answer is the same on "
        "every machine.",
    )
    check.add_argument("file", metavar="FILE", help="the configuration, in TOML")
    add_set(check)
    check.add_argument(
        "--here",
        action="store_true",
        help="check also what only this machine can tell: key file, operators, certificates, address, ports; root "
        f"checks as the user {DAEMON_USER}, if there is one",
    )
    check.add_argument("--json", action="store_true", help="print the settings as one JSON object")


def run(arguments: argparse.Namespace) -> int:
    """Prints the settings that follow from a file, defaults included. Raises CommandError if no daemon can run it."""
    from subord.config.load import NO_KEY, dotted, is_without_key, load
    from subord.config.source import ConfigError

    user = _become_daemon_user() if arguments.here else ""
    try:
        config = load(arguments.file, arguments.set)
    except ConfigError as error:
        raise CommandError(f"{error}{user and f' (read as user {user})'}", exit_codes.CONFIGURATION) from None
    if is_without_key(config):
        raise CommandError(f"{arguments.file}: {NO_KEY}", exit_codes.CONFIGURATION)
    here = {"user": user, **_checked_here(arguments.file, config)} if arguments.here else {}
    if arguments.json:
        head = {"schema_version": SCHEMA_VERSION, "file": arguments.file, "positions": config.cluster.network.size}
        print(json.dumps({**head, **({"here": here} if here else {}), **dotted(config)}))
    else:
        print(_summary(arguments.file, config, dotted(config), here))
    return exit_codes.OK


def _summary(file: str, config: Config, settings: dict[str, object], here: dict[str, str]) -> str:
    rows = [(name, _shown(value)) for name, value in settings.items()]
    found = ["on this machine:", *columns(list(here.items()), "  ")] if here else []
    return "\n".join([f"{file}: ok, {config.cluster.network.size} positions", *columns(rows, "  "), *found])


def _shown(value: object) -> str:
    """As in the file, without quotes; a dash for a value that is not given."""
    match value:
        case "" | ():
            return "-"
        case bool():
            return json.dumps(value)
        case tuple():
            return ", ".join(value)
    return str(value)


# -- --here ---------------------------------------------------------------------------------------------------------


def _become_daemon_user() -> str:
    """Give up root's rights for those of the daemon, which reads and binds with them; the name of the user now."""
    import os
    import pwd

    if os.geteuid() == 0:
        try:
            daemon = pwd.getpwnam(DAEMON_USER)
            os.initgroups(DAEMON_USER, daemon.pw_gid)
            os.setgid(daemon.pw_gid)
            os.setuid(daemon.pw_uid)
        except KeyError:
            pass  # no installation as a service: the daemon runs as root
        except OSError as error:
            message = (
                f"cannot check as user {DAEMON_USER}: {error.strerror}; nothing was checked. Run it as that user"
            )
            raise CommandError(message, exit_codes.PERMISSION) from None
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def _checked_here(file: str, config: Config) -> dict[str, str]:
    """What this machine has, by its name. Raises CommandError with all that would keep a daemon from starting."""
    from subord.runtime.net.interfaces import InterfaceError, choose
    from subord.runtime.security.credentials import Credentials, CredentialsError
    from subord.sealing import keyfile
    from subord.sealing.keys import KeyringError

    node, running = config.node, _running(config)
    found: dict[str, str] = {}
    faults: list[str] = []
    chosen: Chosen | None = None
    code = exit_codes.TRY_AGAIN
    try:
        chosen = choose(config.cluster.network, node.interface or None, node.address or None)
        found["address"] = str(chosen)
    except InterfaceError as error:
        faults.append(str(error))
    if running and config.cluster.network.position_of(running["address"]) is None:
        where = config.network_file or "cluster.network"
        faults.append(
            f"the network lacks {running['address']}, the address of the running daemon, which would refuse to "
            f"reload: add it to {where}, or stop the daemon first"
        )
    try:
        if chosen is not None:
            key_ring = Credentials(config, chosen.address).key_ring
            found["key"] = f"revision {key_ring.ring.revision}, {key_ring.since}" if key_ring else "none"
        elif config.key_file:  # whether a certificate fits cannot be told without the address
            keyfile.read(config.key_file)
    except (CredentialsError, KeyringError) as error:
        faults.append(str(error))
        code = exit_codes.CONFIGURATION
    found["operators"] = _operators(node.operators)
    if chosen is not None:
        _check_ports(config, chosen.address, running, found, faults)
    if faults:
        kept = "; the running daemon keeps its configuration" if running else ""
        message = (
            f"{file}: a daemon cannot start with it on this machine: {'; '.join(faults)}. Nothing was changed{kept}"
        )
        raise CommandError(message, code)
    return found


def _operators(path: str) -> str:
    """What the operators file grants. Without it a daemon starts, and takes no orders."""
    from subord.core.carriage.verdicts import sentence
    from subord.runtime.security import allowed_signers, operators_file

    with operators_file.opened(path) as file:
        if file.word:
            return f"none: {sentence(file.word, path)} ({file.detail})"
        lines = allowed_signers.parse(operators_file.read(file))
    faults = sum(isinstance(each, allowed_signers.Fault) for each in lines)
    more = f", {count(faults, 'line')} with faults: see `subord operator check {path}`" if faults else ""
    return f"{len(lines) - faults} in {path}{more}"


def _running(config: Config) -> dict[str, Any]:
    """The status of the daemon at the control socket; empty: there is none."""
    from subord.client.daemon import SilentError, ask

    try:
        return ask(config.node.control_socket, "/v1/status", ANSWER_S, gives_up_s=0)
    except SilentError:  # its ports would be taken for those of another program
        silent = f"the daemon at {config.node.control_socket} does not answer within {ANSWER_S:g} s"
        raise CommandError(f"{silent}: nothing was changed", exit_codes.TRY_AGAIN) from None
    except CommandError:
        return {}


def _check_ports(
    config: Config, address: str, running: dict[str, Any], found: dict[str, str], faults: list[str]
) -> None:
    """Bind each port as the daemon would, and let it go."""
    from subord.api.http.sockets import BindError, bind_tcp
    from subord.runtime.counters import Counters
    from subord.runtime.net import udp

    held = f"held by the running daemon, version {running.get('version')}"
    is_ours = running and (running["address"], running["port"]) == (address, config.port)
    places = {f"UDP {config.port}": (address, config.port), f"TCP {config.port}": (address, config.port)}
    if config.node.metrics_listener is not None:
        host, port = config.node.metrics_listener
        places["metrics"] = (host or address, port)
    for name, place in places.items():
        try:
            (udp.UdpSocket(*place, Counters(), 0.0) if name.startswith("UDP") else bind_tcp(*place)).close()
            found[name] = FREE
        except (udp.BindError, BindError) as error:
            if _serves(config, place, running) if name == "metrics" else is_ours:
                found[name] = held
            else:
                faults.append(str(error))


def _serves(config: Config, place: tuple[str, int], running: dict[str, Any]) -> bool:
    """Whether the running daemon answers at this web address."""
    import http.client
    import ssl

    if not running:
        return False
    connection = http.client.HTTPConnection(*place, timeout=ANSWER_S)
    if config.node.metrics_certificate:
        # Only the number of the incarnation is compared, so the certificate may be of any authority.
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = http.client.HTTPSConnection(*place, timeout=ANSWER_S, context=context)
    try:
        connection.request("GET", "/v1/status")
        return bool(json.loads(connection.getresponse().read())["incarnation"] == running["incarnation"])
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
        return False
    finally:
        connection.close()
