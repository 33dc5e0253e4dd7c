"""The JSON document of a campaign, from which docs/evaluation/simulator.md is built."""

from __future__ import annotations

import os
import platform
from typing import Any

from subord import SCHEMA_VERSION, __version__
from subord.sim.campaign import Summary, spread, tight_shares


def document(summary: Summary, first: int, jobs: int | None) -> dict[str, Any]:
    """Plain values, for JSON."""
    passed = [each for each in summary.verdicts if not each.broken]
    shares = sorted(each.settled_s / each.bound_s for each in passed if each.bound_s)
    settled = sorted(each.settled_s for each in passed)
    return {
        "schema_version": SCHEMA_VERSION,
        "version": __version__,
        "seeds": len(summary.verdicts),
        "first": first,
        "options": summary.aim.options.strip(),
        "failed": len(summary.failed),
        "failures": [{"seed": each.seed, "text": each.text} for each in summary.failed],
        "nodes_min": min((each.nodes for each in passed), default=0),
        "nodes_max": max((each.nodes for each in passed), default=0),
        "events": sum(each.events for each in passed),
        "lasted_s": round(summary.lasted_s, 1),
        "cpu_s": round(sum(each.cpu_s for each in passed), 1),
        "jobs": jobs or len(os.sched_getaffinity(0)),
        "settled_s": _rounded(settled),
        "settled_share": _rounded(shares),
        "tight_shares": {name: {"seeds": len(used), **_rounded(used)} for name, used in tight_shares(passed).items()},
        "machine": {"cores": os.cpu_count(), "kernel": platform.release(), "python": platform.python_version()},
    }


def _rounded(values: list[float]) -> dict[str, float]:
    return {name: round(value, 4) for name, value in spread(values).items()}
