"""Calls of libvirt in threads, with time limits, and changes one after the other.

A thread cannot be ended. A call that is too late is given up: work that has not begun never begins, and work that has
keeps its keys until it ends, so no later change overtakes it. Threads are few: where all of them hang, further calls
are late, too, and use no thread.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final, Generic, TypeVar

import trio

T = TypeVar("T")
THREADS: Final = 8


class LateError(Exception):
    """The time is over. `is_running`: the work has begun, and may still be done."""

    def __init__(self, is_running: bool) -> None:
        super().__init__(is_running)
        self.is_running = is_running


class Hold:
    """The keys of one change."""

    def __init__(self, release: Callable[[], None]) -> None:
        self._release = release
        self._threads = 0
        self._is_left = False

    def began(self) -> None:
        self._threads += 1

    def ended(self) -> None:
        self._threads -= 1
        self._check()

    def left(self) -> None:
        self._is_left = True
        self._check()

    def _check(self) -> None:
        if self._is_left and self._threads == 0:
            self._release()


class Calls:
    def __init__(self, threads: int = THREADS) -> None:
        self._limiter = trio.CapacityLimiter(threads)
        self._keys: dict[str, trio.Semaphore] = {}

    @asynccontextmanager
    async def holding(self, keys: Iterable[str], within: float) -> AsyncIterator[Hold]:
        """Waits for all keys, always in the same order. Raises LateError."""
        held: list[str] = []
        hold = Hold(lambda: self._release(held))
        try:
            with trio.move_on_after(within):
                for key in sorted(set(keys)):
                    await self._keys.setdefault(key, trio.Semaphore(1)).acquire()
                    held.append(key)
            if len(held) < len(set(keys)):
                raise LateError(is_running=False)
            yield hold
        finally:
            hold.left()

    async def run(
        self,
        work: Callable[[], T],
        within: float,
        holds: Sequence[Hold] = (),
        ready: Callable[[], object] | None = None,
    ) -> T:
        """`ready`: before the work, and no part of it. Raises LateError, and what the work raises."""
        token = trio.lowlevel.current_trio_token()

        def ended() -> None:
            for hold in holds:
                hold.ended()

        def ended_late() -> None:
            with suppress(trio.RunFinishedError):
                token.run_sync_soon(ended)

        job = _Job(work, ready, ended_late)
        for hold in holds:
            hold.began()
        is_running = False
        try:
            with trio.move_on_after(within):
                await trio.to_thread.run_sync(job.run, abandon_on_cancel=True, limiter=self._limiter)
                return job.result[0]
        finally:
            is_running = job.give_up()
            if not is_running:
                ended()
        raise LateError(is_running)

    def _release(self, held: list[str]) -> None:
        for key in held:
            semaphore = self._keys[key]
            semaphore.release()
            if semaphore.statistics().tasks_waiting == 0 and semaphore.value == 1:
                del self._keys[key]


class _Job(Generic[T]):
    """What one thread does. `result` has it."""

    def __init__(
        self, work: Callable[[], T], ready: Callable[[], object] | None, ended_late: Callable[[], None]
    ) -> None:
        self.result: list[T] = []
        self._work = work
        self._ready = ready
        self._ended_late = ended_late
        self._lock = threading.Lock()
        self._is_given_up = False
        self._is_running = False

    def run(self) -> None:
        if self._ready is not None:
            self._ready()
        with self._lock:
            if self._is_given_up:
                return
            self._is_running = True
        try:
            self.result.append(self._work())
        finally:
            with self._lock:
                self._is_running = False
                is_late = self._is_given_up
            if is_late:
                self._ended_late()

    def give_up(self) -> bool:
        """Whether the work goes on all the same."""
        with self._lock:
            self._is_given_up = True
            return self._is_running
