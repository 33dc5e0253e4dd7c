"""Deliberate faults in the core of transfer queues, each of which the campaign of two clusters must find.

    PYTHONPATH=. .venv/bin/python tests/transfer/faults.py [--seeds N] [NAME ...]

For each fault the package `subord` is copied, one text of the copy is replaced, and the seeds 0, 1, 2, ... are played
against the copy until one breaks an invariant, or N have passed (default 500).
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.mutations import Mutation  # found by the line above
from tests.seeds import Caught, caught_by, run_faults

CAMPAIGN = "tests.transfer.campaign"
HERE = "services/transfer"
FAULTS = (
    Mutation(
        "permits-do-not-count",
        "Permits that are not used yet are granted again.",
        f"{HERE}/permits.py",
        "left = min(room.slots_max - room.foreign - permits,",
        "left = min(room.slots_max - room.foreign,",
    ),
    Mutation(
        "idleness-forgets-permits",
        "A cluster counts as idle although the jobs of its permits will wait there.",
        f"{HERE}/permits.py",
        "idle_margin(room.pending + room.coming + permits,",
        "idle_margin(room.pending + room.coming,",
    ),
    Mutation(
        "coming-is-not-counted",
        "Jobs that came since the last look do not count among those that wait.",
        f"{HERE}/permits.py",
        "idle_margin(room.pending + room.coming + permits,",
        "idle_margin(room.pending + permits,",
    ),
    Mutation(
        "leases-have-no-end",
        "A permit is used after its lease.",
        f"{HERE}/permits.py",
        "return until is not None and now < until",
        "return until is not None",
    ),
    Mutation(
        "absent-without-a-search",
        "Of a job that was sent to an earlier life it is said that it is not here.",
        f"{HERE}/away.py",
        "if care.life == self.life and not care.is_abroad:",
        "if not care.is_abroad:",
    ),
    Mutation(
        "taken-again",
        "A job whose record may be an older copy is submitted at once.",
        f"{HERE}/away.py",
        "            if record.stage == Stage.TAKEN:  # it",
        "            if False:  # it",
    ),
    Mutation(
        "vanished-is-gone",
        "A job that is not in the batch system any more has never run.",
        f"{HERE}/sides/watching.py",
        "elif not record.is_released and not memo.is_loaded:",
        "elif True:",
    ),
    Mutation(
        "accounting-does-not-lag",
        "What the accounting does not have is not waited for.",
        f"{HERE}/sides/watching.py",
        "if began < memo.missing_at + LAG_S or",
        "if",
    ),
    Mutation(
        "one-search-is-enough",
        "A look that was begun before a job was submitted shows that it is not there.",
        f"{HERE}/sides/watching.py",
        "if began <= memo.since or memo.is_submitting:",
        "if memo.is_submitting:",
    ),
    Mutation(
        "stopped-for-ever",
        "A job that was suspended is not set going again.",
        f"{HERE}/sides/watching.py",
        "return Deed.RESUME if being == Being.SUSPENDED and record.was_stopped else None",
        "return None",
    ),
    Mutation(
        "unbound",
        "A job is sent before the batch system at home is bound.",
        f"{HERE}/sides/sending.py",
        "return [each for each in self.ready() if self.desk.memos[each].is_bound]",
        "return self.ready()",
    ),
    Mutation(
        "bound-for-ever",
        "A job that goes home is still bound there.",
        f"{HERE}/home.py",
        "                self.desk.put(replace(record, is_bound=False))",
        "                self.desk.put(replace(record, is_bound=False))\n                continue",
    ),
    Mutation(
        "home-without-a-word",
        "A job that was sent goes home when it has waited for too long.",
        f"{HERE}/home.py",
        "if record.state != HomeState.WAITING or not memo.is_here",
        "if record.state not in (HomeState.WAITING, HomeState.SENDING) or not memo.is_here",
    ),
    Mutation(
        "orphans-run-on",
        "A job whose starter is gone for good is not deleted.",
        f"{HERE}/home.py",
        "if not memo.is_here and not record.is_told and began >= memo.left_at + ABSENT_S:",
        "if False:",
    ),
    Mutation(
        "starters-are-not-asked",
        "What a starter knows of its job is not heeded after an older copy of the records.",
        f"{HERE}/home.py",
        "        if start.was_sent:\n            is_spec",
        "        if False:\n            is_spec",
    ),
    Mutation(
        "unknown-goes-home",
        "A job of which it is not known whether it ran goes home.",
        f"{HERE}/sides/sending.py",
        "desk.finish(record, HomeState.UNKNOWN, first_life",
        "desk.finish(record, HomeState.RETURNING, first_life",
    ),
)


def try_out(fault: Mutation, first: int, seeds: int) -> Caught:
    return caught_by(CAMPAIGN, fault, first, seeds)


if __name__ == "__main__":
    sys.exit(
        run_faults(sys.argv[1:], "deliberate faults that the campaign of transfer queues must find", CAMPAIGN, FAULTS)
    )
