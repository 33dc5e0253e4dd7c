"""Host names and folded host names."""

from __future__ import annotations

import pytest
from loops import over

from subord.config.hostlist import HostListError, is_address, is_host_name, is_named, items_of, unfolded


@over(
    ("item", "names"),
    [
        ("login", ["login"]),
        ("n[1-3]", ["n1", "n2", "n3"]),
        ("n[1]", ["n1"]),
        ("n[08-11]", ["n08", "n09", "n10", "n11"]),
        ("n[8-11]", ["n8", "n9", "n10", "n11"]),
        ("n[098-101,200]", ["n098", "n099", "n100", "n101", "n200"]),
        ("n[99-101,007]", ["n99", "n100", "n101", "n007"]),
        ("n[01-100]", [f"n{number:02}" for number in range(1, 101)]),
        ("n[0-1]", ["n0", "n1"]),
        ("n[00-01]", ["n00", "n01"]),
        ("n[3,1,2]", ["n3", "n1", "n2"]),
        ("n[1, 3]", ["n1", "n3"]),
        ("r[1-2]n[01-02]", ["r1n01", "r1n02", "r2n01", "r2n02"]),
        ("[1-2]a", ["1a", "2a"]),
        ("n[1-2]-ib.example.org", ["n1-ib.example.org", "n2-ib.example.org"]),
        ("n[1-2].r[1-2].org", ["n1.r1.org", "n1.r2.org", "n2.r1.org", "n2.r2.org"]),
    ],
)
def test_brackets_are_unfolded_from_left_to_right(item: str, names: list[str]) -> None:
    assert list(unfolded(item)) == names


@over(
    ("item", "complaint"),
    [
        ("n[]", "'' in n[] is not a range: write 7 or 001-128"),
        ("n[1-]", "'1-' in n[1-] is not a range"),
        ("n[-3]", "'-3' in n[-3] is not a range"),
        ("n[1-2-3]", "'1-2-3' in n[1-2-3] is not a range"),
        ("n[a-c]", "'a-c' in n[a-c] is not a range"),
        ("n[0-10/2]", "'0-10/2' in n[0-10/2] is not a range"),
        ("n[1,]", "'' in n[1,] is not a range"),
        ("n[٣]", "'٣' in n[٣] is not a range"),
        ("n[3-1]", "the range 3-1 in n[3-1] is reversed: write 1-3"),
        ("n[1-010]", "the ends of 1-010 in n[1-010] have different widths: write equally many digits"),
        ("n[1-10001]", "n[1-10001] stands for more than 10000 names: name fewer"),
        ("n[1-999999999]", "n[1-999999999] stands for more than 10000 names"),
        ("n[1-9999999999]", "'1-9999999999' in n[1-9999999999] is not a range"),
        ("a[1-101]b[1-100]", "a[1-101]b[1-100] stands for more than 10000 names"),
        ("n[1-2].[3-4]", "n1.3 is neither an address nor a host name: correct it"),
        ("a..b", "a..b is neither an address nor a host name"),
        ("-a", "-a is neither an address nor a host name"),
        ("a" * 64, "is neither an address nor a host name"),
        ("bücher", "bücher is neither an address nor a host name"),
        ("10.0.0.1x;y", "10.0.0.1x;y is neither an address nor a host name"),
    ],
)
def test_an_error_says_how_to_write_a_bracket_or_name(item: str, complaint: str) -> None:
    with pytest.raises(HostListError) as caught:
        list(unfolded(item))
    assert complaint in str(caught.value)


def test_as_many_names_as_allowed() -> None:
    assert len(list(unfolded("r[1-100]n[1-100]"))) == 10_000


@over(
    ("text", "address", "name"),
    [
        ("10.0.0.7", True, False),
        ("fd00::7", True, False),
        ("fe80::1%eth0", False, False),
        ("10.0.7", False, False),  # the resolver reads 10.0.0.7
        ("0x7f.1", False, False),
        ("a.0x7f", False, False),
        ("167772161", False, False),
        ("10.0.0.300", False, False),
        ("login1", False, True),
        ("head.example.org.", False, True),
        ("under_score", False, True),
        ("1st", False, True),
        ("3com.example", False, True),
        ("a-", False, False),
        ("", False, False),
        (".", False, False),
        ("a b", False, False),
        ("x" * 63 + ".org", False, True),
        (".".join(["x" * 63] * 4), False, False),
    ],
)
def test_addresses_and_names_are_told_apart(text: str, address: bool, name: bool) -> None:
    assert (is_address(text), is_host_name(text)) == (address, name)


@over(
    ("line", "items"),
    [
        ("", []),
        ("  \t ", []),
        ("a, b\tc,,d", ["a", "b", "c", "d"]),
        ("n[1, 3-5],10.0.0.1 - 10.0.0.9", ["n[1, 3-5]", "10.0.0.1-10.0.0.9"]),
        ("r[1-2]n[3,4] x", ["r[1-2]n[3,4]", "x"]),
    ],
)
def test_a_line_is_split_as_a_network_is(line: str, items: list[str]) -> None:
    assert items_of(line) == items


@pytest.mark.parametrize("line", ["n[1-3", "n1-3]", "n[[1-3]]", "n[1-3]]"])
def test_half_a_bracket_is_refused(line: str) -> None:
    with pytest.raises(HostListError, match=r"a bracket lacks its other half or is nested: write node\[001-128\]"):
        items_of(line)


@over(
    ("item", "named"),
    [("n[1-3]", True), ("n1-n3", True), ("10.0.[1-2].1", False), ("fd00::a-fd00::f", False), ("10.0.0.0/8", False)],
)
def test_what_is_a_name(item: str, named: bool) -> None:
    assert is_named(item) == named
