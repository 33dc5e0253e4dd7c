"""Slurm behind the interface of interface.py. Transfer queues are partitions.

Inputs are its commands, on a node with its slurm.conf, run by root or SlurmUser; outputs are values. Invariant: a
look is one squeue, and so is a search for ends, besides sacct for those that slurmctld has forgotten.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

import trio

from subord.services.batch.faults import AnswerError, NoAnswerError, failed, garbled
from subord.services.batch.records import Fault, Refused, Unavailable
from subord.services.batch.running import Commands, Ran
from subord.services.batch.slurm import history
from subord.services.batch.slurm.adapter import NO_ACCOUNTING, PATTERNS, RELEASES, SEE_CONTROLLER
from subord.services.batch.slurm.queue import ENDED, WORDS
from subord.services.transfer.cells.interface import IDS_MAX, Back, Deed, Ended, Look, Sought, Submitted
from subord.services.transfer.cells.slurm import submitting
from subord.services.transfer.cells.slurm.describing import specs_in
from subord.services.transfer.cells.slurm.looking import Seen, end_of, seen_in, sought_among
from subord.services.transfer.cells.users import as_user, unknown_user, wrong_user
from subord.services.transfer.jobs import Spec
from subord.services.transfer.plan import UID_MIN

_DEEDS: Final = {
    Deed.RELEASE: ("scontrol", "release"),
    Deed.HOLD: ("scontrol", "hold"),
    Deed.SUSPEND: ("scontrol", "suspend"),
    Deed.RESUME: ("scontrol", "resume"),
}
_HARMLESS: Final = re.compile(
    r"Invalid job id|already completing or completed|pending execution|is not suspended|already suspended|"
    r"no longer|not running|already finished|Job/step already|Requested operation is presently disabled"
)
_REFUSED: Final = re.compile(r"(?:Batch job submission failed|allocation failure): (.*)")
CANCELLED: Final = "CANCELLED"
_BACK: Final = {
    Back.AGAIN: ("requeue",),
    Back.STAY: ("requeuehold",),
    Back.ERROR: ("requeuehold", "State=SpecialExit"),
}
_FIELD: Final = re.compile(r"(\S+?)=(\S*)")
_DISABLED: Final = "Requested operation is presently disabled"
_NOTHING: Final = "nothing was submitted: it runs in its own cluster"
_NOT_YET: Final = frozenset({"RUNNING", "SUSPENDED", "COMPLETING"})
"""A job that was put back waits when its starter has ended."""
MOVES, MOVE_S, MOVES_S_MAX = 40, 0.5, 20.0
Parsed = TypeVar("Parsed")


class SlurmCell:
    """`transfer`: the partitions whose jobs leave. `is_verified`: a job that no node of now could run is
    refused; Slurm itself would take it. `uid_min`: as in the plan."""

    def __init__(
        self,
        commands: Commands,
        transfer: Sequence[str] = (),
        *,
        is_verified: bool = True,
        uid_min: int = UID_MIN,
    ) -> None:
        self._commands = commands
        self._transfer = transfer
        self._words: dict[tuple[str, int], str] = {}
        """Of jobs of this cell that the last look has shown."""
        self._is_verified = is_verified
        self._uid_min = uid_min

    async def look(self) -> Look | Unavailable:
        seen = await self._seen()
        if isinstance(seen, Unavailable):
            return seen
        self._words = seen.words
        return seen.look

    async def submit(self, mark: str, user: str, spec: Spec) -> Submitted | Refused | Unavailable:
        if (wrong := await wrong_user(self._commands, user, self._uid_min)) is not None:
            return wrong
        if found := sorted(set(spec.queue.split(",")).intersection(self._transfer)):
            return Refused(
                f"{found[0]} is a transfer partition here, from which a foreign job would go on; {_NOTHING}"
            )
        words = submitting.words_for(mark, spec)
        if isinstance(words, Refused):
            return words
        given = submitting.script_of(spec).encode("utf-8", "surrogateescape")
        if self._is_verified:
            tried = _submitted(await self._commands.run(*as_user(user, *submitting.tried(words)), given=given))
            if not isinstance(tried, Submitted):
                return tried
        return _submitted(await self._commands.run(*as_user(user, *words), given=given))

    async def act(self, deed: Deed, ids: Sequence[str]) -> Unavailable | None:
        known = [each for each in ids if each.isdigit()]
        if not known:
            return None
        words = ("scancel", *known) if deed == Deed.DELETE else (*_DEEDS[deed], ",".join(known))
        ran = await self._commands.run(*words)
        if isinstance(ran, Unavailable):
            return ran
        if ran.code == 0 or _is_harmless(ran):
            return None
        return failed(" ".join(words[:2]), ran, PATTERNS)

    async def ended(self, jobs: Sequence[Sought]) -> Sequence[Ended] | Unavailable:
        if not jobs:
            return []
        seen = await self._seen()
        if isinstance(seen, Unavailable):
            return seen
        found = list(sought_among(seen.ended, jobs))
        there = {each.id for each in found} | {each.id for each in seen.look.foreign}
        forgotten = [each for each in jobs if each.id and each.id not in there]
        told = await self._told(forgotten) if forgotten else []
        return told if isinstance(told, Unavailable) else [*found, *told]

    # -- jobs of this cell ----------------------------------------------------------------------------------------

    async def describe(self, jobs: Iterable[str]) -> Mapping[str, Spec | Refused] | Unavailable:
        wanted = set(jobs)
        if not wanted:
            return {}
        return await self._asked(lambda text: specs_in(text, wanted))

    async def bind(self, jobs: Sequence[tuple[str, int]]) -> Unavailable | None:
        """By a hold of an administrator. What runs goes on under it, and waits under it if its node fails."""
        return await self._changed(("scontrol", "hold"), [self._word(*each) for each in jobs])

    async def unbind(self, jobs: Sequence[tuple[str, int]]) -> Unavailable | None:
        return await self._changed(("scontrol", "release"), [self._word(*each) for each in jobs])

    async def recall(self, jobs: Sequence[str], queue: str) -> Unavailable | None:
        for job in jobs:
            wrong = await self._done("scontrol", "update", f"JobId={job}", f"Partition={queue}")
            if wrong is not None:
                return wrong
        return None

    async def keep(self, job: str) -> None:
        """`put_back` does it, because Slurm changes the partitions of no job that runs."""

    async def put_back(self, job: str, task: int, back: Back) -> Refused | Unavailable | None:
        word = self._word(job, task)
        ran = await self._commands.run("scontrol", *_BACK[back], word)
        if isinstance(ran, Unavailable):
            return ran
        if ran.code != 0 and _DISABLED in ran.words:
            return Refused(f"the job {word} may not be started again (--no-requeue); nothing was changed")
        if ran.code != 0 and not _is_harmless(ran):
            return failed("scontrol requeue", ran, PATTERNS)
        return await self._moved(word) if back == Back.STAY else None

    async def _moved(self, word: str) -> Refused | Unavailable | None:
        """A job that is held, as soon as it waits. It is tried again at once: its starter has ended, and nothing else
        would do it."""
        outcome: Refused | Unavailable | None = None
        until = trio.current_time() + MOVES_S_MAX
        for _ in range(MOVES):
            outcome = await self._move(word)
            if not isinstance(outcome, Unavailable) or trio.current_time() >= until:
                break
            await trio.sleep(MOVE_S)
        return outcome

    async def _move(self, word: str) -> Refused | Unavailable | None:
        """To partitions that are no transfer partitions."""
        fields = await self._shown(word)
        if isinstance(fields, Unavailable):
            return fields
        if not fields or fields["JobState"] in ENDED:
            return None  # it has ended
        named = fields["Partition"].split(",")
        if fields["JobState"] in _NOT_YET:
            is_moved = not set(named) & set(self._transfer)  # by a command whose answer was lost
            return None if is_moved else Unavailable(Fault.FAILED, f"the job {word} does not wait yet")
        others = await self._others(word, named)
        if not isinstance(others, str):
            return others
        wrong = await self._done("scontrol", "update", f"JobId={word}", f"Partition={others}")
        return wrong or await self._done("scontrol", "release", word)

    async def _shown(self, word: str) -> dict[str, str] | Unavailable:
        """What slurmctld says of a job; nothing: it does not know it any more."""
        told = await self._commands.run("scontrol", "--oneliner", "show", "job", word)
        if isinstance(told, Unavailable):
            return told
        if told.code == 0:
            return dict(_FIELD.findall(told.text))
        return {} if _is_harmless(told) else failed("scontrol show job", told, PATTERNS)

    async def _others(self, word: str, named: Sequence[str]) -> str | Refused | Unavailable:
        """Those of a job, or the default one, without transfer partitions."""
        partitions = [each for each in named if each not in self._transfer]
        if not partitions:
            default = await self._default()
            if isinstance(default, Unavailable):
                return default
            partitions = [default] if default and default not in self._transfer else []
        if not partitions:
            return Refused(f"the job {word} has no other partition, and there is no default one: it is held")
        return ",".join(partitions)

    async def _default(self) -> str | Unavailable:
        """The partition of jobs that name none; "": there is none."""
        ran = await self._commands.run("scontrol", "--oneliner", "show", "partition")
        if isinstance(ran, Unavailable):
            return ran
        if ran.code != 0:
            return failed("scontrol show partition", ran, PATTERNS)
        fields = (dict(_FIELD.findall(line)) for line in ran.text.splitlines())
        return next((each["PartitionName"] for each in fields if each.get("Default") == "YES"), "")

    def _word(self, job: str, task: int) -> str:
        return self._words.get((job, task)) or (f"{job}_{task}" if task else job)

    async def _changed(self, words: tuple[str, ...], jobs: Sequence[str]) -> Unavailable | None:
        for begin in range(0, len(jobs), IDS_MAX):
            wrong = await self._done(*words, ",".join(jobs[begin : begin + IDS_MAX]))
            if wrong is not None:
                return wrong
        return None

    async def _done(self, *words: str) -> Unavailable | None:
        ran = await self._commands.run(*words)
        if isinstance(ran, Unavailable):
            return ran
        return None if ran.code == 0 or _is_harmless(ran) else failed(" ".join(words[:2]), ran, PATTERNS)

    # -- parts ----------------------------------------------------------------------------------------------------

    async def _seen(self) -> Seen | Unavailable:
        return await self._asked(lambda text: seen_in(text, self._transfer, time.time()))

    async def _asked(self, parse: Callable[[str], Parsed]) -> Parsed | Unavailable:
        """Of all jobs."""
        ran = await self._commands.run(*WORDS)
        if isinstance(ran, Unavailable):
            return ran
        if ran.code != 0:
            return failed("squeue", ran, PATTERNS)
        try:
            return parse(ran.text)
        except NoAnswerError as error:
            if ran.errors:
                return failed("squeue", ran, PATTERNS)
            return Unavailable(Fault.SILENT, f"squeue had no answer: {error}: {SEE_CONTROLLER}")
        except AnswerError as error:
            return garbled("squeue", error, RELEASES)

    async def _told(self, jobs: Sequence[Sought]) -> list[Ended] | Unavailable:
        """What slurmdbd knows of jobs by their numbers; nothing where there is none. Those that were cancelled are
        asked for alone: their status may be 0."""
        marks = {each.id: each.mark for each in jobs}
        found: list[Ended] = []
        for word, states in (("COMPLETED", [each for each in ENDED if each != CANCELLED]), (CANCELLED, [CANCELLED])):
            words = [each for each in history.words_for(0.0, time.time()) if not each.startswith("--state=")]
            ran = await self._commands.run(*words, f"--state={','.join(states)}", f"--jobs={','.join(marks)}")
            if isinstance(ran, Unavailable):
                return ran
            if ran.code != 0:
                return [] if _is_off(ran) else failed("sacct", ran, PATTERNS)
            try:
                told = history.finished_in(ran.text)
            except AnswerError as error:
                return garbled("sacct", error, RELEASES)
            found += [
                Ended(marks[each.id], each.id, end_of(each, word), each.started is not None)
                for each in told
                if each.id in marks
            ]
        return found


def _is_harmless(ran: Ran) -> bool:
    """Whether all that it has said is of jobs that have ended, or are as it is wanted."""
    lines = [line for line in f"{ran.text}\n{ran.errors}".splitlines() if line.strip()]
    return bool(lines) and all(_HARMLESS.search(line) for line in lines)


def _is_off(ran: Ran) -> bool:
    return NO_ACCOUNTING.search(ran.words) is not None


def _submitted(ran: Ran | Unavailable) -> Submitted | Refused | Unavailable:
    if isinstance(ran, Unavailable):
        return ran
    number = ran.text.strip().partition(";")[0]
    if ran.code == 0:
        if number.isdigit() or submitting.TRIED.search(ran.words):
            return Submitted(number)
        return garbled("sbatch", AnswerError(f"{ran.text[:100]!r} is no number of a job"), RELEASES)
    if (unknown := unknown_user(ran)) is not None:
        return unknown
    wrong = failed("sbatch", ran, PATTERNS)
    found = _REFUSED.search(ran.words)
    if wrong.fault == Fault.FAILED and found is not None:
        return Refused(f"Slurm takes no such job: {found[1]}; {_NOTHING}")
    return wrong
