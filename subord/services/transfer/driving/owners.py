"""Whose jobs are in the transfer queue, by the accounts of this host.

Inputs are names of users as the batch system has them; outputs are uids. Invariant: at most JOBS_MAX jobs are
remembered; the batch system is asked again for one that was forgotten.
"""

from __future__ import annotations

import pwd
from typing import Final

import trio

JOBS_MAX: Final = 100_000
ROOT: Final = 0


class Owners:
    def __init__(self) -> None:
        self._uids = dict[str, int]()

    def is_known(self, job: str) -> bool:
        return job in self._uids

    async def learn(self, job: str, user: str) -> None:
        """Raises ValueError."""
        try:
            found = await trio.to_thread.run_sync(pwd.getpwnam, user)
        except KeyError:
            raise ValueError(
                f"the user {user} of job {job} has no account on this host; nothing was sent: make one"
            ) from None
        self._uids.pop(job, None)
        self._uids[job] = found.pw_uid
        while len(self._uids) > JOBS_MAX:
            del self._uids[next(iter(self._uids))]

    def demand(self, uid: int, job: str) -> None:
        """Raises ValueError: another user asks."""
        if uid not in (ROOT, self._uids.get(job)):
            raise ValueError(f"job {job} is of another user; nothing was changed")
