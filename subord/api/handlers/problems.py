"""The problems of the cluster, each with the nodes that have it.

Input are the answers of all nodes to an order (own_problems.py), and the nodes that gave none, with the cause. Output
is one list: equal problems become one, with the set of their addresses, because several nodes may report a problem
about the same other node. The list is bounded; nodes that did not answer are part of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import reduce
from itertools import islice
from typing import Final

import msgspec

from subord.api.handlers import members
from subord.api.handlers.maintenance import without_maintained
from subord.api.handlers.own_problems import (
    DIFFERENT_MAX,
    NAMED_MAX,
    PROBLEMS_MAX,
    RUNS,
    SAME_EVERYWHERE,
    TEXT_MAX,
    answer,
    decoded,
    has_room,
    rank,
)
from subord.api.models import nodes
from subord.api.models.fields import ErrorsDocument, ProblemDocument, ProblemsDocument, VersionDocument
from subord.api.node_api import NodeApi
from subord.api.query.older_nodes import OlderQuestion
from subord.api.query.orders import Answered, asked, branch
from subord.core.carriage.engine.causes import DOWN, LEFT, MOVED, OLDER, UNKNOWN
from subord.core.carriage.engine.ranges import Ranges
from subord.core.members.listing import has_ended
from subord.core.members.register import State
from subord.runtime.problems import loss_of

__all__ = ["answer", "document", "find", "of_branch"]

SERVICE: Final = "errors"
OLDER_QUESTION: Final = OlderQuestion("problems", ProblemsDocument)
REPORTED_BY_MANY: Final = ("duplicate", "refused", "dropped", "stream", "unlisted")
VANISHED: Final = ("missing", "gone")
"""Kinds, and what the members call it; their text is the same."""
DOWN_TEXT: Final = "down: ended or vanished without goodbye"
NOT_LISTED: Final = (DOWN, LEFT, UNKNOWN, MOVED)
"""Causes of targets that no leader lists as living."""


async def find(node: NodeApi, budget_s: float) -> ErrorsDocument:
    """The problems of the whole cluster, or of the part that answers within `budget_s`."""
    return document(await asked(node, SERVICE, budget_s, older=OLDER_QUESTION))


def document(answered: Answered) -> ErrorsDocument:
    """What the issuer makes of all answers."""
    node, report, coverage = answered.node, answered.report, None
    if not isinstance(report, ProblemsDocument):
        report, coverage = _report(answered), answered.coverage
    found = msgspec.structs.replace(_document(report, answered.asked, answered.note), coverage=coverage)
    shown = without_maintained(found, set(members.maintained_addresses(node)))
    return msgspec.structs.replace(shown, problems=tuple(map(_of_several, shown.problems)))


async def of_branch(node: NodeApi, budget_s: float, *, is_whole: bool) -> ProblemsDocument:
    """The report of this node's branch, or as a root that of the whole tree, for a node of release 0.2."""
    targets = None if is_whole else branch(node)
    answered = await asked(node, SERVICE, budget_s, targets=targets, older=OLDER_QUESTION)
    is_of_all = is_whole and node.roster().is_root and node.orders.is_settled
    return msgspec.structs.replace(_report(answered), is_whole=is_of_all)


# -- of the answers ---------------------------------------------------------------------------------------------


def _report(answered: Answered) -> ProblemsDocument:
    return msgspec.structs.replace(folded([*_told(answered), _missing(answered)]), listed=_listed(answered))


def _told(answered: Answered) -> Iterator[ProblemsDocument]:
    """What the nodes of each group have said, and the versions of older ones."""
    for result, positions in answered.answer.groups:
        yield _of_group(answered.node, result, positions)
    yield ProblemsDocument(nodes=len(answered.answer.others), problems=(), more=len(answered.answer.others))
    address_of = answered.node.settings.network.address_text_of
    for position, older in answered.older.items():
        yield ProblemsDocument(
            nodes=0, problems=(_problem("version", f"{RUNS}{older.version}", address_of(position)),)
        )


def _of_group(node: NodeApi, result: bytes, positions: Ranges) -> ProblemsDocument:
    """What these nodes have said alike."""
    count, said = len(positions), decoded(result)
    if said is None:  # as if there had been no room
        return ProblemsDocument(nodes=count, problems=(), more=count)
    own = nodes.addresses(node.settings, islice(positions, NAMED_MAX))
    problems = tuple(
        ProblemDocument(
            kind=each.kind,
            text=each.text,
            nodes=each.nodes or count,
            addresses=each.addresses if each.nodes else own,
            ago_s=None if each.age_s < 0 else float(each.age_s),
        )
        for each in said.problems[:PROBLEMS_MAX]
    )
    return ProblemsDocument(nodes=count, problems=problems, more=said.more)


