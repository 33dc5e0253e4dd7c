"""`subord transfer status`: the plan, the link, how many jobs cross, and how nodes follow the plan."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Final

from subord.client import exit_codes
from subord.client.daemon import Document
from subord.client.naming import names_for
from subord.client.text import age, count
from subord.runtime.transfer.state import TRANSFERS
from subord.services.asking import asked_nodes, asked_root, shown_coverage
from subord.services.following import lines_of_states, nodes_of, wrapped
from subord.services.transfer.commands.layout import (
    CONFLICT,
    before,
    heading,
    is_in_force,
    numbers,
    plan_lines,
    unknown_host,
)

NONE: Final = "none"


def run(arguments: argparse.Namespace) -> int:
    """Prints the screen, and the coverage; OK if all is as the plan wants. Raises CommandError."""
    found = asked_nodes(arguments, "transfer")
    if arguments.nodes and found["host"] is None and is_in_force(found["plan"]):
        found["host"] = asked_root(arguments, "transfer/jobs")["host"]
    names = names_for(arguments, found)
    code = shown_coverage(arguments, found, lines_of(found, names))
    return code if _is_settled(found) else exit_codes.NOT_REACHED


def _is_settled(found: Document) -> bool:
    """All that have answered follow the plan, and the transfer host reaches all that it needs."""
    follow = all(each["follows"] for each in found["states"]) and not found["unread"]
    if not is_in_force(found["plan"]):
        return follow
    host = found["host"]
    if host is None:
        return False
    link = host["link"]
    is_heard = not (link["listening_fault"] and host["slots_max"])  # otherwise no job is to come
    of_link = link["fault"] or link["key_fault"] or not is_heard
    return follow and not (host["fault"] or host["sensor_fault"] or host["unit_fault"] or of_link)


def lines_of(found: Document, names: Mapping[str, str]) -> Iterator[str]:
    """What is printed of a TransferDocument."""
    plan, host = found["plan"], found["host"]
    yield from wrapped(heading(plan, names), "")
    if plan["conflict"]:
        yield CONFLICT
    if is_in_force(plan):
        for each in plan_lines(plan):
            yield from wrapped(each, "")
        if host is None:
            yield f"what crosses is not known: {unknown_host(found, names)}"
        else:
            yield from host_lines(host)
    else:
        for each in found["batches"]:
            yield f"transfer.batch is configured on {nodes_of(each, names)}: {each['batch']}"
    yield from lines_of_states(found, names, "plan")


def host_lines(host: Document) -> Iterator[str]:
    """What the transfer host sees."""
    if host["state"] != TRANSFERS:
        yield from wrapped(before(host), "")
    if host["unit_fault"]:
        yield from wrapped(host["unit_fault"], "")
    yield from _batch(host)
    yield from _sensor(host)
    yield from _link(host)
    leaving = numbers(host["leaving"]) or NONE
    yield f"jobs that leave: {leaving}; {count(host['starters'], 'method')} wait{_s(host['starters'])} for their end"
    room = f"{host['room']} more may come now" if host["pending"] is not None else "none may come now"
    yield f"jobs that come: {numbers(host['coming']) or NONE}, limit {host['slots_max']}; {room}"
    yield from _files(host["files"])
    yield f"permits not used yet: {host['permits_given']} of ours, {host['permits_held']} of the other cluster"
    totals = [(numbers(host[key]), words) for key, words in (("left", "of ours"), ("taken", "of the other cluster"))]
    if any(text for text, _ in totals):
        yield f"in this process: {'; '.join(f'{words} {text}' for text, words in totals if text)}"
    if host["full"]:
        yield f"{count(host['full'], 'job')} went back since there was no room for more records"
    if host["forged"]:
        yield f"{count(host['forged'], 'job')} here with a forged mark of a job of the other cluster: left alone"


def _files(files: Document) -> Iterator[str]:
    """Nothing, if no job had files."""
    waiting, results, failures = files["jobs_waiting"], files["results_waiting"], numbers(files["failures"])
    if waiting:
        what = f"{count(files['files_waiting'], 'file')}, {_mib(files['bytes_waiting'])}"
        yield f"files that wait to be fetched: of {count(waiting, 'job')}, {what}"
    if results:
        yield f"results that are to come: of {count(results, 'job')}"
    if files["directories"]:
        yield f"directories of jobs that came: {files['directories']}"
    if files["spool_bytes"]:
        free = files["spool_free_bytes"]
        yield f"archives on the disk: {_mib(files['spool_bytes'])}, room for {_mib(free)} more"
    if files["sent"] or files["received"]:
        yield f"files since the agent has the plan: {_mib(files['sent'])} sent, {_mib(files['received'])} received"
    if failures:
        last = f"{age(files['fault_s'])} ago: {files['fault']}"
        yield from wrapped(f"jobs whose files have not crossed: {failures}; the last {last}", "")


def _mib(size: int) -> str:
    return f"{size / (1 << 20):.1f} MiB"


def _s(number: int) -> str:
    return "s" if number == 1 else ""


def _batch(host: Document) -> Iterator[str]:
    if host["fault"]:
        yield from wrapped(f"{host['batch']} does not answer: {host['fault']}", "")
    if host["poll_age_s"] is None:
        yield f"{host['batch']} was not seen yet"
    else:
        waits = "not known" if host["pending"] is None else str(host["pending"])
        yield f"{host['batch']} was seen {age(host['poll_age_s'])} ago: jobs that wait here: {waits}"


def _sensor(host: Document) -> Iterator[str]:
    if host["sensor_fault"]:
        yield from wrapped(host["sensor_fault"], "")


def _link(host: Document) -> Iterator[str]:
    link = host["link"]
    if link["fault"]:
        yield from wrapped(f"{host['peer']} does not answer: {link['fault']}", "")
    if link["listening_fault"]:
        yield from wrapped(f"{host['peer']} cannot ask this cluster: {link['listening_fault']}", "")
    if link["key_fault"]:
        yield from wrapped(link["key_fault"], "")
    if link["answered_s"] is None:
        yield f"{host['peer']} has not answered yet"
    else:
        waits = "not known" if host["peer_pending"] is None else str(host["peer_pending"])
        more = f"; it takes {host['offer']} more"
        yield f"{host['peer']} has answered {age(link['answered_s'])} ago: jobs that wait there: {waits}{more}"
    asked = "has not asked yet" if link["asked_s"] is None else f"has asked {age(link['asked_s'])} ago"
    yield f"{host['peer']} {asked}"
    if refusals := numbers(link["refusals"]):
        when = "" if link["refused_s"] is None else f" {age(link['refused_s'])} ago"
        yield f"connections that were refused: {refusals}; the last{when}: {link['refused_last']}"
