"""Real daemons in namespaces: the tree is what protocol.md says, after a start and after every disaster."""

import json
import sys

import pytest

from subord.core.address.numbering import numbering

from .lab_helpers import command, wait_until

pytestmark = pytest.mark.lab

PAPERS_TREE = {1: None, 2: 1, 3: 1, 4: 2, 5: 2, 6: 3, 7: 3, 8: 4, 9: 4, 10: 5, 11: 5}
SETTLED_S_MAX = 60.0


@pytest.fixture
def raise_lab():
    from netlab.lab import Lab

    labs = []

    def raised(**options):
        lab = Lab(**options)
        lab.__enter__()
        labs.append(lab)
        return lab

    yield raised
    for lab in labs:
        lab.__exit__(None, None, None)


def leaders(lab):
    return {position: leader for position, (_, leader) in sorted(lab.places().items())}


def computed(nodes, fanout):
    rule = numbering("complete", fanout)
    return {position: rule.computed_leader(position) for position in range(1, nodes + 1)}


def wait_for(lab, expected):
    """Until the leaders are these, and one root knows all live nodes."""
    lab.wait(lambda cluster: leaders(lab) == expected and cluster.settled_at() is not None, SETTLED_S_MAX)


def until_known(lab, alternate, *positions):
    """Until these nodes have heard that they may go there first, which takes some beats after a start."""

    def is_known(position):
        return ask(lab, position, "status")["alternates"][:1] == [lab.address(alternate)]

    wait_until(lambda: all(map(is_known, positions)), "they know where to go")


