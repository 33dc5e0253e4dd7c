"""What the issuer makes of all answers: how many nodes said what, beside whom the answer covers.

Input is the answer of the engine; output is a FilesDocument. The results themselves go to the command while nodes end
(services/live.py).
"""

from __future__ import annotations

from collections import Counter

from subord.api.models.coverage import CoverageDocument
from subord.services.contract import Answered, Service
from subord.services.files.sets.results import decode
from subord.services.serving import of_coverage

UNREAD = "unreadable"


class FilesDocument(CoverageDocument, frozen=True, kw_only=True):
    """`ended`: nodes by what came of it, such as `changed`, `disk full`, or the worst state of their sets. `unshown`:
    nodes whose results were left out, because there are too many different ones."""

    ended: dict[str, int]
    unshown: int


def document(answered: Answered) -> CoverageDocument:
    """The coverage, and how many nodes ended how."""
    counts = Counter[str]()
    for result, nodes in answered.answer.groups:
        found = decode(result)
        counts[UNREAD if found is None else found.how] += len(nodes)
    return of_coverage(FilesDocument, answered, ended=dict(counts), unshown=len(answered.answer.others))


SERVICE = Service(None, document, is_live=True)
