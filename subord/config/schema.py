"""The configuration: TOML -> typed, frozen values; cluster-wide apart from per-node.

Intuition: a form with two pages. The first page, [cluster], is the same for everybody and is compared in
the first exchange; the second, [node], is about this machine alone. A clerk who refuses the form names
the line and the entry that would do.

A field's docstring is its manual: docs/configuration.md is generated from this file
(subord/config/docs.py).
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec

from subord.config.hostlist import is_address, is_host_name
from subord.config.hosts import network_of
from subord.config.performance import PERFORMANCE_KEYS, check_performance
from subord.config.resolve import Resolve
from subord.config.source import ConfigError, Given, cut, quoted, read
from subord.config.validate import check, refuse
from subord.core.address.network import Network, NetworkError
from subord.core.discovery.scan import SCAN_MAX
from subord.core.state.settings import MappingName, NumberingName, Settings, TimingName

__all__ = [
    "NO_KEY",
    "Config",
    "ConfigError",
    "NodeConfig",
    "changes",
    "dotted",
    "is_without_key",
    "load",
    "reload",
    "taken_over",
]

POSITION_BITS = 64  # of a position on the wire
SEEDS_MAX = 64
WEB_NAMES_MAX = 16
UNIX_PATH_BYTES_MAX = 107  # unix(7): sun_path holds 108 bytes, the last one zero
LOOPBACK = (ipaddress.IPv4Network("127.0.0.0/8"), ipaddress.IPv6Network("::1/128"))
NO_KEY = (
    "nothing would be sealed: set cluster.key_file (`subord key generate` makes one, for all nodes), "
    "or cluster.insecure = true on a network that you trust"
)

LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["auto", "text", "json"]


class ClusterConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What all nodes of one tree must have in common.

    It is compared in the first exchange: a node that differs is refused, and both sides say in which setting.
    """

    network: str | tuple[str, ...] | None = None
    """The addresses that nodes may have, all of one IP version: a block such as `"10.0.0.0/24"`, or
    ranges and single addresses in order, such as `["10.0.5.10-10.0.5.60", "10.0.7.1"]`. Either this or
    `network_file` must be given. A node's position is its place in it, counted from 1; the lowest live position
    becomes the root. A block much larger than the cluster costs more searching at the first start, nothing
    afterwards. All nodes must have the same; while a changed one is being rolled out, nodes with the old
    and nodes with the new one form two trees."""
    network_file: str = ""
    """Path of a host list, in the place of `network`; a relative one begins at the directory of this file.
    Its lines hold addresses, ranges and blocks as in `network`, and names of hosts, folded if you like:
    `node[001-128,200]`, `rack[1-2]n[01-40]`; what follows a `#` is a comment. The order of the file is the
    order of positions, and all nodes must have the same list, as with `network`. At most 10,000 names, each of
    which must lead to one address of the IP version of the first address in the file; 4 MiB. Names are looked
    up when the file is read: at the start, and on SIGHUP."""
    fanout: Annotated[int, msgspec.Meta(ge=2, le=1024)] = 8
    """The fan-out p: how many computed subordinates a leader has. Larger makes the tree flatter and each
    leader busier, and more nodes look for a new leader when one dies."""
    guest_slots: Annotated[int, msgspec.Meta(ge=1, le=1024)] | None = None
    """How many nodes whose computed leader is away a leader takes in besides. Not given: as many as
    `fanout`. With `"complete"` numbering no leader ever has more than `fanout` + `guest_slots`
    subordinates. Larger makes sparse networks flatter and leaders busier."""
    mapping: MappingName = "ip"
    """Who may lead whom (docs/mappings.md). `"ip"`: the lower position leads. `"performance"`: whoever completes
    more jobs leads, as `node.performance` and its like say. `"latency"`: the lower position leads, and of those
    who may lead it a node follows one that is near."""
    numbering: NumberingName = "complete"
    """How positions become levels. `"complete"`: levels hold 1, p, p^2, ... nodes. `"paper"`: as printed
    in the paper, with p - 1 nodes on level 0, led by position 1; the same as `"complete"` for p = 2."""
    timing: TimingName = "lan"
    """The preset of all durations (table below): `"lan"` for one site, `"wan"` for round trips up to a
    second, `"lab"` for tests on one machine. A quicker preset finds a silent death sooner and costs more
    packets."""
    port: Annotated[int, msgspec.Meta(ge=1, le=65535)] = 7117
    """The UDP and TCP port, the same on all nodes. It must be open between all nodes for both protocols."""
    key_file: str = ""
    """Path of the key ring, as `subord key generate` writes it, the same on all nodes; a relative one begins at
    the directory of this file. Every datagram is sealed with it and every connection goes by it, so only nodes
    that have a key in common can form a tree. Mode 0600, of the daemon's user or root. Read again on SIGHUP.
    Keys are changed while the cluster runs by `subord key install`, `use` and `remove` (docs/security.md)."""
    insecure: bool = False
    """Whether a node without `key_file` may run although others could reach it: then whoever can send to
    `port` can take part, and whoever listens can read. A node on a loopback address needs no key."""


class NodeConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What may differ from machine to machine."""

    interface: str = ""
    """The network interface whose address inside the network this node uses, such as `"eth0"`. Empty: any.
    Needed when several interfaces have an address inside the network."""
    address: str = ""
    """The address that this node uses: one of this machine, inside the network. Empty: the only one that
    fits. Needed when one interface has several addresses inside the network."""
    control_socket: str = "/run/subord/control.sock"
    """Path of the Unix socket on which the daemon answers the command line, at most 107 bytes. Its
    directory must exist and be writable for the daemon; whoever may write to the socket may ask this
    node."""
    metrics: str = ""
    """`"ADDRESS:PORT"` on which the daemon shows itself over HTTP: metrics, the list of targets for Prometheus, and
    a page with the tree. `":9717"` is this node's own address in the network, so that one file fits all nodes;
    others are such as `"127.0.0.1:9717"` or `"[::1]:9717"`. Empty: off. Nothing can be changed there, and everybody
    who reaches this address may read."""
    metrics_certificate: str = ""
    """Path of a PEM file with a private key and its certificate, mode 0600: then `metrics` is served over
    HTTPS. Looked at again every minute. Empty: over HTTP."""
    web_names: Annotated[tuple[str, ...], msgspec.Meta(max_length=WEB_NAMES_MAX)] = ()
    """Further host names by which `metrics` may be asked, such as `["node1.example.org"]`, or the name of a proxy
    that hands it on; at most 16. Its addresses, `localhost`, the name of the machine and that in the host list need
    not be here. Other names are refused with HTTP status 421, so that no page of the Internet can read the tree by
    a browser inside (DNS rebinding)."""
    certificate: str = ""
    """Path of a PEM file with this node's private key and its certificate by a site's own authority, mode 0600;
    the certificate must name the address of this node (subjectAltName) and be good for clients and servers. Streams
    between nodes then go by it, on all nodes, and not by one that the key of `key_file` stamps, which seals the
    datagrams as before. Looked at again every minute, so it can be renewed without a restart. Empty: by the key."""
    authorities: str = ""
    """Path of a PEM file with the certificates of the site's authorities. Goes with `certificate`."""
    seeds: Annotated[tuple[str, ...], msgspec.Meta(max_length=SEEDS_MAX)] = ()
    """Nodes that usually run, such as `["10.0.0.7", "login1", "head.example.org"]`: asked for advice whenever
    this node has no leader, so that it finds the tree quickly in a sparse network. At most 64 addresses
    or names; this node itself may be among them, so one list can go to all nodes. Names are looked up beside
    the running daemon, again while it has no leader, and at most 16 addresses of one name are used. What lies
    outside the network is skipped with a warning."""
    announce: bool = False
    """Whether a node without a leader tells so to everybody on the wire by multicast, and listens for others
    that do: two roots on one wire then find each other at once. Groups 239.255.71.17 and ff12::7117, at
    `port`, on the interface of this node's address, never through a router. Where multicast does not work the
    daemon goes on without it."""
    full_scan: bool = False
    """Whether every address of the network is asked before the node looks for its place: what the mapping spares,
    for comparison only (docs/evaluation.md). In networks of at most 4096 addresses."""
    performance: Annotated[float, msgspec.Meta(ge=0, le=1e9)] = 0.0
    """The performance of this node in jobs an hour, for a cluster where nobody counts jobs: any figures will do
    whose ratios are right. 0: it is measured, from the jobs that `subord job-done` reports, or by one of the next
    keys (docs/mappings.md)."""
    performance_file: str = ""
    """Path of a file that holds one number, the jobs completed here so far, or, with `performance_metric`, a text
    file for Prometheus; a relative one begins at the directory of this file. Read again every few seconds, at most
    1 MiB. A number that went back began anew at 0. While it cannot be read the performance stays as it was."""
    performance_url: str = ""
    """A page in the Prometheus text format on this machine, such as `"http://127.0.0.1:9100/metrics"`, in the place
    of a file. Only http, and only of `localhost` or a loopback address: on the way from elsewhere anybody could
    change the number. Needs `performance_metric`."""
    performance_metric: str = ""
    """What to look for there, such as `"batch_jobs_done_total"` or `'jobs_total{state="done"}'`; several samples that
    fit are added up. A counter, or the count of a histogram or summary, counts completed jobs; a gauge is taken for
    jobs an hour. What is not declared is a counter when its name ends in `_total` or `_count`."""
    performance_half_life_s: Annotated[float, msgspec.Meta(ge=1, le=2592000)] = 3600.0
    """After so many seconds a job counts half in the measured performance, which is first told after a tenth of it.
    At least ten jobs should end here in that time, else chance shows. Longer is steadier and notices later that a
    node became faster or slower."""
    state_directory: str = ""
    """Directory in which the last neighbourhood is kept, so that a restarted daemon tries its old place
    first. Empty: nothing is remembered, and a restart searches as the first start did."""
    event_log: str = ""
    """Path of a file to which every event is appended as one line of JSON; `"-"` is standard error.
    Empty: off. On a disk of this machine: the daemon waits for each line, and a server of files that does not answer
    would hold it up."""
    grace_s: Annotated[float, msgspec.Meta(ge=0, le=60)] = 2.0
    """Seconds that the daemon may spend on goodbyes after SIGTERM. 0 leaves at once: the others then find
    out as if this node had crashed."""
    log_level: LogLevel = "info"
    """The least important lines of the log. The environment variable `LOG_LEVEL` wins over the file at the start, and
    `subord log-level` changes it in a running daemon (docs/operating.md)."""
    log_format: LogFormat = "auto"
    """How the log is written to standard error. `"text"`: for people; `"json"`: one object a line. `"auto"`: text on
    a terminal, JSON in a file or pipe, and entries with fields of their own where systemd's journal reads."""

    @property
    def metrics_listener(self) -> tuple[str, int] | None:
        """(address, port) of `metrics`, the address empty for this node's own; None: off."""
        return _listener(self.metrics) if self.metrics else None


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """The whole configuration of one daemon, checked."""

    cluster: Settings
    port: int
    node: NodeConfig
    key_file: str
    """Path of the key ring; empty: nothing is sealed."""
    insecure: bool
    source: str
    """Path of the file as given; empty: there was none."""
    network_file: str = ""
    """Path of the host list as given; empty: the network was given itself."""
    names: Mapping[str, str] = {}
    """Names by address, as the host list has them; only for people."""
    assignments: tuple[str, ...] = ()
    """The `--set` texts, which win over the file, also when it is read again."""


