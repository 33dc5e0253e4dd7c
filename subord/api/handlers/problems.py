"""The problems of the cluster, each with the nodes that have it.

Every leader asks its subordinates, adds its own problems and reports one list, so the root needs one report for each
subordinate. Equal problems become one, with the set of their addresses, because several nodes may report a problem
about the same other node. The list is bounded; nodes that did not answer are part of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import reduce
from typing import Final

import msgspec
import trio

from subord import __version__
from subord.api.handlers import members
from subord.api.handlers.maintenance import without_maintained
from subord.api.models import nodes
from subord.api.models.fields import ErrorsDocument, ProblemDocument, ProblemsDocument, VersionDocument
from subord.api.models.members import MembersDocument
from subord.api.node_api import AskFailure, NodeApi
from subord.api.query import aggregate
from subord.core.identity.identity import WORDS
from subord.core.view import Snapshot
from subord.runtime.problems import LATELY_S, loss_of
from subord.runtime.security.peer_identity import CERTIFICATE_REASON, FOREIGN_KEY, NO_IDENTITY

PROBLEMS_MAX: Final = 64
OF_A_KIND_MIN: Final = 4  # of each known kind: one kind leaves room for the others
NAMED_MAX: Final = 512
STREAMS_BROKEN_MIN: Final = 3  # of one address: some break whenever a node dies or starts
TEXT_MAX: Final = 200
DIFFERENT_MAX: Final = 8  # versions, and rings, in a report
SHARE_BELOW: Final = 0.9  # the rest is for nodes that are asked again
REPORTED_BY_MANY: Final = ("duplicate", "refused", "dropped", "stream", "unlisted")
COUNT_QUIET_S: Final = 5.0  # without a change, or counts may differ because a node is moving
VANISHED: Final = ("missing", "gone")
"""Kinds, and what the members call it; their text is the same."""
DOWN: Final = "down: ended or vanished without goodbye"
MEANINGS: Final = {
    "no_key": " (it uses another key)",
    "unsealed": " (it has no key)",
    "row_not_below": " (it reports nodes that cannot stand below it)",
    "row_bad_proof": " (it reports what these nodes have not signed)",
    "rows_of_one": " (it reports too many nodes)",
    "rows_absent": " (it reports nodes of which hardly any answers)",
    "boot_leap": " (it tells this node of an earlier life years ahead of the clock)",
    "stale_boot": " (they are of a former life)",
    "tls_foreign_key": " (its key is not that of this address: another machine, or the node lost its key)",
    "tls_no_identity": " (it shows no identity: an older release, or it cannot save its key)",
    "tls_certificate_altered": " (the certificate of its identity is forged)",
    "tls_certificate_malformed": " (the certificate of its identity cannot be read)",
    "tls_certificate_of_a_user": " (the certificate of its identity is not for hosts: `ssh-keygen -h`)",
    "tls_certificate_other_key": " (it shows the certificate of another key)",
    "tls_certificate_restricted": " (the certificate of its identity has critical options)",
    "tls_certificate_revoked": " (its key or its authority is revoked)",
    "tls_certificate_weak": " (the certificate of its identity is signed with SHA-1)",
    "tls_certificate_missing": " (its identity has no certificate of the site's authority)",
    "tls_certificate_not_valid_now": " (the certificate of its identity has expired, or a clock is wrong)",
    "tls_certificate_other_address": " (the certificate of its identity does not name its address)",
    "tls_certificate_unknown_authority": " (another authority has certified its identity)",
    "bad_tag": " (its address is translated on the way, or forged)",
}
IDENTITY_REASONS: Final = (FOREIGN_KEY, NO_IDENTITY, CERTIFICATE_REASON)  # shown at once
IDENTITY_WORDS: Final = frozenset(WORDS.values())
RUNS: Final = "runs version "
SAME_EVERYWHERE: Final = ("version", "ring")
KINDS: Final = (
    "duplicate",
    "refused",
    "order",
    "conflict",
    "silent",
    "missing",
    "gone",
    "unlisted",
    "disputed",
    "rekeyed",
    "count",
    "seeking",
    "dropped",
    "stream",
    "unsaved",
    "performance",
    "lost",
)
"""Worst first; others come last."""


async def find(node: NodeApi, budget_s: float) -> ErrorsDocument:
    """The problems of the whole cluster, or of the largest part that answers within `budget_s`."""

    async def own(left_s: float) -> ProblemsDocument:
        return await (of_subtree if nodes.path(node) else of_tree)(node, left_s)

    found = await aggregate.of_tree(node, "problems", ProblemsDocument, budget_s, own)
    note = found.note
    if note is None and not found.report.is_whole:
        note = f"{found.asked} knows no root just now: this is what it knows"
    above = ProblemsDocument(nodes=0, problems=(), silent=found.silent, silent_nodes=len(found.silent))
    reports = [above, found.report] if found.report.is_whole else [above, found.report, _by_own_register(node)]
    known = msgspec.structs.replace(folded(reports), is_whole=found.report.is_whole)
    shown = without_maintained(_document(known, found.asked, note), set(members.maintained_addresses(node)))
    return msgspec.structs.replace(shown, problems=tuple(map(_of_several, shown.problems)))


def _by_own_register(node: NodeApi) -> ProblemsDocument:
    """What only a root would report: the nodes that are down, as this node's register has them."""
    return ProblemsDocument(nodes=0, problems=_down(members.registered(node)))