def ask(lab, position, *words):
    done = command(lab, position, *words, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def edges(tree):
    """{position: leader's position} of a tree document, without recursion."""
    found, waiting = {}, [(root, None) for root in tree["roots"]]
    while waiting:
        node, leader = waiting.pop()
        found[node["position"]] = leader
        waiting += [(each, node["position"]) for each in node["subordinates"]]
    return found


def until_shown(lab, position, expected):
    """By any node: on a busy machine the root may be late, and the first answer incomplete."""

    def is_shown():
        tree = ask(lab, position, "tree")
        return (tree["nodes"], edges(tree)) == (len(expected), expected)

    wait_until(is_shown, f"node {position} shows the tree")


@pytest.mark.parametrize(("fanout", "octets"), [(2, 1), (3, 0), (8, 0), pytest.param(8, 2, marks=pytest.mark.long)])
def test_level_and_octet_boundaries(raise_lab, fanout, octets):
    """N = 1+p and 1+p+p^2, each -1, 0, +1, and across octets: 254..260, and 510..516."""
    sizes = {base + near for base in (1 + fanout, 1 + fanout + fanout**2) for near in (-1, 0, 1)}
    sizes |= {256 * octet + near for octet in range(1, octets + 1) for near in range(-2, 5)}
    lab = raise_lab(nodes=max(sizes), fanout=fanout)
    running = 0
    for size in sorted(sizes):
        lab.start(*range(running + 1, size + 1))
        running = size
        wait_for(lab, computed(size, fanout))


@pytest.mark.parametrize("order", ["random", "reverse"])
def test_the_start_order_does_not_matter(raise_lab, order):
    lab = raise_lab(nodes=60, fanout=2)
    lab.start_all(order, seed=7)
    wait_for(lab, computed(60, 2))


def test_kill_and_restart_of_interior_root_and_leaf(raise_lab):
    nodes, fanout = 31, 2
    lab = raise_lab(nodes=nodes, fanout=fanout)
    whole = computed(nodes, fanout)
    lab.start_all()
    wait_for(lab, whole)

    until_known(lab, 2, 6, 7)
    lab.kill(3)  # its subordinates go to the nearest of its level
    wait_for(lab, {**{p: leader for p, leader in whole.items() if p != 3}, 6: 2, 7: 2})
    lab.start(3)
    wait_for(lab, whole)

    lab.kill(1)  # position 2 is the next root, and takes its sibling
    wait_for(lab, {**{p: leader for p, leader in whole.items() if p != 1}, 2: None, 3: 2})
    lab.start(1)
    wait_for(lab, whole)

    lab.kill(20)
    wait_for(lab, {p: leader for p, leader in whole.items() if p != 20})
    lab.start(20)
    wait_for(lab, whole)
    assert lab.malformed_events == 0


def test_a_silent_death_is_noticed_at_both_ends(raise_lab):
    lab = raise_lab(nodes=7, fanout=2)
    lab.start_all()
    wait_for(lab, computed(7, 2))
    lab.cut(3)
    lab.kill(3)
    # So soon after the start 6 and 7 may not have heard of 2 as an alternate: then they go to 1, and stay.
    rest = {1: None, 2: 1, 4: 2, 5: 2}
    lab.wait(lambda _: all(lab.places().get(p, (0, 3))[1] in (1, 2) for p in (6, 7)), timeout_s=30)
    assert {p: leader for p, (_, leader) in lab.places().items() if p not in (6, 7)} == rest


def test_goodbye_costs_no_detection(raise_lab):
    lab = raise_lab(nodes=15, fanout=2)
    lab.start_all()
    wait_for(lab, computed(15, 2))
    until_known(lab, 2, 6, 7)
    lab.events = events = []
    lab.kill(3, 15)
    wait_for(lab, {**{p: leader for p, leader in computed(15, 2).items() if p != 3}, 6: 2, 7: 2})
    assert [event["event"] for event in events if event["event"] == "lost"] == []
    assert ask(lab, 1, "tree")["missing"] == 0


STRANGERS = {  # what is written instead into the configuration, and the reasons on both sides
    8: ("fanout = 2", "fanout = 3", "fan-out 2, we use 3", "fan-out 3, we use 2"),
    9: (
        "10.0.0.0/16",
        "10.0.0.0/17",
        "network 10.0.0.0/16, we use 10.0.0.0/17",
        "network 10.0.0.0/17, we use 10.0.0.0/16",
    ),
}


def test_other_settings_are_refused_on_both_sides_and_no_other_node_is_disturbed(raise_lab):
    lab = raise_lab(nodes=9, fanout=2)
    for position, (old, new, _, _) in STRANGERS.items():
        config = lab.directory.node(position) / "config.toml"
        assert old in config.read_text()
        config.write_text(config.read_text().replace(old, new))
    tree = computed(7, 2)
    lab.start(*tree)
    wait_for(lab, tree)
    lab.start(*STRANGERS)
    wait_until(lambda: all(command(lab, each, "status").returncode == 0 for each in STRANGERS), "they answer")
    ours = {lab.address(position) for position in tree}

    def reasons(position, by, addresses):
        found = ask(lab, position, "status")["refusals"]
        return [each["reason"] for each in found if each["by"] == by and each["address"] in addresses]

    for position, (_, _, ours_says, theirs_says) in STRANGERS.items():
        wait_until(lambda position=position: reasons(position, "them", ours), f"{position} hears why it is refused")
        assert reasons(position, "them", ours)[0].startswith(ours_says)
        theirs = [reason for p in tree for reason in reasons(p, "us", {lab.address(position)})]
        assert theirs[0].startswith(theirs_says)
    refused = {(each["by"], each["address"]) for p in tree for each in ask(lab, p, "status")["refusals"]}
    assert refused == {("us", lab.address(position)) for position in STRANGERS}
    assert edges(ask(lab, 1, "tree")) == tree


NOISE = """
import os, random, socket, sys
chance = random.Random(sys.argv[2])
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(50):
    size = chance.choice((0, 1, 2, 20, 1200, 1201, 9000))
    sock.sendto(chance.choice((b"", b"s\\x01", b"s\\x02")) + os.urandom(size), (sys.argv[1], 7117))
stream = socket.create_connection((sys.argv[1], 7117))
try:
    stream.sendall(os.urandom(100_000))
except OSError:
    pass  # hung up on us, as it should
"""


def bear_noise(lab, tree, way):
    """Random bytes change nothing and are counted."""
    before = {p: ask(lab, p, "status")["leader_changes"] for p in tree}

    def dropped():
        return ask_counters(lab, 2)["dropped_by_reason"]

    for seed in range(1, 7):  # no more at once than its buffer holds
        assert lab.run(5, sys.executable, "-c", NOISE, lab.address(2), str(seed)).returncode == 0
        wait_until(lambda seed=seed: sum(dropped().values()) >= 50 * seed, "all are counted")
    assert {way, "not_subord", "unknown_version", "oversized"} <= set(dropped())
    assert {p: ask(lab, p, "status")["leader_changes"] for p in tree} == before
    until_shown(lab, 7, tree)


def test_random_bytes_change_nothing_in_the_clear(raise_lab):
    lab = raise_lab(nodes=7, fanout=2, insecure=True)
    lab.start_all()
    wait_for(lab, computed(7, 2))
    bear_noise(lab, computed(7, 2), "malformed")


def ask_counters(lab, position):
    return lab.document(position, "/v1/counters")


def test_the_executed_command_does_the_same_as_the_forked_one(raise_lab):
    lab = raise_lab(nodes=7, fanout=2, execute=True)
    lab.start_all()
    wait_for(lab, computed(7, 2))


# -- tests that leave their lab as it is ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def papers_lab():
    from netlab.lab import Lab

    with Lab(nodes=11, fanout=2) as lab:
        lab.start_all()
        wait_for(lab, PAPERS_TREE)
        yield lab


def test_eleven_nodes_are_the_papers_tree(papers_lab):
    for position in (1, 5, 11):
        until_shown(papers_lab, position, PAPERS_TREE)


def test_metrics_answer_inside_the_lab(papers_lab):
    read = "import sys, urllib.request as u; sys.stdout.write(u.urlopen(sys.argv[1]).read().decode())"
    text = papers_lab.run(3, sys.executable, "-c", read, f"http://{papers_lab.address(1)}:9717/metrics").stdout
    assert "subord_is_root 1.0" in text
    assert "subord_subtree_nodes 11.0" in text


def test_random_bytes_change_nothing(papers_lab):
    bear_noise(papers_lab, PAPERS_TREE, "unsealed")
