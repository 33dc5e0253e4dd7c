"""Where everybody belongs, computed a second time, in plain words and from addresses alone.

Intuition: the examiner does his own sums. Nothing here comes from subord.core.address.network, numbering or
candidates, so a mistake there cannot hide behind the same mistake here.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address, ip_network

from subord.core.state.settings import Settings


def address_of(settings: Settings, number: int) -> str:
    """The address of the house with this number: blocks by host part, lists by place in the list."""
    text = settings.network.text
    if "," not in text and "/" in text:
        block = ip_network(text)
        first_used = 0 if block.num_addresses <= 2 else 1  # RFC 3021, RFC 6164
        return str(block.network_address + (number - 1 + first_used))
    for piece in text.split(","):
        first, _, last = piece.partition("-")
        low, high = int(ip_address(first)), int(ip_address(last or first))
        if number <= high - low + 1:
            return str(ip_address(first) + (number - 1))
        number -= high - low + 1
    raise ValueError(f"{text} has no house of this number")


def home_of(settings: Settings, number: int) -> int:
    """The number of the computed leader; 0: the lowest has none (paper, section "Subordination tree")."""
    p = settings.fanout
    if number == 1:
        return 0
    if settings.numbering_name == "complete":
        return (number - 2) // p + 1  # levels are filled from the left, p seats behind every seat
    level = 0
    while p ** (level + 1) <= number:
        level += 1
    offset = number - p**level
    return 1 if level == 0 else p ** (level - 1) + offset // p


def level_of(settings: Settings, number: int) -> int:
    """The level on which the house with this number stands, as its numbering says."""
    p, level, end = settings.fanout, 0, settings.fanout - 1  # paper: the last number of level 0
    if settings.numbering_name == "complete":
        return levels(settings, number)
    while number > end:
        level += 1
        end = p ** (level + 1) - 1
    return level


def levels(settings: Settings, number: int) -> int:
    """How many steps lie between this house and the first, when everybody is at home."""
    count = 0
    while number > 1:
        number = home_of(settings, number)
        count += 1
    return count


def homes(settings: Settings, living: Mapping[int, object]) -> dict[int, int]:
    """Of those whose computed leader lives: who it is."""
    found = {number: home_of(settings, number) for number in living}
    return {number: home for number, home in found.items() if home in living}
