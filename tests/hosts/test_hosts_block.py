"""The block of lines in a hosts file: what is in it, and that all other bytes stay."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subord.services.hosts.block import BEGIN, END, LOOPBACK, BlockError, with_table
from subord.services.hosts.table import Table, table_of

TABLE = table_of([("node001", "10.0.0.5"), ("node002", "10.0.0.6")])
BLOCK = """\
# BEGIN subord hosts table, version 7: subord-agent writes these lines; `subord hosts` shows them
10.0.0.5\tnode001
10.0.0.6\tnode002
# END subord hosts table
"""
NONE = Table()
DEBIAN = "127.0.0.1\tlocalhost\n127.0.1.1\tmaster.cluster master\n\n# IPv6\n::1 localhost ip6-localhost\n"


def block_of(content: bytes, table: Table = TABLE) -> list[str]:
    text = with_table(content, table, 7).content.decode("latin-1")
    return text.partition(BLOCK.splitlines()[0] + "\n")[2].partition(END.decode())[0].splitlines()


def test_the_block_comes_at_the_end() -> None:
    assert with_table(DEBIAN.encode(), TABLE, 7).content.decode() == DEBIAN + BLOCK


def test_the_block_stays_where_it_is() -> None:
    before, after = b"127.0.0.1 localhost\r\n\xff\x00\n", b"\n\n10.9.9.9 last"
    old = before + BLOCK.encode() + after
    fresh = with_table(old, table_of([("a", "10.0.0.1")]), 8)
    assert fresh.content.startswith(before + BEGIN + b", version 8:")
    assert fresh.content.endswith(b"\n10.0.0.1\ta\n" + END + b"\n" + after)
    assert with_table(fresh.content, TABLE, 7).content == old


def test_without_names_there_is_no_block() -> None:
    assert with_table(DEBIAN.encode(), NONE, 7).content.decode() == DEBIAN
    assert with_table((DEBIAN + BLOCK).encode(), NONE, 8).content.decode() == DEBIAN
    assert with_table(b"", NONE, 8).content == b""


def test_a_last_line_without_an_end_gets_one() -> None:
    assert with_table(b"127.0.0.1 localhost", TABLE, 7).content == b"127.0.0.1 localhost\n" + BLOCK.encode()


LINES = st.lists(
    st.one_of(
        st.binary(max_size=20).map(lambda line: line.replace(b"\n", b"")),
        st.sampled_from([b"10.0.0.5 node001", b"\t10.0.0.9 NODE002 x # y", b"#10.0.0.5 node001", b"\r", b""]),
    ),
    max_size=6,
)


@given(LINES, LINES, st.booleans())
def test_all_other_bytes_stay(before: list[bytes], after: list[bytes], has_block: bool) -> None:
    first, last = b"".join(line + b"\n" for line in before), b"\n".join(after)
    old = first + (BLOCK.encode() + last if has_block else b"")
    fresh = with_table(old, TABLE, 9).content
    assert fresh.startswith(first)
    assert with_table(fresh, TABLE, 9).content == fresh
    assert with_table(fresh, NONE, 10).content == (first + last if has_block else first)


def test_names_of_one_address_share_a_line() -> None:
    table = table_of([("master", "10.0.0.1"), ("node001", "10.0.0.5"), ("master.cluster", "10.0.0.1")])
    assert block_of(b"", table) == ["10.0.0.1\tmaster master.cluster", "10.0.0.5\tnode001"]


@pytest.mark.parametrize(
    "line",
    [b"10.0.0.5 node001", b"\t10.0.0.5\tx NODE001.cluster Node001 # node002", b"10.0.0.5 node001\r"],
)
def test_a_name_that_a_line_outside_has_is_not_repeated(line: bytes) -> None:
    assert block_of(line + b"\n") == ["10.0.0.6\tnode002"]
    assert with_table(line, TABLE, 7).notes == ()


def test_another_address_outside_counts_and_is_told() -> None:
    table = table_of((f"node{number:03}", f"10.0.0.{number}") for number in range(1, 8))
    lines = b"".join(b"10.9.0.1 node%03d\n" % number for number in range(1, 7))
    found = with_table(lines, table, 7)
    assert block_of(lines, table) == ["10.0.0.7\tnode007"]
    assert found.notes == (
        "lines outside the block give node001, node002, node003, node004 and 2 more another address, and count",
    )


def test_the_own_name_of_a_node_is_told_alike_on_all_nodes() -> None:
    """As Debian writes it; else each of a thousand nodes would say something else."""
    notes = {with_table(b"127.0.1.1 node00%d\n" % number, TABLE, 7).notes for number in (1, 2)}
    assert notes == {(LOOPBACK,)}


@pytest.mark.parametrize("line", [b"# node001", b"node001", b"10.0.0.5", b"#10.0.0.5 node001", b"10.0.0.9 node0011"])
def test_lines_without_the_name(line: bytes) -> None:
    assert block_of(line) == ["10.0.0.5\tnode001", "10.0.0.6\tnode002"]
    assert with_table(line, TABLE, 7).notes == ()


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"a\n" + BEGIN + b"\nb\n", "line 2"),
        (b"a\nb\n" + END + b", later\n", "line 3"),
        (END + b"\n" + BEGIN + b"\n", "line 1, 2"),
        (BLOCK.encode() * 2, "line 1, 4, 5, 8"),
        (BEGIN + b"\n" + BLOCK.encode(), "line 1, 2, 5"),
    ],
)
def test_a_damaged_block_is_left_alone(content: bytes, lines: str) -> None:
    for table in (TABLE, NONE):
        with pytest.raises(
            BlockError, match=rf"must stand there once each, in this order \(see {lines}\): remove them"
        ):
            with_table(content, table, 7)
