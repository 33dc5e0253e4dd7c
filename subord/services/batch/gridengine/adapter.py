"""Grid Engine behind the interface of adapter.py.

Inputs are commands of Grid Engine on a node that is its administrative host; outputs are records and outcomes. A host
is in the queue through a host group. Invariant: no execd is stopped, and no host forgotten, while a job has slots
there.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, TypeVar

import trio

from subord.services.batch.faults import AnswerError, Pattern, failed, garbled
from subord.services.batch.gridengine import accounting, queue
from subord.services.batch.gridengine.hosts import WORDS as HOSTS_WORDS
from subord.services.batch.gridengine.hosts import Row, rows_in
from subord.services.batch.gridengine.registration import (
    Registered,
    group_in,
    queue_in,
    steps_to_add,
    steps_to_remove,
)
from subord.services.batch.records import (
    Fault,
    History,
    Host,
    JobState,
    NewHost,
    Outcome,
    Queue,
    Refused,
    Unavailable,
)
from subord.services.batch.running import Commands, Ran
from subord.services.batch.settling import Step, known, settle, wrong_host, wrong_name

RELEASES: Final = "Grid Engine 8.1.9"
ENVIRONMENT: Final = {"SGE_SINGLE_LINE": "1"}
"""qconf does not fold long lines."""
HISTORY_BYTES_MAX: Final = 8 << 20
"""About 6,000 entries of qacct."""
NO_ACCOUNTING: Final = re.compile(
    r"accounting.*(No such file|not exist)|no jobs running since|not found", re.IGNORECASE
)
EMPTY: Final = re.compile(r"no .* defined|no .* list defined", re.IGNORECASE)
PATTERNS: Final = (
    Pattern(
        re.compile(r"unable to (send|contact)|commlib error|got (select|send|read) error|qmaster is not"),
        Fault.SILENT,
        "see that sge_qmaster runs on the host of act_qmaster, and that this node reaches it",
    ),
    Pattern(
        re.compile(r"cell directory|SGE_ROOT|act_qmaster|bootstrap"),
        Fault.SILENT,
        "set SGE_ROOT and SGE_CELL as in settings.sh of the cell, which this node must be able to read",
    ),
    Pattern(
        re.compile(
            r"must be (manager|operator)|no permission|neither submit nor admin host|no (admin|submit)|access denied"
        ),
        Fault.RIGHTS,
        "run as a manager of Grid Engine (qconf -am USER) on an administrative host (qconf -ah HOST)",
    ),
    Pattern(
        re.compile(r"can't resolve hostname"),
        Fault.FAILED,
        "give the qmaster's host the name and address first, for example in its hosts file",
    ),
)
Parsed = TypeVar("Parsed")


class GridEngine:
    """`group`: the host group by which hosts are in `queue_name`. `parallel`: parallel environments whose number of
    slots follows that of the queue."""

    def __init__(
        self,
        commands: Commands,
        queue_name: str = "all.q",
        group: str = "@allhosts",
        parallel: tuple[str, ...] = (),
    ) -> None:
        self._commands = commands
        self._queue = queue_name
        self._group = group
        self._parallel = parallel

    # -- answers ------------------------------------------------------------------------------------------------

    async def queue(self) -> Queue | Unavailable:
        now = time.time()
        said = await self._said(*queue.WORDS)
        if isinstance(said, Unavailable):
            return said
        jobs = _parsed("qstat", queue.jobs_in, said)
        if isinstance(jobs, Unavailable):
            return jobs
        if any(job.state == JobState.QUEUED for job in jobs):
            waiting = await self._said(*queue.WAITING_WORDS)
            if isinstance(waiting, Unavailable):
                return waiting
            ids = _parsed("qstat", queue.ids_in, waiting)
            if isinstance(ids, Unavailable):
                return ids
            jobs = queue.waiting(jobs, ids)
        return Queue(tuple(jobs), now)

    async def hosts(self) -> tuple[Host, ...] | Unavailable:
        rows = await self._rows()
        return rows if isinstance(rows, Unavailable) else tuple(each.host(self._queue) for each in rows)

    async def history(self, since: float) -> History | Unavailable:
        ran = await self._commands.run(*accounting.words_for(since), bytes_max=HISTORY_BYTES_MAX, keeps_last=True)
        if isinstance(ran, Unavailable):
            return ran
        if ran.code != 0:
            return History((), since) if NO_ACCOUNTING.search(ran.words) else failed("qacct", ran, PATTERNS)
        found = _parsed("qacct", accounting.finished_in, ran.text)
        if isinstance(found, Unavailable):
            return found
        begin = max(since, found[0].ended) if ran.is_cut and found else since
        return History(tuple(each for each in found if each.ended >= begin), begin)

    # -- effects ------------------------------------------------------------------------------------------------

    async def drain(self, host: str, reason: str = "") -> Outcome:  # noqa: ARG002 - Grid Engine keeps no reason
        """In all queues."""
        return await self._switched(host, "-d", is_wanted=True)

    async def undrain(self, host: str) -> Outcome:
        return await self._switched(host, "-e", is_wanted=False)

    async def add(self, host: NewHost) -> Outcome:
        """As an administrative, submit and execution host, in the host group, with its slots in the queue."""
        if (wrong := wrong_host(host)) is not None:
            return wrong

        async def plan() -> Iterable[Step] | Refused | Unavailable:
            now = await self._registered(is_whole=False)
            if isinstance(now, Unavailable):
                return now
            if (refused := self._unfit(now)) is not None:
                return refused
            name = known(now.names(), host.name)
            if isinstance(name, Refused):
                return name
            own = name or host.name
            last = await self._parallel_steps(own, host.slots)
            if isinstance(last, Unavailable):
                return last
            return [*steps_to_add(now, own, host.slots, self._queue, self._group), *last]

        return await settle(plan, self._commands, PATTERNS)

    async def remove(self, host: str) -> Outcome:
        """Look, drain, look again, and remove."""
        if (wrong := wrong_name(host)) is not None:
            return wrong
        free = await self._free(host, "nothing was changed")
        if free is not None:
            return free
        drained = await self.drain(host)
        if isinstance(drained, Unavailable):
            return drained

        free = await self._free(host, "the host stays drained")
        if free is not None:
            return free
        return await settle(partial(self._steps_to_remove, host), self._commands, PATTERNS)

    # -- parts of effects ---------------------------------------------------------------------------------------

    async def _switched(self, host: str, option: str, *, is_wanted: bool) -> Outcome:
        if (wrong := wrong_name(host)) is not None:
            return wrong

        async def plan() -> Iterable[Step] | Refused | Unavailable:
            rows = await self._rows()
            if isinstance(rows, Unavailable):
                return rows
            name = known((each.name for each in rows), host)
            if isinstance(name, Refused):
                return name
            if name is None:
                return Refused(f"Grid Engine has no host {host}; nothing was changed: qhost lists its hosts")
            row = next(each for each in rows if each.name == name)
            differ = [each for each in row.instances if ("d" in each.letters) != is_wanted]
            return [Step(("qmod", option, f"{each.queue}@{name}")) for each in differ]

        return await settle(plan, self._commands, PATTERNS)

    async def _free(self, host: str, unchanged: str) -> Refused | Unavailable | None:
        """Why the host is not to be removed now."""
        rows, jobs = await self._rows(), await self.queue()
        if isinstance(rows, Unavailable):
            return rows
        if isinstance(jobs, Unavailable):
            return jobs
        name = known((each.name for each in rows), host)
        if isinstance(name, Refused):
            return name
        there = sorted({each.id for each in jobs.jobs for place in each.places if place.host == name})
        busy = sum(each.used for row in rows if row.name == name for each in row.instances)
        if there or busy:
            which = f"jobs {', '.join(there[:5])}" if there else f"{busy} used slots"
            return Refused(f"{host} has {which}; {unchanged}: drain it, and remove it when they have ended")
        return None

    async def _steps_to_remove(self, host: str) -> Iterable[Step] | Refused | Unavailable:
        now, rows, master = (
            await self._registered(is_whole=True),
            await self._rows(),
            await self._said("qconf", "-sss"),
        )
        for each in (now, rows, master):
            if isinstance(each, Unavailable):
                return each
        assert isinstance(now, Registered)
        assert isinstance(rows, list)
        assert isinstance(master, str)
        name = known(now.names(), host)
        if isinstance(name, Refused):
            return name
        if name is not None and name in master.split():
            return Refused(f"{name} is the host of the qmaster; it stays registered")
        last = await self._parallel_steps(name or host, 0)
        if isinstance(last, Unavailable) or name is None:
            return last
        is_up = any(row.name == name and row.load is not None for row in rows)
        return [*steps_to_remove(now, name, is_up=is_up), *last]

    async def _parallel_steps(self, host: str, slots: int) -> Iterable[Step] | Unavailable:
        """The parallel environments have as many slots as the queue, where the host will have `slots`."""
        if not self._parallel:
            return ()
        rows = await self._rows()
        if isinstance(rows, Unavailable):
            return rows
        others = (each for row in rows if row.name != host for each in row.instances)
        total = slots + sum(each.slots for each in others if each.queue == self._queue)
        steps = []
        for name in self._parallel:
            said = await self._said("qconf", "-sp", name)
            if isinstance(said, Unavailable):
                return said
            if not re.search(rf"^slots[ \t]+{total}[ \t]*$", said, re.MULTILINE):
                steps.append(Step(("qconf", "-mattr", "pe", "slots", str(total), name)))
        return steps

    def _unfit(self, now: Registered) -> Refused | None:
        """An administrator has to set up the queue once."""
        own = now.queues.get(self._queue)
        if own is None:
            what = f"Grid Engine has no queue {self._queue}"
        elif self._group not in now.groups:
            what = f"Grid Engine has no host group {self._group}"
        elif self._group not in own.members:
            what = f"the queue {self._queue} does not have the hosts of {self._group}"
        else:
            return None
        return Refused(f"{what}; nothing was changed: make them once by qconf -Aq and qconf -Ahgrp")

    # -- readings -----------------------------------------------------------------------------------------------

    async def _rows(self) -> list[Row] | Unavailable:
        said = await self._said(*HOSTS_WORDS)
        return said if isinstance(said, Unavailable) else _parsed("qhost", rows_in, said)

    async def _registered(self, *, is_whole: bool) -> Registered | Unavailable:
        """With all host groups and queues, or only those of the adapter."""
        options = ("-sh", "-ss", "-sel", "-sconfl", "-shgrpl", "-sql")
        said = await self._all_said([("qconf", each) for each in options])
        if isinstance(said, Unavailable):
            return said
        *lists, groups, queues = (each.split() for each in said)
        groups = [each for each in groups if is_whole or each == self._group]
        queues = [each for each in queues if is_whole or each == self._queue]
        words = [("qconf", "-shgrp", each) for each in groups] + [("qconf", "-sq", each) for each in queues]
        texts = await self._all_said(words)
        if isinstance(texts, Unavailable):
            return texts
        members = dict(zip(groups, map(group_in, texts), strict=False))
        configurations = dict(zip(queues, map(queue_in, texts[len(groups) :]), strict=True))
        hosts, submit, execution, configured = map(frozenset, lists)
        return Registered(hosts, submit, execution, configured, members, configurations)

    async def _all_said(self, commands: Sequence[tuple[str, ...]]) -> list[str] | Unavailable:
        """The outputs, of which each may be an empty list, or the first fault."""
        answers: list[str | Unavailable] = ["" for _ in commands]

        async def ask(number: int, words: tuple[str, ...]) -> None:
            answers[number] = await self._said(*words, may_be_empty=True)

        async with trio.open_nursery() as nursery:
            for number, words in enumerate(commands):
                nursery.start_soon(ask, number, words)
        said: list[str] = []
        for each in answers:
            if isinstance(each, Unavailable):
                return each
            said.append(each)
        return said

    async def _said(self, *words: str, may_be_empty: bool = False) -> str | Unavailable:
        """The output of a command that succeeds. With `may_be_empty`, qconf may say that a list has nothing."""
        ran = await self._commands.run(*words)
        if isinstance(ran, Unavailable):
            return ran
        if ran.code == 0:
            return ran.text
        if may_be_empty and EMPTY.search(_all_said(ran)):
            return ""
        return failed(" ".join(words), ran, PATTERNS)


def _all_said(ran: Ran) -> str:
    return f"{ran.text} {ran.errors}"


def _parsed(program: str, parse: Callable[[str], Parsed], text: str) -> Parsed | Unavailable:
    try:
        return parse(text)
    except AnswerError as error:
        return garbled(program, error, RELEASES)
