"""What a node answers to a question about machines.

Inputs are the states of the node and the question; output is a result within its bounds. Invariants: nodes that take
part in the same way, and neither have the queue nor are asked for what is on them, say the same; of what has no room
the number is told.
"""

from __future__ import annotations

from typing import Final

import trio
from msgspec.structs import replace

from subord.api.node_api import Machines, NodeApi
from subord.core.carriage.engine.bounds import RESULT_BYTES_MAX
from subord.runtime.machines.state import MANAGES, State
from subord.services.decoding import fitting
from subord.services.machines.telling.words import (
    AskJob,
    AskServer,
    Place,
    Told,
    ToldJob,
    ToldServer,
    decode_ask,
    encode,
)

NOTES_BYTES_MAX: Final = RESULT_BYTES_MAX // 8
ACTIONS_BYTES_MAX: Final = RESULT_BYTES_MAX // 2
SPARE_BYTES: Final = 64
"""For the lengths of lists, and the numbers of what is left out."""
VERSION_MAX: Final = 1 << 31


async def answer(node: NodeApi, payload: bytes) -> bytes:
    """The result of a node."""
    await trio.lowlevel.checkpoint()
    asked, now = decode_ask(payload), max(0.0, node.tracker.wall_ms / 1000)
    if isinstance(asked, AskServer):
        return encode(told_server(node.machines, now))
    if isinstance(asked, AskJob):
        return encode(told_job(node.machines, asked.job, now))
    return encode(told(node.machines, now))


def told(own: Machines, now: float) -> Told:
    """How the node takes part; the queue's node tells what it sees."""
    state, server = own.state, own.server
    said = Told(
        word=state.word,
        detail=state.detail or (server.fault if server is not None else ""),
        version=min(state.version, VERSION_MAX),
        batch=state.batch or own.batch,
        is_server=bool(own.uri),
    )
    if not (state.word == MANAGES or state.at):
        return said
    said = replace(said, now=now)
    return replace(said, managing=_managing(state, RESULT_BYTES_MAX - len(encode(said)) - SPARE_BYTES))


def _managing(state: State, room: int) -> State:
    """In at most `room` bytes, without jobs."""
    notes = fitting(state.notes, NOTES_BYTES_MAX)
    found = replace(state, jobs=(), actions=(), servers=(), notes=notes)
    found = replace(found, notes_left_out=state.notes_left_out + len(state.notes) - len(notes))
    left = room - len(encode(found))
    actions = fitting(state.actions, min(left, ACTIONS_BYTES_MAX))
    found = replace(found, actions=actions)
    servers = fitting(state.servers, room - len(encode(found)))
    return replace(
        found,
        servers=servers,
        jobs_left_out=0,
        actions_left_out=state.actions_left_out + len(state.actions) - len(actions),
        servers_left_out=state.servers_left_out + len(state.servers) - len(servers),
    )


def told_server(own: Machines, now: float) -> ToldServer:
    """What is on the node."""
    state, server = own.state, own.server
    said = ToldServer(word=state.word, version=min(state.version, VERSION_MAX), is_server=bool(own.uri))
    if not said.is_server and server is None:
        return replace(said, word="", version=0)  # all such nodes say the same
    said = replace(said, detail=state.detail, now=now)
    if server is None:
        return said
    bare = replace(server, machines=())
    room = RESULT_BYTES_MAX - len(encode(replace(said, server=bare))) - SPARE_BYTES
    machines = fitting(server.machines, room)
    left_out = server.left_out + len(server.machines) - len(machines)
    return replace(said, server=replace(bare, machines=machines, left_out=left_out))


def told_job(own: Machines, job: str, now: float) -> ToldJob:
    """Why a job waits, by the last round."""
    state = own.state
    said = ToldJob(word=state.word, detail=state.detail, version=min(state.version, VERSION_MAX))
    if not (state.word == MANAGES or state.at):
        return said
    places = [Place(number, each) for number, each in enumerate(state.jobs, 1) if is_job(each.id, job)]
    names = {each.job.id for each in places} | {job}
    actions = [each for each in state.actions if each.job in names]
    said = replace(
        said,
        is_managing=True,
        now=now,
        at=state.at,
        hindrance=state.hindrance,
        fault=state.fault,
        waiting=state.waiting,
        left_out=state.jobs_left_out,
        is_unread=state.is_unread,
    )
    said = replace(said, actions=fitting(actions, ACTIONS_BYTES_MAX - SPARE_BYTES))
    return replace(said, places=fitting(places, RESULT_BYTES_MAX - len(encode(said)) - SPARE_BYTES))


def is_job(told: str, asked: str) -> bool:
    """Whether a job is the one that was asked for, or a task of it: `17_3` and `17.3` are of 17."""
    return told == asked or told.startswith((f"{asked}_", f"{asked}."))