def _missing(answered: Answered) -> ProblemsDocument:
    """The nodes without an answer: those that are down, those of an older release, and those that are silent.

    The register of the issuer has what is known of a node while no coordinator answers, too.
    """
    node, register = answered.node, answered.node.tracker.membership.register
    gone, vanished, older, silent = list[int](), list[int](), list[int](), list[int]()
    by_cause = {DOWN: vanished, OLDER: older}
    for cause, positions in answered.answer.missing:
        for position in () if cause in (LEFT, UNKNOWN) else positions:
            record = register.at(position)
            if not has_ended(record):
                is_gone = record is not None and record.state is State.DOWN
                (gone if is_gone else by_cause.get(cause, silent)).append(position)
    named = nodes.addresses(node.settings, islice(sorted(silent), NAMED_MAX))
    problems = (
        (kind, nodes.addresses(node.settings, sorted(each)))
        for kind, each in zip(VANISHED, (vanished, gone), strict=True)
    )
    return ProblemsDocument(
        nodes=0,
        problems=tuple(_problem(kind, DOWN_TEXT, *addresses) for kind, addresses in problems if addresses),
        silent=named,
        silent_nodes=len(silent),
        older=nodes.addresses(node.settings, islice(sorted(older), NAMED_MAX)),
        older_nodes=len(older),
    )


def _listed(answered: Answered) -> int | None:
    """How many nodes the coordinator lists as living; None: none was found."""
    if not answered.answer.is_coordinated:
        return None
    return len(answered.answer.targets) - sum(len(n) for cause, n in answered.answer.missing if cause in NOT_LISTED)


# -- of the document --------------------------------------------------------------------------------------------


def _of_several(problem: ProblemDocument) -> ProblemDocument:
    """With "their" for several nodes. The last step: the others read the text."""
    if problem.kind != "lost" or problem.nodes == 1:
        return problem
    return msgspec.structs.replace(problem, text=problem.text.replace("lost its leader", "lost their leader", 1))


def _document(found: ProblemsDocument, asked: str, note: str | None) -> ErrorsDocument:
    """The report without what is the same everywhere: there only a difference from most nodes is a problem.

    A silent node is reported once, and so is a death.
    """
    problems = [_without(each, found.silent) if each.kind == "silent" else each for each in found.problems]
    problems = _by_death([each for each in problems if each.kind not in SAME_EVERYWHERE and each.nodes])
    for kind in SAME_EVERYWHERE:
        stated = sorted((each for each in found.problems if each.kind == kind), key=lambda each: -each.nodes)
        problems += [
            msgspec.structs.replace(each, text=f"{each.text}, most {stated[0].text}"[:TEXT_MAX])
            for each in stated[1:]
        ]
    down = sum(each.nodes for each in problems if each.kind in VANISHED)
    fields = {
        **msgspec.structs.asdict(found),
        "problems": tuple(problems),
        "versions": _versions(found),
        "down": down,
    }
    return ErrorsDocument(asked=asked, complete=note is None, note=note, **fields)


def _versions(found: ProblemsDocument) -> tuple[VersionDocument, ...]:
    stated = sorted((each for each in found.problems if each.kind == "version"), key=lambda each: -each.nodes)
    return tuple(
        VersionDocument(version=each.text.removeprefix(RUNS), nodes=each.nodes, addresses=each.addresses)
        for each in stated
    )


def _without(problem: ProblemDocument, silent: tuple[str, ...]) -> ProblemDocument:
    rest = tuple(address for address in problem.addresses if address not in silent)
    nodes = problem.nodes - len(problem.addresses) + len(rest)
    return msgspec.structs.replace(problem, addresses=rest, nodes=nodes)


def _by_death(problems: list[ProblemDocument]) -> list[ProblemDocument]:
    """One problem for each death: what the subordinates of a vanished node noticed is part of the problem of it.

    If they noticed it in several ways, each is shown with their number, the most frequent first.
    """
    noticed: dict[str, list[tuple[str, ProblemDocument]]] = {}
    for each in problems:
        if each.kind == "lost" and (loss := loss_of(each.text)) is not None:
            noticed.setdefault(loss[0], []).append((loss[1], each))
    losses = {dead: _one_loss(ways) for dead, ways in noticed.items()}
    vanished = {address for each in problems if each.kind in VANISHED for address in each.addresses}
    found: dict[int | str, list[ProblemDocument]] = {}
    for number, each in enumerate(problems):
        loss = loss_of(each.text) if each.kind == "lost" else None
        if each.kind in VANISHED:
            found[number] = _with_losses(each, losses)
        elif loss is None:
            found[number] = [each]
        elif loss[0] not in vanished:
            found[loss[0]] = [losses[loss[0]][1]]
    return [each for some in found.values() for each in some]


