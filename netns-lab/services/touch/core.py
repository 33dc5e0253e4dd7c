"""What the issuer makes of the answers."""

from __future__ import annotations

from subord.api.models.coverage import CoverageDocument
from subord.services.contract import Answered, Service
from subord.services.serving import of_coverage


class TouchDocument(CoverageDocument, frozen=True, kw_only=True):
    """`results`: nodes by what they say."""

    results: dict[str, int]


def document(answered: Answered) -> CoverageDocument:
    results = {result.decode(errors="replace"): len(nodes) for result, nodes in answered.answer.groups}
    return of_coverage(TouchDocument, answered, results=results)


SERVICE = Service(None, document)
