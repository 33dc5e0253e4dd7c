"""The computed leaders and levels, computed a second time, from addresses alone.

Nothing here comes from subord.core.address, so that a fault there is not repeated here.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address, ip_network

from subord.core.settings import Settings


def address_of(settings: Settings, number: int) -> str:
    """The address with this number: blocks by host part, lists by place in the list."""
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
    raise ValueError(f"{text} has no address of this number")


def home_of(settings: Settings, number: int) -> int:
    """The number of the computed leader; 0: the lowest has none (paper, section "Subordination tree")."""
    p = settings.fanout
    if number == 1:
        return 0
    if settings.numbering_name == "complete":
        return (number - 2) // p + 1  # levels fill from the left, p places below every place
    level = 0
    while p ** (level + 1) <= number:
        level += 1
    offset = number - p**level
    return 1 if level == 0 else p ** (level - 1) + offset // p


def level_of(settings: Settings, number: int) -> int:
    """The level of this number, in the levels of its numbering."""
    p, level, end = settings.fanout, 0, settings.fanout - 1  # paper: the last number of level 0
    if settings.numbering_name == "complete":
        return levels(settings, number)
    while number > end:
        level += 1
        end = p ** (level + 1) - 1
    return level


def levels(settings: Settings, number: int) -> int:
    """The number of edges from this number up to the first, with all nodes at home."""
    count = 0
    while number > 1:
        number = home_of(settings, number)
        count += 1
    return count


def homes(settings: Settings, living: Mapping[int, object]) -> dict[int, int]:
    """Number -> computed leader, of those whose computed leader lives."""
    found = {number: home_of(settings, number) for number in living}
    return {number: home for number, home in found.items() if home in living}
