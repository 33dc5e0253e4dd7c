"""The figures in the answers of docs/faq.md, from the measurements in docs/figures/.

Each part is a few words inside a sentence.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import records
from records import one, values


def _healed(what: str, role: str) -> str:
    (row,) = one(records.read("healing")["rows"], what=what, role=role)
    return f"{row['attached_p50_s']:.2f} s in the median and {row['attached_p99_s']:.2f} s at most"


def _played(scenario: str) -> dict[str, Any]:
    (run,) = one(records.read("scenarios")["scenarios"], scenario=scenario)
    if run["result"] != "ok":
        raise SystemExit(f"docs/faq.md: {scenario} did not hold when it was played; the answer must say so")
    return run


def restarted() -> str:
    """Daemons that were restarted at once."""
    run = _played("restart_fast")
    back = f"all {run['orphans']} subordinates were attached again after {run['attached_p99_s']:.2f} s at most"
    return f"with {run['nodes']} daemons, {back}, and {run['moves']} moved"


def partition() -> str:
    """Two halves, until one root listed all nodes."""
    run = _played("partition_halves")
    return f"after {run['whole_s_max']:.1f} s ({run['nodes']} daemons)"


def successors() -> str:
    """The root and the three next in line."""
    run = _played("root_and_successors_die")
    return f"{run['nodes']} daemons were one tree again after {run['whole_s_max']:.1f} s at most"


def start() -> str:
    """500 at once."""
    medians = []
    runs = records.read("start-together")
    for (fanout,), some in records.groups(one(runs, nodes=500), "fanout").items():
        medians.append(f"{statistics.median(values(some, 'stable_after_last_start_s')):.1f} s with fan-out {fanout}")
    return ", ".join(medians)


def soak() -> str:
    """Half an hour of churn."""
    run = records.read("soak")
    first, last = run["samples"][0], run["samples"][-1]
    grown = f"from {first['resident_mib_median']:.1f} to {last['resident_mib_median']:.1f} MiB"
    return f"in {run['minutes']} minutes with {run['nodes']} daemons, the median went {grown}"


def fuzz() -> str:
    """A million damaged datagrams, a tenth of them still well-formed."""
    run = records.read("fuzz")
    memory = f"memory went from {run['memory_mib_before']} to {run['memory_mib_after']} MiB"
    return f"{run['count']:,} damaged datagrams raised {run['exceptions']} exceptions, and {memory}"


def trembling() -> str:
    """Round trips with jitter."""
    (run,) = one(records.read("mappings"), part="trembling-latency")
    return f"{run['places']} of {run['nodes']} nodes moved in {run['trembled_s'] / 60:.0f} minutes"


def tree() -> str:
    """The duration of `subord tree`."""
    runs = one(records.read("cli"), command="tree")
    return f"{max(values(runs, 'seconds')):.2f} s at most with {runs[0]['nodes']} nodes"


PARTS: dict[str, Callable[[], str]] = {
    "faq-cut": lambda: _healed("cut", "interior"),
    "faq-fuzz": fuzz,
    "faq-kill": lambda: _healed("kill", "interior"),
    "faq-partition": partition,
    "faq-restarted": restarted,
    "faq-root-cut": lambda: _healed("cut", "root"),
    "faq-root-kill": lambda: _healed("kill", "root"),
    "faq-soak": soak,
    "faq-start": start,
    "faq-successors": successors,
    "faq-trembling": trembling,
    "faq-tree": tree,
}
