"""Grid Engine behind the interface of interface.py.

Inputs are its commands, on a node that is a submit and an administrative host, run by a manager; outputs are values.
A look is one qstat. It does not show marks, so the cell keeps those of the jobs that it has submitted; a second query
(`qstat -j`) asks for those of jobs that it does not know in its first look, after a submission whose outcome it does
not know, and for the reason of an error. Invariant: a look that misses the mark of a foreign job is Unavailable.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Final, TypeVar

from msgspec.structs import replace

from subord.services.batch.faults import AnswerError, Pattern, failed, garbled
from subord.services.batch.gridengine import queue
from subord.services.batch.gridengine.adapter import PATTERNS as ADAPTER_PATTERNS
from subord.services.batch.gridengine.adapter import RELEASES
from subord.services.batch.records import Fault, Job, JobState, Refused, Unavailable
from subord.services.batch.running import Commands, Ran
from subord.services.batch.settling import Step, settle
from subord.services.transfer.cells.gridengine import accounting, describing, submitting
from subord.services.transfer.cells.gridengine.looking import BOND, Detail, details_in, look_of
from subord.services.transfer.cells.interface import IDS_MAX, Back, Deed, Ended, Look, Sought, Submitted
from subord.services.transfer.cells.users import as_user, unknown_user, wrong_user
from subord.services.transfer.jobs import End, Spec
from subord.services.transfer.plan import REMOTE, UID_MIN

UNSURE_S: Final = 120.0
"""So long after a submission without an answer the job may still appear."""
DELETED_MAX: Final = 10_000
_SHOW: Final = ("qstat", "-xml", "-j")
_WORDS: Final = {
    Deed.RELEASE: ("qrls", "-h", "u"),
    Deed.HOLD: ("qhold", "-h", "u"),
    Deed.SUSPEND: ("qmod", "-sj"),
    Deed.RESUME: ("qmod", "-usj"),
    Deed.DELETE: ("qdel",),
}
_HARMLESS: Final = re.compile(
    r"does not exist|invalid queue or job|can ?not be applied|is already (un)?suspended|already in deletion|"
    r"^\S+ (- |has registered|has deleted)|^modified (hold|context)"
)
"""What is said of a job that has ended, or is as it is wanted; and of one that was changed."""
_UNSTARTED: Final = re.compile(r"has deleted job(?:-array task)? (\d+)")
"""Of a job that was deleted before it started: the accounting has no line of it."""
_REFUSED: Final = re.compile(r"Unable to run job: (?!unable to|got |Error reading|failed)", re.IGNORECASE)
_NO_LINE: Final = 1
"""Of grep."""
_NO_FILE: Final = "No such file"
"""Nothing has ended yet."""
_NOTHING: Final = "nothing was submitted: it runs in its own cluster"
PATTERNS: Final = (
    Pattern(
        re.compile(r"receiving gdi|answer list from qmaster|timeout", re.IGNORECASE),
        Fault.SILENT,
        "see that sge_qmaster runs on the host of act_qmaster, and is not too busy",
    ),
    *ADAPTER_PATTERNS,
    Pattern(
        re.compile(r"must be (operator|owner)|not allowed"),
        Fault.RIGHTS,
        "run as a manager of Grid Engine (qconf -am USER)",
    ),
    Pattern(re.compile(r"unknown resource"), Fault.FAILED, "make the complex once, by `subord transfer setup`"),
)
Parsed = TypeVar("Parsed")


class GridEngineCell:
    """`transfer`: the transfer queues of this cell; `remote`: the complex without which no job leaves. `ends`: the
    path of the accounting file. `is_verified`: a job that no host of now could run is refused. `uid_min`: as in the
    plan."""

    def __init__(
        self,
        commands: Commands,
        transfer: Sequence[str],
        ends: str,
        *,
        remote: str = REMOTE,
        is_verified: bool = True,
        uid_min: int = UID_MIN,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._commands = commands
        self._transfer = transfer
        self._ends = ends
        self._remote = remote
        self._is_verified = is_verified
        self._uid_min = uid_min
        self._clock = clock
        self._details: dict[str, Detail] = {}
        self._sure_from: float | None = None
        """From when on no job is there that has a mark and is not in `_details`. None: there was no look yet."""
        self._deleted: dict[str, None] = {}

    # -- jobs from elsewhere --------------------------------------------------------------------------------------

    async def look(self) -> Look | Unavailable:
        before, now = set(self._details), self._clock()
        said = await self._said(*queue.WORDS)
        if isinstance(said, Unavailable):
            return said
        jobs = _parsed("qstat", queue.jobs_in, said)
        if isinstance(jobs, Unavailable):
            return jobs
        wrong = await self._ask(self._strangers(jobs, now))
        if wrong is not None:
            return wrong
        if self._sure_from is None:
            self._sure_from = now
        for gone in before - {job.id for job in jobs}:
            self._details.pop(gone, None)
        return look_of(jobs, self._details, self._transfer)

    async def submit(self, mark: str, user: str, spec: Spec) -> Submitted | Refused | Unavailable:
        if (wrong := await wrong_user(self._commands, user, self._uid_min)) is not None:
            return wrong
        named = {each.partition("@")[0] for each in spec.queue.split(",")}
        if found := sorted(named.intersection(self._transfer)):
            return Refused(f"{found[0]} is a transfer queue here, from which a foreign job would go on; {_NOTHING}")
        stays = self._is_verified and bool(self._transfer)
        outcome = await self._submit(mark, user, spec, stays=stays)
        if stays and isinstance(outcome, Refused):  # not each cell and queue has the complex
            outcome = await self._submit(mark, user, spec, stays=False)
        if isinstance(outcome, Refused) and self._is_verified and spec.requests:
            outcome = await self._but_for_measures(mark, user, spec, outcome)
        return outcome

    async def _but_for_measures(
        self, mark: str, user: str, spec: Spec, refused: Refused
    ) -> Submitted | Refused | Unavailable:
        """A job that was refused for requests of values that hosts measure, such as `mem_free`, alone is submitted:
        Grid Engine verifies as if no host had told any."""
        said = await self._said("qhost", "-F", ",".join(name for name, _ in spec.requests))
        if isinstance(said, Unavailable):
            return said
        measured = submitting.measured_in(said)
        rest = tuple(each for each in spec.requests if each[0] not in measured)
        if rest == spec.requests:
            return refused
        words = submitting.words_for(
            mark, replace(spec, requests=rest), self._transfer, is_verified=True, remote=self._remote
        )
        ran = await self._run(user, submitting.tried(words), spec)
        if isinstance(ran, Ran) and ran.code == 0:
            return await self._submit(mark, user, spec, stays=False, is_verified=False)
        tried = _submitted(ran)
        return tried if isinstance(tried, Unavailable) else refused

    async def _submit(
        self, mark: str, user: str, spec: Spec, *, stays: bool, is_verified: bool | None = None
    ) -> Submitted | Refused | Unavailable:
        """`is_verified`: None: as the cell is made."""
        words = submitting.words_for(
            mark,
            spec,
            self._transfer,
            is_verified=self._is_verified if is_verified is None else is_verified,
            remote=self._remote,
            stays=stays,
        )
        outcome = _submitted(await self._run(user, words, spec))
        if isinstance(outcome, Submitted):
            self._details[outcome.id] = Detail(mark)
        elif isinstance(outcome, Unavailable) and self._sure_from is not None:
            self._sure_from = self._clock() + UNSURE_S
        return outcome

    async def _run(self, user: str, words: tuple[str, ...], spec: Spec) -> Ran | Unavailable:
        return await self._commands.run(*as_user(user, *words), given=spec.script.encode("utf-8", "surrogateescape"))

    async def act(self, deed: Deed, ids: Sequence[str]) -> Unavailable | None:
        known = [each for each in ids if each.isdigit()]
        if not known:
            return None
        ran = await self._commands.run(*_WORDS[deed], *known)
        if isinstance(ran, Unavailable):
            return ran
        if deed == Deed.DELETE:
            for line in _lines(ran):
                if found := _UNSTARTED.search(line):
                    self._deleted[found[1]] = None
            for old in list(islice(self._deleted, max(0, len(self._deleted) - DELETED_MAX))):
                del self._deleted[old]
        return None if ran.code == 0 or _is_harmless(ran) else failed(_WORDS[deed][0], ran, PATTERNS)

    async def ended(self, jobs: Sequence[Sought]) -> Sequence[Ended] | Unavailable:
        if not jobs:
            return []
        words, given = accounting.words_for(self._ends, jobs)
        ran = await self._commands.run(*words, given=given)
        if isinstance(ran, Unavailable):
            return ran
        if ran.code not in (0, _NO_LINE) and _NO_FILE not in ran.words:
            return failed("grep in the accounting", ran, PATTERNS)
        found = _parsed("grep", lambda text: accounting.ended_in(text, jobs), ran.text)
        if isinstance(found, Unavailable):
            return found
        told = {each.id for each in found}
        unstarted = [each for each in jobs if each.id in self._deleted and each.id not in told]
        return [*found, *(Ended(each.mark, each.id, _DELETED, has_run=False) for each in unstarted)]

    # -- jobs of this cell ----------------------------------------------------------------------------------------

    async def describe(self, jobs: Iterable[str]) -> Mapping[str, Spec | Refused] | Unavailable:
        known = sorted({each for each in jobs if each.isdigit()}, key=int)
        if not known:
            return {}
        said = await self._said(*_SHOW, ",".join(known))
        if isinstance(said, Unavailable):
            return said
        return _parsed("qstat", lambda text: describing.specs_in(text, self._transfer, self._remote), said)

    async def bind(self, jobs: Sequence[tuple[str, int]]) -> Unavailable | None:
        """By a hold of the system, which only a manager can take away. What runs goes on under it. The job is marked
        before, so that a hold of an administrator is never taken for a bond."""
        numbers = list(dict.fromkeys(job for job, _ in jobs if job.isdigit()))
        unmarked = [each for each in numbers if not self._detail(each).was_bound]
        outcome = await self._changed(("qalter", "-ac", f"{BOND}=true"), unmarked)
        if outcome is not None:
            return outcome
        self._details |= {each: self._detail(each)._replace(was_bound=True) for each in unmarked}
        return await self._held("qhold", jobs)

    async def unbind(self, jobs: Sequence[tuple[str, int]]) -> Unavailable | None:
        return await self._held("qrls", jobs)

    async def recall(self, jobs: Sequence[str], queue: str) -> Unavailable | None:
        return await self._changed(("qalter", "-q", queue), [each for each in jobs if each.isdigit()])

    async def _held(self, program: str, jobs: Sequence[tuple[str, int]]) -> Unavailable | None:
        known = [f"{job}.{task}" if task else job for job, task in jobs if job.isdigit()]
        return await self._changed((program, "-h", "s"), known)

    async def _changed(self, words: tuple[str, ...], jobs: Sequence[str]) -> Unavailable | None:
        for begin in range(0, len(jobs), IDS_MAX):
            ran = await self._commands.run(*words, *jobs[begin : begin + IDS_MAX])
            if isinstance(ran, Unavailable):
                return ran
            if ran.code != 0 and not _is_harmless(ran):
                return failed(words[0], ran, PATTERNS)
        return None

    async def keep(self, job: str) -> Refused | Unavailable | None:
        if not job.isdigit():
            return Refused(f"{job[:40]!r} is not the number of a job; nothing was changed")

        async def plan() -> Iterable[Step] | Refused | Unavailable:
            said = await self._said(*_SHOW, job)
            if isinstance(said, Unavailable):
                return said
            found = _parsed("qstat", _all_requests, said)
            if isinstance(found, Unavailable):
                return found
            if found is None:
                return Refused(f"Grid Engine has no job {job}; nothing was changed: it has ended")
            hard, soft = found
            if dict(hard).get(self._remote, "").upper() in ("FALSE", "0"):
                return ()
            kept = [each for each in hard if each[0] != self._remote]
            words = [
                "qalter",
                *_requested("-soft", soft),
                *_requested("-hard", [*kept, (self._remote, "FALSE")]),
                job,
            ]
            return (Step(tuple(words)),)

        outcome = await settle(plan, self._commands, PATTERNS)
        return outcome if isinstance(outcome, Refused | Unavailable) else None

    async def put_back(self, job: str, task: int, back: Back) -> None:
        """The status of its starter does that."""

    # -- parts ----------------------------------------------------------------------------------------------------

    def _strangers(self, jobs: Iterable[Job], now: float) -> list[str]:
        """Of which it is to be asked whether they have a mark, or why they are in error."""
        is_sure = self._sure_from is not None and now >= self._sure_from
        found = set()
        for job in jobs:
            detail = self._details.get(job.id)
            if (detail is None and not is_sure) or (
                detail is not None and detail.mark and not detail.reason and job.state == JobState.ERROR
            ):
                found.add(job.id)
        return sorted(found, key=int)

    def _detail(self, job: str) -> Detail:
        return self._details.get(job) or Detail("")

    async def _ask(self, jobs: Sequence[str]) -> Unavailable | None:
        for begin in range(0, len(jobs), IDS_MAX):
            some = jobs[begin : begin + IDS_MAX]
            said = await self._said(*_SHOW, ",".join(some))
            if isinstance(said, Unavailable):
                return said
            found = _parsed("qstat", details_in, said)
            if isinstance(found, Unavailable):
                return found
            self._details |= dict.fromkeys(some, Detail("")) | found
        return None

    async def _said(self, *words: str) -> str | Unavailable:
        ran = await self._commands.run(*words)
        if isinstance(ran, Unavailable) or ran.code == 0:
            return ran if isinstance(ran, Unavailable) else ran.text
        return failed(" ".join(words[:3]), ran, PATTERNS)


_DELETED: Final = End(status=137, signal=9)
"""As Grid Engine has it for one that has started."""


def _lines(ran: Ran) -> list[str]:
    return [line.strip() for line in f"{ran.text}\n{ran.errors}".splitlines() if line.strip()]


def _is_harmless(ran: Ran) -> bool:
    """Whether all that it has said is of jobs that have ended, or are as it is wanted."""
    return all(_HARMLESS.search(line) for line in _lines(ran))


def _submitted(ran: Ran | Unavailable) -> Submitted | Refused | Unavailable:
    if isinstance(ran, Unavailable):
        return ran
    number = ran.text.strip().partition(".")[0]
    if ran.code == 0:
        if number.isdigit():
            return Submitted(number)
        return garbled("qsub", AnswerError(f"{ran.text[:100]!r} is no number of a job"), RELEASES)
    if (unknown := unknown_user(ran)) is not None:
        return unknown
    wrong = failed("qsub", ran, PATTERNS)
    if wrong.fault == Fault.FAILED and _REFUSED.search(ran.words):
        words = _REFUSED.sub("", ran.words).removesuffix("Exiting.").strip()
        return Refused(f"Grid Engine takes no such job: {words}; {_NOTHING}")
    return wrong


Requests = tuple[tuple[str, str], ...]


def _all_requests(text: str) -> tuple[Requests, Requests] | None:
    """Hard and soft ones; None: there is no such job. Raises AnswerError."""
    jobs = describing.jobs_in(text)
    return (describing.requests_in(jobs[0], "hard"), describing.requests_in(jobs[0], "soft")) if jobs else None


def _requested(option: str, requests: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    return (option, "-l", ",".join(f"{name}={value}" for name, value in requests)) if requests else ()


def _parsed(program: str, parse: Callable[[str], Parsed], text: str) -> Parsed | Unavailable:
    try:
        return parse(text)
    except AnswerError as error:
        return garbled(program, error, RELEASES)
