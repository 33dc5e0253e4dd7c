"""Lines that several actions of `subord elastic` print: the plan, the nodes on their way, and times."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from subord.client.daemon import Document
from subord.client.naming import with_address
from subord.client.text import age, count
from subord.services.elastic.stages import ADDING, REMOVING
from subord.services.following import conflict_line, published_line, wrapped

NEVER: Final = "no cluster is elastic: no plan was published; `subord elastic set` publishes one"
OFF: Final = "elastic growth is off; nodes stay as they are"
UNREADABLE: Final = "this release cannot read it"
CONFLICT: Final = conflict_line("plan")
SHOWN_MAX: Final = 3
"""Users and mounts in one line."""


def heading(plan: Document, names: Mapping[str, str], would: str = "") -> str:
    """`version 3 published by ann at 2026-11-26 10:30:00 UTC: 10.0.0.1 has the queue`."""
    if not plan["version"]:
        return NEVER
    what = UNREADABLE
    if plan["off"]:
        what = OFF
    elif plan["manager"]:
        trial = "; it is a trial, and nothing is done" if plan["trial"] else ""
        what = f"{with_address(plan['manager'], dict(names))} has the queue{trial}"
    return published_line(plan, what, would)


def is_in_force(plan: Document) -> bool:
    """Whether a node is to add and remove nodes."""
    return plan["manager"] is not None


def is_unreadable(plan: Document) -> bool:
    """Whether it is of a later release."""
    return bool(plan["version"]) and not plan["off"] and plan["manager"] is None


# -- the plan -------------------------------------------------------------------------------------------------------


def rows_of(plan: Document) -> dict[str, tuple[Any, str]]:
    """What the plan says, by option of `subord elastic set`: the value, and a text."""
    return {name: (value, text(value)) for name, (value, text) in _cells(plan).items()}


def _cells(plan: Document) -> dict[str, tuple[Any, Callable[[Any], str]]]:
    options = plan["options"] or {}
    found: dict[str, tuple[Any, Callable[[Any], str]]] = {"--manager": (plan["manager"], lambda each: each or "-")}
    if options:
        found |= {
            "--max_nodes": (options["max_nodes"], str),
            "--min_nodes": (options["min_nodes"], str),
            "--add_nodes_per_iter": (options["add_nodes_per_iter"], str),
            "--interval": (options["interval_s"], _seconds),
            "--job_wait_time": (options["job_wait_time_s"], _seconds),
            "--kill_after": (options["kill_after_min"], _minutes),
            "--stabilization_time": (options["stabilization_time_s"], _seconds),
            "--lookback_window": (options["lookback_window_min"], _minutes),
            "--kill-cluster": (options["kill_cluster"], _yes),
            "--idle": (options["idle_min"], _minutes),
            "--lasts": (options["lasts_s"], _seconds),
            "--queue": (options["queue"], str),
            "--decides": (options["decides"], str),
        }
    return found | {
        "--prefix": (plan["prefix"], str),
        "--kinds": (plan["kinds"], lambda each: ",".join(each) or "all"),
        "--user": (plan["users"], lambda each: _some([user["name"] for user in each])),
        "--mount": (plan["mounts"], lambda each: _some(list(map(_mount, each)))),
        "--hosts": (plan["hosts"], _yes),
        "--trial": (plan["trial"], _yes),
    }


def _seconds(found: int | None) -> str:
    return "off" if found is None else f"{found} s"


def _minutes(found: int | None) -> str:
    return "off" if found is None else f"{found} min"


def _yes(found: bool) -> str:
    return "yes" if found else "no"


def _mount(found: Document) -> str:
    target = "" if found["target"] == found["source"] else f":{found['target']}"
    return f"{found['source']}{target}{':ro' if found['read_only'] else ''}"


def _some(words: list[str]) -> str:
    more = len(words) - SHOWN_MAX
    return ", ".join([*words[:SHOWN_MAX], *([f"and {more} more"] if more > 0 else [])]) or "none"


# -- what the queue's node tells ------------------------------------------------------------------------------------


def seen_lines(growth: Document) -> Iterator[str]:
    """What the last look at the queue has found, and how old that is."""
    if growth["poll_age_s"] is None:
        yield "the queue was not seen yet"
    else:
        following = growth["next_poll_s"]
        then = "" if following is None else f", and will be again in {age(following)}"
        yield _queue_line(growth)
        yield _size_line(growth)
        yield f"the queue was seen {age(growth['poll_age_s'])} ago{then}"
    if growth["fault"]:
        yield from wrapped(f"the last look at the queue failed: {growth['fault']}", "")


def _size_line(growth: Document) -> str:
    """`7 nodes, limits 1 to 20; 2 are being added, 1 is being removed; the queue needs 3 nodes more`."""
    stages = [each["stage"] for each in growth["nodes"]]
    moving = [
        f"{number} {'is' if number == 1 else 'are'} being {what}"
        for what, words in (("added", ADDING), ("removed", REMOVING))
        if (number := sum(stage in words for stage in stages))
    ]
    parts = [
        f"{count(growth['size'], 'node')}, limits {growth['min_nodes']} to {growth['max_nodes']}",
        ", ".join(moving),
    ]
    if growth["needed"]:
        parts.append(f"the queue needs {count(growth['needed'], 'node')} more")
    return "; ".join(filter(None, parts))


def _queue_line(growth: Document) -> str:
    """`queue all.q of gridengine: 12 jobs wait, the oldest for 840 s; 30 run; 56 slots, 0 free`."""
    queued, running = growth["queued"], growth["running"]
    batch = f" of {growth['batch']}" if growth["batch"] else ""
    waits = "no job waits"
    if queued:
        waits = f"{count(queued, 'job')} {_verb(queued, 'wait')}, the oldest for {growth['oldest_s']:.0f} s"
    slots = f"{count(growth['slots'], 'slot')}, {growth['free']} free"
    return f"queue {growth['queue']}{batch}: {waits}; {running} {_verb(running, 'run')}; {slots}"


def silent_line(found: Document, names: Mapping[str, str]) -> str:
    """Of an answer without what the queue's node sees."""
    name = with_address(found["plan"]["manager"], dict(names))
    return f"what the queue's node sees is not known: {name} has told nothing"


def _verb(number: int, word: str) -> str:
    return f"{word}s" if number == 1 else word
