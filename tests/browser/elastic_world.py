"""An elastic cluster for the page: three hours of a made-up queue, which grows and goes."""

from __future__ import annotations

from math import sin
from typing import Any

from subord.api.models.coverage import MissingDocument
from subord.services.elastic.past.documents import ElasticPastDocument, FiguresDocument, StageDocument

SILENT = MissingDocument(cause="silent", text="is silent", count=1, addresses=("10.0.0.1",))
WHY = (
    "12 jobs wait, the oldest for 21 min, longer than 15 min",
    "2 nodes are added, of 9 at most 7 are there",
)


def elastic_document(*, polls: int = 180, every_s: int = 60, **other: Any) -> ElasticPastDocument:
    """The queue's node manages its cluster, unless `other` says something else."""
    ages = tuple(every_s * each for each in reversed(range(polls)))
    waiting = tuple(max(0, round(14 - age / 240 + 6 * sin(age / 700))) for age in ages)
    fields: dict[str, Any] = {
        "asked": 1,
        "told": 1,
        "complete": True,
        "missing": (),
        "oldest_ms": 12.0,
        "version": 3,
        "off": False,
        "address": "10.0.0.1",
        "state": "manages",
        "text": "the node adds and removes nodes",
        "figures": figures(),
        "why": WHY,
        "stages": (
            StageDocument(stage="joining", nodes=1, longest_s=70, fault=None),
            StageDocument(stage="mounting", nodes=1, longest_s=430, fault="mount.nfs: no route to host"),
        ),
        "ages_s": ages,
        "num_hosts": tuple(max(2, round(7 - age / 1500)) for age in ages),
        "running": tuple(max(0, round(26 - age / 420)) for age in ages),
        "queued": waiting,
    }
    return ElasticPastDocument(**fields | other)


def figures(**other: Any) -> FiguresDocument:
    fields: dict[str, Any] = {
        "age_s": 20,
        "size": 7,
        "min_nodes": 2,
        "max_nodes": 9,
        "needed": 9,
        "queued": 12,
        "running": 26,
        "blocked_s": None,
    }
    return FiguresDocument(**fields | other)
