"""`subord machines status`: the plan, the last round, its actions, and how nodes follow the plan."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Final

from subord.client import exit_codes
from subord.client.daemon import Document
from subord.client.naming import names_for
from subord.client.text import age, columns, count
from subord.runtime.machines.state import DONE, MANAGES, OFF
from subord.services.asking import asked_nodes, asked_root, shown_coverage
from subord.services.following import lines_of_states, nodes_of, state_lines, wrapped
from subord.services.machines.commands.layout import (
    CONFLICT,
    UNSEEN,
    action_text,
    ago,
    amount_text,
    heading,
    is_in_force,
    mib,
    named,
    silent_line,
    used_text,
)

KIND_HEAD: Final = ("type", "on", "off", "open", "busy", "coming", "left alone", "cores", "memory")
OF_BATCH: Final = ("open", "busy", "coming")
"""What of these the batch system says."""
ACTION_HEAD: Final = ("when", "action", "job", "result")
DONE_WORDS: Final = ("opened", "closed", "started", "moved", "cloned", "stopped", "deleted")
FAILED_WORDS: Final = ("refused", "lost", "expired")
ACTIONS_SHOWN: Final = 10
SERVERS_SHOWN: Final = 10
ENDED: Final = "plan ended"
OTHERS: Final = "others"
"""In place of a type: machines that are not ours."""


def run(arguments: argparse.Namespace) -> int:
    """Prints the screen, and the coverage; OK if every node has answered and follows. Raises CommandError."""
    found = asked_nodes(arguments, "machines")
    if arguments.nodes and found["round"] is None and is_in_force(found["plan"]):
        found["round"] = asked_root(arguments, "machines/manager")["round"]
    names = names_for(arguments, found)
    code = shown_coverage(arguments, found, lines_of(found, names))
    return code if _is_settled(found) else exit_codes.NOT_REACHED


def _is_settled(found: Document) -> bool:
    """All that have answered follow the plan, and the queue's node can be seen."""
    follow = all(each["follows"] for each in found["states"]) and not found["unread"]
    return follow and (found["round"] is not None or not is_in_force(found["plan"]))


def lines_of(found: Document, names: Mapping[str, str]) -> Iterator[str]:
    """What is printed of a MachinesDocument."""
    plan, told = found["plan"], found["round"]
    yield from wrapped(heading(plan, names), "")
    if plan["conflict"]:
        yield CONFLICT
    if told is not None:
        yield from _round(told, plan, names)
    elif is_in_force(plan):
        yield silent_line(plan, names)
    else:
        for each in found["queues"]:
            yield f"machines.batch is configured on {nodes_of(each, names)}: {each['batch']}"
        yield f"machines.uri is configured on {count(found['servers'], 'node')}"
    yield from lines_of_states({**found, "states": [_in_words(each) for each in found["states"]]}, names, "plan")


def _in_words(state: Document) -> Document:
    """A node that is `off` is one whose plan has ended: its machines may be on."""
    return {**state, "state": ENDED} if state["state"] == OFF else state


def _round(told: Document, plan: Document, names: Mapping[str, str]) -> Iterator[str]:
    yield from state_lines(told, MANAGES)
    if told["seen_s"] is None:
        yield from wrapped(told["hindrance"] or UNSEEN, "")
        return
    yield _jobs_line(told)
    yield from wrapped(_servers_line(told), "")
    if told["hindrance"]:
        yield from wrapped(f"nothing is decided now: {told['hindrance']}", "")
    if told["fault"]:
        yield from wrapped(f"the batch system does not answer: {told['fault']}", "")
    if told["kinds"]:
        rows = [_kind_cells(each, is_unread=not told["queues_read"]) for each in told["kinds"]]
        yield from columns([KIND_HEAD, *rows], right=range(1, len(KIND_HEAD)))
    yield f"images take {mib(told['store_mb'])} of {mib(told['store_most_mb'])}"
    yield from _faults(told, plan)
    yield from _troubled(told, names)
    for each in told["notes"]:
        yield from wrapped(f"note: {each}", "")
    if told["notes_left_out"]:
        yield f"{count(told['notes_left_out'], 'note')} more had no room in the answer"
    yield from _actions(told, names)
    if totals := _totals(told["totals"]):
        yield from wrapped(totals, "")


def _totals(totals: Document) -> str:
    """`in 12 rounds of this process: 3 opened, 1 cloned; 2 refused`; "": nothing was done."""
    done = [f"{totals[word]} {word}" for word in DONE_WORDS if totals[word]]
    failed = [f"{totals[word]} {word}" for word in FAILED_WORDS if totals[word]]
    found = "; ".join(", ".join(each) for each in (done, failed) if each)
    return f"in {count(totals['rounds'], 'round')} of this process: {found}" if found else ""


