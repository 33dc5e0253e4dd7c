"""What a node answers to a question about transfer queues.

Input is the state of the node; output is a result within its bounds. Invariants: nodes that are no transfer host and
take part in the same way say the same; of jobs that have no room the number is told.
"""

from __future__ import annotations

from typing import Final

import msgspec
import trio

from subord.api.node_api import NodeApi
from subord.core.carriage.engine.bounds import RESULT_BYTES_MAX
from subord.runtime.transfer.state import TRANSFERS
from subord.services.decoding import fitting
from subord.services.transfer.telling.words import JOBS, Told, encode

SPARE_BYTES: Final = 32
"""For the length of a list, and the number of jobs that are left out."""


async def answer(node: NodeApi, payload: bytes) -> bytes:
    """The result of a node."""
    await trio.lowlevel.checkpoint()
    return encode(told(node, has_jobs=payload == JOBS))


def told(node: NodeApi, *, has_jobs: bool = False) -> Told:
    """How the node takes part; the transfer host tells what it sees."""
    found = node.transfer.state
    said = Told(found.word, found.detail, found.version, found.batch or node.transfer.config.batch)
    if not (found.word == TRANSFERS or found.at):
        return said
    bare = msgspec.structs.replace(found, jobs=(), left_out=found.left_out + len(found.jobs))
    said = msgspec.structs.replace(said, now=node.tracker.wall_ms / 1000, host=bare)
    if not has_jobs:
        return said
    jobs = fitting(found.jobs, RESULT_BYTES_MAX - len(encode(said)) - SPARE_BYTES)
    bare = msgspec.structs.replace(bare, left_out=bare.left_out - len(jobs))
    return msgspec.structs.replace(said, host=bare, jobs=jobs)
