"""Reads, checks and compares configurations.

In: a TOML file, `--set` assignments and the host list. Out: a checked `Config`, or a ConfigError that names the file,
the line where it is certain, and the key. A rejected configuration leaves the running one untouched.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Sequence
from typing import Any

import msgspec

from subord.config.classes import ClassesError, entries_of, queues_of
from subord.config.hostlist import is_address, is_host_name
from subord.config.hosts import network_of
from subord.config.kinds import KindsError, kinds_of
from subord.config.performance import PERFORMANCE_KEYS, check_performance, place_of
from subord.config.resolve import Resolve
from subord.config.schema import (
    TABLES,
    AgentConfig,
    BlobsConfig,
    ClusterConfig,
    Config,
    ElasticConfig,
    LedgerConfig,
    MachinesConfig,
    MetricsConfig,
    NodeConfig,
    SharesConfig,
    TransferConfig,
    listener_of,
)
from subord.config.source import ConfigError, RawConfig, cut, quoted, read
from subord.config.validate import check, refuse
from subord.core.address.network import Network, NetworkError
from subord.core.discovery.scan import SCAN_MAX
from subord.core.settings import Settings
from subord.core.view import Position

POSITION_BITS = 64  # of a position on the wire
UNIX_PATH_BYTES_MAX = 107  # unix(7): sun_path holds 108 bytes, the last one zero
LOOPBACK = (ipaddress.IPv4Network("127.0.0.0/8"), ipaddress.IPv6Network("::1/128"))
NO_KEY = (
    "nothing would be sealed: set cluster.key_file (`subord key generate` makes one, for all nodes), "
    "or cluster.insecure = true on a network that you trust"
)

EXPECTED_MAX = 65_536
PATHS_BESIDE = ("operators", "certificate", "authorities", "metrics_certificate", "performance_file")
RELOADABLE = (
    "cluster.network",
    "cluster.network_file",
    "node.seeds",
    *(f"node.{key}" for key in PERFORMANCE_KEYS),
    "node.grace_s",
    "node.log_level",
)
"""The keys that a running daemon applies on SIGHUP. A changed network makes it start again with the whole new file;
without one, all other keys wait for a restart, because open sockets and peers depend on them."""


def load(path: str | None, assignments: Sequence[str] = (), resolve: Resolve | None = None) -> Config:
    """Read, check and complete a configuration. Assignments such as `cluster.fanout=2` override the file.

    Blocks while `resolve` (default: the system's resolver) looks up the names of a host list. Raises ConfigError.
    """
    raw = read(path, assignments)
    check(raw, TABLES)
    cluster = msgspec.convert(raw.document.get("cluster", {}), ClusterConfig)
    node = msgspec.convert(raw.document.get("node", {}), NodeConfig)
    agent = msgspec.convert(raw.document.get("agent", {}), AgentConfig)
    _check_cluster(raw, cluster)
    network, names = _network(raw, cluster, resolve)
    settings = _settings(cluster, network, _expected(raw, cluster, network))
    _check_node(raw, node, settings.network, cluster.port)
    _check_socket(raw, "agent", "socket", agent.socket)
    paths = {key: _beside(raw, getattr(node, key)) for key in PATHS_BESIDE}
    node = msgspec.structs.replace(node, **paths)
    ledger = msgspec.convert(raw.document.get("ledger", {}), LedgerConfig)
    if not ledger.sink.startswith(("postgresql://", "postgres://")):
        ledger = msgspec.structs.replace(ledger, sink=_beside(raw, ledger.sink))
    return Config(
        cluster=settings,
        ledger=ledger,
        blobs=msgspec.convert(raw.document.get("blobs", {}), BlobsConfig),
        metrics=_metrics(raw),
        shares=_shares(raw),
        elastic=_elastic(raw),
        machines=_machines(raw),
        transfer=_transfer(raw),
        port=cluster.port,
        key_file=_beside(raw, cluster.key_file),
        insecure=cluster.insecure,
        host_authorities=_beside(raw, cluster.host_authorities),
        node=node,
        agent=msgspec.structs.replace(agent, policy=_beside(raw, agent.policy)),
        source=path or "",
        network_file=cluster.network_file,
        expect=cluster.expect if isinstance(cluster.expect, str) else ",".join(cluster.expect),
        names=names,
        assignments=tuple(assignments),
    )


def _metrics(raw: RawConfig) -> MetricsConfig:
    """Raises ConfigError."""
    found = msgspec.convert(raw.document.get("metrics", {}), MetricsConfig)
    for url in found.urls:
        if place_of(url) is None:
            example = 'e.g. "http://127.0.0.1:9100/metrics"'
            refuse(raw, "metrics", "urls", f"must be http addresses of this machine, {example}, not {quoted(url)}")
    paths = {key: _beside(raw, getattr(found, key)) for key in ("text_directory", "program_directory")}
    return msgspec.structs.replace(found, **paths)


def _shares(raw: RawConfig) -> SharesConfig:
    """Raises ConfigError."""
    found = msgspec.convert(raw.document.get("shares", {}), SharesConfig)
    key = "classes"
    try:
        names = [entry.name for entry in entries_of(found.classes)]
        key = "queues"
        queues_of(found.queues, names)
    except ClassesError as error:
        refuse(raw, "shares", key, str(error))
    return found


def _elastic(raw: RawConfig) -> ElasticConfig:
    """Raises ConfigError."""
    found = msgspec.convert(raw.document.get("elastic", {}), ElasticConfig)
    try:
        kinds_of(found.kinds)
    except KindsError as error:
        refuse(raw, "elastic", "kinds", str(error))
    for key in ("hosts_file", "exports_file"):
        if (path := getattr(found, key)) and not path.startswith("/"):
            refuse(raw, "elastic", key, f"must be a whole path, not {quoted(path)}")
    if bool(found.start) != bool(found.stop):
        refuse(raw, "elastic", "start" if found.start else "stop", "and the other one of start and stop go together")
    return msgspec.structs.replace(found, key=_beside(raw, found.key))


def _machines(raw: RawConfig) -> MachinesConfig:
    """Raises ConfigError."""
    found = msgspec.convert(raw.document.get("machines", {}), MachinesConfig)
    if found.uri and "://" not in found.uri:
        refuse(raw, "machines", "uri", f'must be one of libvirt, e.g. "qemu:///system", not {quoted(found.uri)}')
    return msgspec.structs.replace(found, key=_beside(raw, found.key))


def _transfer(raw: RawConfig) -> TransferConfig:
    """Raises ConfigError."""
    found = msgspec.convert(raw.document.get("transfer", {}), TransferConfig)
    if found.listen and listener_of(found.listen) is None:
        refuse(raw, "transfer", "listen", f'must be ADDRESS:PORT, e.g. ":9720", not {quoted(found.listen)}')
    _check_socket(raw, "transfer", "socket", found.socket)
    return msgspec.structs.replace(found, key=_beside(raw, found.key))


def reload(old: Config) -> Config:
    """Load the file and the assignments of `old` again. Blocks. Raises ConfigError."""
    return load(old.source or None, old.assignments)


def changes(old: Config, new: Config) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Dotted names of the changed keys, in file order: (those applied on SIGHUP, those that need a restart)."""
    before, after = dotted(old), dotted(new)
    changed = [name for name in before if before[name] != after[name]]
    reloadable = tuple(name for name in changed if name in RELOADABLE)
    return reloadable, tuple(name for name in changed if name not in RELOADABLE)


def taken_over(old: Config, new: Config) -> Config:
    """`old` with the reloadable keys of `new`. Both have the same network, perhaps from different files."""
    keys = [name.removeprefix("node.") for name in RELOADABLE if name.startswith("node.")]
    fresh = {key: getattr(new.node, key) for key in keys}
    node = msgspec.structs.replace(old.node, **fresh)
    return msgspec.structs.replace(old, node=node, network_file=new.network_file, names=new.names)


def is_without_key(config: Config) -> bool:
    """Whether every machine refuses this configuration because it lacks a key (NO_KEY).

    A node with a loopback address needs no key (runtime/security/credentials.py). If the network contains such
    addresses, the answer depends on the machine, and this returns False.
    """
    if config.key_file or config.insecure:
        return False
    if config.node.address:
        return not ipaddress.ip_address(config.node.address).is_loopback
    return not any(config.cluster.network.meets(block) for block in LOOPBACK)


def dotted(config: Config) -> dict[str, Any]:
    """Every setting by its dotted name, in file order."""
    cluster = config.cluster
    return {
        "cluster.network": cluster.network.text,
        "cluster.network_file": config.network_file,
        "cluster.expect": config.expect,
        "cluster.name": cluster.cluster_name,
        "cluster.fanout": cluster.fanout,
        "cluster.guest_slots": cluster.guest_slots,
        "cluster.mapping": cluster.mapping,
        "cluster.numbering": cluster.numbering_name,
        "cluster.timing": cluster.timing_name,
        "cluster.port": config.port,
        "cluster.key_file": config.key_file,
        "cluster.host_authorities": config.host_authorities,
        "cluster.insecure": config.insecure,
        **{f"node.{key}": value for key, value in msgspec.structs.asdict(config.node).items()},
        **{f"agent.{key}": value for key, value in msgspec.structs.asdict(config.agent).items()},
        **{f"ledger.{key}": value for key, value in msgspec.structs.asdict(config.ledger).items()},
        **{f"blobs.{key}": value for key, value in msgspec.structs.asdict(config.blobs).items()},
        **{f"metrics.{key}": value for key, value in msgspec.structs.asdict(config.metrics).items()},
        **{f"shares.{key}": value for key, value in msgspec.structs.asdict(config.shares).items()},
        **{f"elastic.{key}": value for key, value in msgspec.structs.asdict(config.elastic).items()},
        **{f"machines.{key}": value for key, value in msgspec.structs.asdict(config.machines).items()},
        **{f"transfer.{key}": value for key, value in msgspec.structs.asdict(config.transfer).items()},
    }


def _without_network(file: str) -> str:
    hint = "set the addresses that nodes may have"
    if not file:
        return f"cluster.network is missing; {hint}: --config FILE, or --set cluster.network=10.0.0.0/24"
    example = 'e.g. network = "10.0.0.0/24", or network_file = "nodes.list"'
    return f'{file}: key "network" is missing in [cluster]; {hint}, {example}'


def _network(raw: RawConfig, cluster: ClusterConfig, resolve: Resolve | None) -> tuple[Network, dict[str, str]]:
    key = "network"
    names: dict[str, str] = {}
    if cluster.network_file:
        if cluster.network is not None:
            refuse(raw, "cluster", "network_file", "and network are both given; remove one of them")
        key = "network_file"
        network, names = network_of(_beside(raw, cluster.network_file), resolve)
    elif cluster.network is None:
        raise ConfigError(_without_network(raw.file))
    else:
        network = _parsed(raw, "network", cluster.network)
    if network.size >= 1 << POSITION_BITS:
        message = (
            f"has more than 2^{POSITION_BITS} addresses, too many for the wire format; give only the part in use"
        )
        refuse(raw, "cluster", key, message)
    return network, names


def _parsed(raw: RawConfig, key: str, given: str | tuple[str, ...]) -> Network:
    try:
        return Network.parse(given if isinstance(given, str) else ",".join(given))
    except NetworkError as error:
        raise ConfigError(f"{raw.where('cluster', key)}: {key}: {error}") from None


def _expected(raw: RawConfig, cluster: ClusterConfig, network: Network) -> tuple[Position, ...]:
    """The positions of `cluster.expect`. Raises ConfigError."""
    if not cluster.expect:
        return ()
    listed = _parsed(raw, "expect", cluster.expect)
    if listed.size > EXPECTED_MAX:
        refuse(raw, "cluster", "expect", f"has {listed.size} addresses, more than {EXPECTED_MAX}; name fewer")
    addresses = [listed.address_text_of(position) for position in range(1, listed.size + 1)]
    positions = {address: network.position_of(address) for address in addresses}
    outside = next((address for address, position in positions.items() if position is None), None)
    if outside is not None:
        refuse(raw, "cluster", "expect", f"{outside} lies outside the network {cut(network.text)}")
    return tuple(sorted(position for position in positions.values() if position is not None))


def _beside(raw: RawConfig, path: str) -> str:
    """`path`, taken relative to the directory of the configuration file."""
    return os.path.join(os.path.dirname(raw.file), path) if path else ""


def _settings(cluster: ClusterConfig, network: Network, expected: tuple[Position, ...]) -> Settings:
    return Settings(
        network=network,
        fanout=cluster.fanout,
        guest_slots=cluster.fanout if cluster.guest_slots is None else cluster.guest_slots,
        mapping=cluster.mapping,
        numbering_name=cluster.numbering,
        timing_name=cluster.timing,
        expected=expected,
        cluster_name=cluster.name,
    )


def _check_cluster(raw: RawConfig, cluster: ClusterConfig) -> None:
    """The rules between keys. Raises ConfigError."""
    if cluster.key_file and cluster.insecure:
        refuse(raw, "cluster", "insecure", "and key_file are both given; remove one of them")
    if not cluster.name.isprintable():
        refuse(raw, "cluster", "name", "has characters that do not print; use printable ones")


def _check_node(raw: RawConfig, node: NodeConfig, network: Network, port: int) -> None:
    """The rules that a type cannot express. Raises ConfigError."""
    if node.address:
        _check_address(raw, node.address, network)
    if node.certificate and not node.authorities:
        refuse(raw, "node", "certificate", "needs node.authorities, the certificates of the trusted authorities")
    if node.authorities and not node.certificate:
        refuse(raw, "node", "authorities", "needs node.certificate, the private key and certificate of this node")
    if node.certificate and not raw.document.get("cluster", {}).get("key_file"):
        refuse(raw, "node", "certificate", "needs cluster.key_file, which seals the datagrams")
    if node.metrics_certificate and not node.metrics:
        refuse(raw, "node", "metrics_certificate", "needs node.metrics, the address to serve")
    _check_socket(raw, "node", "control_socket", node.control_socket)
    if node.full_scan and network.size > SCAN_MAX:
        message = f"needs a network of at most {SCAN_MAX} addresses, not {network.size}"
        refuse(raw, "node", "full_scan", message)
    _check_seeds(raw, node.seeds)
    for name in node.web_names:
        if not is_host_name(name):
            refuse(raw, "node", "web_names", f"must be host names, not {quoted(name)}")
    check_performance(raw, node)
    if node.metrics and listener_of(node.metrics) is None:
        example = 'e.g. "127.0.0.1:9717" or "[::1]:9717", or ":9717" for this node\'s own address'
        refuse(raw, "node", "metrics", f"must be ADDRESS:PORT, {example}, not {quoted(node.metrics)}")
    if node.metrics_listener is not None and node.metrics_listener in {("", port), (node.address, port)}:
        refuse(raw, "node", "metrics", f"names the port {port}, which is cluster.port: choose another")


def _check_socket(raw: RawConfig, table: str, key: str, path: str) -> None:
    if not 0 < len(os.fsencode(path)) <= UNIX_PATH_BYTES_MAX:
        refuse(raw, table, key, f"must be a path of 1 to {UNIX_PATH_BYTES_MAX} bytes")


def _check_seeds(raw: RawConfig, seeds: Sequence[str]) -> None:
    for seed in seeds:
        if not is_address(seed) and not is_host_name(seed):
            refuse(raw, "node", "seeds", f"must be IP addresses and host names, not {quoted(seed)}")


def _check_address(raw: RawConfig, address: str, network: Network) -> None:
    try:
        ipaddress.ip_address(address)
    except ValueError:
        refuse(raw, "node", "address", f"must be an IP address, not {quoted(address)}")
    if network.position_of(address) is None:
        refuse(raw, "node", "address", f"{address} lies outside the network {cut(network.text)}")
