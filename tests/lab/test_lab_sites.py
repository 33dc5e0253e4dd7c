"""Sites with a distance between them: the file, what becomes of a frame, and real labs whose wires take time."""

import itertools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from loops import over

from .lab_helpers import FAKE, REPOSITORY, WAIT_S, need_relay, netlab, refused, run_lab, traces, wait_until

pytestmark = pytest.mark.lab(few=True)

FOUR = REPOSITORY / "netns-lab" / "sites" / "four.toml"
TWO = 'sites = [{ name = "a" }, { name = "b" }]\n'
LINK = "link = { rtt_ms = 20 }\n"


# -- the file -----------------------------------------------------------------------------------------------------


def parsed(text, nodes=None):
    """The sites of so many nodes 10.0.0.1, ..., or the topology alone."""
    topology = netlab("topology.sites").parsed(text, Path("it.toml"))
    return topology if nodes is None else topology.place([f"10.0.0.{host}" for host in range(1, nodes + 1)])


def test_the_file_that_ships():
    topology = netlab("topology.sites").read_sites(FOUR)
    sites = topology.place([f"10.0.0.{host}" for host in range(1, 11)])
    rtts_ms = sorted(2e3 * link.delay_s for link in sites.between.values())
    assert (sites.names, topology.nodes) == (("north", "east", "south", "west"), None)
    assert len(sites.links) == 6 == len(set(rtts_ms))
    assert (rtts_ms[0], rtts_ms[-1]) == pytest.approx((20, 80))
    assert [len(members) for members in sites.members] == [3, 3, 2, 2]
    assert [sites.name_of(f"10.0.0.{host}") for host in (1, 2, 3, 4)] == ["north", "east", "south", "west"]


def test_what_a_link_leaves_out_is_the_default():
    given = """
        link = { delay_ms = 5, loss = 0.5, mbit_per_s = 2, queue_bytes_max = 9 }
        sites = [{ name = "a" }, { name = "b" }, { name = "c" }]
        links = [{ between = ["c", "a"], rtt_ms = 30 }, { between = ["b", "c"], loss = 0 }]
    """
    Link = netlab("topology.sites").Link  # noqa: N806
    rest = {"bits_per_s": 2e6, "queue_bytes_max": 9}
    assert parsed(given).links == (
        (0, 1, Link(delay_s=0.005, loss=0.5, **rest)),
        (0, 2, Link(delay_s=0.015, loss=0.5, **rest)),
        (1, 2, Link(delay_s=0.005, loss=0.0, **rest)),
    )


@over(
    ("sites", "nodes", "counts"),
    [
        ([{}, {}], 7, [4, 3]),
        ([{"share": 1}, {"share": 2}], 9, [3, 6]),
        ([{"share": 1}, {"share": 2}], 10, [3, 7]),
        ([{"nodes": 2}, {"share": 1}, {}], 10, [2, 4, 4]),
        ([{"nodes": 2}, {"nodes": 3}], 5, [2, 3]),
    ],
)
def test_how_many_nodes_each_site_has(sites, nodes, counts):
    text = LINK + "".join(
        f'[[sites]]\nname = "s{number}"\n' + "".join(f"{key} = {value}\n" for key, value in site.items())
        for number, site in enumerate(sites)
    )
    assert [len(members) for members in parsed(text, nodes).members] == counts


@over(
    ("counts", "order", "dealt"),
    [
        ([2, 3], "contiguous", "00111"),
        ([2, 2], "interleaved", "0101"),
        ([1, 3], "interleaved", "1011"),
        ([2, 6], "interleaved", "10111011"),
        ([3, 2, 1], "interleaved", "010210"),
    ],
)
def test_which_address_is_where(counts, order, dealt):
    assert "".join(map(str, netlab("topology.sites").assigned(counts, order))) == dealt


