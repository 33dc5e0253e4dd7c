"""Sets a cell of Grid Engine up for a transfer queue, and takes that away again.

Inputs are the settings and the commands, of a manager on the transfer host; outputs are outcomes. Each pass reads
what is there and changes what differs (settling.py), so a second call changes nothing, and one after an interruption
goes on. Invariants: no field is changed but those of settings.py; a transfer queue is not deleted while jobs are in
it, because they may run elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import trio

from subord.services.batch.faults import Pattern, failed
from subord.services.batch.gridengine.adapter import EMPTY
from subord.services.batch.records import Fault, Outcome, Refused, Unavailable
from subord.services.batch.running import Commands
from subord.services.batch.settling import Step, settle
from subord.services.transfer.cells.gridengine.adapter import PATTERNS as CELL_PATTERNS
from subord.services.transfer.cells.gridengine.settings import (
    DEFAULTS,
    SORTED,
    Settings,
    complexes,
    gids_in,
    host_fields,
    queue_fields,
    ranges_in,
    scripts,
)

_FIELD: Final = re.compile(r"^(\w+)[ \t]+(.*?)[ \t]*$", re.MULTILINE)
_WRITE: Final = 'umask 022; mkdir -p "${1%/*}" && cat >"$1.new" && chmod 755 "$1.new" && mv "$1.new" "$1"'
_NONE: Final = "\1"
_READ: Final = 'for path; do if [ -f "$path" ]; then cat "$path"; else printf "\\001"; fi; printf "\\000"; done'
"""Of each file its text, or a sign that it is not there."""
_CONFIGURE: Final = 'cd "$(mktemp -d)" && cat >"$1" && qconf "$2" "$1"; code=$?; rm -r "$PWD"; exit $code'
"""qconf takes the name of the host from that of the file."""
PATTERNS: Final = (
    Pattern(re.compile(r"still referenced|is referenced"), Fault.FAILED, "wait until no job asks for it any more"),
    *CELL_PATTERNS,
)


class Found(NamedTuple):
    """What is there. `queue`, `host`: None: there is none. `queues`: the `complex_values` of the other queues.
    `gids`: `gid_range` of the whole cell."""

    complexes: str
    queue: Mapping[str, str] | None
    queues: Mapping[str, str]
    host: Mapping[str, str] | None
    sorted_by: str
    scheduler: str
    hosts: frozenset[str]
    submit: frozenset[str]
    execution: frozenset[str]
    scripts: Mapping[str, str]
    gids: str


async def set_up(commands: Commands, own: Settings) -> Outcome:
    async def plan() -> Iterable[Step] | Refused | Unavailable:
        found = await _found(commands, own)
        if isinstance(found, Unavailable):
            return found
        if own.host not in found.execution:
            return Refused(
                f"{own.host} is no execution host of this cell; nothing was changed: make it one (qconf -ae), with "
                "an execd, or name it as `qconf -sel` does"
            )
        if absent := [each for each in own.others if each not in found.queues]:
            return Refused(f"Grid Engine has no queue {absent[0]}; nothing was changed: qconf -sql lists its queues")
        if (few := too_few_gids(found, own)) is not None:
            return few
        return steps_to_set_up(found, own)

    return await settle(plan, commands, PATTERNS)


async def take_away(commands: Commands, own: Settings) -> Outcome:
    """The sort method of the scheduler stays, and without the option of the range the groups of the host."""

    async def plan() -> Iterable[Step] | Refused | Unavailable:
        found = await _found(commands, own)
        if isinstance(found, Unavailable):
            return found
        if found.queue is not None:
            jobs = await _said(commands, "qstat", "-u", "*", "-q", own.queue, "-s", "rs")
            if isinstance(jobs, Unavailable):
                return jobs
            if jobs.strip():
                return Refused(
                    f"jobs are in the queue {own.queue}, and may run elsewhere; nothing was changed: disable it "
                    f"(qmod -d {own.queue}), and call this again when they have ended"
                )
        return steps_to_take_away(found, own)

    return await settle(plan, commands, PATTERNS)


def too_few_gids(found: Found, own: Settings) -> Refused | None:
    """A job over the number of gids is started, fails, and waits again, without end."""
    text = own.gids or (found.host or {}).get("gid_range") or found.gids
    count = gids_in(text)
    slots = max(own.slots, own.together)
    if count is None or count >= slots:
        return None
    return Refused(
        f"{own.host} starts at most {count} jobs at once, since Grid Engine gives each a group of gid_range {text}, "
        f"and {slots} slots of its transfer queues need as many; nothing was changed: name free numbers of groups "
        "with --gids FIRST-LAST, or take fewer slots"
    )


# -- steps --------------------------------------------------------------------------------------------------------


def steps_to_set_up(found: Found, own: Settings) -> Iterator[Step]:
    """The queue comes last, so that no job is there before all else is."""
    if own.host not in found.hosts:
        yield Step(("qconf", "-ah", own.host))
    if own.host not in found.submit:
        yield Step(("qconf", "-as", own.host))
    missing = [line for name, line in complexes(own).items() if not _line_of(name, found.complexes)]
    if missing:
        yield Step(
            ("qconf", "-Mc", "/dev/stdin"), "".join([found.complexes, *(f"{each}\n" for each in missing)]).encode()
        )
    for path, text in scripts(own).items():
        if found.scripts.get(path) != text:
            yield Step(("sh", "-c", _WRITE, "sh", path), text.encode())
    host = host_fields(own)
    if found.host is None or any(not _is_so(name, value, found.host) for name, value in host.items()):
        fields = dict(found.host or {}) | host
        yield _configured(own.host, "-Aconf" if found.host is None else "-Mconf", fields)
    for name, values in found.queues.items():
        if name in own.others and f"{own.remote}=FALSE" not in _values(values):
            yield Step(("qconf", "-aattr", "queue", "complex_values", f"{own.remote}=FALSE", name))
    if own.sorts and {"queue_sort_method": found.sorted_by} != SORTED:
        yield Step(("qconf", "-Msconf", "/dev/stdin"), _changed(found.scheduler, SORTED).encode())
    wanted = queue_fields(own)
    if found.queue is None:
        yield Step(("qconf", "-Aq", "/dev/stdin"), _text({"qname": own.queue} | DEFAULTS | wanted).encode())
    else:
        for name, value in wanted.items():
            if found.queue.get(name) != value:
                yield Step(("qconf", "-rattr", "queue", name, value, own.queue))


def _is_so(name: str, value: str, fields: Mapping[str, str]) -> bool:
    """Ranges of groups are compared as numbers."""
    read = ranges_in if name == "gid_range" else str
    return name in fields and read(fields[name]) == read(value)


def steps_to_take_away(found: Found, own: Settings) -> Iterator[Step]:
    """In the order in which nothing that is left refers to what is gone. What all transfer queues need goes with the
    last of them."""
    if found.queue is not None:
        yield Step(("qconf", "-dq", own.queue))
    is_last = not any(f"{own.remote}=TRUE" in _values(each) for each in found.queues.values())
    if is_last:
        yield from _steps_for_the_last(found, own)
    sensor = host_fields(own)["load_sensor"]
    for path in found.scripts:
        if is_last or path != sensor:
            yield Step(("rm", "-f", path))


def _steps_for_the_last(found: Found, own: Settings) -> Iterator[Step]:
    for name, values in found.queues.items():
        if f"{own.remote}=FALSE" in _values(values):
            yield Step(("qconf", "-dattr", "queue", "complex_values", f"{own.remote}=FALSE", name))
    host = host_fields(own)
    if found.host is not None and found.host.get("load_sensor") == host["load_sensor"]:
        left = {name: value for name, value in found.host.items() if name not in host}
        yield _configured(own.host, "-Mconf", left) if left else Step(("qconf", "-dconf", own.host))
    lines = [each for name in complexes(own) if (each := _line_of(name, found.complexes))]
    if lines:
        kept = "".join(f"{line}\n" for line in found.complexes.splitlines() if line not in lines)
        yield Step(("qconf", "-Mc", "/dev/stdin"), kept.encode())


def _configured(host: str, option: str, fields: Mapping[str, str]) -> Step:
    return Step(("sh", "-c", _CONFIGURE, "sh", host, option), _text(fields).encode())


# -- readings -----------------------------------------------------------------------------------------------------


async def _found(commands: Commands, own: Settings) -> Found | Unavailable:
    options = ("-sc", "-sql", "-sconfl", "-ssconf", "-sh", "-ss", "-sel", "-sconf")
    lists = await _all_said(commands, [("qconf", each) for each in options])
    if isinstance(lists, Unavailable):
        return lists
    complex_lines, queue_names, configured, scheduler, hosts, submit, execution, of_all = lists
    queues = queue_names.split()
    shows = [("qconf", "-sq", each) for each in queues]
    if own.host in configured.split():
        shows.append(("qconf", "-sconf", own.host))
    texts = await _all_said(commands, shows)
    if isinstance(texts, Unavailable):
        return texts
    written = await _written(commands, scripts(own))
    if isinstance(written, Unavailable):
        return written
    read = dict(zip(queues, map(fields_in, texts), strict=False))
    return Found(
        complexes=complex_lines,
        queue=read.pop(own.queue, None),
        queues={name: fields.get("complex_values", "NONE") for name, fields in read.items()},
        host=fields_in(texts[-1]) if len(texts) > len(queues) else None,
        sorted_by=fields_in(scheduler).get("queue_sort_method", ""),
        scheduler=scheduler,
        hosts=frozenset(hosts.split()),
        submit=frozenset(submit.split()),
        execution=frozenset(execution.split()),
        scripts=written,
        gids=fields_in(of_all).get("gid_range", ""),
    )


async def _all_said(commands: Commands, lines: Sequence[tuple[str, ...]]) -> list[str] | Unavailable:
    """The outputs, or the first fault."""
    answers: list[str | Unavailable] = ["" for _ in lines]

    async def ask(number: int, words: tuple[str, ...]) -> None:
        answers[number] = await _said(commands, *words)

    async with trio.open_nursery() as nursery:
        for number, words in enumerate(lines):
            nursery.start_soon(ask, number, words)
    said: list[str] = []
    for each in answers:
        if isinstance(each, Unavailable):
            return each
        said.append(each)
    return said


async def _written(commands: Commands, paths: Iterable[str]) -> dict[str, str] | Unavailable:
    names = list(paths)
    ran = await commands.run("sh", "-c", _READ, "sh", *names)
    if isinstance(ran, Unavailable):
        return ran
    if ran.code != 0:
        return failed("sh", ran, PATTERNS)
    texts = ran.text.split("\0")
    return {path: text for path, text in zip(names, texts, strict=False) if text != _NONE}


async def _said(commands: Commands, *words: str) -> str | Unavailable:
    ran = await commands.run(*words)
    if isinstance(ran, Unavailable):
        return ran
    if ran.code == 0:
        return ran.text
    if EMPTY.search(f"{ran.text} {ran.errors}"):
        return ""
    return failed(" ".join(words), ran, PATTERNS)


# -- texts --------------------------------------------------------------------------------------------------------


def fields_in(text: str) -> dict[str, str]:
    """Of what qconf shows, each field in one line."""
    return {name: " ".join(value.split()) for name, value in _FIELD.findall(text)}


def _line_of(name: str, complexes_text: str) -> str:
    found = re.search(rf"^{re.escape(name)}[ \t].*$", complexes_text, re.MULTILINE)
    return found[0] if found else ""


def _values(text: str) -> set[str]:
    return set(text.replace(",", " ").split())


def _text(fields: Mapping[str, str]) -> str:
    return "".join(f"{name} {value}\n" for name, value in fields.items())


def _changed(text: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        text = re.sub(rf"^{name}[ \t].*$", f"{name} {value}", text, flags=re.MULTILINE)
    return text
