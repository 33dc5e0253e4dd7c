"""Virtual machines for a batch queue (docs/evaluation/machines.md), from the figures of
`netns-lab/lab evaluate machines`.

Runs that failed are listed, too. Invariant: without figures the build ends and says so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import records
from build_evaluation import markdown
from records import Run, one, spread, values

NAME = "machines-lab"
KIB = 1024
STATES = {
    "free": ("open", "< 10 s"),
    "closed": ("on and closed", "30 to 40 s"),
    "off": ("off", "60 to 90 s"),
    "cloned": ("to be cloned", "300 to 600 s"),
}
"""Of the lab: in the words of docs/machines.md, and what the text has for them."""
SERVED = ("sizes", "deaths", "head")
MEANWHILE = {
    "sizes": "nothing",
    "deaths": "the root and three leaders",
    "head": "the agent of the queue's node",
}


def about() -> str:
    """The machine, the program, and the shape of the labs."""
    runs = [{"window_s": None, **run} for run in records.measured(NAME)]
    first = runs[0]
    return records.about(runs, "part", "servers", "window_s") + (
        f"Fan-out {first['fanout']}, dense addresses, timing `{first['timing']}`.\n"
    )


def missed() -> str:
    return records.missed(records.read(NAME), lambda run: f"{run['part']}, run {run['repeat'] + 1}")


def waits() -> str:
    """The table of the text, with the jobs of all runs."""
    runs = one(records.measured(NAME), part="waits")
    rows = []
    for state, (words, text) in STATES.items():
        found = [run[state] for run in runs]
        rows.append([words, text, *(_joint(found, key, digits) for key, digits in WAITS), f"{_jobs(found)}"])
    return markdown(
        ["machine", "the text", "wait, s", "of it the machine itself, s", "the rest, periods", "jobs"], rows
    )


WAITS = (("wait_s", 1), ("own_s", 1), ("periods", 2))


def _jobs(found: list[Run]) -> int:
    return sum(each["jobs"] for each in found)


def _joint(found: list[dict[str, Any]], key: str, digits: int) -> str:
    """The median of medians, and the extremes of all."""
    spreads = [each[key] for each in found]
    extremes = [each[end] for each in spreads for end in ("lowest", "highest")]
    middle = sorted(each["median"] for each in spreads)[len(spreads) // 2]
    return f"{middle:.{digits}f} ({min(extremes):.{digits}f}..{max(extremes):.{digits}f})"


def order() -> str:
    runs = one(records.measured(NAME), part="order")
    rows = [[name, show(runs)] for name, show in ORDER.items()]
    return markdown(["", f"{len(runs)} run{'s' if len(runs) > 1 else ''}"], rows)


ORDER: dict[str, Callable[[list[Run]], str]] = {
    "jobs": lambda runs: spread(values(runs, "jobs"), 0),
    "machines that were on at once": lambda runs: spread(values(runs, "on_most"), 0),
    "starts of machines": lambda runs: spread(values(runs, "starts"), 0),
    "until all jobs had begun": lambda runs: f"{spread(values(runs, 'served_s'), 0)} s",
    "a job was overtaken by one of a lower priority by: median": lambda runs: (
        f"{spread(values(runs, 'overtaken_s'), 0)} s"
    ),
    "... most": lambda runs: f"{spread(values(runs, 'overtaken_s_max'), 0)} s",
}


def window() -> str:
    """One row for each window."""
    runs = one(records.measured(NAME), part="window")
    rows = []
    for (window_s,), some in records.in_order(runs, "window_s").items():
        waited = values(some, "waited_s")
        none = sum(run["waited_s"] is None for run in some)
        never = f"not within {some[0]['bound_s']:.0f} s in {none} of {len(some)} runs" if none else ""
        rows.append(
            [
                f"{window_s} s" if window_s else "none",
                "; ".join(filter(None, (f"{spread(waited, 0)} s" if waited else "", never))),
                f"{some[0]['bound_s']:.0f} s" if window_s else "-",
            ]
        )
    return markdown(["window", "the first job waits", "bound"], rows)


def served() -> str:
    """One column for each size, and each kind of death."""
    runs = [run for run in records.measured(NAME) if run["part"] in SERVED]
    columns = list(records.in_order(runs, "part", "servers").items())
    head = ["servers", *(f"{servers}" for (_, servers), _ in columns)]
    rows = [["killed meanwhile", *(MEANWHILE[part] for (part, _), _ in columns)]]
    rows += [[name, *(show(some) for _, some in columns)] for name, show in SERVING.items()]
    return markdown(head, rows)


def _of(key: str, digits: int = 0, scale: float = 1) -> Callable[[list[Run]], str]:
    return lambda runs: spread([value / scale for value in values(runs, key)], digits)


SERVING: dict[str, Callable[[list[Run]], str]] = {
    "jobs": _of("jobs"),
    "until all have ended, s": _of("served_s"),
    "machines on at once": _of("on_most"),
    "starts of machines": _of("starts"),
    "of these for no job": _of("surplus"),
    "jobs that were killed": _of("killed_jobs"),
    "overtaken by a lower priority: median, s": _of("overtaken_s", 1),
    "... most, s": _of("overtaken_s_max", 1),
    "rounds": _of("rounds"),
    "actions of all rounds": _of("actions"),
    "... of one round, most": _of("actions_max"),
    "deciding, ms": _of("decide_ms", 1),
    "... most, ms": _of("decide_ms_max", 1),
    "asking all servers, ms": _of("ask_ms"),
    "questions, orders and answers a round": _of("round_messages"),
    "... KiB": _of("round_bytes", 1, KIB),
    "the same where nothing was decided": _of("quiet_messages"),
    "... KiB, there": _of("quiet_bytes", 1, KIB),
    "the queue's node sends and is brought, KiB/s": _of("busy_head_bytes_per_s", 1, KIB),
    "the root sends and is brought, KiB/s": _of("busy_root_bytes_per_s", 1, KIB),
}
PARTS: dict[str, Callable[[], str]] = {
    "machines-about": about,
    "machines-missed": missed,
    "machines-waits": waits,
    "machines-order": order,
    "machines-window": window,
    "machines-served": served,
}
