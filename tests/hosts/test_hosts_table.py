"""Tables of names and addresses: what is refused, what fits a document, and how bodies are read."""

from __future__ import annotations

import json
import random

import pytest

from subord.core.address.network import Network
from subord.core.carriage.documents import BODY_BYTES_MAX
from subord.services.hosts.table import Entry, Table, TableError, decode, encode, outside, table_of


def numbered(count: int, network: str, seed: int = 1, *, is_mixed: bool = True) -> Table:
    """`is_mixed`: the addresses stand anywhere in the network."""
    block = Network.parse(network)
    places = (
        random.Random(seed).sample(range(1, min(block.size, 1 << 40)), count) if is_mixed else range(1, count + 1)
    )
    return table_of((f"node{number:03}", block.address_text_of(place)) for number, place in enumerate(places, 1))


@pytest.mark.parametrize(
    "pairs",
    [
        [],
        [("master", "10.0.0.1")],
        [("master.cluster", "10.0.0.1"), ("master", "10.0.0.1"), ("a-1", "10.0.0.2"), ("a-3", "10.0.0.9")],
        [("node001", "10.0.0.5"), ("node01", "10.0.0.6"), ("node1", "10.0.0.7"), ("node1000", "10.0.0.8")],
        [("node0", "10.0.0.5"), ("node000", "10.0.0.6"), ("n123456789", "10.0.0.1"), ("n1234567890", "10.0.0.2")],
        [("node001", "10.0.0.5"), ("node002", "fd00::1"), ("node003", "fdff::1"), ("node004", "fd00::ffff:0:0:1")],
    ],
)
def test_a_body_is_read_as_it_was_made(pairs: list[tuple[str, str]]) -> None:
    table = table_of(pairs)
    assert {*table.entries} == {*pairs}
    assert decode(encode(table)) == table
    assert encode(table_of(reversed(pairs))) == encode(table)


def test_names_are_in_the_order_of_their_numbers() -> None:
    table = table_of([("node1000", "10.0.0.3"), ("node999", "10.0.0.2"), ("Master", "10.0.0.1")])
    assert [each.name for each in table.entries] == ["master", "node999", "node1000"]


@pytest.mark.parametrize(
    ("count", "network"), [(1_000, "10.0.0.0/16"), (1_000, "10.0.0.0/12"), (800, "10.0.0.0/8"), (400, "fd00::/64")]
)
def test_nodes_anywhere_in_a_network_fit(count: int, network: str) -> None:
    table = numbered(count, network)
    assert decode(encode(table)) == table


def test_nodes_side_by_side_take_little() -> None:
    assert len(encode(numbered(1_000, "10.0.0.0/8", is_mixed=False))) < 2_200
    assert len(encode(numbered(3_900, "10.0.0.0/8", is_mixed=False))) < BODY_BYTES_MAX


def test_a_table_that_does_not_fit_says_so() -> None:
    with pytest.raises(TableError, match=r"1500 names takes \d+ bytes, and a document has at most 8192: name"):
        encode(numbered(1_500, "10.0.0.0/8"))


def test_more_names_than_a_node_writes_are_refused() -> None:
    with pytest.raises(TableError, match="at most 4096 names, and these are 4097"):
        numbered(4_097, "10.0.0.0/8", is_mixed=False)


@pytest.mark.parametrize(
    "name",
    [
        "localhost",
        "LocalHost",
        "localhost4",
        "localhost.localdomain",
        "node.localhost",
        "ip6-localhost",
        "ip6-loopback",
        "ip6-allnodes",
        "broadcasthost",
        "",
        "-a",
        "a-",
        "a..b",
        "a_b",
        "a b",
        "a\nb",
        "a#",
        "knödel",
        "a" * 65,
        "1234",
        "10.0.0.1",
        "node.1",
        "node\n",
    ],
)
def test_a_name_that_no_table_may_give(name: str) -> None:
    with pytest.raises(TableError):
        table_of([(name, "10.0.0.1")])


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.0.1.1",
        "::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "0.0.0.0",
        "::",
        "224.0.0.1",
        "255.255.255.255",
        "169.254.1.1",
        "fe80::1",
        "fe80::1%eth0",
        "10.0.0.1 evil",
        "10.0.0",
        "010.0.0.1",
        "",
    ],
)
def test_an_address_that_no_table_may_give(address: str) -> None:
    with pytest.raises(TableError, match="node001"):
        table_of([("node001", address)])


def test_a_name_has_one_address() -> None:
    assert table_of([("a", "10.0.0.1"), ("A", "10.0.0.1")]) == Table((Entry("a", "10.0.0.1"),))
    with pytest.raises(TableError, match=r"has two addresses, 10\.0\.0\.1 and 10\.0\.0\.2"):
        table_of([("a", "10.0.0.1"), ("a", "10.0.0.2")])


GROUP = {"prefix": "node", "digits": 3, "numbers": [[1, 2]], "first": "10.0.0.1", "steps": [1]}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'{"later":1}',
        b'{"others":[["localhost","10.0.0.1"]]}',
        b'{"others":[["a","10.0.0.1"],["a","10.0.0.2"]]}',
        *(
            json.dumps({"groups": [{**GROUP, **wrong}]}).encode()
            for wrong in (
                {"numbers": [[1, 3]]},
                {"numbers": [[2, 1]]},
                {"numbers": []},
                {"numbers": [[1, 999_999_999]]},
                {"numbers": [[1, 1], [1, 1]]},
                {"steps": [-(1 << 62)]},
                {"steps": [10**40]},
                {"steps": [1, 1]},
                {"first": "127.0.0.1"},
                {"first": "a"},
                {"prefix": "local host"},
                {"prefix": "10.0.0."},
                {"digits": 0},
                {"digits": 10},
                {"more": 1},
            )
        ),
    ],
)
def test_a_body_that_is_no_table(body: bytes) -> None:
    assert decode(body) is None


def test_a_group_of_the_example_can_be_read() -> None:
    table = decode(json.dumps({"groups": [GROUP]}).encode())
    assert table == Table((Entry("node001", "10.0.0.1"), Entry("node002", "10.0.0.2")))


def test_addresses_outside_the_network_are_found() -> None:
    table = table_of([("a", "10.0.0.1"), ("b", "192.168.0.1"), ("c", "fd00::1")])
    assert [each.name for each in outside(table, Network.parse("10.0.0.0/16"))] == ["b", "c"]