def _one_loss(ways: list[tuple[str, ProblemDocument]]) -> tuple[str, ProblemDocument]:
    """How a leader was lost, and the problem of all that lost it."""
    (how, most), *rest = sorted(ways, key=lambda way: -way[1].nodes)
    if not rest:
        return how, most
    others = " or ".join(f"{how} ({each.nodes})" for how, each in rest)
    also = f" ({most.nodes}) or {others}"
    return how + also, msgspec.structs.replace(reduce(_sum, (each for _, each in ways)), text=most.text + also)


def _with_losses(vanished: ProblemDocument, losses: dict[str, tuple[str, ProblemDocument]]) -> list[ProblemDocument]:
    """The problem of vanished nodes, divided by the way in which their subordinates lost them."""
    by_way: dict[str, list[str]] = {}
    for address in vanished.addresses:
        by_way.setdefault(losses[address][0] if address in losses else "", []).append(address)
    unexplained = by_way.pop("", [])
    found = []
    for how, addresses in by_way.items():
        told = [losses[address][1] for address in addresses]
        witnesses = sum(each.nodes for each in told)
        said = f"{witnesses} subordinates say" if witnesses != 1 else "1 subordinate says"
        latest_s = min((each.ago_s for each in told if each.ago_s is not None), default=None)
        found.append(_problem(vanished.kind, f"{vanished.text}; {said} that {how}", *addresses, ago_s=latest_s))
    left = vanished.nodes - len(vanished.addresses) + len(unexplained)
    if left:
        found.append(msgspec.structs.replace(vanished, nodes=left, addresses=tuple(unexplained)))
    return found


# -- folding -----------------------------------------------------------------------------------------------------


def _problem(kind: str, text: str, *addresses: str, ago_s: float | None = None) -> ProblemDocument:
    named = addresses[:NAMED_MAX]
    return ProblemDocument(kind=kind, text=text[:TEXT_MAX], nodes=len(addresses), addresses=named, ago_s=ago_s)


def folded(reports: Iterable[ProblemsDocument]) -> ProblemsDocument:
    """One report made of many: the worst kinds first, within a kind the problems of most nodes."""
    all_of = list(reports)
    problems = _joined(problem for report in all_of for problem in report.problems)
    problems.sort(key=lambda each: (rank(each.kind), -each.nodes, each.text))
    for kind in SAME_EVERYWHERE:  # a liar must not displace the others
        surplus = [each for each in problems if each.kind == kind][DIFFERENT_MAX:]
        problems = [each for each in problems if each not in surplus]
    silent = tuple(dict.fromkeys(address for report in all_of for address in report.silent))
    older = tuple(dict.fromkeys(address for report in all_of for address in report.older))
    return ProblemsDocument(
        nodes=sum(report.nodes for report in all_of),
        problems=_chosen(problems),
        more=sum(report.more for report in all_of) + max(0, len(problems) - PROBLEMS_MAX),
        silent=silent[:NAMED_MAX],
        silent_nodes=sum(report.silent_nodes for report in all_of),
        older=older[:NAMED_MAX],
        older_nodes=sum(report.older_nodes for report in all_of),
    )


def _chosen(problems: list[ProblemDocument]) -> tuple[ProblemDocument, ...]:
    """The worst problems for which there is room, in their order; no kind displaces all problems of another kind."""
    of_kind: Counter[str] = Counter()
    first: list[int] = []
    others: list[int] = []
    for number, each in enumerate(problems):
        of_kind[each.kind] += 1
        (first if has_room(each.kind, of_kind[each.kind]) else others).append(number)
    return tuple(problems[number] for number in sorted([*first, *others][:PROBLEMS_MAX]))


def _joined(problems: Iterable[ProblemDocument]) -> list[ProblemDocument]:
    joined: dict[tuple[str, str], ProblemDocument] = {}
    for each in problems:
        name = each.kind, each.text
        joined[name] = _sum(joined[name], each) if name in joined else each
    return list(joined.values())


def _sum(one: ProblemDocument, other: ProblemDocument) -> ProblemDocument:
    """Addresses that several reports name count once; unnamed nodes count once if several nodes report the same."""
    addresses = tuple(dict.fromkeys((*one.addresses, *other.addresses)))
    unnamed = [each.nodes - len(each.addresses) for each in (one, other)]
    hidden = max(unnamed) if one.kind in REPORTED_BY_MANY else sum(unnamed)
    ages = [each.ago_s for each in (one, other) if each.ago_s is not None]
    return ProblemDocument(
        kind=one.kind,
        text=one.text,
        nodes=len(addresses) + hidden,
        addresses=addresses[:NAMED_MAX],
        ago_s=min(ages, default=None),
    )
