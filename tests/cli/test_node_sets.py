"""The algebra of node sets, with ClusterShell as the oracle."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from ClusterShell.NodeSet import NodeSet
from ClusterShell.NodeUtils import GroupResolver, GroupSource
from hypothesis import given
from hypothesis import strategies as st
from loops import over

from subord.client.folding import folded
from subord.client.node_sets import algebra
from subord.client.node_sets.algebra import NodeSetError, names_in, steps_of, value

GROUPS = {
    "rack1": "node[1-4]",
    "rack2": "node[5-8]",
    "racks": "@rack[1-2]",
    "half": "@racks!node[1-8/2]",
    "blanks": "node1 node2  node3",
    "v6": "fd00::1-fd00::3",
    "empty": "",
    "1": "node1",
    "self": "node1,@loop",
    "loop": "@self",
    "bad": "node1,node[2-",
    "outer": "@bad",
}


def groups(source: str | None, name: str) -> tuple[str, str]:
    if source not in {None, "local"}:
        raise NodeSetError(f"there is no source {source!r}")
    if name == "*":
        return "local", "@racks"
    if name not in GROUPS:
        raise NodeSetError(f"there is no group @local:{name}")
    return "local", GROUPS[name]


def nodes(text: str, addresses: Mapping[str, str] | None = None) -> set[str]:
    return value(steps_of(text, groups), addresses or {})


@over(
    ("text", "expected"),
    [
        ("", ""),
        (" , ,", ""),
        ("node3", "node3"),
        ("NODE3,node3.", "node3"),
        ("node[1-4,7]", "node[1-4,7]"),
        ("node[001-003]", "node[001-003]"),
        ("node[1-10/3]", "node[1,4,7,10]"),
        ("node[01-10/3]", "node[01,04,07,10]"),
        ("node1 node2, node3", "node[1-3]"),
        ("node[1-4]!node3", "node[1-2,4]"),
        ("node[1-4]&node[3-9]", "node[3-4]"),
        ("node[1-4]^node[3-6]", "node[1-2,5-6]"),
        ("node[1-4] ! node3 , node9", "node[1-2,4,9]"),
        ("node1,node2!node1,node1", "node[1-2]"),  # from left to right
        ("node1!node[1-2],node2&node2", "node2"),
        ("node1!node1", ""),
        ("@rack1", "node[1-4]"),
        ("@rack[1-2]", "node[1-8]"),
        ("@local:rack2", "node[5-8]"),
        ("@racks!@rack1", "node[5-8]"),
        ("@half", "node[2,4,6,8]"),
        ("@*&node[4-9]", "node[4-8]"),
        ("@local:*", "node[1-8]"),
        ("@blanks", "node[1-3]"),
        ("node9,@empty", "node9"),
        ("@1", "node1"),
        ("10.0.0.3", "10.0.0.3"),
        ("10.0.0.[3,7-9]", "10.0.0.[3,7-9]"),
        ("10.0.0.[1-9/4]", "10.0.0.[1,5,9]"),
        ("10.0.[0-1].[1-2]", "10.0.[0-1].[1-2]"),
        ("10.0.0.1-10.0.0.4", "10.0.0.[1-4]"),
        ("10.0.0.1 - 4", "10.0.0.[1-4]"),
        ("10.0.0.0/29", "10.0.0.[1-6]"),
        ("FD00::1,fd00:0::2", "fd00::1-fd00::2"),
        ("@v6!fd00::2", "fd00::1,fd00::3"),
    ],
)
def test_what_a_text_names(text: str, expected: str) -> None:
    assert folded(nodes(text)) == expected


@pytest.mark.slow
@over(
    ("text", "complaint"),
    [
        ("node1!", "'!' in 'node1!' lacks its right side: write node[1-4]!node[3-7]"),
        ("&node1", "'&' in '&node1' lacks its left side"),
        ("node1,^node2", "'^' in 'node1,^node2' lacks its left side"),
        ("node1!&node2", "'!' in 'node1!&node2' lacks its right side"),
        ("node1!,node2", "'!' in 'node1!,node2' lacks its right side"),
        ("node[1-4", "a bracket in 'node[1-4' lacks its other half"),
        ("node1-4]", "a bracket in 'node1-4]' lacks its other half"),
        ("node[4-1]", "the range 4-1 in node[4-1] is reversed: write 1-4"),
        ("node[4-1/2]", "'4-1/2' in node[4-1/2] is not a range with steps: write 1-9/2"),
        ("node[1-4/0]", "'1-4/0' in node[1-4/0] is not a range"),
        ("node[a-b]", "'a-b' in node[a-b] is not a range"),
        ("node*", "'node*' has a wildcard, which is not read"),
        ("node?", "'node?' has a wildcard"),
        ("10.0.0.300", "'10.0.0.300' is no IP address"),
        ("10.0.0.[1-300]", "'300' in '10.0.0.[1-300]' is no octet"),
        ("node$x", "node$x is neither an address nor a host name"),
        ("@", "'@' names no group: write @rack1, @source:rack1 or @*"),
        ("@@rack1", "'@@rack1' names no group"),
        ("@a:b:c", "'@a:b:c' names no group"),
        ("@-rf", "'@-rf' names no group"),
        ("@$(reboot)", "'@$(reboot)' names no group"),
        ("@';reboot;'", "names no group"),
        ("@:rack1", "'@:rack1' names no source of groups"),
        ("@other:rack1", "there is no source 'other'"),
        ("@rack9", "there is no group @local:rack9"),
        ("@bad", "in the group @local:bad: a bracket in 'node1,node[2-' lacks its other half"),
        ("@outer", "in the group @local:bad: a bracket in 'node1,node[2-' lacks its other half"),
        ("@self", "@local:self contains itself: @local:self > @local:loop > @local:self"),
        ("node[1-999999999]", "node[1-999999999] stands for more than 10000 names"),
        ("node[0-99999999/2]", "node[0-99999999/2] stands for more than 10000 names"),
        ("10.0.0.0/8", "more than 100000 nodes at '10.0.0.0/8': name fewer"),
        ("fd00::/64", "more than 100000 nodes at 'fd00::/64'"),
        (",".join(f"n{k}x[1-9999]" for k in range(11)), "more than 100000 nodes at 'n10x[1-9999]'"),
        (",".join(["a"] * 10_001), "more than 10000 parts at 'a'"),
    ],
)
def test_an_error_names_the_offending_piece(text: str, complaint: str) -> None:
    with pytest.raises(NodeSetError) as caught:
        nodes(text)
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


def test_groups_that_multiply_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixteen groups, each of which names the next one twice."""
    for number in range(16):
        monkeypatch.setitem(GROUPS, f"twice{number}", f"@twice{number + 1},@twice{number + 1}")
    monkeypatch.setitem(GROUPS, "twice16", "a")
    with pytest.raises(NodeSetError, match=r"more than 10000 parts|is the 17th"):
        nodes("@twice0")


