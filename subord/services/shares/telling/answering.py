"""What a node answers to questions about shares.

Inputs are the state and the overview of the node, and the payload of an order; output is a result within its bounds.
Invariants: without a payload, nodes that follow the document in the same way say the same, but for a root; a payload
that cannot be read is answered with nothing; of more branches than have room the number is told.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Final, TypeVar

import msgspec
import trio

from subord.api.node_api import NodeApi
from subord.core.carriage.engine.bounds import RESULT_BYTES_MAX
from subord.core.carriage.shares.interface import Branch, Decision, LeftOut, OfBranch, Overview, Row, Step
from subord.core.view import Position
from subord.runtime.shares.state import DETAIL_CHARS_MAX, NOTES_MAX
from subord.services.shares.folding import folded
from subord.services.shares.telling.words import (
    AGE_MS_MAX,
    AMOUNT_MAX,
    CONFIGURED_MAX,
    FAULT_CHARS_MAX,
    PATH_MAX,
    STEPS_MAX,
    Ask,
    Following,
    Reported,
    Told,
    ToldBranch,
    ToldDecision,
    ToldLeftOut,
    ToldStep,
    ToldWhy,
    Tree,
    decode_ask,
    encode,
)

SPARE_BYTES: Final = 128
"""For the numbers of branches that are not told, and the lengths of lists."""
Item = TypeVar("Item", ToldBranch, ToldLeftOut)


async def answer(node: NodeApi, payload: bytes) -> bytes:
    """The result of a node."""
    await trio.lowlevel.checkpoint()
    if not payload:
        return encode(told(node))
    ask = decode_ask(payload)
    return b"" if ask is None else encode(told_why(node, ask))


def told(node: NodeApi) -> Told:
    """How the node follows the document; a root tells what its branches report."""
    found = node.shares.overview()
    said = Told(_following(node, found), node.shares.classes[:CONFIGURED_MAX])
    if node.snapshot().path or found.plan is None or found.plan.is_off:
        return said
    return msgspec.structs.replace(said, tree=_tree(found, RESULT_BYTES_MAX - len(encode(said))))


def told_why(node: NodeApi, ask: Ask) -> ToldWhy:
    """Why the row of a branch of this node, or of the node itself, is as it is."""
    found, view = node.shares.overview(), node.snapshot()
    about = _next(ask.path, view.position)
    branch = next((each for each in found.branches if each.position == about), None)
    left_out = next((each for each in found.left_out if each.position == about), None)
    return ToldWhy(
        following=_following(node, found),
        path=view.path[-PATH_MAX:],
        classes=() if found.plan is None else found.plan.classes,
        wanted=_amounts(found.wanted),
        wanted_from=found.wanted_from,
        row_age_ms=None if found.row_age_s is None else _ms(found.row_age_s),
        obeyed=_amounts(found.obeyed),
        asked=found.asked,
        told=found.told,
        undecided=found.undecided[:DETAIL_CHARS_MAX],
        about=about,
        branch=None if branch is None else _branch(branch),
        left_out=None if left_out is None else _left_out(left_out),
        decision=None if found.decided is None else _decision(found, found.decided, about),
    )


def _next(path: Sequence[Position], own: Position) -> Position:
    """The one after the node itself, or the node."""
    after = dict(pairwise(path))
    return after.get(own, own)


def _following(node: NodeApi, found: Overview) -> Following:
    state, plan = node.shares.state, found.plan
    return Following(
        version=0 if plan is None else plan.version,
        mark=0 if plan is None else plan.mark,
        word=state.word,
        detail=state.detail[:DETAIL_CHARS_MAX],
        notes=tuple(each[:DETAIL_CHARS_MAX] for each in state.notes[:NOTES_MAX]),
    )


# -- a root ---------------------------------------------------------------------------------------------------------


def _tree(found: Overview, room: int) -> Tree:
    """In at most `room` bytes. Branches that are left out come first, in at most half of it."""
    assert found.plan is not None
    whole = folded([each.report for each in found.branches]) if found.branches else None
    tree = Tree(
        classes=found.plan.classes,
        wanted=_amounts(found.wanted),
        asked=found.asked,
        told=found.told,
        whole=None if whole is None else _reported(whole),
        decided_ms=None if found.decided_age_s is None else _ms(found.decided_age_s),
        undecided=found.undecided[:DETAIL_CHARS_MAX],
        branches=(),
        left_out=(),
    )
    room -= len(encode(tree)) + SPARE_BYTES
    left_out = _fitting([_left_out(each) for each in found.left_out], room // 2)
    room -= sum(len(encode(each)) for each in left_out)
    branches = _fitting([_branch(each) for each in found.branches], room)
    return msgspec.structs.replace(
        tree,
        branches=branches,
        left_out=left_out,
        more_branches=len(found.branches) - len(branches),
        more_left_out=len(found.left_out) - len(left_out),
    )


def _fitting(items: Sequence[Item], room: int) -> tuple[Item, ...]:
    """The first ones, in at most `room` bytes."""
    sizes = accumulate(len(encode(each)) for each in items)
    return tuple(each for each, size in zip(items, sizes, strict=True) if size <= room)


# -- parts ----------------------------------------------------------------------------------------------------------


def _branch(found: OfBranch) -> ToldBranch:
    return ToldBranch(
        position=found.position,
        said_nodes=found.said_nodes,
        age_ms=_ms(found.age_s),
        row=_amounts(found.row),
        report=_reported(found.report),
    )


def _left_out(found: LeftOut) -> ToldLeftOut:
    return ToldLeftOut(found.position, found.nodes, found.cause, found.fault[:FAULT_CHARS_MAX])


def _reported(found: Branch) -> Reported:
    needy = tuple(part > 0 for part in found.needy)
    return Reported(int(found.nodes), _amounts(found.allocation), _amounts(found.usage), needy)


def _decision(found: Overview, decided: Decision, about: Position) -> ToldDecision:
    place = found.order.index(about) if about in found.order else None
    return ToldDecision(
        age_ms=_ms(found.decided_age_s or 0.0),
        branches=len(found.order),
        row=() if place is None else _amounts(decided.rows[place]),
        steps=() if place is None else tuple(_step(each, place) for each in decided.steps[:STEPS_MAX]),
    )


def _step(step: Step, place: int) -> ToldStep:
    """`place`: of the branch."""
    return ToldStep(step.word, _amounts([each[place] for each in step.columns]), _amounts(step.totals))


def _amounts(row: Row) -> tuple[int, ...]:
    return tuple(round(min(max(each * 1000, -AMOUNT_MAX), AMOUNT_MAX)) for each in row)


def _ms(seconds: float) -> int:
    return round(min(max(seconds * 1000, 0), AGE_MS_MAX))