PATHS_BESIDE = ("certificate", "authorities", "metrics_certificate", "performance_file")
TABLES: dict[str, type[msgspec.Struct]] = {"cluster": ClusterConfig, "node": NodeConfig}
RELOADABLE = (
    "cluster.network",
    "cluster.network_file",
    "node.seeds",
    *(f"node.{key}" for key in PERFORMANCE_KEYS),
    "node.grace_s",
    "node.log_level",
)
"""What a running daemon takes over on SIGHUP; another network makes it start again, with all else that changed.
Without one all else waits: it sits in open sockets, or in what the peers were told."""


def load(path: str | None, assignments: Sequence[str] = (), resolve: Resolve | None = None) -> Config:
    """Read, check and complete a configuration; assignments such as `cluster.fanout=2` win over the file.

    It blocks: names of a host list are looked up, by `resolve` in tests. Raises ConfigError: one line with the
    file, the line number where it is certain, and what is wrong.
    """
    given = read(path, assignments)
    check(given, TABLES)
    cluster = msgspec.convert(given.document.get("cluster", {}), ClusterConfig)
    node = msgspec.convert(given.document.get("node", {}), NodeConfig)
    _check_cluster(given, cluster)
    network, names = _network(given, cluster, resolve)
    settings = _settings(cluster, network)
    _check_node(given, node, settings.network, cluster.port)
    paths = {key: _beside(given, getattr(node, key)) for key in PATHS_BESIDE}
    node = msgspec.structs.replace(node, **paths)
    return Config(
        cluster=settings,
        port=cluster.port,
        key_file=_beside(given, cluster.key_file),
        insecure=cluster.insecure,
        node=node,
        source=path or "",
        network_file=cluster.network_file,
        names=names,
        assignments=tuple(assignments),
    )


