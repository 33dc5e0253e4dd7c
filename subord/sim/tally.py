"""A campaign as a document: what docs/evaluation.md shows of it.

Intuition: the last page of the laboratory book, with the totals.
"""

from __future__ import annotations

import os
import platform
from typing import Any

from subord import __version__
from subord.sim.campaign import Summary


def document(summary: Summary, first: int, jobs: int | None) -> dict[str, Any]:
    """Plain values, for JSON."""
    passed = [each for each in summary.verdicts if not each.broken]
    shares = sorted(each.settled_s / each.bound_s for each in passed if each.bound_s) or [0.0]
    settled = sorted(each.settled_s for each in passed) or [0.0]
    return {
        "version": __version__,
        "seeds": len(summary.verdicts),
        "first": first,
        "failed": len(summary.failed),
        "failures": [{"seed": each.seed, "text": each.text} for each in summary.failed],
        "nodes_min": min((each.nodes for each in passed), default=0),
        "nodes_max": max((each.nodes for each in passed), default=0),
        "events": sum(each.events for each in passed),
        "lasted_s": round(summary.lasted_s, 1),
        "cpu_s": round(sum(each.cpu_s for each in passed), 1),
        "jobs": jobs or len(os.sched_getaffinity(0)),
        "settled_s": _spread(settled),
        "settled_share": _spread(shares),
        "machine": {"cores": os.cpu_count(), "kernel": platform.release(), "python": platform.python_version()},
    }


def _spread(values: list[float]) -> dict[str, float]:
    names = {"median": 0.5, "99 of 100": 0.99, "most": 1.0}
    return {name: round(values[min(len(values) - 1, int(share * len(values)))], 4) for name, share in names.items()}
