"""What a node answers to a question about transfer queues.

Input is the state of the node; output is a result within its bounds. Invariants: nodes that are no transfer host and
take part in the same way say the same; of jobs that have no room the number is told.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
import trio

from subord.api.node_api import NodeApi
from subord.core.carriage.engine.bounds import RESULT_BYTES_MAX
from subord.runtime.transfer.state import LEAVES, TRANSFERS, JobState
from subord.services.decoding import fitting
from subord.services.transfer.telling.words import JOBS, OVER, Told, encode, job_in

SPARE_BYTES: Final = 32
"""For the length of a list, and the number of jobs that are left out."""


async def answer(node: NodeApi, payload: bytes) -> bytes:
    """The result of a node."""
    await trio.lowlevel.checkpoint()
    return encode(told(node, payload))


def told(node: NodeApi, payload: bytes = b"") -> Told:
    """How the node takes part; the transfer host tells what it sees, and the jobs that the payload asks for."""
    found = node.transfer.state
    said = Told(found.word, found.detail, found.version, found.batch or node.transfer.config.batch)
    if not (found.word == TRANSFERS or found.at):
        return said
    crossing = [each for each in found.jobs if not each.is_over]
    bare = msgspec.structs.replace(found, jobs=(), left_out=found.left_out + len(crossing))
    said = msgspec.structs.replace(said, now=node.tracker.wall_ms / 1000, host=bare)
    wanted = crossing if payload == JOBS else _wanted(found.jobs, payload)
    if wanted is None:
        return said
    jobs = fitting(wanted, RESULT_BYTES_MAX - len(encode(said)) - SPARE_BYTES)
    bare = msgspec.structs.replace(bare, left_out=found.left_out + len(wanted) - len(jobs))
    return msgspec.structs.replace(said, host=bare, jobs=jobs)


def _wanted(jobs: Sequence[JobState], payload: bytes) -> Sequence[JobState] | None:
    """None: no jobs are asked for."""
    if payload == OVER:
        return jobs
    if job := job_in(payload):
        return [each for each in jobs if number_here(each) == job]
    return None


def number_here(job: JobState) -> str:
    """In the batch system of this cluster."""
    return job.job if job.way == LEAVES else job.id
