"""What the agent of a node and its daemon say to each other about machines, once the agent has the plan.

The agent tells states, and the daemon listens. The connection ends with the Done of a document
(runtime/orders/agent.py). Invariants: what is encoded is within the bounds of state.py, whatever libvirt or a batch
system has said; what is decoded is, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any, Final, TypeVar

import msgspec

from subord.core.decoding import UNREADABLE
from subord.runtime.machines import state
from subord.runtime.machines.state import Amount, KindCount, SeenServer, ServerState, State, Totals

FRAME_BYTES_MAX: Final = 4 << 20
TEXTS: Final = frozenset(("detail", "hindrance", "fault", "why", "reason", "refusal", "uri", "batch"))
"""Fields with sentences; all others are names."""


class Said(msgspec.Struct, frozen=True, array_like=True, tag="machines"):
    """How the node takes part now, and what is decided."""

    state: State


class SaidServer(msgspec.Struct, frozen=True, array_like=True, tag="server"):
    """What is on the server now."""

    server: ServerState


_said: Final[msgspec.msgpack.Decoder[Said | SaidServer]] = msgspec.msgpack.Decoder(Said | SaidServer)
Form = TypeVar("Form", bound=msgspec.Struct)


def decode_said(data: bytes) -> Said | SaidServer | None:
    """None: it is the end, or cannot be read."""
    try:
        return _said.decode(data)
    except UNREADABLE:
        return None


def encode_said(told: State) -> bytes:
    """Without its length. Where names and sentences are so long that the frame is too large, half as many jobs and
    servers are told, and so on."""
    found = fitted(told)
    while len(data := msgspec.msgpack.encode(Said(found))) > FRAME_BYTES_MAX:
        jobs, servers = len(found.jobs) // 2, len(found.servers) // 2
        found = msgspec.structs.replace(
            found,
            jobs=found.jobs[:jobs],
            jobs_left_out=found.jobs_left_out + len(found.jobs) - jobs,
            servers=found.servers[:servers],
            servers_left_out=found.servers_left_out + len(found.servers) - servers,
        )
    return data


def encode_server(told: ServerState) -> bytes:
    """Without its length."""
    return msgspec.msgpack.encode(SaidServer(fitted_server(told)))


def fitted(told: State) -> State:
    """Within its bounds: longer texts are cut, and what comes last in too long lists is counted only."""
    return msgspec.structs.replace(
        _cut(told),
        queues=None if told.queues is None else _names(told.queues, state.QUEUES_MAX),
        lacking=_names(told.lacking, state.KINDS_MAX),
        notes=tuple(each[: state.TEXT_CHARS_MAX] for each in told.notes[: state.NOTES_MAX]),
        notes_left_out=told.notes_left_out + _beyond(told.notes, state.NOTES_MAX),
        jobs=tuple(map(_cut, told.jobs[: state.JOBS_MAX])),
        jobs_left_out=told.jobs_left_out + _beyond(told.jobs, state.JOBS_MAX),
        actions=tuple(map(_cut, told.actions[: state.ACTIONS_MAX])),
        actions_left_out=told.actions_left_out + _beyond(told.actions, state.ACTIONS_MAX),
        kinds=_kinds(told.kinds),
        servers=tuple(map(_fitted_seen, told.servers[: state.SERVERS_MAX])),
        servers_left_out=told.servers_left_out + _beyond(told.servers, state.SERVERS_MAX),
    )


def fitted_server(told: ServerState) -> ServerState:
    """As `fitted`."""
    return msgspec.structs.replace(
        _cut(told),
        pools=tuple(map(_cut, told.pools[: state.POOLS_MAX])),
        machines=tuple(map(_cut, told.machines[: state.MACHINES_MAX])),
        left_out=told.left_out + _beyond(told.machines, state.MACHINES_MAX),
    )


def _fitted_seen(seen: SeenServer) -> SeenServer:
    return msgspec.structs.replace(_cut(seen), kinds=_kinds(seen.kinds))


def _kinds(told: tuple[KindCount, ...]) -> tuple[KindCount, ...]:
    return tuple(map(_cut, told[: state.KINDS_MAX + 1]))


def _names(told: Iterable[str], most: int) -> tuple[str, ...]:
    return tuple(each[: state.NAME_CHARS_MAX] for each in islice(told, most))


def _cut(told: Form) -> Form:
    """With all that is in this struct within its bounds, except its lists."""
    values = {name: getattr(told, name) for name in told.__struct_fields__}
    within = {name: _within(name, found) for name, found in values.items()}
    other = {name: found for name, found in within.items() if found is not values[name]}
    return msgspec.structs.replace(told, **other) if other else told


def _within(name: str, found: Any) -> Any:
    """The value itself if nothing is to be changed."""
    if isinstance(found, str):
        most = state.TEXT_CHARS_MAX if name in TEXTS else state.NAME_CHARS_MAX
        return found[:most] if len(found) > most else found
    if isinstance(found, bool):
        return found
    if isinstance(found, int):
        return found if 0 <= found <= state.COUNT_MAX else min(max(found, 0), state.COUNT_MAX)
    if isinstance(found, float):
        return found if 0.0 <= found <= state.COUNT_MAX else 0.0
    if isinstance(found, Amount):
        amounts = [min(max(each, -state.COUNT_MAX), state.COUNT_MAX) for each in msgspec.structs.astuple(found)]
        return Amount(*amounts)
    return _cut(found) if isinstance(found, Totals) else found


def _beyond(items: tuple[object, ...], most: int) -> int:
    return max(0, len(items) - most)