def reload(old: Config) -> Config:
    """The same file and assignments, read again. Raises ConfigError; the old configuration is untouched."""
    return load(old.source or None, old.assignments)


def changes(old: Config, new: Config) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Dotted names of what differs: (what SIGHUP may take over, what needs a restart), each in file order."""
    before, after = dotted(old), dotted(new)
    changed = [name for name in before if before[name] != after[name]]
    reloadable = tuple(name for name in changed if name in RELOADABLE)
    return reloadable, tuple(name for name in changed if name not in RELOADABLE)


def taken_over(old: Config, new: Config) -> Config:
    """`old` with what SIGHUP may take over from `new`, whose network is the same, perhaps from another file."""
    keys = [name.removeprefix("node.") for name in RELOADABLE if name.startswith("node.")]
    fresh = {key: getattr(new.node, key) for key in keys}
    node = msgspec.structs.replace(old.node, **fresh)
    return msgspec.structs.replace(old, node=node, network_file=new.network_file, names=new.names)


def is_without_key(config: Config) -> bool:
    """Whether no machine could run it, because nothing would be sealed (NO_KEY). A daemon that would have a loopback
    address needs no key (runtime/security/credentials.py), so where the network has one only the machine can tell."""
    if config.key_file or config.insecure:
        return False
    if config.node.address:
        return not ipaddress.ip_address(config.node.address).is_loopback
    return not any(config.cluster.network.meets(block) for block in LOOPBACK)


def dotted(config: Config) -> dict[str, Any]:
    """Every setting by the name it has in the file."""
    cluster = config.cluster
    return {
        "cluster.network": cluster.network.text,
        "cluster.network_file": config.network_file,
        "cluster.fanout": cluster.fanout,
        "cluster.guest_slots": cluster.guest_slots,
        "cluster.mapping": cluster.mapping,
        "cluster.numbering": cluster.numbering_name,
        "cluster.timing": cluster.timing_name,
        "cluster.port": config.port,
        "cluster.key_file": config.key_file,
        "cluster.insecure": config.insecure,
        **{f"node.{key}": value for key, value in msgspec.structs.asdict(config.node).items()},
    }


def _without_network(file: str) -> str:
    hint = "say which addresses nodes may have"
    if not file:
        return f"cluster.network is missing; {hint}: --config FILE, or --set cluster.network=10.0.0.0/24"
    example = 'e.g. network = "10.0.0.0/24", or network_file = "nodes.list"'
    return f'{file}: key "network" is missing in [cluster]; {hint}, {example}'


def _network(given: Given, cluster: ClusterConfig, resolve: Resolve | None) -> tuple[Network, dict[str, str]]:
    key = "network"
    names: dict[str, str] = {}
    if cluster.network_file:
        if cluster.network is not None:
            refuse(given, "cluster", "network_file", "and network are both given; remove one of them")
        key = "network_file"
        network, names = network_of(_beside(given, cluster.network_file), resolve)
    elif cluster.network is None:
        raise ConfigError(_without_network(given.file))
    else:
        parts = (cluster.network,) if isinstance(cluster.network, str) else cluster.network
        try:
            network = Network.parse(",".join(parts))
        except NetworkError as error:
            raise ConfigError(f"{given.where('cluster', 'network')}: network: {error}") from None
    if network.size >= 1 << POSITION_BITS:
        message = f"has more than 2^{POSITION_BITS} addresses, which the wire cannot number; name the part in use"
        refuse(given, "cluster", key, message)
    return network, names


def _beside(given: Given, path: str) -> str:
    """A relative path begins where the file lies."""
    return os.path.join(os.path.dirname(given.file), path) if path else ""


def _settings(cluster: ClusterConfig, network: Network) -> Settings:
    return Settings(
        network=network,
        fanout=cluster.fanout,
        guest_slots=cluster.fanout if cluster.guest_slots is None else cluster.guest_slots,
        mapping=cluster.mapping,
        numbering_name=cluster.numbering,
        timing_name=cluster.timing,
    )


def _check_cluster(given: Given, cluster: ClusterConfig) -> None:
    """What a type cannot say."""
    if cluster.key_file and cluster.insecure:
        refuse(given, "cluster", "insecure", "and key_file are both given; remove one of them")


def _check_node(given: Given, node: NodeConfig, network: Network, port: int) -> None:
    """What a type cannot say."""
    if node.address:
        _check_address(given, node.address, network)
    if bool(node.certificate) != bool(node.authorities):
        key, other = ("certificate", "authorities") if node.certificate else ("authorities", "certificate")
        refuse(given, "node", key, f"goes with node.{other}: papers of our own, and whose papers we trust")
    if node.certificate and not given.document.get("cluster", {}).get("key_file"):
        refuse(given, "node", "certificate", "needs cluster.key_file, which seals the datagrams")
    if node.metrics_certificate and not node.metrics:
        refuse(given, "node", "metrics_certificate", "needs node.metrics, which says where they are served")
    if not 0 < len(os.fsencode(node.control_socket)) <= UNIX_PATH_BYTES_MAX:
        refuse(given, "node", "control_socket", f"must be a path of 1 to {UNIX_PATH_BYTES_MAX} bytes")
    if node.full_scan and network.size > SCAN_MAX:
        message = f"asks every address of the network, which has {network.size}, not at most {SCAN_MAX}"
        refuse(given, "node", "full_scan", message)
    _check_seeds(given, node.seeds)
    for name in node.web_names:
        if not is_host_name(name):
            refuse(given, "node", "web_names", f"must be host names, not {quoted(name)}")
    check_performance(given, node)
    if node.metrics and _listener(node.metrics) is None:
        example = 'e.g. "127.0.0.1:9717" or "[::1]:9717", or ":9717" for this node\'s own address'
        refuse(given, "node", "metrics", f"must be ADDRESS:PORT, {example}, not {quoted(node.metrics)}")
    if node.metrics_listener is not None and node.metrics_listener in {("", port), (node.address, port)}:
        refuse(given, "node", "metrics", f"names the port {port}, which is cluster.port: choose another")


def _check_seeds(given: Given, seeds: Sequence[str]) -> None:
    for seed in seeds:
        if not is_address(seed) and not is_host_name(seed):
            refuse(given, "node", "seeds", f"must be IP addresses and host names, not {quoted(seed)}")


def _check_address(given: Given, address: str, network: Network) -> None:
    try:
        ipaddress.ip_address(address)
    except ValueError:
        refuse(given, "node", "address", f"must be an IP address, not {quoted(address)}")
    if network.position_of(address) is None:
        refuse(given, "node", "address", f"{address} lies outside the network {cut(network.text)}")


def _listener(text: str) -> tuple[str, int] | None:
    """`[::1]:9717` as ("::1", 9717), `:9717` as ("", 9717); None: not of the form ADDRESS:PORT."""
    address, colon, port = text.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit() and len(port) <= 5 and 1 <= int(port) <= 65535):
        return None
    if not address:
        return "", int(port)
    try:
        version = ipaddress.ip_address(address.removeprefix("[").removesuffix("]")).version
    except ValueError:
        return None
    bracketed = address.startswith("[") and address.endswith("]")
    if bracketed != (version == 6):
        return None
    return address.strip("[]"), int(port)