def test_a_name_and_its_address_are_one_node() -> None:
    addresses = {"node1": "10.0.0.1", "node2": "10.0.0.2", "login": "10.0.0.1"}
    assert nodes("node[1-2]!10.0.0.1", addresses) == {"10.0.0.2"}
    assert nodes("node1&login", addresses) == {"10.0.0.1"}
    assert set(names_in(steps_of("@rack1,login!10.0.0.9", groups))) == {"node1", "node2", "node3", "node4", "login"}


numbers = st.integers(0, 12)
ranges = st.builds(lambda low, more: f"{low}-{low + more}", numbers, st.integers(0, 6))
inside = st.lists(st.one_of(numbers.map(str), ranges), min_size=1, max_size=3).map(",".join)
words = st.one_of(
    numbers.map("n{}".format),
    inside.map("n[{}]".format),
    st.builds("r[{}]n[{}]".format, inside, inside),
    st.builds("n[{}-{}/{}]".format, numbers, st.integers(12, 20), st.integers(1, 4)),
    st.sampled_from(["@a", "@b", "@c[1-2]", "@local:a", "@*"]),
)
operators = st.sampled_from([",", "!", "&", "^"])
ORACLE = {"a": "n[1-5]", "b": "@a!n3,r1n2", "c1": "n7", "c2": "r[1-2]n[1-3]^r2n3"}


@pytest.mark.slow
@given(words, st.lists(st.tuples(operators, words), max_size=6))
def test_clustershell_understands_the_same(first: str, more: list[tuple[str, str]]) -> None:
    text = first + "".join(map("".join, more))
    resolver = GroupResolver(GroupSource("local", dict(ORACLE), "@a,@b"))
    ours = value(steps_of(text, lambda _, name: ("local", "@a,@b" if name == "*" else ORACLE[name])), {})
    assert ours == set(NodeSet(text, resolver=resolver)), text


sets = st.sets(st.sampled_from([f"n{number}" for number in range(6)])).map(lambda each: ",".join(sorted(each)) or ",")


@given(sets, sets)
def test_the_laws_of_the_operators(one: str, other: str) -> None:
    table = {"x": one, "y": other}

    def of(text: str) -> set[str]:
        return value(steps_of(text, lambda _, name: ("local", table[name])), {})

    assert of("@x^@y") == of("@x,@y") - of("@x&@y")
    assert of("@x!@y") == of("@x^@y") & of("@x")
    assert of("@x&@y") == of("@y&@x")


def test_the_bounds_are_those_of_the_documents() -> None:
    assert (algebra.NODES_MAX, algebra.DEPTH_MAX) == (100_000, 16)
