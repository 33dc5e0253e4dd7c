"""What is wrong in this cluster, and with whom? Every node's troubles, told once for all who share them.

Intuition: the morning round of a ward. Every sister asks her own and reports upwards: "three have a fever, two want
to go home"; the doctor reads one page, however many beds there are. Who did not answer stands on it, too.

A trouble that is about somebody else, such as a refusal, is told by several; so addresses are put together as sets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec
import trio

from subord import __version__
from subord.api.handlers import members
from subord.api.models import nodes
from subord.api.models.fields import ErrorsDocument, ProblemDocument, ProblemsDocument
from subord.api.node_api import AskFailure, NodeApi
from subord.api.query import aggregate
from subord.core.state.view import Snapshot
from subord.runtime.log.problems import LATELY_S

PROBLEMS_MAX: Final = 64
OF_A_KIND_MIN: Final = 4  # of each kind that we know: one kind leaves room for the others
NAMED_MAX: Final = 512
STREAMS_BROKEN_MIN: Final = 3  # of one address: some break wherever somebody dies or starts
TEXT_MAX: Final = 200
DIFFERENT_MAX: Final = 8  # versions, and rings, that are told
SHARE_BELOW: Final = 0.9  # the rest is for those who are asked again
TOLD_BY_MANY: Final = ("duplicate", "refused", "dropped", "stream", "unlisted")
COUNT_QUIET_S: Final = 5.0  # without a change, or counts may differ because a node is moving
VANISHED: Final = {
    "missing": "missing: vanished without goodbye",
    "gone": "gone: vanished without goodbye, and nobody leads it any more",
}
MEANINGS: Final = {
    "no_key": " (it goes by another key)",
    "unsealed": " (it has no key)",
    "row_not_below": " (it reports nodes that cannot stand below it)",
    "rows_of_one": " (it reports too many nodes)",
    "rows_absent": " (it reports nodes of which hardly any answers)",
    "boot_leap": " (it tells this node of an earlier life years ahead of the clock)",
    "stale_boot": " (they are of a former life)",
    "bad_tag": " (its address is translated on the way, or somebody forges)",
}
SAME_EVERYWHERE: Final = ("version", "ring")
KINDS: Final = (
    "duplicate",
    "refused",
    "silent",
    "missing",
    "gone",
    "unlisted",
    "disputed",
    "count",
    "seeking",
    "dropped",
    "stream",
    "unsaved",
    "performance",
    "lost",
)
"""Worst first; others come last."""


async def find(shown: NodeApi, budget_s: float) -> ErrorsDocument:
    """Of the whole cluster, or of the largest part that answers within `budget_s`."""

    async def own(left_s: float) -> ProblemsDocument:
        return await (of_subtree if nodes.path(shown) else of_tree)(shown, left_s)

    found = await aggregate.widest(shown, "problems", ProblemsDocument, budget_s, own)
    note = found.note
    if note is None and not found.report.is_whole:
        note = f"{found.asked} knows no root just now: this is what it knows"
    above = ProblemsDocument(nodes=0, problems=(), silent=found.silent, silent_nodes=len(found.silent))
    everybody = msgspec.structs.replace(folded([above, found.report]), is_whole=found.report.is_whole)
    return _document(everybody, found.asked, note)


def _document(found: ProblemsDocument, asked: str, note: str | None) -> ErrorsDocument:
    """Without what is the same everywhere: who differs from most is the trouble; and who is silent is told once."""
    problems = [_without(each, found.silent) if each.kind == "silent" else each for each in found.problems]
    problems = [each for each in problems if each.kind not in SAME_EVERYWHERE and each.nodes]
    for kind in SAME_EVERYWHERE:
        told = sorted((each for each in found.problems if each.kind == kind), key=lambda each: -each.nodes)
        problems += [
            msgspec.structs.replace(each, text=f"{each.text}, most {told[0].text}"[:TEXT_MAX]) for each in told[1:]
        ]
    fields = {**msgspec.structs.asdict(found), "problems": tuple(problems)}
    return ErrorsDocument(asked=asked, complete=note is None, note=note, **fields)


def _without(problem: ProblemDocument, silent: tuple[str, ...]) -> ProblemDocument:
    rest = tuple(address for address in problem.addresses if address not in silent)
    nodes = problem.nodes - len(problem.addresses) + len(rest)
    return msgspec.structs.replace(problem, addresses=rest, nodes=nodes)


async def of_tree(shown: NodeApi, budget_s: float) -> ProblemsDocument:
    """At the root: besides what our subtree says those who vanished, lately or before."""
    everybody = members.own(shown).members
    away: list[ProblemDocument] = []
    for standing, text in VANISHED.items():
        away += _of_many(standing, text, [each.address for each in everybody if each.standing == standing])
    before = shown.snapshot().subtree_nodes
    below = await of_subtree(shown, budget_s)
    listed = shown.snapshot().subtree_nodes
    counted = ProblemsDocument(nodes=0, problems=(*away, *_difference(shown, below, before, listed)))
    found = folded([below, counted])
    return msgspec.structs.replace(found, is_whole=shown.roster().is_root, listed=listed)


def _difference(shown: NodeApi, below: ProblemsDocument, *listed: int) -> tuple[ProblemDocument, ...]:
    """Whether as many have answered, or are known to be silent, as the root lists; whatever others have stated."""
    told = _told(below)
    if min(listed) <= told <= max(listed) or shown.roster().quiet_s < COUNT_QUIET_S:
        return ()
    return (_problem("count", f"the root lists {listed[-1]}, and by their own word they are {told}", shown.address),)


def _told(report: ProblemsDocument) -> int:
    """Of how many nodes a report speaks."""
    return report.nodes + report.silent_nodes + report.older_nodes


def _branch(shown: NodeApi, heard: aggregate.Heard[ProblemsDocument], report: ProblemsDocument) -> ProblemsDocument:
    """What a subordinate says of its branch: by a difference that no leader below has stated yet it is named."""
    more = _told(report) - report.uncounted - heard.nodes
    now = {each.position: each.below for each in shown.snapshot().subordinates}
    position = shown.settings.network.position_of(heard.address)
    if not more or now.get(position or 0) != heard.nodes or shown.roster().quiet_s < COUNT_QUIET_S:
        return report
    words = f"{abs(more)} {'more' if more > 0 else 'fewer'} nodes answer for its branch than it reports"
    problems = (*report.problems[: PROBLEMS_MAX - 1], _problem("count", words, heard.address))
    return msgspec.structs.replace(report, problems=problems, uncounted=report.uncounted + more)


async def of_subtree(shown: NodeApi, budget_s: float) -> ProblemsDocument:
    """We, and everybody below us, within `budget_s`."""
    until = trio.current_time() + budget_s
    heard = await aggregate.below(shown, "problems", ProblemsDocument, budget_s * SHARE_BELOW)
    reports = [of_one(shown)]

    async def read(each: aggregate.Heard[ProblemsDocument]) -> None:
        if not isinstance(each.report, AskFailure):
            reports.append(_branch(shown, each, each.report))
        elif await aggregate.is_older(shown, each.address, each.report, max(0.0, until - trio.current_time())):
            reports.append(ProblemsDocument(nodes=0, problems=(), older=(each.address,), older_nodes=each.nodes))
        else:
            reports.append(ProblemsDocument(nodes=0, problems=(), silent=(each.address,), silent_nodes=each.nodes))

    async with trio.open_nursery() as nursery:
        for each in heard:
            nursery.start_soon(read, each)
    return folded(reports)


def of_one(shown: NodeApi) -> ProblemsDocument:
    """What this node knows by itself."""
    view = shown.snapshot()
    return ProblemsDocument(nodes=1, problems=tuple(_joined([*_about_others(shown, view), *_about_us(shown, view)])))


def _about_others(shown: NodeApi, view: Snapshot) -> Iterator[ProblemDocument]:
    for each in view.refusals:
        if each.ago_s <= LATELY_S:
            # The reason names their setting first, then ours, whoever refuses: it is about them.
            yield _problem("refused", f"refused: {each.reason}", each.address, each.ago_s)
    for edge in view.subordinates:
        if edge.silent:
            address = shown.settings.network.address_text_of(edge.position)
            yield _problem("silent", "silent: overdue, and not yet given up", address)


def _about_us(shown: NodeApi, view: Snapshot) -> Iterator[ProblemDocument]:
    for position in view.disputed:
        text = f"two subordinates of {shown.address} report it as below themselves"
        yield _problem("disputed", text, shown.settings.network.address_text_of(position))
    for position in view.unlisted:
        root = shown.settings.network.address_text_of(view.root or view.position)
        text = f"not listed by the root {root}: a leader above it does not report it"
        yield _problem("unlisted", text, shown.settings.network.address_text_of(position))
    if view.place is None:
        yield _problem("seeking", f"has no place ({view.phase})", shown.address)
    for each in shown.counters.lately.shown():
        if each.kind == "stream" and each.times < STREAMS_BROKEN_MIN:
            continue
        who = each.address or shown.address
        yield _problem(each.kind, _in_words(each.kind, each.text), who, each.ago_s)
    seal = nodes.seal(shown)
    if seal is not None:
        yield _problem("ring", f"has key {seal.keys[0]} of revision {seal.revision}", shown.address)
        if not seal.saved and seal.revision:
            yield _problem("unsaved", "would forget its keys at a restart", shown.address)
    yield _problem("version", f"runs version {__version__}", shown.address)


def _in_words(kind: str, text: str) -> str:
    match kind:
        case "dropped":
            return f"its datagrams are thrown away: {text}{MEANINGS.get(text, '')}"
        case "stream":
            return f"no TLS with it: {text}"
        case _:
            return text


def _problem(kind: str, text: str, address: str, ago_s: float | None = None) -> ProblemDocument:
    return ProblemDocument(kind=kind, text=text[:TEXT_MAX], nodes=1, addresses=(address,), ago_s=ago_s)


def _of_many(kind: str, text: str, addresses: list[str]) -> tuple[ProblemDocument, ...]:
    if not addresses:
        return ()
    named = tuple(addresses[:NAMED_MAX])
    return (ProblemDocument(kind=kind, text=text, nodes=len(addresses), addresses=named),)


def folded(reports: Iterable[ProblemsDocument]) -> ProblemsDocument:
    """One report of many: the worst troubles first, of the same kind that of most."""
    all_of = list(reports)
    problems = _joined(problem for report in all_of for problem in report.problems)
    problems.sort(key=lambda each: (_rank(each.kind), -each.nodes, each.text))
    for kind in SAME_EVERYWHERE:  # one who invents many must not leave no room for the others
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
    """The worst for which there is room, in their order; what others invent of one kind displaces no other kind."""
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
    """Of what many tell of the same, only those named are surely different."""
    addresses = tuple(dict.fromkeys((*one.addresses, *other.addresses)))
    unnamed = [each.nodes - len(each.addresses) for each in (one, other)]
    hidden = max(unnamed) if one.kind in TOLD_BY_MANY else sum(unnamed)
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
        return -1  # never among those for whom there is no room
    return KINDS.index(kind) if kind in KINDS else len(KINDS)
