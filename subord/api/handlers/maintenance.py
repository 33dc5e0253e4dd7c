"""Which problems are shown while nodes are under maintenance.

Input: the problems of the cluster, and the addresses of the nodes under maintenance. Output: the problems without
those nodes, and how many nodes were left out. What others noticed of the death of such a node is left out as well.
"""

from __future__ import annotations

from collections.abc import Set

import msgspec

from subord.api.models.fields import ErrorsDocument, ProblemDocument
from subord.runtime.problems import loss_of


def without_maintained(found: ErrorsDocument, maintained: Set[str]) -> ErrorsDocument:
    """The document without the problems of `maintained`, which are counted."""
    if not maintained:
        return found
    problems = [each for each in found.problems if not _is_loss_of(each, maintained)]
    kept = [_others(each, maintained) for each in problems]
    silent = tuple(address for address in found.silent if address not in maintained)
    named = {address for each in found.problems for address in each.addresses}.union(found.silent)
    return msgspec.structs.replace(
        found,
        problems=tuple(each for each in kept if each.nodes),
        silent=silent,
        silent_nodes=found.silent_nodes - len(found.silent) + len(silent),
        maintained=len(named & maintained),
    )


def _others(problem: ProblemDocument, maintained: Set[str]) -> ProblemDocument:
    rest = tuple(address for address in problem.addresses if address not in maintained)
    return msgspec.structs.replace(problem, addresses=rest, nodes=problem.nodes - len(problem.addresses) + len(rest))


def _is_loss_of(problem: ProblemDocument, maintained: Set[str]) -> bool:
    loss = loss_of(problem.text) if problem.kind == "lost" else None
    return loss is not None and loss[0] in maintained
