"""What the asking node makes of the answers of nodes about shares.

Inputs are the answers and the document that the asking node holds; output is a SharesDocument. Invariants: what
cannot be read is passed over; only the root tells what branches report; each node that has answered stands in one
state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from subord.api.models import nodes
from subord.api.models.coverage import CoverageDocument
from subord.api.node_api import NodeApi
from subord.api.query.orders import Answered
from subord.core.carriage.engine.ranges import Ranges
from subord.core.carriage.shares.plan import Plan
from subord.core.view import Position
from subord.runtime.shares import state
from subord.services.answers import Heard, heard, named, place_of, sentence_of, united, united_by
from subord.services.serving import of_coverage
from subord.services.shares.telling.documents import (
    LEFT_OUT,
    BranchDocument,
    ClassDocument,
    KnownDocument,
    LeftOutDocument,
    PlanDocument,
    SharesDocument,
    StateDocument,
    TreeDocument,
)
from subord.services.shares.telling.published import published
from subord.services.shares.telling.words import (
    Amounts,
    Following,
    Reported,
    Told,
    ToldBranch,
    ToldLeftOut,
    Tree,
    decode_told,
)

KNOWN_MAX: Final = 512
"""Classes in a document: those of the shares, and then those of the most nodes."""


def document(answered: Answered) -> CoverageDocument:
    """The document of all answers."""
    node, (plan, shown) = answered.node, published(answered.node)
    answers, unread = heard(answered, decode_told)
    return of_coverage(
        SharesDocument,
        answered,
        plan=shown,
        tree=_tree(node, answers),
        known=tuple(_known(node, shown, answers)),
        states=tuple(_states(node, plan, shown, answers)),
        unread=unread,
    )


# -- states ---------------------------------------------------------------------------------------------------------


def _states(
    node: NodeApi, plan: Plan | None, shown: PlanDocument, answers: list[Heard[Told]]
) -> Iterator[StateDocument]:
    """Those that need an operator first."""
    groups = united_by((each.told.following, each.nodes) for each in answers)
    found = [_state(node, following, told, plan, shown) for following, told in groups.items()]
    yield from sorted(found, key=_urgency)


def _urgency(found: StateDocument) -> tuple[object, ...]:
    place = place_of(found.state, state.WORDS)
    return (found.follows, place, not found.notes, -found.nodes, found.detail, found.version)


def _state(
    node: NodeApi, following: Following, told: Ranges, plan: Plan | None, shown: PlanDocument
) -> StateDocument:
    ours = (shown.version, 0 if plan is None else plan.mark)
    settled = state.NONE if plan is None else state.OFF if plan.is_off else state.OBEYS
    return StateDocument(
        state=following.word,
        text=sentence_of(following.word, state.SENTENCES),
        detail=following.detail,
        notes=following.notes,
        version=following.version,
        follows=(following.version, following.mark) == ours and following.word == settled,
        nodes=len(told),
        addresses=named(node, told),
    )


def _known(node: NodeApi, shown: PlanDocument, answers: list[Heard[Told]]) -> Iterator[KnownDocument]:
    everyone = united([each.nodes for each in answers])
    having = Counter[str]()
    for each in answers:
        having.update(dict.fromkeys(each.told.classes, len(each.nodes)))
    wanted = [each.name for each in shown.classes]
    others = sorted(having.keys() - set(wanted), key=lambda name: (-having[name], name))
    for name in (*wanted, *others[: max(0, KNOWN_MAX - len(wanted))]):
        lacking = united([each.nodes for each in answers if name not in each.told.classes])
        count = len(everyone) - having[name]
        yield KnownDocument(name=name, nodes=having[name], lacking=count, addresses=named(node, lacking))


# -- the tree -------------------------------------------------------------------------------------------------------


def _tree(node: NodeApi, answers: list[Heard[Told]]) -> TreeDocument | None:
    view = node.snapshot()
    root = view.path[0] if view.path else view.position
    tree = next((each.told.tree for each in answers if root in each.nodes), None)
    if tree is None:
        return None
    whole = tree.whole
    return TreeDocument(
        root=node.settings.network.address_text_of(root),
        asked=tree.asked,
        told=tree.told,
        decided_s=None if tree.decided_ms is None else tree.decided_ms / 1000,
        undecided=tree.undecided,
        classes=classes_of(tree.classes, tree.wanted, whole),
        branches=tuple(_branches(node, root, tree)),
        left_out=tuple(_left_out(node, tree)),
        more_branches=tree.more_branches,
        more_left_out=tree.more_left_out,
    )


def _branches(node: NodeApi, root: Position, tree: Tree) -> Iterator[BranchDocument]:
    for each in tree.branches:
        for address in nodes.addresses(node.settings, (each.position,)):
            yield _branch(tree, each, address, is_alone=each.position == root)


def _branch(tree: Tree, found: ToldBranch, address: str, *, is_alone: bool) -> BranchDocument:
    return BranchDocument(
        address=address,
        alone=is_alone,
        nodes=found.report.nodes,
        said_nodes=found.said_nodes,
        age_s=found.age_ms / 1000,
        classes=classes_of(tree.classes, found.row, found.report),
    )


def _left_out(node: NodeApi, tree: Tree) -> Iterator[LeftOutDocument]:
    for each in tree.left_out:
        text = text_of_left_out(each)
        for address in nodes.addresses(node.settings, (each.position,)):
            yield LeftOutDocument(address=address, nodes=each.nodes, cause=each.cause, text=text)


def text_of_left_out(found: ToldLeftOut) -> str:
    """With its verb."""
    text = LEFT_OUT.get(found.cause, f"is left out: {found.cause}")
    return f"{text}: it {found.fault}" if found.fault else text


def classes_of(names: Sequence[str], wanted: Amounts, report: Reported | None) -> tuple[ClassDocument, ...]:
    """`wanted` empty: unknown."""
    return tuple(
        ClassDocument(
            name=name,
            wanted=wanted[place] / 1000 if wanted else None,
            allocation=None if report is None else report.allocation[place] / 1000,
            usage=None if report is None else report.usage[place] / 1000,
            needy=None if report is None else report.needy[place],
        )
        for place, name in enumerate(names)
    )
