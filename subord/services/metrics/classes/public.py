"""The metrics for the page: paths that any client may read, so the cluster is asked rarely however many there are.

Input: a request, of `classes` with the name of a metric that the root knows. Output: the figures of the cluster, and
the classes of its nodes. Invariants: the root is asked once in FIGURES_KEPT_S at most; all nodes are asked once in
CLASSES_KEPT_S for one name at most, and in that time for NAMES_MAX names at most. Nothing is asked for another name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from subord.api.http.server import Handler, Query, Response, document, failure
from subord.api.models.coverage import CoverageDocument
from subord.api.node_api import NodeApi
from subord.api.query.kept import Kept, KeptByName, TooManyError
from subord.api.query.orders import BUDGET_S, Answered, asked
from subord.core.carriage.reports.spread import Spread
from subord.services.folds import asked_fold
from subord.services.metrics.classes.answering import NAME_CHARS_MAX, ClassQuestion
from subord.services.metrics.classes.document import document as classes_document
from subord.services.metrics.classes.document import thresholds_of

FIGURES_KEPT_S: Final = 5.0
CLASSES_KEPT_S: Final = 9.0
"""Less than the interval in which nodes publish, so that a page that asks once in it gets new values."""
NAMES_MAX: Final = 4


def paths(node: NodeApi, figures: Callable[[Answered], CoverageDocument]) -> Mapping[str, Handler]:
    """`/v1/metrics/figures` and `/v1/metrics/classes`."""
    fold = Kept(lambda: asked_fold(node, "metrics", BUDGET_S), FIGURES_KEPT_S)

    async def ask(name: str) -> Response:
        known = (await fold.get()).value(name, Spread)
        question = ClassQuestion(name, thresholds_of(known))
        found = await asked(node, "metrics", BUDGET_S, payload=msgspec.msgpack.encode(question))
        return document(classes_document(found, question, known))

    kept = KeptByName(ask, CLASSES_KEPT_S, NAMES_MAX)

    async def all_figures(_: Query) -> Response:
        return document(figures(await fold.get()))

    async def of_name(query: Query) -> Response:
        name = query.get("name", "")
        answered = await fold.get()
        if answered.fold is None:
            return failure(503, "the root has not told which metrics there are: no node was asked; try again")
        if not answered.value(name, Spread).count:
            shown = name[:NAME_CHARS_MAX]
            return failure(404, f"no metric {shown!r} is known, see /v1/metrics/figures: no node was asked")
        try:
            return await kept.get(name)
        except TooManyError as error:
            return failure(503, f"many metrics are asked for at this node: no node was asked; try again {error}")

    return {"/v1/metrics/figures": all_figures, "/v1/metrics/classes": of_name}
