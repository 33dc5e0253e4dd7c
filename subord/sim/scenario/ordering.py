"""The steps that give orders and judge their answers (docs/protocol/carriage.md).

Values of `do`, as those of definition.py; the docstrings are the tables of docs/scenarios.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Annotated, Literal, NamedTuple

import msgspec

from subord.core.view import Position
from subord.sim.scenario.selection import folded
from subord.sim.scenario.step_types import Seconds, Selector, StepBase

Cause = Literal["silent", "down", "left", "moved", "busy", "expired", "no time", "no coordinator"]


class Order(StepBase, frozen=True, tag="order"):
    """Each of `nodes` that runs gives `times` orders to all members, as `subord ping` does. Takes no time."""

    nodes: Selector
    times: Annotated[int, msgspec.Meta(ge=1, le=100)] = 1
    left_s: Annotated[float, msgspec.Meta(ge=0.1, le=8)] = 5.0  # until the order ends


class Answered(StepBase, frozen=True, tag="answered"):
    """Waits for the answers of all orders since the last `answered`; the answers of nodes that have ended are void.

    Each comes within `within_s` of its order, and has every running node as told or missing, never as both. Missing
    are only nodes of `missing`, nodes that do not run, and nodes with one of `causes`.
    """

    within_s: Seconds
    missing: Selector | None = None
    causes: Annotated[
        tuple[Cause, ...], msgspec.Meta(extra={"words": "a list of causes, such as `silent` or `busy`"})
    ] = ()


class Heard(NamedTuple):
    """The answer to one order. Nodes as positions."""

    issuer: Position
    took_s: float
    told: frozenset[Position]
    missing: Mapping[Position, str]  # -> the cause


def complaint(step: Answered, heard: Heard, running: Set[Position], allowed: Set[Position]) -> str | None:
    """What `step` demands of an answer and is not so; None: all is so. `running`: from the order to its answer."""
    if heard.took_s > step.within_s:
        return f"{heard.issuer} was answered after {heard.took_s:.2f} s, at most {step.within_s:g} s are allowed"
    twice = heard.told & heard.missing.keys()
    if twice:
        return f"{heard.issuer} was told that {folded(twice)} both answered and are missing"
    unnamed = running - heard.told - heard.missing.keys()
    if unnamed:
        return f"the answer to {heard.issuer} says nothing of {folded(unnamed)}"
    for position, cause in sorted(heard.missing.items()):
        if position in running - allowed and cause not in step.causes:
            return f"{position} is missing in the answer to {heard.issuer}: {cause}"
    return None