@pytest.mark.parametrize("nodes", [4, 17, 300, 1023])
def test_interleaved_sites_are_of_one_size_and_neighbours_never_at_one(nodes):
    counts = [nodes // 4 + (site < nodes % 4) for site in range(4)]
    found = netlab("topology.sites").assigned(counts, "interleaved")
    assert [found.count(site) for site in range(4)] == counts
    assert all(one != other for one, other in itertools.pairwise(found))


@over(
    ("text", "sentence"),
    [
        ("sites = 3", "`sites` must be a list of tables, not 3"),
        (LINK, "`sites` is missing: a list of tables"),
        (TWO + "nodes = 3", "no key `nodes`; keys: sites, addresses, link, links"),
        (TWO + LINK + 'addresses = "mixed"', '`addresses` must be "contiguous" or "interleaved"'),
        (LINK + 'sites = [{ name = "a" }]', "1 sites: a file has 2 to 16 of them"),
        (LINK + 'sites = [{ name = "a" }, { name = "a" }]', "two sites have the name `a`"),
        (LINK + 'sites = [{ name = "a b" }, { name = "b" }]', "site 1: `name` must be at most 32 letters"),
        (LINK + 'sites = [{ name = "a" }, { name = "b", nodes = 0 }]', "site 2: `nodes` must be a whole number"),
        (LINK + 'sites = [{ name = "a", nodes = 1, share = 2 }]', "site 1: give `nodes` or `share`, not both"),
        (TWO, "nothing is said of `a` and `b`"),
        (TWO + "link = { loss = 0.1 }", "link: give either `delay_ms`, one way, or `rtt_ms`"),
        (TWO + "link = { rtt_ms = 1, delay_ms = 1 }", "link: give either `delay_ms`, one way, or `rtt_ms`"),
        (TWO + "link = { rtt_ms = nan }", "link: `rtt_ms` must be a number from 0 to 60000, not nan"),
        (TWO + "link = { rtt_ms = 1, loss = 2 }", "link: `loss` must be a number from 0 to 1, not 2"),
        (TWO + 'links = [{ between = ["a"], rtt_ms = 1 }]', "link 1: `between` must be a list of the names of two"),
        (TWO + 'links = [{ between = ["a", "c"], rtt_ms = 1 }]', 'no site has the name "c"; sites: a, b'),
        (TWO + 'links = [{ between = ["b", "b"], rtt_ms = 1 }]', "it leads from `b` to itself"),
        (TWO + 'links = [{between=["a","b"],rtt_ms=1}, {between=["b","a"],rtt_ms=2}]', "between the same two sites"),
        (TWO + "link = [", "no TOML"),
    ],
)
def test_refused_files(tmp_path, text, sentence):
    path = tmp_path / "it.toml"
    path.write_text(text)
    with pytest.raises(netlab("errors").LabError) as caught:
        netlab("topology.sites").read_sites(path)
    assert str(caught.value).startswith(f"--sites {path}: ")
    assert sentence in str(caught.value)
    assert str(caught.value).endswith(". Nothing was started.")


@over(
    ("arguments", "text", "sentence"),
    [
        (["--nodes", 1], TWO + LINK, "of 1 nodes none is left for the site `b`: give more --nodes. Nothing was"),
        (
            ["--nodes", 3],
            LINK + 'sites = [{name="a", nodes=1}, {name="b", nodes=1}]',
            "have 2 nodes, and the lab has 3",
        ),
        (["--nodes", 3], LINK + 'sites = [{name="a", nodes=4}, {name="b"}]', "4 nodes alone, and the lab has 3"),
        ([], TWO + LINK, "How many nodes"),
        (["--nodes", 3, "--layout", "routed"], TWO + LINK, "leave one out. Nothing was started."),
        (
            ["--nodes", 3],
            None,
            "it.toml: No such file or directory; give a file such as netns-lab/sites/four.toml. Nothing was",
        ),
    ],
)
def test_refused_labs(tmp_path, arguments, text, sentence):
    path = tmp_path / "it.toml"
    path.unlink(missing_ok=True)
    if text is not None:
        path.write_text(text)
    result = refused("up", "--sites", path, *arguments)
    assert (result.returncode, len(result.stderr.splitlines())) == (1, 1)
    assert sentence in result.stderr


# -- a frame ------------------------------------------------------------------------------------------------------

SLOW = {"delay_s": 0.5, "bits_per_s": 8000}  # 1,000 bytes a second
PASSAGES = [  # link; free at, bytes, now, draw; passage
    ("delay alone", {"delay_s": 0.5}, (0, 1000, 10, 0.0), ("carried", 10.5, 10)),
    ("lost", {"delay_s": 0.5, "loss": 0.1}, (0, 1000, 10, 0.09), ("lost", 10.5, 10)),
    ("not lost", {"delay_s": 0.5, "loss": 0.1}, (0, 1000, 10, 0.1), ("carried", 10.5, 10)),
    ("all is lost", {"delay_s": 0.5, "loss": 1.0}, (0, 1000, 10, 0.999), ("lost", 10.5, 10)),
    ("takes its time", SLOW, (0, 2000, 10, 0.0), ("carried", 12.5, 12)),
    ("waits its turn", SLOW, (13, 2000, 10, 0.0), ("carried", 15.5, 15)),
    ("what is lost took its time", SLOW | {"loss": 1.0}, (0, 2000, 10, 0.0), ("lost", 12.5, 12)),
    ("the queue is just full", SLOW | {"queue_bytes_max": 4000}, (13, 1000, 10, 0.0), ("carried", 14.5, 14)),
    ("the queue is too full", SLOW | {"queue_bytes_max": 3999}, (13, 1000, 10, 0.0), ("queue_full", 10, 13)),
    ("a free link takes any frame", SLOW | {"queue_bytes_max": 0}, (10, 1000, 10, 0.0), ("carried", 11.5, 11)),
]


@over(("link", "given", "expected"), [pytest.param(*row[1:], id=row[0]) for row in PASSAGES])
def test_passage(link, given, expected):
    assert netlab("topology.wan").passage(netlab("topology.sites").Link(**link), *given) == expected


def wan(link="rtt_ms = 20", **options):
    """Of a site with 10.0.0.1 and 10.0.0.2, and two with one each."""
    sites = parsed(
        f'link = {{ {link} }}\nsites = [{{ name = "a", nodes = 2 }}, {{ name = "b" }}, {{ name = "c" }}]', 4
    )
    return netlab("topology.wan").Wan(sites, lambda: 0.5, **options)


def frame(target, octets=100):
    """From any host, for 10.0.0.`target`, or for all."""
    mac = b"\xff" * 6 if target == "all" else netlab("topology.addresses").hardware_address(f"10.0.0.{target}")
    return mac + bytes(octets - 6)


def counted(one):
    """What was counted on each way, where it was anything: "ab" -> {...}."""
    ways = {way.pop("from") + way.pop("to"): way for way in one.figures()["ways"]}
    return {name: {key: n for key, n in way.items() if n} for name, way in ways.items() if any(way.values())}


def test_frames_go_where_their_host_is_and_broadcasts_to_all_others():
    one = wan()
    one.take(0, frame(3), 1.0)
    one.take(0, frame(2), 1.0)  # for the site itself, whose bridge did not know it yet
    one.take(2, frame("all"), 1.001)
    one.take(1, b"\x02\xee" + bytes(98), 1.002)  # of an unknown node
    assert one.next_at == pytest.approx(1.01)
    assert list(one.due(1.0099)) == []
    assert list(one.due(1.0101)) == [(1, frame(3))]
    assert [site for site, _ in one.due(2.0)] == [0, 1, 0, 2]
    assert one.next_at == float("inf")
    assert one.stayed == 1
    each = {"frames": 1, "bytes": 100}
    assert counted(one) == {"ab": each, "ca": each, "cb": each, "ba": each, "bc": each}
    assert one.figures()["late"] == 4


def test_of_a_cut_site_nothing_arrives_not_even_what_was_under_way():
    one = wan()
    one.take(0, frame(3), 1.0)
    one.cut("b", connected=False)
    one.take(1, frame(1), 1.0)
    one.take(0, frame(4), 1.0)
    assert one.figures()["cut_sites"] == ["b"]
    assert list(one.due(2.0)) == [(2, frame(4))]
    one.cut("b", connected=True)
    one.take(1, frame(1), 2.0)
    assert list(one.due(3.0)) == [(0, frame(1))]
    arrived = {"frames": 1, "bytes": 100}
    assert counted(one) == {"ab": {"cut": 1}, "ac": arrived, "ba": {"cut": 1} | arrived}


def test_whatever_is_dropped_is_counted():
    one = wan("rtt_ms = 20, loss = 0.6")
    one.take(0, frame(3), 1.0)
    assert counted(one) == {"ab": {"lost": 1}}
    one = wan("rtt_ms = 20, mbit_per_s = 0.001, queue_bytes_max = 150")
    for _ in range(3):
        one.take(0, frame(3), 1.0)
    assert (counted(one), one.figures()["under_way"]) == ({"ab": {"queue_full": 2}}, 1)
    one = wan(under_way_max=2)
    for _ in range(3):
        one.take(0, frame(3), 1.0)
    assert len(list(one.due(2.0))) == 2
    assert counted(one) == {"ab": {"frames": 2, "bytes": 200, "no_room": 1}}


def test_wide_edges():
    tree = netlab("eventlog.tree")
    leaders = {"a1": None, "a2": "a1", "b1": "a1", "b2": "b1", "c1": "b2"}
    assert tree.wide_edges(leaders, lambda node: node[0]) == 2
    assert tree.edges_between(leaders, lambda node: node[0]) == {
        ("a", "a"): 1,
        ("b", "a"): 1,
        ("b", "b"): 1,
        ("c", "b"): 1,
    }


# -- real labs ----------------------------------------------------------------------------------------------------

THREE = """
link = { rtt_ms = 30 }
sites = [{ name = "a", nodes = 3 }, { name = "b", nodes = 3 }, { name = "c", nodes = 3 }]
links = [{ between = ["b", "c"], rtt_ms = 12, mbit_per_s = 1 }]
"""
ECHO = """
import socket, sys
udp = socket.socket(socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET, socket.SOCK_DGRAM)
udp.bind((sys.argv[1], 5000))
print("ready", flush=True)
while True:
    udp.sendto(*udp.recvfrom(2000))
"""
PING = """
import socket, sys, time
udp = socket.socket(socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET, socket.SOCK_DGRAM)
udp.settimeout(float(sys.argv[3]))
times, size, below_s, until = [], int(sys.argv[2]), float(sys.argv[4]) / 1e3, time.monotonic() + 15
number = 0
while number < 8 or (times and min(times) >= below_s and time.monotonic() < until):
    number, began = number + 1, time.monotonic()
    try:
        udp.sendto(bytes([number % 256]) * size, (sys.argv[1], 5000))
        while udp.recv(2000)[0] != number % 256:
            pass
        times.append(time.monotonic() - began)
    except OSError:  # nothing came, or no host answers to ARP
        pass
print(1e3 * min(times) if times else "silence")
"""


def raised(tmp_path, text, **options):
    need_relay()
    path = tmp_path / "sites.toml"
    path.write_text(text)
    return netlab("lab").Lab(sites=path, daemon=str(FAKE), **options)


class Echoes:
    """Nodes that answer to `ping`."""

    def __init__(self, lab):
        self.lab, self.running = lab, []

    def at(self, position):
        command = [sys.executable, "-c", ECHO, self.lab.address(position)]
        whole = netlab("processes.enter").command_in(self.lab.options.name, str(position), command)
        self.running.append(subprocess.Popen(whole, stdout=subprocess.PIPE, text=True))
        assert self.running[-1].stdout.readline() == "ready\n"

    def ping_ms(self, source, target, octets=10, timeout_s=1.0, below_ms=float("inf")):
        """The shortest of eight round trips, or of more, until one is as short as that; None: no answer at all."""
        words = map(str, (self.lab.address(target), octets, timeout_s, below_ms))
        told = self.lab.run(source, sys.executable, "-c", PING, *words)
        return None if told.stdout == "silence\n" else float(told.stdout)

    def end(self):
        for process in self.running:
            process.kill()
            process.communicate()


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    """Nodes 1 to 3 at site a, 4 to 6 at b, 7 to 9 at c; 1, 5 and 7 answer."""
    with raised(tmp_path_factory.mktemp("three"), THREE) as lab:
        echoes = Echoes(lab)
        try:
            for position in (1, 5, 7):
                echoes.at(position)
            yield echoes
        finally:
            echoes.end()
    assert traces(lab.options.name) == []


@pytest.mark.parametrize(
    ("source", "target", "octets", "rtt_ms"),
    [(2, 1, 10, 0), (6, 5, 10, 0), (2, 5, 10, 30), (9, 1, 10, 30), (4, 7, 10, 12.8), (4, 7, 1208, 32)],
)
def test_round_trips_take_the_time_of_the_link(three, source, target, octets, rtt_ms):
    """Also that of a slow one: a frame of 1,250 bytes takes 10 ms each way with 1 Mbit/s."""
    below_ms = rtt_ms + (3 if rtt_ms else 2)
    assert rtt_ms <= three.ping_ms(source, target, octets, below_ms=below_ms) < below_ms


def carried(lab, source, target):
    ways = {(way["from"], way["to"]): way for way in lab.traffic()["ways"]}
    return ways[source, target]


def test_what_crosses_is_counted(three):
    assert three.ping_ms(3, 5) is not None  # by now each knows the other's MAC
    before, back_before = (carried(three.lab, *way) for way in (("a", "b"), ("b", "a")))
    assert three.ping_ms(3, 5, 100) is not None
    after, back = (carried(three.lab, *way) for way in (("a", "b"), ("b", "a")))
    for then, now in ((before, after), (back_before, back)):
        frames, octets = now["frames"] - then["frames"], now["bytes"] - then["bytes"]
        assert 8 <= frames <= 12  # the kernel may confirm the neighbour, too
        assert 8 * 142 <= octets <= 8 * 142 + 4 * 60
    assert [after[why] for why in ("lost", "queue_full", "cut", "no_room")] == [0, 0, 0, 0]
    found = three.lab.traffic()
    assert (set(found["overrun"].values()), found["refused"], found["cut_sites"]) == ({0}, 0, [])


def test_a_site_is_cut_off_and_put_back(three):
    lab = three.lab
    name = ["--name", lab.options.name]
    assert run_lab("cut-site", *name, "b").returncode == 0
    assert three.ping_ms(2, 5, timeout_s=0.1) is None
    assert three.ping_ms(6, 5, below_ms=2) < 2  # inside all is well
    assert three.ping_ms(9, 1, below_ms=33) < 33  # and between the others
    assert carried(lab, "a", "b")["cut"] > 0
    assert "Cut off: b." in run_lab("traffic", *name).stdout
    assert run_lab("mend-site", *name, "b").returncode == 0
    assert three.ping_ms(2, 5, below_ms=33) < 33
    unknown = run_lab("cut-site", *name, "d")
    assert unknown.returncode == 1
    assert unknown.stderr == "No site has the name d: there are a, b, c. Nothing was changed.\n"


def test_a_partition_of_a_scenario_cuts_off_whole_sites(three):
    state = netlab("scenarios.node_state").NodeState(tuple(three.lab.positions))
    faults = netlab("scenarios.faults").FaultInjector(three.lab, state, None)
    faults.partition([[4, 5, 6]])
    assert three.lab.traffic()["cut_sites"] == ["b"]
    faults.partition([[1, 2, 3], [9, 8, 7]])  # in the place of the earlier one
    assert three.lab.traffic()["cut_sites"] == ["a", "c"]
    faults.mend()
    assert three.lab.traffic()["cut_sites"] == []


@over(
    ("step", "code", "sentence"),
    [
        ('do = "partition", groups = ["1-2", "3,4"]', 4, "group `1-2` of step 1 (partition) is none"),
        ('do = "partition", groups = ["root,1,3,5"]', 4, "group `root,1,3,5` of step 1 (partition) is none"),
        ('do = "block", source = "1", target = "2"', 4, "with --sites the lab cannot do step 1 (block)"),
        ('do = "reuse", nodes = "1"', 4, "with --sites the lab cannot do step 1 (reuse)"),
        ('do = "weather", loss = 0.1', 4, "with --sites the lab cannot do step 1 (weather)"),
        ('do = "jump", nodes = "1", to_s = 1', 1, "step 1"),
    ],
)
def test_scenarios_that_cannot_be_played_at_sites(tmp_path, step, code, sentence):
    script, path = tmp_path / "script.toml", tmp_path / "sites.toml"
    script.write_text(f'title = "t"\ncluster = {{ nodes = 6 }}\nsteps = [{{ {step} }}]\n')
    path.write_text(TWO + LINK + 'addresses = "interleaved"')
    result = refused("run", script, "--sites", path)
    assert (result.returncode, len(result.stderr.splitlines())) == (code, 1)
    assert sentence in result.stderr
    assert result.stderr.endswith("Nothing was started.\n")


def test_the_scenario_that_ships_can_be_played():
    file = FOUR.with_name("south_cut_off.toml")
    assert len(netlab("scenarios.runner").read([file], nodes=None, rootless=False, sites=FOUR)) == 1


TAKE = """
import hashlib, socket
door = socket.create_server(("", 5001))
print("ready", flush=True)
stream, found = door.accept()[0], hashlib.sha256()
while piece := stream.recv(65536):
    found.update(piece)
print(found.hexdigest())
"""
GIVE = """
import hashlib, socket, sys
data = bytes(range(256)) * 4096
socket.create_connection((sys.argv[1], 5001), timeout=20).sendall(data)
print(hashlib.sha256(data).hexdigest())
"""


def test_a_stream_crosses_in_frames_of_the_wire(three):
    """Not in the long ones in which kernels of one machine hand it over."""
    lab = three.lab
    before = carried(lab, "a", "c")
    command = netlab("processes.enter").command_in(lab.options.name, "8", [sys.executable, "-c", TAKE])
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as taker:
        assert taker.stdout.readline() == "ready\n"
        given = lab.run(3, sys.executable, "-c", GIVE, lab.address(8)).stdout
        assert taker.communicate(timeout=WAIT_S)[0] == given != ""
    after = carried(lab, "a", "c")
    frames, octets = (after[name] - before[name] for name in ("frames", "bytes"))
    assert octets > 1 << 20
    assert octets / frames <= 1514


def test_what_the_commands_print(three):
    name = ["--name", three.lab.options.name]
    whole = json.loads(run_lab("traffic", *name, "--json").stdout)
    assert [way["from"] + way["to"] for way in whole["ways"]] == ["ab", "ac", "ba", "bc", "ca", "cb"]
    assert len(run_lab("traffic", *name).stdout.splitlines()) >= 1 + 6 + 2
    assert "10.0.0.4  b  " in run_lab("status", *name).stdout


@pytest.mark.parametrize(
    ("order", "rootless", "nodes", "wide"), [("contiguous", False, 8, 4), ("interleaved", True, 24, 11)]
)
def test_a_tree_over_two_sites(tmp_path, order, rootless, nodes, wide):
    """With real ARP, and with permanent entries. The stand-in daemon builds the computed tree of a fan-out of 2."""
    text = TWO + LINK + f'addresses = "{order}"'
    with raised(tmp_path, text, nodes=nodes, rootless=rootless) as lab:
        assert lab.client.ask("info")["neighbours"] == ("permanent" if rootless else "arp")
        lab.start_all()
        lab.wait_stable(WAIT_S, 0.1)
        home = {node: half for half, some in enumerate(lab.options.sites.members) for node in some}
        leaders = {node: leader for node, leader in lab.look().leaders().items() if leader}
        assert lab.wide_edges() == sum(home[node] != home[leader] for node, leader in leaders.items()) == wide
        told = run_lab("edges", "--name", lab.options.name).stdout
        assert told.endswith(f"\n{wide} of {nodes - 1} edges lead from one site to another.\n")


@pytest.mark.parametrize("layout", ["dense", "six"])
def test_a_request_that_all_sites_hear_is_counted_once(tmp_path, layout):
    """By ARP, and with IPv6; the answer takes the way of the link, too."""
    with raised(tmp_path, TWO + LINK, nodes=4, layout=layout, arp=True) as lab:
        echoes = Echoes(lab)
        try:
            echoes.at(3)
            assert 20 <= echoes.ping_ms(2, 3, below_ms=23) < 23
        finally:
            echoes.end()
        asked = lab.arp()
        assert (asked["requests"], asked["silent"], asked["strangers"], asked["lost"]) == (1, 0, 0, 0)


def relay_of(lab):
    controller = lab.handle.controller
    below = Path(f"/proc/{controller}/task/{controller}/children").read_text().split()
    return next(int(pid) for pid in below if Path(f"/proc/{pid}/comm").read_text() == "lab-relay\n")


def test_the_relay_ends_with_the_lab_and_the_lab_with_the_relay(tmp_path, capfd):
    with raised(tmp_path, TWO + LINK, nodes=2) as lab:
        relay = relay_of(lab)
        os.kill(lab.handle.controller, signal.SIGKILL)
        wait_until(lambda: not Path(f"/proc/{relay}").exists(), "the relay ended")
    with raised(tmp_path, TWO + LINK, nodes=2) as lab:
        os.kill(relay_of(lab), signal.SIGKILL)
        wait_until(lambda: not lab.directory.path.exists(), "the lab ended")
    assert "The relay between the sites ended by itself" in capfd.readouterr().err
    assert traces(lab.options.name) == []


def test_only_a_lab_with_sites_can_cut_one_off():
    with netlab("lab").Lab(2, daemon=str(FAKE)) as lab:
        for ask in (lambda: lab.cut_site("a"), lab.traffic):
            with pytest.raises(netlab("errors").LabError, match=r"Nothing was changed\.$"):
                ask()
