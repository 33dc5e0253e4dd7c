"""What each side has on its disk of a job that crosses.

Times of a core are those of a clock that does not jump and begins anew with each start, so none of them is kept.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from subord.services.transfer.cells.interface import Being
from subord.services.transfer.exchange import Stage
from subord.services.transfer.jobs import End, Key, Spec, Wanted


class Doom(StrEnum):
    """Why a foreign job is ended by the side where it is: it is in error there."""

    UNSTARTED = "unstarted"
    """It has never run, so it goes home."""
    FAILED = "failed"
    """It may have run."""


class AwayRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Of a job of the other cluster. `life`: of the other side's permit with which it came, so of a process of this
    one. `user`: of this cluster. `spec`: until it is submitted. `is_released`: it may have started. `has_run`: it was
    seen running. `was_stopped`: home has had it stopped, so it is set going again when home wants that. `must_exist`:
    of a job that is sought: home knows that it was here, and no record tells more."""

    key: Key
    stage: Stage
    wanted: Wanted = Wanted.RUN
    life: int = 0
    user: str = ""
    spec: Spec | None = None
    id: str = ""
    being: Being | None = None
    is_released: bool = False
    has_run: bool = False
    was_stopped: bool = False
    must_exist: bool = False
    doom: Doom | None = None
    reason: str = ""
    end: End | None = None

    @property
    def is_live(self) -> bool:
        """It counts as a foreign job."""
        return self.stage in (Stage.TAKEN, Stage.HERE, Stage.SOUGHT)


class HomeState(StrEnum):
    WAITING = "waiting"
    """For a permit; it was never sent."""
    SENDING = "sending"
    """It was sent, or may have been, and the other side has not said whether it has it."""
    ABROAD = "abroad"
    ENDED = "ended"
    RETURNING = "returning"
    """It runs in this cluster, or waits here to be sent again."""
    UNKNOWN = "unknown"
    """How it ended is not known. It is not run again."""

    @property
    def is_final(self) -> bool:
        return self in (HomeState.ENDED, HomeState.RETURNING, HomeState.UNKNOWN)


class HomeRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Of a job of this cluster. `spec`: in words of the other one, until it is final. `user`: of this cluster, from
    then on. `brings`: the working directory, if the job has ended away and what it has written there is to be
    brought into it before the end is told; "": nothing is. `first_life`: of the other side when the job was sent for
    the first time; None: it never was, 0: it may have been. `seen`, `being`, `id`: what the other side said last.
    `is_marked`: it goes home so that it does not leave again. `is_told`: the batch system at home has the outcome, or
    has nothing that waits for it. `is_bound`: the batch system at home does not start it again by itself.
    `was_stopped`: it was to be suspended before."""

    key: Key
    state: HomeState
    wanted: Wanted = Wanted.RUN
    queue: str = ""
    spec: Spec | None = None
    user: str = ""
    first_life: int | None = None
    seen: Stage | None = None
    seen_wanted: Wanted = Wanted.RUN
    being: Being | None = None
    id: str = ""
    is_bound: bool = False
    was_stopped: bool = False
    is_marked: bool = False
    is_told: bool = False
    brings: str = ""
    reason: str = ""
    end: End | None = None

    @property
    def is_over(self) -> bool:
        """All that is left is that the other side forgets it."""
        return self.state.is_final and self.is_told and not self.is_bound
