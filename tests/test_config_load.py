"""Configurations: errors with their line, the values of accepted keys, reload and changes."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from loops import over
from msgspec.structs import replace

from subord.cli import position
from subord.client import options
from subord.config.load import RELOADABLE, changes, dotted, load, reload, taken_over
from subord.config.schema import TABLES, Config, NodeConfig
from subord.config.source import FILE_BYTES_MAX, ConfigError
from subord.config.validate import keys_of
from subord.core.address.network import Network

REPOSITORY = Path(__file__).parents[1]
SHORTEST = '[cluster]\nnetwork = "10.0.0.0/24"\n'
WHOLE = "a whole number from 2 to 1024"


@pytest.fixture(autouse=True)
def _in_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def written(text: str | bytes) -> str:
    Path("subord.toml").write_bytes(text if isinstance(text, bytes) else text.encode())
    return "subord.toml"


def complaint(path: str | None, *assignments: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load(path, assignments)
    text = str(caught.value)
    assert text.isprintable(), "an error is one line"
    return text


def test_the_shortest_file_has_the_documented_defaults() -> None:
    config = load(written(SHORTEST))
    assert config.cluster.network == Network.parse("10.0.0.0/24")
    assert (config.cluster.fanout, config.cluster.guest_slots, config.port) == (8, 8, 7117)
    assert (config.cluster.mapping, config.cluster.numbering_name) == ("ip", "complete")
    assert config.cluster.timing_name == "lan"
    assert config.node == NodeConfig()
    assert (config.key_file, config.insecure) == ("", False)
    assert config.node.control_socket == options.SOCKET
    assert (config.source, config.assignments) == ("subord.toml", ())


def test_every_key_is_taken_over() -> None:
    config = load(
        written(
            """
            [cluster]
            name = "site-7"
            network = ["10.0.5.10-10.0.5.60", "10.0.7.1"]
            fanout = 2
            guest_slots = 3
            mapping = "ip"
            numbering = "paper"
            timing = "wan"
            port = 7000
            key_file = "/etc/cluster.key"
            [node]
            operators = "/etc/allowed_signers"
            interface = "eth0"
            address = "10.0.7.1"
            control_socket = "/tmp/c.sock"
            metrics = "[::1]:9717"
            metrics_certificate = "/etc/metrics.pem"
            web_names = ["node1.example.org"]
            certificate = "/etc/node.pem"
            authorities = "/etc/site.pem"
            seeds = ["10.0.7.1", "login1"]
            announce = true
            full_scan = true
            performance = 0
            performance_file = "jobs"
            performance_url = ""
            performance_metric = 'jobs_total{state="done"}'
            performance_half_life_s = 60
            state_directory = "/tmp/state"
            event_log = "-"
            grace_s = 1
            log_level = "debug"
            log_format = "json"
            [agent]
            socket = "/tmp/a.sock"
            policy = "/etc/policy.toml"
            state_directory = "/tmp/agent"
            idle_s = 60
            daemon_user = "tree"
            account_exec = true
            [ledger]
            sink = "/tmp/records"
            spool_bytes_max = 100000
            [blobs]
            cache_bytes_max = 2000000
            [metrics]
            publish = false
            urls = ["http://127.0.0.1:9100/metrics"]
            text_directory = "/tmp/texts"
            program_directory = "/tmp/programs"
            [shares]
            classes = ["web=/apps/web-*", "rest=/apps/*"]
            queues = ["web=/tmp/queue"]
            [elastic]
            batch = "slurm"
            batch_environment = ["SLURM_CONF=/tmp/slurm.conf"]
            batch_daemon = ["slurmd", "-Z"]
            batch_daemon_stop = ["pkill", "slurmd"]
            key = "/etc/elastic"
            kinds = ["small=4", "large=16"]
            start = ["/tmp/start"]
            stop = ["/tmp/stop"]
            list = ["/tmp/list"]
            wait_s = 60
            hosts_file = "/tmp/hosts"
            exports_file = "/tmp/exports"
            [machines]
            uri = "qemu:///system"
            reserve_mb = 2048
            cores = 30
            disk_mb = 100000
            slots = 20
            mhz = 3000
            batch = "gridengine"
            batch_environment = ["SGE_CELL=default"]
            key = "/etc/machines"
            [transfer]
            batch = "gridengine"
            batch_environment = ["SGE_CELL=north"]
            key = "/etc/link"
            listen = "10.0.5.10:9999"
            socket = "/tmp/methods"
            """
        )
    )
    expected = {
        "cluster.network": "10.0.5.10-10.0.5.60,10.0.7.1",
        "cluster.network_file": "",
        "cluster.expect": "",
        "cluster.name": "site-7",
        "cluster.fanout": 2,
        "cluster.guest_slots": 3,
        "cluster.mapping": "ip",
        "cluster.numbering": "paper",
        "cluster.timing": "wan",
        "cluster.port": 7000,
        "cluster.key_file": "/etc/cluster.key",
        "cluster.host_authorities": "",
        "cluster.insecure": False,
        "node.operators": "/etc/allowed_signers",
        "node.interface": "eth0",
        "node.address": "10.0.7.1",
        "node.control_socket": "/tmp/c.sock",
        "node.metrics": "[::1]:9717",
        "node.metrics_certificate": "/etc/metrics.pem",
        "node.web_names": ("node1.example.org",),
        "node.certificate": "/etc/node.pem",
        "node.authorities": "/etc/site.pem",
        "node.seeds": ("10.0.7.1", "login1"),
        "node.announce": True,
        "node.full_scan": True,
        "node.performance": 0.0,
        "node.performance_file": "jobs",
        "node.performance_url": "",
        "node.performance_metric": 'jobs_total{state="done"}',
        "node.performance_half_life_s": 60.0,
        "node.state_directory": "/tmp/state",
        "node.event_log": "-",
        "node.grace_s": 1.0,
        "node.log_level": "debug",
        "node.log_format": "json",
        "agent.socket": "/tmp/a.sock",
        "agent.policy": "/etc/policy.toml",
        "agent.state_directory": "/tmp/agent",
        "agent.idle_s": 60.0,
        "agent.daemon_user": "tree",
        "agent.account_exec": True,
        "ledger.sink": "/tmp/records",
        "ledger.spool_bytes_max": 100_000,
        "blobs.cache_bytes_max": 2_000_000,
        "metrics.publish": False,
        "metrics.urls": ("http://127.0.0.1:9100/metrics",),
        "metrics.text_directory": "/tmp/texts",
        "metrics.program_directory": "/tmp/programs",
        "shares.classes": ("web=/apps/web-*", "rest=/apps/*"),
        "shares.queues": ("web=/tmp/queue",),
        "elastic.batch": "slurm",
        "elastic.batch_environment": ("SLURM_CONF=/tmp/slurm.conf",),
        "elastic.batch_daemon": ("slurmd", "-Z"),
        "elastic.batch_daemon_stop": ("pkill", "slurmd"),
        "elastic.key": "/etc/elastic",
        "elastic.kinds": ("small=4", "large=16"),
        "elastic.start": ("/tmp/start",),
        "elastic.stop": ("/tmp/stop",),
        "elastic.list": ("/tmp/list",),
        "elastic.wait_s": 60.0,
        "elastic.hosts_file": "/tmp/hosts",
        "elastic.exports_file": "/tmp/exports",
        "machines.uri": "qemu:///system",
        "machines.reserve_mb": 2048,
        "machines.cores": 30,
        "machines.disk_mb": 100_000,
        "machines.slots": 20,
        "machines.mhz": 3000,
        "machines.batch": "gridengine",
        "machines.batch_environment": ("SGE_CELL=default",),
        "machines.key": "/etc/machines",
        "transfer.batch": "gridengine",
        "transfer.batch_environment": ("SGE_CELL=north",),
        "transfer.key": "/etc/link",
        "transfer.listen": "10.0.5.10:9999",
        "transfer.socket": "/tmp/methods",
    }
    assert dotted(config) == expected
    assert config.node.metrics_listener == ("::1", 9717)
    assert list(expected) == [f"{table}.{key}" for table, kind in TABLES.items() for key in keys_of(kind)]


def test_a_key_file_lies_beside_the_configuration() -> None:
    Path("etc").mkdir()
    Path("etc/subord.toml").write_text(SHORTEST + 'key_file = "cluster.key"')
    assert load("etc/subord.toml").key_file == "etc/cluster.key"
    assert load("etc/subord.toml", ["cluster.key_file=/x/cluster.key"]).key_file == "/x/cluster.key"


def test_a_node_without_a_key_sets_insecure() -> None:
    assert load(written(SHORTEST + "insecure = true")).insecure


def test_guest_slots_follow_the_fanout() -> None:
    assert load(written(SHORTEST + "fanout = 3")).cluster.guest_slots == 3


@over(
    ("text", "expected"),
    [
        (SHORTEST + "fan_out = 2", 'subord.toml:3: unknown key "fan_out" in [cluster]; did you mean "fanout"?'),
        (SHORTEST + "FANOUT = 2", 'subord.toml:3: unknown key "FANOUT" in [cluster]; did you mean "fanout"?'),
        (SHORTEST + "guest-slots = 2", ':3: unknown key "guest-slots" in [cluster]; did you mean "guest_slots"?'),
        (SHORTEST + 'address = "10.0.0.1"', ':3: unknown key "address" in [cluster]; it belongs in [node]'),
        (SHORTEST + "colour = 1", ':3: unknown key "colour" in [cluster]; its keys are network, network_file,'),
        (SHORTEST + '"a\\nb" = 1', ':3: unknown key "a\\nb" in [cluster]; '),
        (SHORTEST + "[nodes]\n", 'subord.toml:3: unknown table "nodes"; did you mean [node]?'),
        (SHORTEST + "[security]\n", ':3: unknown table "security"; the tables are [cluster], [node]'),
        ("fanout = 2\n" + SHORTEST, ':1: unknown key "fanout" outside the tables; it belongs in [cluster]'),
        ("x = 2\n" + SHORTEST, ':1: unknown key "x" outside the tables; the tables are [cluster], [node]'),
        ("cluster = 3", "subord.toml:1: [cluster] must be a table of keys, not 3"),
        ("[[cluster]]\nfanout = 2", "subord.toml:1: [cluster] must be a table of keys, not ["),
        ("", 'subord.toml: key "network" is missing in [cluster]; '),
        ("[cluster]\nfanout = 2", 'subord.toml: key "network" is missing in [cluster]; '),
        ('[cluster]\nnetwork_file = ""', 'subord.toml: key "network" is missing in [cluster]; '),
        (SHORTEST + 'network_file = "x"', ":3: network_file and network are both given; remove one of them"),
        ("[cluster]\nnetwork_file = 3", ":2: network_file must be a string, not 3"),
        (
            SHORTEST + 'insecure = true\nkey_file = "x"',
            "subord.toml:3: insecure and key_file are both given; remove one of them",
        ),
        (SHORTEST + "insecure = 1", ":3: insecure must be true or false, not 1"),
        (SHORTEST + "key_file = 1", ":3: key_file must be a string, not 1"),
        (SHORTEST + 'key_file = "a\\u0000b"', ":3: key_file must not contain control characters"),
        (
            SHORTEST + 'key_file = "x"\n[node]\ncertificate = "x"',
            ":5: certificate needs node.authorities, the certificates of the trusted authorities",
        ),
        (
            SHORTEST + '[node]\ncertificate = "x"\nauthorities = "x"',
            ":4: certificate needs cluster.key_file, which seals the datagrams",
        ),
        (
            SHORTEST + '[node]\nmetrics_certificate = "x"',
            ":4: metrics_certificate needs node.metrics, the address to serve",
        ),
        (
            SHORTEST + '[machines]\nuri = "qemu"',
            ':4: uri must be one of libvirt, e.g. "qemu:///system", not "qemu"',
        ),
        (SHORTEST + '[transfer]\nlisten = "x"', ':4: listen must be ADDRESS:PORT, e.g. ":9720", not "x"'),
        (SHORTEST + "fanout = 1", f"subord.toml:3: fanout must be {WHOLE}, not 1"),
        (SHORTEST + "fanout = 1025", f":3: fanout must be {WHOLE}, not 1025"),
        (SHORTEST + 'fanout = "two"', f':3: fanout must be {WHOLE}, not the string "two"'),
        (SHORTEST + "fanout = 2.0", f":3: fanout must be {WHOLE}, not 2.0"),
        (SHORTEST + "fanout = true", f":3: fanout must be {WHOLE}, not true"),
        (SHORTEST + "fanout = 1979-05-27", f':3: fanout must be {WHOLE}, not "1979-05-27"'),
        (SHORTEST + "guest_slots = 0", ":3: guest_slots must be a whole number from 1 to 1024, not 0"),
        (SHORTEST + "port = 65536", ":3: port must be a whole number from 1 to 65535, not 65536"),
        (
            SHORTEST + 'mapping = "rtt"',
            ':3: mapping must be one of "ip", "performance", "latency", not the string "rtt"',
        ),
        (SHORTEST + 'numbering = "full"', ':3: numbering must be one of "complete", "paper", not the string "full"'),
        (SHORTEST + 'timing = "fast"', ':3: timing must be one of "lan", "wan", "lab", not the string "fast"'),
        ("[cluster]\nnetwork = 3", ":2: network must be a string or a list of strings, not 3"),
        ('[cluster]\nnetwork = ["10.0.0.1", 3]', ':2: network must be a string or a list of strings, not ["10.0'),
        ("[cluster]\nnetwork = []", "subord.toml:2: network: the network is empty"),
        ('[cluster]\n\nnetwork = "10.0.0.1/24"', "subord.toml:3: network: '10.0.0.1/24' has host bits set"),
        (SHORTEST + '[node]\naddress = "10.0.1.1"', ":4: address 10.0.1.1 lies outside the network 10.0.0.0/24"),
        (SHORTEST + '[node]\naddress = "node1"', ':4: address must be an IP address, not "node1"'),
        (SHORTEST + '[node]\nmetrics = "localhost:1"', ':4: metrics must be ADDRESS:PORT, e.g. "127.0.0.1:9717"'),
        (
            SHORTEST + '[node]\nlog_level = "loud"',
            ':4: log_level must be one of "debug", "info", "warning", "error",',
        ),
        (SHORTEST + "[node]\ngrace_s = nan", ":4: grace_s must be a number from 0 to 60, not nan"),
        (SHORTEST + "[node]\ngrace_s = -1", ":4: grace_s must be a number from 0 to 60, not -1"),
        (SHORTEST + '[node]\nevent_log = "a\\nb"', ':4: event_log must not contain control characters, as "a\\nb"'),
        (SHORTEST + '[node]\ncontrol_socket = ""', ":4: control_socket must be a path of 1 to 107 bytes"),
        (SHORTEST + f'[node]\ncontrol_socket = "{"x" * 108}"', ":4: control_socket must be a path of 1 to 107"),
        (SHORTEST + '[node]\nseeds = "a"', ':4: seeds must be a list of at most 64 strings, not the string "a"'),
        (SHORTEST + "[node]\nseeds = [1]", ":4: seeds must be a list of at most 64 strings, not [1]"),
        (SHORTEST + f"[node]\nseeds = {['a'] * 65}", ":4: seeds must be a list of at most 64 strings, not ["),
        (
            SHORTEST + '[node]\nseeds = [\n"a",\n"10.0.7"]',
            ':4: seeds must be IP addresses and host names, not "10.0.7"',
        ),
        (
            SHORTEST + '[node]\nseeds = ["10.0.0.0/24"]',
            ':4: seeds must be IP addresses and host names, not "10.0.0.0/',
        ),
        (
            SHORTEST + '[node]\nseeds = ["node[1-3]"]',
            ':4: seeds must be IP addresses and host names, not "node[1-3]"',
        ),
        (SHORTEST + '[node]\nseeds = [""]', ':4: seeds must be IP addresses and host names, not ""'),
        (SHORTEST + '[node]\nseeds = ["fe80::1%eth0"]', ":4: seeds must be IP addresses and host names, not"),
        (SHORTEST + '[node]\nannounce = "yes"', ':4: announce must be true or false, not the string "yes"'),
        (SHORTEST + "[node]\nannounce = 1", ":4: announce must be true or false, not 1"),
        (
            '[cluster]\nnetwork = "10.0.0.0/19"\n[node]\nfull_scan = true',
            ":4: full_scan needs a network of at most 4096 addresses, not 8190",
        ),
        (SHORTEST + "fanout = = 2\n", "subord.toml:3: not valid TOML: Invalid value (column 10)"),
        (SHORTEST + "fanout = [\n", "subord.toml: not valid TOML: Invalid value (at end of document)"),
        (
            SHORTEST + "fanout = 1\nfanout = 2\n",
            "subord.toml:4: not valid TOML: Cannot overwrite a value (column 11)",
        ),
        ("a = " + "[" * 5000, "subord.toml: not valid TOML: a number is too long, or brackets are nested too deep"),
        ("a = " + "9" * 5000, "subord.toml: not valid TOML: a number is too long, or brackets are nested too deep"),
        (b"[cluster]\nnetwork = '\xff'", "subord.toml:2: not UTF-8 text; save the file in UTF-8"),
        (b"#" * (FILE_BYTES_MAX + 1), "subord.toml: longer than 1000000 bytes; this is not a subord configuration"),
    ],
)
def test_an_error_names_the_line(text: str | bytes, expected: str) -> None:
    assert expected in complaint(written(text))


def test_a_byte_order_mark_does_no_harm() -> None:
    assert load(written(b"\xef\xbb\xbf" + SHORTEST.encode())).cluster.fanout == 8


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("missing.toml", "missing.toml: cannot read the configuration: No such file or directory"),
        (".", ".: cannot read the configuration: Is a directory"),
        ("a\0b", "cannot read the configuration: embedded null byte"),
    ],
)
def test_what_cannot_be_read_is_a_plain_error(path: str, expected: str) -> None:
    assert expected in complaint(path)


def test_metrics_and_nodes_do_not_share_a_port() -> None:
    assert "which is cluster.port: choose another" in complaint(written(SHORTEST + '[node]\nmetrics = ":7117"'))
    assert load(written(SHORTEST + '[node]\nmetrics = "127.0.0.1:7117"')).node.metrics_listener


@over(
    ("text", "listener"),
    [
        ("127.0.0.1:9717", ("127.0.0.1", 9717)),
        ("0.0.0.0:1", ("0.0.0.0", 1)),
        ("[::1]:65535", ("::1", 65535)),
        (":9717", ("", 9717)),
        ("", None),
    ],
)
def test_a_metrics_address_is_taken_apart(text: str, listener: tuple[str, int] | None) -> None:
    assert load(written(SHORTEST + f'[node]\nmetrics = "{text}"')).node.metrics_listener == listener


@over(
    "text", ["9717", ":", ":0", ":x", "127.0.0.1", "127.0.0.1:", "127.0.0.1:0", "127.0.0.1:65536", "127.0.0.1:+1",
             "::1:9717", "[127.0.0.1]:1", "[::1]", "[::1:1", "::1]:1", "127.0.0.1:٣"]
)  # fmt: skip
def test_a_wrong_metrics_address_is_refused(text: str) -> None:
    assert "metrics must be ADDRESS:PORT" in complaint(written(SHORTEST + f'[node]\nmetrics = "{text}"'))


@over(
    ("assignment", "name", "value"),
    [
        ("cluster.fanout=2", "cluster.fanout", 2),
        (" cluster.fanout = 2 ", "cluster.fanout", 2),
        ("cluster.network=10.1.0.0/16", "cluster.network", "10.1.0.0/16"),
        ('cluster.network=["10.0.0.1", "10.0.0.3"]', "cluster.network", "10.0.0.1,10.0.0.3"),
        ("node.interface=eth0", "node.interface", "eth0"),
        ("node.interface='eth0'", "node.interface", "eth0"),
        ("node.metrics=[::1]:9717", "node.metrics", "[::1]:9717"),
        ("node.event_log=/tmp/a=b#c", "node.event_log", "/tmp/a=b#c"),
        ("node.state_directory=", "node.state_directory", ""),
        ("node.grace_s=1", "node.grace_s", 1.0),
        ('node.seeds=["a", "fd00::1"]', "node.seeds", ("a", "fd00::1")),
        ("node.announce=true", "node.announce", True),
        ("cluster.host_authorities=/x", "cluster.host_authorities", "/x"),
        ("cluster.insecure=true", "cluster.insecure", True),
    ],
)
def test_an_assignment_wins_over_the_file(assignment: str, name: str, value: object) -> None:
    given = written(SHORTEST + 'fanout = 5\n[node]\nstate_directory = "/x"')
    assert dotted(load(given, [assignment]))[name] == value


def test_the_last_assignment_of_a_key_wins() -> None:
    assert load(written(SHORTEST), ["cluster.fanout=2", "cluster.fanout=3"]).cluster.fanout == 3


@over(
    ("assignment", "expected"),
    [
        ("cluster", "--set cluster: expected TABLE.KEY=VALUE, e.g. --set cluster.fanout=2"),
        ("fanout=2", "--set fanout=2: expected TABLE.KEY=VALUE"),
        (".fanout=2", "--set .fanout=2: expected TABLE.KEY=VALUE"),
        ("=2", "--set =2: expected TABLE.KEY=VALUE"),
        ("cluster.fan=2", '--set cluster.fan=2: unknown key "fan" in [cluster]; did you mean "fanout"?'),
        ("cluster.a.b=2", '--set cluster.a.b=2: unknown key "a.b" in [cluster]; its keys are'),
        ("nod.x=2", '--set nod.x=2: unknown table "nod"; did you mean [node]?'),
        ("cluster.fanout=two", f'--set cluster.fanout=two: fanout must be {WHOLE}, not the string "two"'),
        ('cluster.fanout="2', '--set cluster.fanout="2: the value is not valid TOML: Unterminated string'),
        ("cluster.network=x", "--set cluster.network=x: network: 'x' is no IP address"),
        ("cluster.fanout=2\nx=3", "must be a whole number"),
    ],
)
def test_an_error_names_the_wrong_assignment(assignment: str, expected: str) -> None:
    assert expected in complaint(written(SHORTEST), assignment)


def test_no_file_at_all() -> None:
    assert load(None, ["cluster.network=10.0.0.0/24"]).source == ""
    assert "cluster.network is missing; set the addresses" in complaint(None)


def test_changes_are_sorted_by_what_they_need() -> None:
    old = load(written(SHORTEST))
    assert changes(old, old) == ((), ())
    text = '[cluster]\nnetwork = "10.0.0.0/16"\nfanout = 3\nport = 7000\n'
    new = load(written(text + '[node]\nlog_level = "debug"\ngrace_s = 1.0\nmetrics = "127.0.0.1:1"'))
    reloadable, needs_restart = changes(old, new)
    assert reloadable == ("cluster.network", "node.grace_s", "node.log_level")
    expected = ("cluster.fanout", "cluster.guest_slots", "cluster.port", "node.metrics")
    assert needs_restart == expected


def test_every_setting_takes_part_in_changes() -> None:
    """A setting that `dotted` lacks would change without a notice to the operator."""
    old = load(written(SHORTEST))
    for name in msgspec.structs.asdict(old.cluster).keys() - {"expected"}:  # `expect` as read
        other: object = Network.parse("10.0.0.0/16") if name == "network" else "other"
        both = changes(old, replace(old, cluster=replace(old.cluster, **{name: other})))
        assert (bool(both[0]), bool(both[1])) == (name == "network", name != "network"), name
    for name in ("port", "key_file", "insecure", "expect"):
        both = changes(old, replace(old, **{name: "other"}))
        assert both == ((), (f"cluster.{name}",))
    assert changes(old, replace(old, network_file="other")) == (("cluster.network_file",), ())
    for name in msgspec.structs.asdict(old.node):
        both = changes(old, replace(old, node=replace(old.node, **{name: "other"})))
        assert both == (((f"node.{name}",), ()) if f"node.{name}" in RELOADABLE else ((), (f"node.{name}",)))


def test_what_is_reloadable_is_taken_over_and_nothing_else() -> None:
    old = load(written(SHORTEST))
    text = 'fanout = 3\nport = 7000\n[node]\nlog_level = "debug"\ngrace_s = 1.0\nseeds = ["a"]\nannounce = true\n'
    now = taken_over(old, replace(load(written(SHORTEST + text)), network_file="list"))
    expected = {"cluster.network_file": "list", "node.log_level": "debug", "node.grace_s": 1.0, "node.seeds": ("a",)}
    assert dotted(now) == {**dotted(old), **expected}


def test_reload_reads_the_same_sources_again() -> None:
    old: Config = load(written(SHORTEST), ["cluster.fanout=2"])
    written(SHORTEST + 'fanout = 9\n[node]\nlog_level = "debug"')
    new = reload(old)
    assert (new.cluster.fanout, new.node.log_level) == (2, "debug")
    assert reload(load(None, ["cluster.network=10.0.0.0/24"])).cluster.fanout == 8


def test_the_example_shows_every_key_with_its_default() -> None:
    path = REPOSITORY / "deploy" / "subord.toml"
    assert dotted(load(str(path))) == {
        **dotted(load(written(SHORTEST))),
        "cluster.key_file": "/etc/subord/cluster.key",  # the only other one that has to be set
    }
    uncommented = "\n".join(
        line[1:] if line.startswith("#") and line[1:2].isalpha() else line
        for line in path.read_text(encoding="utf-8").splitlines()
    )
    shown = msgspec.toml.decode(uncommented)
    assert {table: list(keys) for table, keys in shown.items()} == {
        table: list(keys_of(kind)) for table, kind in TABLES.items()
    }
    assert dotted(load(written(uncommented))) == dotted(load(str(path)))


def test_the_command_line_has_the_same_bounds_without_importing_them() -> None:
    for fanout in (position.FANOUT_MIN, position.FANOUT_MAX):
        assert load(written(SHORTEST + f"fanout = {fanout}")).cluster.fanout == fanout
    for fanout in (position.FANOUT_MIN - 1, position.FANOUT_MAX + 1):
        assert "fanout must be" in complaint(written(SHORTEST + f"fanout = {fanout}"))


@over(
    ("line", "words"),
    [
        ('kinds = ["small"]', "such as small=4"),
        ('kinds = ["Small=4"]', "such as small=4"),
        ('kinds = ["small=0"]', "such as small=4"),
        ('kinds = ["small=4", "small=5"]', 'has "small" twice'),
        ('hosts_file = "hosts"', "must be a whole path"),
        ('exports_file = "exports"', "must be a whole path"),
        ('start = ["/tmp/start"]', "go together"),
        ('stop = ["/tmp/stop"]', "go together"),
        ("wait_s = 9", "wait_s"),
        ('batch = "torque"', "batch"),
    ],
)
def test_a_wrong_key_of_elastic_is_refused(line: str, words: str) -> None:
    with pytest.raises(ConfigError) as error:
        load(written(f"{SHORTEST}insecure = true\n[elastic]\n{line}"))
    assert words in str(error.value)


def test_a_network_that_the_wire_cannot_number_is_refused() -> None:
    assert load(None, ["cluster.network=fd00::/64"]).cluster.network.size < 1 << 64
    with pytest.raises(ConfigError, match="network has more than 2\\^64 addresses"):
        load(None, ["cluster.network=fd00::/48"])