def _down(known: MembersDocument) -> tuple[ProblemDocument, ...]:
    of = {kind: [each.address for each in known.members if each.standing == kind] for kind in VANISHED}
    return tuple(_problem(kind, DOWN, *addresses) for kind, addresses in of.items() if addresses)


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


async def of_tree(node: NodeApi, budget_s: float) -> ProblemsDocument:
    """At the root: the problems of its subtree, and the nodes that vanished."""
    away = _down(members.own(node))
    before = node.snapshot().subtree_nodes
    below = await of_subtree(node, budget_s)
    listed = node.snapshot().subtree_nodes
    counted = ProblemsDocument(nodes=0, problems=(*away, *_difference(node, below, before, listed)))
    found = folded([below, counted])
    return msgspec.structs.replace(found, is_whole=node.roster().is_root, listed=listed)


def _difference(node: NodeApi, below: ProblemsDocument, *listed: int) -> tuple[ProblemDocument, ...]:
    """A problem if the number of nodes that answered or are known to be silent is not what the root lists."""
    stated = _nodes_of(below)
    if min(listed) <= stated <= max(listed) or node.roster().quiet_s < COUNT_QUIET_S:
        return ()
    return (_problem("count", f"the root lists {listed[-1]}, and by their own word they are {stated}", node.address),)


def _nodes_of(report: ProblemsDocument) -> int:
    """The number of nodes that a report covers."""
    return report.nodes + report.silent_nodes + report.older_nodes


def _branch(
    node: NodeApi, branch: aggregate.BranchReport[ProblemsDocument], report: ProblemsDocument
) -> ProblemsDocument:
    """The report of a subordinate, with a problem if its count differs from what the subordinate reports upwards.

    A difference that a leader below has stated already is left out.
    """
    more = _nodes_of(report) - report.uncounted - branch.nodes
    now = {each.position: each.below for each in node.snapshot().subordinates}
    position = node.settings.network.position_of(branch.address)
    if not more or now.get(position or 0) != branch.nodes or node.roster().quiet_s < COUNT_QUIET_S:
        return report
    words = f"{abs(more)} {'more' if more > 0 else 'fewer'} nodes answer for its branch than it reports"
    problems = (*report.problems[: PROBLEMS_MAX - 1], _problem("count", words, branch.address))
    return msgspec.structs.replace(report, problems=problems, uncounted=report.uncounted + more)


async def of_subtree(node: NodeApi, budget_s: float) -> ProblemsDocument:
    """The problems of this node and of all below it, within `budget_s`."""
    until = trio.current_time() + budget_s
    reports_below = await aggregate.below(node, "problems", ProblemsDocument, budget_s * SHARE_BELOW)
    reports = [of_one(node)]

    async def read(each: aggregate.BranchReport[ProblemsDocument]) -> None:
        if not isinstance(each.report, AskFailure):
            reports.append(_branch(node, each, each.report))
        elif await aggregate.is_older(node, each.address, each.report, max(0.0, until - trio.current_time())):
            reports.append(ProblemsDocument(nodes=0, problems=(), older=(each.address,), older_nodes=each.nodes))
        else:
            reports.append(ProblemsDocument(nodes=0, problems=(), silent=(each.address,), silent_nodes=each.nodes))

    async with trio.open_nursery() as nursery:
        for each in reports_below:
            nursery.start_soon(read, each)
    return folded(reports)


