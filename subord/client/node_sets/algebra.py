"""Sets of nodes in ClusterShell's notation: `@rack1,node[07-09]!10.0.0.3`. Pure.

In: a text, and a function that gives the text of a group. Out: steps, and from these a set of addresses. Operators
apply from left to right: `,` or a blank unites, `!` takes away, `&` keeps what both have, `^` what only one has.
Invariant: a set never names more than NODES_MAX nodes, however its groups refer to each other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from subord.config.hostlist import DIGITS_MAX, NAMES_MAX, HostListError, is_named, unfolded, without_brackets

NODES_MAX: Final = 100_000
"""Nodes that one text may name, those of its groups and those that it takes away included."""
STEPS_MAX: Final = 10_000
DEPTH_MAX: Final = 16
"""Groups inside groups."""
ALL: Final = "*"
OPERATORS: Final = ("!", "&", "^")
"""Those that need a left side; commas and blanks may be repeated, as in a host list."""

_TOKENS = re.compile(r"(?P<word>(?:\[[^\[\]]*\]|[^\s,!&^\[\]])+)|(?P<operator>[,!&^])|(?P<bracket>[\[\]])")
_GROUP = re.compile(r"@(?:(?P<source>[^:]*):)?(?P<name>[^:]*)")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+=-]{0,99}")
_STEPS = re.compile(rf"([0-9]{{1,{DIGITS_MAX}}})-([0-9]{{1,{DIGITS_MAX}}})/([0-9]{{1,{DIGITS_MAX}}})(?=[,\]\s])")


class NodeSetError(ValueError):
    """The text describes no set. The message names the offending piece; `passing`: the cause is temporary."""

    def __init__(self, text: str, *, passing: bool = False, group: str = "") -> None:
        super().__init__(f"in the group {group}: {text}" if group else text)
        self.passing, self._group = passing, group

    def inside(self, group: str) -> NodeSetError:
        """The same error with its group, the innermost one of several."""
        return self if self._group else NodeSetError(str(self), passing=self.passing, group=group)


Groups = Callable[[str | None, str], tuple[str, str]]
"""(source or None for the default one, group or ALL) -> (source, text of the set). Raises NodeSetError."""


class Step(NamedTuple):
    """One operand and its operator; `nodes` are addresses and names, or the steps of a group."""

    operator: str
    nodes: frozenset[str] | tuple[Step, ...]


def is_group_name(text: str) -> bool:
    """Whether `text` may name a group or a source. All its characters mean themselves in a shell and a command."""
    return _NAME.fullmatch(text) is not None


def steps_of(text: str, groups: Groups) -> tuple[Step, ...]:
    """The steps of a set. Raises NodeSetError."""
    return _Reader(groups).read(text, None, ())


def names_in(steps: tuple[Step, ...]) -> Iterator[str]:
    """The names, which need an address; in lower case, perhaps more than once."""
    for step in steps:
        yield from names_in(step.nodes) if isinstance(step.nodes, tuple) else filter(is_named, step.nodes)


def value(steps: tuple[Step, ...], addresses: Mapping[str, str]) -> set[str]:
    """The addresses of the set. `addresses` has those of all names."""
    found: set[str] = set()
    for operator, nodes in steps:
        operand = (
            value(nodes, addresses) if isinstance(nodes, tuple) else {addresses.get(each, each) for each in nodes}
        )
        match operator:
            case "!":
                found -= operand
            case "&":
                found &= operand
            case "^":
                found ^= operand
            case _:
                found |= operand
    return found


class _Reader:
    """Reads one text with all its groups, and counts what they name."""

    def __init__(self, groups: Groups) -> None:
        self._groups = groups
        self._steps = self._nodes = 0

    def read(self, text: str, source: str | None, within: tuple[str, ...]) -> tuple[Step, ...]:
        """`source` is that of groups without one; `within` are the groups whose text this is."""
        steps: list[Step] = []
        operator = before = ","
        for token in _TOKENS.finditer(re.sub(r"\s*-\s*", "-", text)):
            if token["bracket"]:
                raise NodeSetError(
                    f"a bracket in {_short(text)!r} lacks its other half or is nested: write node[1-4,7]"
                )
            if token["word"]:
                steps.append(Step(operator, self._operand(token["word"], source, within)))
                operator, before = ",", ""
                continue
            if before in OPERATORS:
                raise _lacks(before, "right", text)
            if token["operator"] in OPERATORS:
                if before == ",":
                    raise _lacks(token["operator"], "left", text)
                operator = token["operator"]
            before = token["operator"]
        if before in OPERATORS:
            raise _lacks(before, "right", text)
        return tuple(steps)

    def _operand(self, word: str, source: str | None, within: tuple[str, ...]) -> frozenset[str] | tuple[Step, ...]:
        self._steps += 1
        if self._steps > STEPS_MAX:
            raise NodeSetError(f"more than {STEPS_MAX} parts at {_short(word)!r}: write ranges")
        if word.startswith("@"):
            return self._group(word, source, within)
        found = _nodes(_without_steps(word), NODES_MAX - self._nodes)
        self._nodes += len(found)
        return found

    def _group(self, word: str, source: str | None, within: tuple[str, ...]) -> tuple[Step, ...]:
        steps: list[Step] = []
        for each in _unfolded_group(_without_steps(word)):
            group = _GROUP.fullmatch(each)
            if group is None or not (group["name"] == ALL or is_group_name(group["name"])):
                raise NodeSetError(f"{_short(each)!r} names no group: write @rack1, @source:rack1 or @*")
            if group["source"] is not None and not is_group_name(group["source"]):
                raise NodeSetError(f"{_short(each)!r} names no source of groups: write @source:rack1")
            found, text = self._groups(group["source"] or source, group["name"])
            name = f"@{found}:{group['name']}"
            if name in within or len(within) == DEPTH_MAX:
                why = "contains itself" if name in within else f"is the {DEPTH_MAX + 1}th of groups inside each other"
                raise NodeSetError(f"{name} {why}: {_short(' > '.join((*within, name)))}")
            try:
                steps.append(Step(",", self.read(text, found, (*within, name))))
            except NodeSetError as error:
                raise error.inside(name) from None
        return tuple(steps)


def _lacks(operator: str, side: str, text: str) -> NodeSetError:
    return NodeSetError(f"{operator!r} in {_short(text)!r} lacks its {side} side: write node[1-4]{operator}node[3-7]")


def _nodes(word: str, room: int) -> frozenset[str]:
    """The names or addresses of one word without operators."""
    if "*" in word or "?" in word:
        raise NodeSetError(f"{_short(word)!r} has a wildcard, which is not read: name a range or a group")
    if is_named(word):
        try:
            found = frozenset(name.lower().removesuffix(".") for name in unfolded(word))
        except HostListError as error:
            raise NodeSetError(str(error)) from None
        if len(found) > room:
            raise _too_many(word)
        return found
    from subord.core.address.network import Network, NetworkError

    try:
        network = Network.parse(word)
    except NetworkError as error:
        raise NodeSetError(str(error)) from None
    if network.size > room:
        raise _too_many(word)
    return frozenset(str(network.address_of(position)) for position in range(1, network.size + 1))


def _too_many(word: str) -> NodeSetError:
    return NodeSetError(f"more than {NODES_MAX} nodes at {_short(word)!r}: name fewer")


def _unfolded_group(word: str) -> Iterator[str]:
    try:
        yield from without_brackets(word)
    except HostListError as error:
        raise NodeSetError(str(error)) from None


def _without_steps(word: str) -> str:
    """`node[1-9/4]` as `node[1,5,9]`."""

    def listed(found: re.Match[str]) -> str:
        low, high, step = found.groups()
        values = range(int(low), int(high) + 1, max(1, int(step)))
        if not values or not int(step):
            raise NodeSetError(f"{found[0]!r} in {_short(word)} is not a range with steps: write 1-9/2")
        if len(values) > NAMES_MAX:
            raise NodeSetError(f"{_short(word)} stands for more than {NAMES_MAX} names: name fewer")
        width = len(low) if low.startswith("0") else 1
        return ",".join(f"{each:0{width}}" for each in values)

    return re.sub(r"\[[^\]]*\]", lambda bracket: _STEPS.sub(listed, bracket[0]), word) if "[" in word else word


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."
