"""The typed configuration: one frozen struct for each table of the file, and the checked whole.

[cluster] is the same on all nodes, which compare it in the first exchange; [node] is about one machine. The docstring
of a field is its manual: docs.py generates docs/configuration.md from this file. load.py reads and checks.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec

from subord.core.carriage.blobs.bounds import CACHE_BYTES_MAX
from subord.core.carriage.ledger.bounds import SPOOL_BYTES_MAX
from subord.core.mapping.registry import MappingName
from subord.core.settings import NumberingName, Settings, TimingName

SEEDS_MAX = 64
NAME_CHARS_MAX = 64
WEB_NAMES_MAX = 16
METRICS_URLS_MAX = 8
CLASS_ENTRIES_MAX = 512
ELASTIC_ENTRIES_MAX = 64
MACHINES_URI_CHARS_MAX = 400
MACHINES_MIB_MAX = 1 << 30

LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["auto", "text", "json"]


class ClusterConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that all nodes of one tree share.

    In the first exchange nodes compare network, fan-out, guest slots, mapping, numbering and timing; a node that
    differs is refused, and both sides report the setting.
    """

    network: str | tuple[str, ...] | None = None
    """The addresses of possible nodes, all of one IP version: a block such as `"10.0.0.0/24"`, or a list of ranges
    and addresses such as `["10.0.5.10-10.0.5.60", "10.0.7.1"]`. Give either this or `network_file`. A node's
    position is its place in the network, from 1; the lowest live position becomes the root. A network much larger
    than the cluster slows the first start."""
    network_file: str = ""
    """Path of a host list that replaces `network`. Its lines hold addresses, ranges and blocks as in `network`, and
    host names, also folded: `node[001-128,200]`, `rack[1-2]n[01-40]`; `#` begins a comment. The order of the file is
    the order of positions, so all nodes must have the same list. At most 10,000 names and 4 MiB; each name must have
    one address of the IP version of the file's first address. Names are resolved at the start and on SIGHUP."""
    expect: str | tuple[str, ...] = ()
    """Nodes that should be members, as addresses and ranges of the network. One that never came is counted as down,
    once the root has waited for it for half a minute. Without this key only nodes that came are expected."""
    name: Annotated[str, msgspec.Meta(max_length=NAME_CHARS_MAX)] = ""
    """The name of the cluster, up to 64 printable characters, the same on all nodes. It is part of what operators
    sign, with the network: an order for one cluster is none for another. Give clusters of the same network different
    names. After a change of the name all nodes drop the orders that they hold."""
    fanout: Annotated[int, msgspec.Meta(ge=2, le=1024)] = 8
    """The fan-out p: how many computed subordinates a leader has. A higher value makes the tree flatter, leaders
    busier, and more nodes change their leader when one dies."""
    guest_slots: Annotated[int, msgspec.Meta(ge=1, le=1024)] | None = None
    """How many nodes whose computed leader is away a leader accepts in addition; by default as many as `fanout`.
    With `"complete"` numbering a leader never has more than `fanout` + `guest_slots` subordinates. A higher value
    makes sparse networks flatter and leaders busier."""
    mapping: MappingName = "ip"
    """Which nodes may lead a node (docs/mappings.md). `"ip"`: those at lower positions. `"performance"`: those
    that complete more jobs. `"latency"`: those at lower positions, preferably a near one."""
    numbering: NumberingName = "complete"
    """How positions become levels. `"complete"`: levels hold 1, p, p^2, ... nodes. `"paper"`: as printed in the
    paper, with p - 1 nodes on level 0, led by position 1; the same as `"complete"` for p = 2."""
    timing: TimingName = "lan"
    """The preset of all durations (table below): `"lan"` for one site, `"wan"` for round trips up to a second,
    `"lab"` for tests on one machine. Shorter durations find a silent death sooner and cost more packets."""
    port: Annotated[int, msgspec.Meta(ge=1, le=65535)] = 7117
    """The UDP and TCP port, the same on all nodes and open between all of them."""
    key_file: str = ""
    """Path of the key ring that `subord key generate` writes (docs/security.md). The ring is the same on all nodes;
    the path may differ. It seals every datagram and authenticates every connection, so only nodes with a key in
    common form a tree. The file has mode 0600 and belongs to the daemon's user or to root."""
    host_authorities: str = ""
    """Path of a file with the public keys of the site's authorities for identities, one a line, as `ssh-keygen`
    writes them or as `@cert-authority PATTERNS TYPE KEY`. With it a node's identity counts only with a certificate
    (`ssh-keygen -s CA -h -n ADDRESS`) by one of them (docs/security.md). The same on all nodes; the path may differ.
    Empty: the first identity at an address counts."""
    insecure: bool = False
    """Whether a node may run without `key_file` on an address that others can reach. Then any host that reaches
    `port` can take part, and any listener can read."""


class NodeConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one machine."""

    operators: str = "/etc/subord/allowed_signers"
    """Path of the file that names the operators and their SSH keys, in the format of `allowed_signers`
    (ssh-keygen(1), docs/security.md). It belongs to root or the daemon's user, and only the owner can write to it.
    This node takes only orders that one of these operators has signed. Changes need no reload."""
    interface: str = ""
    """The network interface whose address inside the network this node uses, such as `"eth0"`. Required if several
    interfaces have such an address. Empty: any."""
    address: str = ""
    """The address of this machine, inside the network, that this node uses. Required if one interface has several
    such addresses. Empty: the only one."""
    control_socket: str = "/run/subord/control.sock"
    """Path of the Unix socket for commands, at most 107 bytes, in a directory that the daemon can write to. Write
    access to the socket permits queries."""
    metrics: str = ""
    """`"ADDRESS:PORT"` of the web address, which serves metrics, the list of targets for Prometheus and a page
    with the tree. `":9717"` means this node's own address, so one file fits all nodes; IPv6: `"[::1]:9717"`.
    Read-only, without authentication. Empty: off."""
    metrics_certificate: str = ""
    """Path of a PEM file, mode 0600, with a private key and its certificate, to serve `metrics` over HTTPS. Empty:
    HTTP."""
    web_names: Annotated[tuple[str, ...], msgspec.Meta(max_length=WEB_NAMES_MAX)] = ()
    """Host names under which `metrics` answers, such as `["node1.example.org"]` or the name of a proxy. Addresses,
    `localhost`, the name of the machine and its name in the host list are always allowed. Other names get HTTP status
    421, which prevents DNS rebinding."""
    certificate: str = ""
    """Path of a PEM file, mode 0600, with this node's private key and its certificate from the site's own
    authority. The certificate must name the node's address (subjectAltName) and be valid for clients and servers.
    It replaces the certificate that the node issues with the key, on all nodes or on none; the key still seals
    datagrams. Empty: not used."""
    authorities: str = ""
    """Path of a PEM file with the certificates of the site's authorities; required with `certificate`."""
    seeds: Annotated[tuple[str, ...], msgspec.Meta(max_length=SEEDS_MAX)] = ()
    """Nodes that usually run, such as `["10.0.0.7", "login1", "head.example.org"]`. A node without a leader asks
    them, so it finds the tree quickly in a sparse network. The node itself is allowed, so one list fits all nodes.
    Names are resolved in the background, again while there is no leader; at most 16 addresses of each count.
    Addresses outside the network are skipped with a warning."""
    announce: bool = False
    """Whether a node without a leader announces itself on its link by multicast and listens for others, so that
    two roots on one link find each other at once. Groups 239.255.71.17 and ff12::7117, at `port`, on the interface
    of the node's address, never through a router. Where multicast fails, the daemon continues without it."""
    full_scan: bool = False
    """Whether the node first asks every address of the network, which the mapping avoids. For comparison only
    (docs/evaluation/paper.md), in networks of at most 4096 addresses."""
    performance: Annotated[float, msgspec.Meta(ge=0, le=1e9)] = 0.0
    """A fixed performance of this node in jobs an hour; only ratios between nodes matter. 0: measured from `subord
    job-done` or the source in the next keys (docs/mappings.md)."""
    performance_file: str = ""
    """Path of a file that holds the number of jobs completed so far, or, with `performance_metric`, of a
    Prometheus text file (docs/mappings.md)."""
    performance_url: str = ""
    """URL of a page in the Prometheus text format, instead of a file, such as `"http://127.0.0.1:9100/metrics"`.
    Only http from `localhost` or a loopback address, because a number from elsewhere could be forged. Needs
    `performance_metric`."""
    performance_metric: str = ""
    """The metric to read, such as `"batch_jobs_done_total"` or `'jobs_total{state="done"}'`; matching samples are
    added up. A counter counts jobs; a gauge is jobs an hour."""
    performance_half_life_s: Annotated[float, msgspec.Meta(ge=1, le=2592000)] = 3600.0
    """Seconds after which a job counts half in the measured performance, which is unknown for the first tenth of
    this time. At least ten jobs should end in it. A longer half-life is steadier and follows changes later."""
    state_directory: str = ""
    """An existing directory for what a restart needs: the last neighbourhood, so that the daemon tries its old place
    first, the members with what operators said of them, the key ring after a change of keys, and the identity of the
    node, made at the first start (docs/security.md). Empty: nothing is kept, and the node has no identity."""
    event_log: str = ""
    """Path of a file to which every event is appended as a line of JSON; `"-"`: standard error. Use a local disk,
    because the daemon waits for each write. Empty: off."""
    grace_s: Annotated[float, msgspec.Meta(ge=0, le=60)] = 2.0
    """Seconds that the daemon may spend on goodbyes after SIGTERM. 0: it leaves at once, which looks like a crash
    to the others."""
    log_level: LogLevel = "info"
    """The least important lines that are logged. At the start the environment variable `LOG_LEVEL` overrides this;
    `subord log-level` changes it in a running daemon (docs/operating.md)."""
    log_format: LogFormat = "auto"
    """The format of the log on standard error. `"text"`: for people. `"json"`: one object per line. `"auto"`: text
    on a terminal, JSON in a file or pipe, entries with fields for systemd's journal."""

    @property
    def metrics_listener(self) -> tuple[str, int] | None:
        """(address, port) of `metrics`, the address empty for this node's own; None: off."""
        return listener_of(self.metrics) if self.metrics else None


class AgentConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of `subord-agent` on one machine (docs/services.md). The daemon reads only `socket`.

    The agent reads them at its start.
    """

    socket: str = "/run/subord-agent.sock"
    """Path of the Unix socket at which the agent takes orders from the daemon, at most 107 bytes. Without such a
    socket the node has no agent: it carries orders for other nodes, and is missing as `no agent` where a service
    needs one."""
    policy: str = "/etc/subord/policy.toml"
    """Path of the file that says which operator may use which service as which user. It belongs to root, and only
    root can write to it. Without it nothing is allowed. Changes need no restart."""
    state_directory: str = "/var/lib/subord-agent"
    """An existing directory, mode 0700, for the journal of orders that the agent has begun. Without it the agent
    carries out no order."""
    idle_s: Annotated[float, msgspec.Meta(ge=1, le=86400)] = 300.0
    """Seconds without work after which an agent that systemd has started ends. The next order starts it again."""
    daemon_user: str = "subord"
    """The user of the daemon. Only this user and root may give orders at the socket."""
    account_exec: bool = False
    """Whether each command of `subord exec` on this node gets a record of the kind `command` (docs/accounting.md)."""


class LedgerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Where records of this node wait, and whether this node is a sink of all records (docs/protocol/ledger.md)."""

    sink: str = ""
    """Where this node stores the records of the cluster: the path of a file of SQLite, or the URL of a database,
    `"postgresql://USER@HOST/DATABASE"`, which needs psycopg. One node is enough; without any sink the records stay on
    their nodes. Empty: this node is no sink."""
    spool_bytes_max: Annotated[int, msgspec.Meta(ge=65_536, le=1 << 36)] = SPOOL_BYTES_MAX
    """Bytes of records that wait on this node, in `node.state_directory`, until a sink has them. A full spool refuses
    further records, and the writer is told."""


class BlobsConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes that services spread over the nodes (docs/protocol/blobs.md)."""

    cache_bytes_max: Annotated[int, msgspec.Meta(ge=1 << 20, le=1 << 40)] = CACHE_BYTES_MAX
    """Bytes of chunks on this node, in `node.state_directory`. A full cache deletes what is not in use, the longest
    unused first. Without a state directory a node keeps nothing, and passes chunks on."""


class MetricsConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What this node tells of itself for the metrics of the cluster (docs/metrics.md)."""

    publish: bool = True
    """Whether this node publishes its metrics, every ten seconds. A node that does not still passes on those of the
    nodes below it, and is missing as `no report`."""
    urls: Annotated[tuple[str, ...], msgspec.Meta(max_length=METRICS_URLS_MAX)] = ()
    """Pages of exporters on this machine, such as `"http://127.0.0.1:9100/metrics"`, at most 8."""
    text_directory: str = ""
    """A directory of files `*.prom` in the text format of Prometheus. Write a file under another name and rename it:
    one that does not end with a line break is not used."""
    program_directory: str = ""
    """A directory of programs that print metrics in that format, such as `/etc/subord/sensors.d`. Each has two
    seconds, and runs as the user of the daemon. A program that other users can change is not run."""


class SharesConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The classes of work among which this machine divides its processors (docs/shares.md). The daemon reads their
    names, and the agent of the node the rest; `subord-agent --check` shows what it finds."""

    classes: Annotated[tuple[str, ...], msgspec.Meta(max_length=CLASS_ENTRIES_MAX)] = ()
    """Which groups of processes belong to which class: cgroups by path, such as
    `["web=/apps/web-*", "batch=/apps/*"]`, or slices of systemd by name, such as `["web=web.slice", "rest=*.slice"]`.
    `*` and `?` match within one part of a path; a group belongs to the first entry that matches. A class may have
    several entries. All groups stand beside each other, because the kernel compares only the weights of neighbours.
    A group beside them that is in no class keeps its weight, by default a tenth of that of all classes together. Give
    slices, not paths, for what systemd has made."""
    queues: Annotated[tuple[str, ...], msgspec.Meta(max_length=CLASS_ENTRIES_MAX)] = ()
    """Where a service tells how much work waits for it, such as `["web=/run/web/queue"]`: a file that holds a number,
    or a program that prints one within two seconds. A class with a number above 0 needs more than it has. Without an
    entry the kernel says so: by the pressure of a group (cgroup v2), or its runnable tasks. The agent runs the
    program as root; a program that other users can change is not run."""


class ElasticConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The part of this machine in a cluster that grows and shrinks with the queue of its batch system
    (docs/elastic.md). Daemon and agent read it at their start. All commands run as the user of the agent; files that
    other users can change are not run."""

    batch: Literal["", "gridengine", "slurm"] = ""
    """The batch system whose queue this node has: its qmaster or its controller. Empty: this node manages no
    cluster."""
    batch_environment: Annotated[tuple[str, ...], msgspec.Meta(max_length=ELASTIC_ENTRIES_MAX)] = ()
    """For the commands of the batch system, such as `["SGE_ROOT=/var/lib/gridengine", "SGE_CELL=default"]`."""
    batch_daemon: Annotated[tuple[str, ...], msgspec.Meta(max_length=ELASTIC_ENTRIES_MAX)] = ()
    """On a node that is added: the command that starts its batch daemon, such as `["systemctl", "start",
    "gridengine-exec"]`. It is run again if the daemon does not come up. Empty: it starts by itself."""
    batch_daemon_stop: Annotated[tuple[str, ...], msgspec.Meta(max_length=ELASTIC_ENTRIES_MAX)] = ()
    """On a node that is about to end: the command that stops its batch daemon. Empty: it ends with the node."""
    key: str = ""
    """Private SSH key with which this node signs orders to the nodes that it adds, and hosts tables: of an operator
    with `namespaces="subord.elastic,subord.hosts"`, whom the policy of nodes allows `hosts` as `root` and `elastic`
    as `steps`."""
    kinds: Annotated[tuple[str, ...], msgspec.Meta(max_length=ELASTIC_ENTRIES_MAX)] = ()
    """Kinds of nodes with their slots, the cheapest first, such as `["small=4", "large=16"]`. Empty: one kind, with
    as many slots as most hosts of the queue have."""
    start: Annotated[tuple[str, ...], msgspec.Meta(max_length=ELASTIC_ENTRIES_MAX)] = ()
    """The command that starts a node; `stop` must be given, too. It gets a name and a kind as further words, and
    prints the address. For a name that is started already it starts no second node, and prints the address of the
    first."""
    stop: Annotated[tuple[str, ...], msgspec.Meta(max_length=ELASTIC_ENTRIES_MAX)] = ()
    """The command that ends a node for good. It gets a name as a further word, and ends with 0 if there is no such
    node."""
    list: Annotated[tuple[str, ...], msgspec.Meta(max_length=ELASTIC_ENTRIES_MAX)] = ()
    """The command that prints the nodes which exist, a line each: name and address. With it, nodes without a record
    are found and named, and a node that has vanished is removed everywhere. Empty: only records count."""
    wait_s: Annotated[float, msgspec.Meta(ge=10, le=86_400)] = 900.0
    """How long a node has to come up and be added. After that it is removed, and another one may be added."""
    hosts_file: str = "/etc/hosts"
    """Where the hosts tables of the cluster go: a block of lines that `subord hosts` shows. Empty: this node follows
    no hosts table."""
    exports_file: str = "/etc/exports.d/subord.exports"
    """Of the queue's node: what it exports to the nodes that it has added (exports(5))."""


class MachinesConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What this node does for `subord machines` (docs/machines.md): as a server it runs virtual machines, as the
    queue's node it decides which ones. Daemon and agent read it at their start."""

    uri: Annotated[str, msgspec.Meta(max_length=MACHINES_URI_CHARS_MAX)] = ""
    """The libvirt of this server, such as `"qemu:///system"`. Empty: this node is no server."""
    reserve_mb: Annotated[int, msgspec.Meta(ge=0, le=MACHINES_MIB_MAX)] = 1024
    """Memory in MiB that machines do not get. It is for the server's own system, and for what QEMU takes beside the
    memory of the guests."""
    cores: Annotated[int, msgspec.Meta(ge=0, le=65_536)] = 0
    """Cores that all machines together may have. 0: all cores of the hardware."""
    disk_mb: Annotated[int, msgspec.Meta(ge=0, le=MACHINES_MIB_MAX)] = 0
    """Local disk in MiB that all machines together may have. 0: machines have no local disk."""
    slots: Annotated[int, msgspec.Meta(ge=1, le=1024)] = 64
    """How many machines may be on at the same time."""
    mhz: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 0
    """The speed of the processors. Machines start on the fastest server with room. 0: the speed that libvirt
    reports."""
    batch: Literal["", "gridengine", "slurm"] = ""
    """The batch system of the queue's node, which runs its qmaster or slurmctld. Empty: this node is not the queue's
    node, and decides nothing about machines."""
    batch_environment: Annotated[tuple[str, ...], msgspec.Meta(max_length=ELASTIC_ENTRIES_MAX)] = ()
    """Environment of the commands of the batch system, such as
    `["SGE_ROOT=/var/lib/gridengine", "SGE_CELL=default"]`."""
    key: str = ""
    """The private SSH key with which the queue's node signs orders to servers. The operators file of the servers has
    it with `namespaces="subord.machines"`, and their policy allows its operator `machines` as `steps`."""


class TransferConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What this node does for `subord transfer` (docs/transfer.md): it may be the transfer host, where jobs leave for
    another cluster and come from it. Daemon and agent read it at their start."""

    batch: Literal["", "gridengine", "slurm"] = ""
    """The batch system whose commands this node has; they run as its manager. Empty: this node is no transfer
    host."""
    batch_environment: Annotated[tuple[str, ...], msgspec.Meta(max_length=ELASTIC_ENTRIES_MAX)] = ()
    """For the commands of the batch system, such as `["SGE_ROOT=/var/lib/gridengine", "SGE_CELL=default"]`."""
    key: str = "/etc/subord/transfer.key"
    """Path of the file with the private key and the certificate of the link, which `subord transfer key` makes. It
    has mode 0600."""
    listen: str = ":9720"
    """`"ADDRESS:PORT"` where this node listens for the transfer host of the other cluster. Without an address: at
    all addresses of the node. Empty: it does not listen, so jobs can leave, and none comes."""
    socket: str = "/run/subord-transfer/methods.sock"
    """Path of the Unix socket at which the agent serves the methods of the transfer queue, at most 107 bytes. Every
    user may connect; the kernel tells the agent which one it is."""


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """The checked configuration of one daemon."""

    cluster: Settings
    port: int
    node: NodeConfig
    agent: AgentConfig = AgentConfig()
    ledger: LedgerConfig = LedgerConfig()
    blobs: BlobsConfig = BlobsConfig()
    metrics: MetricsConfig = MetricsConfig()
    shares: SharesConfig = SharesConfig()
    elastic: ElasticConfig = ElasticConfig()
    machines: MachinesConfig = MachinesConfig()
    transfer: TransferConfig = TransferConfig()
    key_file: str
    """Path of the key ring; empty: nothing is sealed."""
    insecure: bool
    host_authorities: str = ""
    """Path of the authorities for identities; empty: none."""
    source: str
    """Path of the file as given; empty: there was none."""
    network_file: str = ""
    """Path of the host list as given; empty: the network was given directly."""
    expect: str = ""
    """The expected members as given."""
    names: Mapping[str, str] = {}
    """Names by address, as in the host list; for display only."""
    assignments: tuple[str, ...] = ()
    """The `--set` texts, which override the file, also on a reload."""


TABLES: dict[str, type[msgspec.Struct]] = {
    "cluster": ClusterConfig,
    "node": NodeConfig,
    "agent": AgentConfig,
    "ledger": LedgerConfig,
    "blobs": BlobsConfig,
    "metrics": MetricsConfig,
    "shares": SharesConfig,
    "elastic": ElasticConfig,
    "machines": MachinesConfig,
    "transfer": TransferConfig,
}


def listener_of(text: str) -> tuple[str, int] | None:
    """(address, port) of `[::1]:9717`, ("", 9717) of `:9717`; None: not of the form ADDRESS:PORT."""
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