def _jobs_line(told: Document) -> str:
    """`round 12 of slurm, 4 s ago, the next in 26 s: 12 jobs wait, 3 of them get nothing now; 30 run`."""
    then = "" if told["next_s"] is None else f", the next in {age(told['next_s'])}"
    head = f"round {told['round']} of {told['batch']}, {ago(told['seen_s'])}{then}"
    if not told["queues_read"]:
        return f"{head}: the queues were not read yet, so jobs are not known"
    waiting, running = told["waiting"], told["running"]
    waits = f"{count(waiting, 'job')} {'waits' if waiting == 1 else 'wait'}" if waiting else "no job waits"
    unmet = f", {_number(told['unmet'], 'of them gets', 'of them get')} nothing now" if told["unmet"] else ""
    runs = f"{running} {'runs' if running == 1 else 'run'}" if running else "none runs"
    return f"{head}: {waits}{unmet}; {runs}"


def _servers_line(told: Document) -> str:
    parts = [
        count(told["servers_all"], "server"),
        _number(told["unreachable"], "does not answer", "do not answer"),
        _number(told["overbooked"], "is overbooked", "are overbooked"),
        _number(told["drained"], "is drained", "are drained"),
    ]
    if told["servers_all"] and not any(told["have"].values()):
        return f"{', '.join(filter(None, parts))}; what they have is not known yet"
    headroom = amount_text(told["headroom"])
    rest = "" if headroom == "nothing" else f"; {headroom} are to stay free"
    return f"{', '.join(filter(None, parts))}; {used_text(told['used'], told['have'])}{rest}"


def _number(number: int, one: str, several: str) -> str:
    return f"{number} {one if number == 1 else several}" if number else ""


def _kind_cells(kind: Document, *, is_unread: bool) -> tuple[str, ...]:
    """`is_unread`: only the servers have told something."""
    keys = ("on", "off", "open", "busy", "coming", "left_alone", "cores")
    numbers = ["-" if is_unread and key in OF_BATCH else str(kind[key]) for key in keys]
    return (kind["type"] or OTHERS, *numbers, mib(kind["memory_mb"]))


def _faults(told: Document, plan: Document) -> Iterator[str]:
    """What the plan names and no node has."""
    for each in plan["types"]:
        if each["name"] in told["lacking"]:
            text = f"the template {each['template']} of the type {each['name']} is on no server that answers"
            yield from wrapped(f"{text}: no machine of it is cloned; define it, or change the plan", "")
        absent = [] if told["queues"] is None else [one for one in each["queues"] if one not in told["queues"]]
        for one in absent:
            text = f"the batch system has no queue {one}, which the type {each['name']} serves"
            yield from wrapped(f"{text}: make it there, or change the plan", "")


def _troubled(told: Document, names: Mapping[str, str]) -> Iterator[str]:
    """Servers that need attention."""
    odd = [each for each in told["servers"] if each["fault"] or any(each["excess"].values())]
    for each in odd[:SERVERS_SHOWN]:
        excess = amount_text(each["excess"])
        over = "" if excess == "nothing" else f"overbooked by {excess}"
        why = "; ".join(filter(None, (each["fault"], over)))
        yield from wrapped(f"{named(each['name'], names)}: {why}", "")
    more = told["unreachable"] + told["overbooked"] - min(len(odd), SERVERS_SHOWN)
    if more > 0 and len(odd) > SERVERS_SHOWN:
        yield f"{count(more, 'server')} more: `subord machines list --servers`"


def _actions(told: Document, names: Mapping[str, str]) -> Iterator[str]:
    shown = told["actions"][:ACTIONS_SHOWN]
    rows = [(ago(each["age_s"]), action_text(each, names), each["job"] or "-", each["result"]) for each in shown]
    if not rows:
        yield "nothing is under way"
        return
    head, *lines = columns([ACTION_HEAD, *rows])
    yield head
    for line, each in zip(lines, shown, strict=True):
        yield line
        if each["result"] != DONE:
            yield from wrapped("; ".join(filter(None, (each["why"], each["reason"]))))
    more = len(told["actions"]) - len(shown) + told["actions_left_out"]
    if more:
        yield _more_actions(more, told["pending"])


def _more_actions(more: int, pending: int) -> str:
    """`14 more actions are not shown; of all actions 2 are under way`."""
    first = f"{more} more {'action is' if more == 1 else 'actions are'} not shown"
    if not pending:
        return f"{first}; no action is under way"
    return f"{first}; of all actions {pending} {'is' if pending == 1 else 'are'} under way"
