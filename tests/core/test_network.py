"""Networks: text to positions and back, and the reasons of refusals."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loops import over

from subord.core.address import network as module
from subord.core.address.network import ITEMS_MAX, Network, NetworkError, _short


@over(
    ("text", "size", "first", "last"),
    [
        ("10.0.0.0/16", 2**16 - 2, "10.0.0.1", "10.0.255.254"),
        ("10.0.0.0/24", 254, "10.0.0.1", "10.0.0.254"),
        ("10.0.0.64/30", 2, "10.0.0.65", "10.0.0.66"),
        ("10.0.0.64/31", 2, "10.0.0.64", "10.0.0.65"),
        ("10.0.0.64/32", 1, "10.0.0.64", "10.0.0.64"),
        ("0.0.0.0/0", 2**32 - 2, "0.0.0.1", "255.255.255.254"),
        ("fd00::/64", 2**64 - 1, "fd00::1", "fd00::ffff:ffff:ffff:ffff"),
        ("fd00::4/126", 3, "fd00::5", "fd00::7"),
        ("fd00::4/127", 2, "fd00::4", "fd00::5"),
        ("fd00::4/128", 1, "fd00::4", "fd00::4"),
        ("::/0", 2**128 - 1, "::1", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
    ],
)
def test_cidr(text: str, size: int, first: str, last: str) -> None:
    network = Network.parse(text)
    assert network.text == text
    assert network.size == size
    assert network.prefix_length == int(text.partition("/")[2])
    assert network.version == (6 if ":" in text else 4)
    assert (network.address_text_of(1), network.address_text_of(size)) == (first, last)
    assert (network.position_of(first), network.position_of(last)) == (1, size)
    assert network.position_of(ip_address(last)) == size
    for outside in (int(ip_address(first)) - 1, int(ip_address(last)) + 1):
        if 0 <= outside < 2 ** (32 if network.version == 4 else 128):
            assert network.position_of(type(ip_address(first))(outside)) is None


@over(
    ("position", "address"),
    [
        (254, "10.0.0.254"),
        (255, "10.0.0.255"),
        (256, "10.0.1.0"),
        (257, "10.0.1.1"),
        (258, "10.0.1.2"),
        (259, "10.0.1.3"),
        (260, "10.0.1.4"),
        (510, "10.0.1.254"),
        (511, "10.0.1.255"),
        (512, "10.0.2.0"),
        (513, "10.0.2.1"),
        (514, "10.0.2.2"),
        (515, "10.0.2.3"),
        (516, "10.0.2.4"),
    ],
)
def test_address_order_not_byte_order(position: int, address: str) -> None:
    network = Network.parse("10.0.0.0/16")
    assert network.position_of(address) == position
    assert network.address_of(position) == IPv4Address(address)
    assert network.address_text_of(position) == address


@over(
    ("text", "canonical", "addresses"),
    [
        ("10.0.5.10", "10.0.5.10", ["10.0.5.10"]),
        ("10.0.5.10-10.0.5.12", "10.0.5.10-10.0.5.12", ["10.0.5.10", "10.0.5.11", "10.0.5.12"]),
        ("10.0.5.10 - 12", "10.0.5.10-10.0.5.12", ["10.0.5.10", "10.0.5.11", "10.0.5.12"]),
        ("10.0.5.10-10", "10.0.5.10", ["10.0.5.10"]),
        ("10.0.5.255-10.0.6.1", "10.0.5.255-10.0.6.1", ["10.0.5.255", "10.0.6.0", "10.0.6.1"]),
        ("10.0.0.9,10.0.0.1 10.0.0.5", "10.0.0.9,10.0.0.1,10.0.0.5", ["10.0.0.9", "10.0.0.1", "10.0.0.5"]),
        (
            "10.0.0.3\n10.0.0.2\t,10.0.0.1,",
            "10.0.0.3,10.0.0.2,10.0.0.1",
            ["10.0.0.3", "10.0.0.2", "10.0.0.1"],
        ),
        (
            "10.0.0.1,10.0.0.2,10.0.0.3-4",
            "10.0.0.1-10.0.0.4",
            ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"],
        ),
        ("10.0.5.[1-2, 7]", "10.0.5.1-10.0.5.2,10.0.5.7", ["10.0.5.1", "10.0.5.2", "10.0.5.7"]),
        (
            "10.0.[2,1].[8-9]",
            "10.0.2.8-10.0.2.9,10.0.1.8-10.0.1.9",
            ["10.0.2.8", "10.0.2.9", "10.0.1.8", "10.0.1.9"],
        ),
        ("10.[1-2].0.4", "10.1.0.4,10.2.0.4", ["10.1.0.4", "10.2.0.4"]),
        ("[9-10].0.0.1", "9.0.0.1,10.0.0.1", ["9.0.0.1", "10.0.0.1"]),
        ("10.0.1.7,10.0.0.0/30", "10.0.1.7,10.0.0.1-10.0.0.2", ["10.0.1.7", "10.0.0.1", "10.0.0.2"]),
        ("fd00::FF-fd00::101", "fd00::ff-fd00::101", ["fd00::ff", "fd00::100", "fd00::101"]),
        ("fd00::8,fd00:0:0::2", "fd00::8,fd00::2", ["fd00::8", "fd00::2"]),
    ],
)
def test_list(text: str, canonical: str, addresses: list[str]) -> None:
    network = Network.parse(text)
    assert network.text == canonical
    assert network.prefix_length is None
    assert network.size == len(addresses)
    assert [network.address_text_of(n + 1) for n in range(network.size)] == addresses
    assert [network.position_of(address) for address in addresses] == list(range(1, network.size + 1))
    assert Network.parse(canonical) == network


def test_between_the_pieces_of_a_list_is_outside() -> None:
    network = Network.parse("10.0.0.20-29,10.0.0.5,10.0.0.10-12")
    inside = [n for n in range(256) if network.position_of(f"10.0.0.{n}") is not None]
    assert inside == [5, 10, 11, 12, *range(20, 30)]
    assert [network.position_of(f"10.0.0.{n}") for n in (20, 29, 5, 10, 12)] == [1, 10, 11, 12, 14]


def test_brackets_cover_the_whole_product() -> None:
    network = Network.parse("10.0.[1-2].[1-20]")
    assert network.text == "10.0.1.1-10.0.1.20,10.0.2.1-10.0.2.20"
    assert network.position_of("10.0.2.1") == 21


def test_the_rightmost_bracket_varies_fastest() -> None:
    network = Network.parse("10.[1-2].[7,5].[1,9]")
    assert network.text == ("10.1.7.1,10.1.7.9,10.1.5.1,10.1.5.9,10.2.7.1,10.2.7.9,10.2.5.1,10.2.5.9")


def test_whole_octets_fold_into_one_range() -> None:
    assert Network.parse("10.0.[0-255].[0-255]").text == "10.0.0.0-10.0.255.255"


@over(
    ("text", "block", "meets"),
    [
        ("10.0.0.0/24", "10.0.0.0/30", True),
        ("10.0.0.0/24", "10.0.0.0/32", False),  # the network address has no position
        ("10.0.0.9,10.0.0.3", "10.0.0.4/30", False),
        ("10.0.0.9,10.0.0.3", "10.0.0.8/31", True),
        ("10.0.0.9,10.0.0.3", "0.0.0.0/0", True),
        ("::1", "0.0.0.0/0", False),
        ("::1", "::1/128", True),
    ],
)
def test_whether_it_meets_a_block(text: str, block: str, meets: bool) -> None:
    assert Network.parse(text).meets(ip_network(block)) is meets


@over(
    ("text", "sentence"),
    [
        ("", "the network is empty"),
        (" ,\n", "the network is empty"),
        ("10.0.3.7/16", "'10.0.3.7/16' has host bits set: write 10.0.0.0/16"),
        ("fd00::1/64", "'fd00::1/64' has host bits set: write fd00::/64"),
        ("10.0.0.0/33", "the prefix length in '10.0.0.0/33' is too long: write 0 to 32"),
        ("10.0.0.0/255.255.0.0", "lacks a prefix length: write 0 to 32"),
        ("10.0.0.0/", "lacks a prefix length: write 0 to 32"),
        ("10.0.0.1,10.1.0.0/999", "the prefix length in '10.1.0.0/999' is too long: write 0 to 32"),
        ("fd00::/", "lacks a prefix length: write 0 to 128"),
        ("fd00::/129", "is too long: write 0 to 128"),
        ("10.0.0.1,10.0.0.9/24", "has host bits set: write 10.0.0.0/24"),
        ("node7", "'node7' is no IP address: write numbers, no name and no scope"),
        ("10.0.0.256", "'10.0.0.256' is no IP address"),
        ("10.0.0.010", "'10.0.0.010' is no IP address"),
        ("fe80::1%eth0", "'fe80::1%eth0' is no IP address"),
        ("fe80::%eth0/64", "'fe80::%eth0' in 'fe80::%eth0/64' is no IP address"),
        ("10.0.0.1-node7", "'node7' in '10.0.0.1-node7' is no IP address"),
        ("10.0.0.1-2-3", "'2-3' in '10.0.0.1-2-3' is no IP address"),
        ("10.0.0.0/8/24", "'10.0.0.0/8' in '10.0.0.0/8/24' is no IP address"),
        ("-", "'' in '-' is no IP address"),
        ("10.0.5.60-10", "the range '10.0.5.60-10' is reversed: write 10.0.5.10-10.0.5.60"),
        ("fd00::9-fd00::1", "is reversed: write fd00::1-fd00::9"),
        ("10.0.5.[60-10]", "the range 60-10 in '10.0.5.[60-10]' is reversed: write 10-60"),
        ("10.0.0.1,fd00::1", "mixes families (10.0.0.1 and fd00::1): use only IPv4 or only IPv6"),
        ("10.0.0.1-fd00::1", "mixes families (10.0.0.1 and fd00::1)"),
        ("10.0.0.1,10.0.0.1", "10.0.0.1 is named more than once: name it once"),
        ("10.0.0.20-30,10.0.0.10-22", "10.0.0.20 is named more than once"),
        ("10.0.0.0/24,10.0.0.254", "10.0.0.254 is named more than once"),
        ("10.0.0.[1-5,3]", "10.0.0.3 is named more than once"),
        ("255.255.255.255,255.255.255.255", "255.255.255.255 is named more than once"),
        ("10.0.0.[1-5", "a bracket lacks its other half"),
        ("10.0.0.1-5]", "a bracket lacks its other half"),
        ("10.0.0.[[1-5]]", "a bracket lacks its other half or is nested"),
        ("10.0.0.[5-]", "'' in '10.0.0.[5-]' is no octet"),
        ("10.0.0.[]", "'' in '10.0.0.[]' is no octet: write 0 to 255 or [10-60,70]"),
        ("10.0.0.[1-256]", "'256' in '10.0.0.[1-256]' is no octet"),
        ("10.0.0.[01-20]", "'01' in '10.0.0.[01-20]' is no octet"),
        ("10.0.0.[-5]", "'' in '10.0.0.[-5]' is no octet"),
        ("10.0.0.1[0-9]", "'1[0-9]' in '10.0.0.1[0-9]' is no octet"),
        ("10.0.[1-2].0/24", "'0/24' in '10.0.[1-2].0/24' is no octet"),
        ("10.0.[1-2]", "'10.0.[1-2]' has not 4 octets: use brackets for octets of IPv4 only"),
        ("fd00::[1-20]", "is no octet"),
        ("10.[0-255].[0-255].[1-9]", f"the network has more than {ITEMS_MAX} items"),
        ("10.[0-99].[0-99].[1-9] 11.0.0.1", f"the network has more than {ITEMS_MAX} items"),
        ("10.0.0.\x00", "'10.0.0.\\x00' is no IP address"),
    ],
)
def test_refused(text: str, sentence: str) -> None:
    with pytest.raises(NetworkError) as caught:
        Network.parse(text)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 250


@over("template", ["{}", "10.0.0.1-{}", "10.0.0.[{}]", "10.0.0.[1-{}]", "10.0.0.0/{}", "{}.0.0.1"])
@over("digit", ["9", "\u0663"])
def test_overlong_text_is_refused_in_a_short_sentence(template: str, digit: str) -> None:
    with pytest.raises(NetworkError) as caught:
        Network.parse(template.format(digit * 5000))
    assert len(str(caught.value)) < 250


def test_as_many_items_as_allowed() -> None:
    addresses = [str(IPv4Address(2 * n + 1)) for n in range(ITEMS_MAX)]
    network = Network.parse(",".join(reversed(addresses)))
    assert network.size == ITEMS_MAX
    assert network.position_of(addresses[0]) == ITEMS_MAX
    assert Network.parse("10.[0-99].[0-99].[1-9]").size == 9 * ITEMS_MAX
    with pytest.raises(NetworkError, match="more than 10000 items"):
        Network.parse(",".join([*addresses, "10.0.0.0"]))


@pytest.mark.parametrize("position", [0, -1, 255, 2**70])
def test_no_such_position(position: int) -> None:
    network = Network.parse("10.0.0.0/24")
    with pytest.raises(IndexError, match=f"no position {position} in 10.0.0.0/24: it has 254"):
        network.address_of(position)
    with pytest.raises(IndexError):
        network.address_text_of(position)


def test_what_is_not_inside() -> None:
    network = Network.parse("10.0.0.0/24")
    for stranger in ("10.0.1.1", "10.0.0.0", "10.0.0.255", "fd00::1", "::a00:1", "node7", ""):
        assert network.position_of(stranger) is None
        assert stranger not in network
    assert IPv6Address(int(IPv4Address("10.0.0.1"))) not in network
    assert IPv4Address("10.0.0.1") in network
    assert "10.0.0.1" in network


def test_a_scope_is_no_part_of_the_position() -> None:
    assert Network.parse("fe80::/64").position_of("fe80::7%eth0") == 7


def test_networks_are_values() -> None:
    network = Network.parse("10.0.0.1, 10.0.0.2")
    assert network == Network.parse("10.0.0.1-2")
    assert hash(network) == hash(Network.parse("10.0.0.1-2"))
    assert network != Network.parse("10.0.0.2,10.0.0.1")
    assert network != "10.0.0.1-10.0.0.2"
    assert str(network) == network.text
    assert repr(network) == "Network.parse('10.0.0.1-10.0.0.2')"
    with pytest.raises(AttributeError):
        network.text = "10.0.0.0/8"  # type: ignore[misc]


def test_a_settings_file_can_hold_one() -> None:
    decoded = msgspec.convert("10.0.0.0/8", Network, dec_hook=lambda _, text: Network.parse(text))
    assert decoded == Network.parse("10.0.0.0/8")


def test_fingerprints_stand_for_texts() -> None:
    one, other = (Network.parse(f"10.0.0.1,10.0.0.{n},10.0.0.9") for n in (3, 5))
    assert one.fingerprint == Network.parse(one.text).fingerprint
    assert one.fingerprint.startswith("3 addresses from 10.0.0.1 to 10.0.0.9, sha256 ")
    assert one.fingerprint != other.fingerprint
    assert len(Network.parse("::/0").fingerprint) <= 200


def test_the_caches_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CACHE_ENTRIES_MAX", 10)
    network = Network.parse("10.0.0.0/24")
    for _ in range(2):
        for position in range(1, 255):
            assert network.position_of(network.address_text_of(position)) == position
            assert network.position_of(f"10.0.1.{position}") is None
            assert f"10.0.1.{position}" not in network._positions  # addresses outside are not cached
            assert 1 <= len(network._positions) <= 10
            assert 1 <= len(network._addresses) <= 10


@st.composite
def lists(draw: st.DrawFn) -> tuple[str, list[str]]:
    """A list without overlap in any order, in any of the spellings, and its addresses."""
    cuts = sorted(draw(st.sets(st.integers(0, 2**10), min_size=2, max_size=16)))
    pieces = draw(st.permutations(list(zip(cuts[::2], cuts[1::2], strict=False))))
    base = int(IPv4Address("10.0.255.0"))
    items, addresses = [], []
    for low, high in pieces:
        first, last = IPv4Address(base + low), IPv4Address(base + high - 1)
        items.append(str(first) if first == last else f"{first}-{last}")
        addresses += [str(IPv4Address(base + n)) for n in range(low, high)]
    return draw(st.sampled_from([",", " ", ", ", "\n"])).join(items), addresses


@given(lists())
def test_any_list(case: tuple[str, list[str]]) -> None:
    text, addresses = case
    network = Network.parse(text)
    assert [network.address_text_of(n + 1) for n in range(network.size)] == addresses
    assert [network.position_of(address) for address in addresses] == list(range(1, len(addresses) + 1))
    assert Network.parse(network.text).text == network.text


@given(st.integers(0, 2**128 - 1), st.integers(0, 128), st.data())
def test_any_cidr_there_and_back(bits: int, length: int, data: st.DataObject) -> None:
    network = Network.parse(f"{IPv6Address(bits >> (128 - length) << (128 - length))}/{length}")
    position = data.draw(st.integers(1, network.size))
    address = network.address_of(position)
    assert network.position_of(address) == position
    assert network.position_of(str(address)) == position
    assert network.position_of(network.address_text_of(position)) == position


def test_a_long_item_is_cut_to_sixty_characters() -> None:
    assert [len(_short("x" * length)) for length in (60, 61, 5000)] == [60, 60, 60]
