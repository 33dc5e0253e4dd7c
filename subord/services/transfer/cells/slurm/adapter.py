"""Slurm behind the interface of interface.py, for foreign jobs.

Inputs are its commands, on a node with its slurm.conf, run by root or SlurmUser; outputs are values. Invariant: a
look is one squeue, and so is a search for ends, besides sacct for those that slurmctld has forgotten.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from subord.services.batch.faults import AnswerError, NoAnswerError, failed, garbled
from subord.services.batch.records import Fault, Refused, Unavailable
from subord.services.batch.running import Commands, Ran
from subord.services.batch.slurm import history
from subord.services.batch.slurm.adapter import NO_ACCOUNTING, PATTERNS, RELEASES, SEE_CONTROLLER
from subord.services.batch.slurm.queue import ENDED, WORDS
from subord.services.transfer.cells.interface import Deed, Ended, Look, Sought, Submitted
from subord.services.transfer.cells.slurm import submitting
from subord.services.transfer.cells.slurm.looking import Seen, end_of, seen_in, sought_among
from subord.services.transfer.cells.users import as_user, unknown_user, wrong_user
from subord.services.transfer.jobs import Spec

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
STAYS: Final = "Slurm has no starter method, so its own jobs do not leave; nothing was changed"


class SlurmCell:
    """`is_verified`: a job that no node of now could run is refused; Slurm itself would take it."""

    def __init__(self, commands: Commands, *, is_verified: bool = True) -> None:
        self._commands = commands
        self._is_verified = is_verified

    async def look(self) -> Look | Unavailable:
        seen = await self._seen()
        return seen if isinstance(seen, Unavailable) else seen.look

    async def submit(self, mark: str, user: str, spec: Spec) -> Submitted | Refused | Unavailable:
        if (wrong := wrong_user(user)) is not None:
            return wrong
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
        lines = [line for line in f"{ran.text}\n{ran.errors}".splitlines() if line.strip()]
        if ran.code == 0 or (lines and all(_HARMLESS.search(line) for line in lines)):
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
        return {job: Refused(STAYS) for job in jobs}

    async def bind(self, jobs: Sequence[tuple[str, int]]) -> Unavailable | None:  # noqa: ARG002 - none leaves
        return None

    async def unbind(self, jobs: Sequence[tuple[str, int]]) -> Unavailable | None:  # noqa: ARG002 - none leaves
        return None

    async def recall(self, jobs: Sequence[str], queue: str) -> Unavailable | None:  # noqa: ARG002 - none leaves
        return None

    async def keep(self, job: str) -> Refused | Unavailable | None:  # noqa: ARG002 - none leaves
        return Refused(STAYS)

    # -- parts ----------------------------------------------------------------------------------------------------

    async def _seen(self) -> Seen | Unavailable:
        ran = await self._commands.run(*WORDS)
        if isinstance(ran, Unavailable):
            return ran
        if ran.code != 0:
            return failed("squeue", ran, PATTERNS)
        try:
            return seen_in(ran.text)
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
        return Refused(f"Slurm takes no such job: {found[1]}; nothing was submitted: it runs in its own cluster")
    return wrong