def of_one(node: NodeApi) -> ProblemsDocument:
    """The problems that this node knows by itself."""
    view = node.snapshot()
    return ProblemsDocument(nodes=1, problems=tuple(_joined([*_about_others(node, view), *_about_us(node, view)])))


def _about_others(node: NodeApi, view: Snapshot) -> Iterator[ProblemDocument]:
    for each in view.refusals:
        if each.ago_s <= LATELY_S:
            # The reason names the other node's setting first, whichever side refuses: it is about the other node. One
            # that the other node gives for an identity is about this node.
            is_about_us = each.by == "them" and each.reason in IDENTITY_WORDS
            address = node.address if is_about_us else each.address
            yield _problem("refused", f"refused: {each.reason}", address, ago_s=each.ago_s)
    silent = [edge.position for edge in view.subordinates if edge.silent]
    for address in nodes.addresses(node.settings, silent):
        yield _problem("silent", "silent: overdue, and not yet given up", address)


def _about_us(node: NodeApi, view: Snapshot) -> Iterator[ProblemDocument]:
    for address in nodes.addresses(node.settings, view.disputed):
        yield _problem("disputed", f"two subordinates of {node.address} report it in their branches", address)
    for address in nodes.addresses(node.settings, view.rekeyed):
        text = f"other nodes remember another key for it than {node.address} does: forget it if its host was replaced"
        yield _problem("rekeyed", text, address)
    for address in nodes.addresses(node.settings, view.unlisted):
        root = nodes.address(node.settings, view.root or view.position)
        yield _problem("unlisted", f"not listed by the root {root}: a leader above it does not report it", address)
    for name in sorted(node.tracker.membership.documents.conflicts)[:DIFFERENT_MAX]:
        text = f"two different orders {name} of one version were given; one of them counts on all nodes"
        yield _problem("conflict", text, node.address)
    if view.place is None:
        yield _problem("seeking", f"has no place ({view.phase})", node.address)
    for each in node.counters.problems.shown():
        if each.kind == "stream" and each.times < STREAMS_BROKEN_MIN and not each.text.startswith(IDENTITY_REASONS):
            continue
        yield _problem(each.kind, _in_words(each.kind, each.text), each.address or node.address, ago_s=each.ago_s)
    seal = nodes.seal(node)
    if seal is not None:
        yield _problem("ring", f"has key {seal.keys[0]} of revision {seal.revision}", node.address)
        if not seal.saved and seal.revision:
            yield _problem("unsaved", "would lose its keys at a restart", node.address)
    yield _problem("version", f"{RUNS}{__version__}", node.address)


def _in_words(kind: str, text: str) -> str:
    match kind:
        case "dropped":
            return f"its datagrams are dropped: {text}{MEANINGS.get(text, '')}"
        case "stream":
            return f"no TLS with it: {text}{MEANINGS.get(text, '')}"
        case _:
            return text


def _problem(kind: str, text: str, *addresses: str, ago_s: float | None = None) -> ProblemDocument:
    named = addresses[:NAMED_MAX]
    return ProblemDocument(kind=kind, text=text[:TEXT_MAX], nodes=len(addresses), addresses=named, ago_s=ago_s)


def folded(reports: Iterable[ProblemsDocument]) -> ProblemsDocument:
    """One report made of many: the worst kinds first, within a kind the problems of most nodes."""
    all_of = list(reports)
    problems = _joined(problem for report in all_of for problem in report.problems)
    problems.sort(key=lambda each: (_rank(each.kind), -each.nodes, each.text))
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
        uncounted=sum(report.uncounted for report in all_of),
        listed=next((report.listed for report in all_of if report.listed is not None), None),
    )


def _chosen(problems: list[ProblemDocument]) -> tuple[ProblemDocument, ...]:
    """The worst problems for which there is room, in their order; no kind displaces all problems of another kind."""
    of_kind: Counter[str] = Counter()
    first: list[int] = []
    others: list[int] = []
    for number, each in enumerate(problems):
        of_kind[each.kind] += 1
        has_room = each.kind in SAME_EVERYWHERE or (each.kind in KINDS and of_kind[each.kind] <= OF_A_KIND_MIN)
        (first if has_room else others).append(number)
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


def _rank(kind: str) -> int:
    if kind in SAME_EVERYWHERE:
        return -1  # never cut off
    return KINDS.index(kind) if kind in KINDS else len(KINDS)
