"""What the agent of a transfer host tells its daemon about jobs that cross between two clusters.

The agent sends a State when something has changed, at most once in PACE_S; the daemon keeps the last one. Times are
seconds since 1970, by the clock of the host. Invariant: what is decoded is within its bounds, so it can be shown.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from subord.runtime.orders.told import Told

NONE: Final = "none"
OFF: Final = "off"
STARTING: Final = "starting"
OTHER_NODE: Final = "other node"
NO_AGENT: Final = "no agent"
REFUSED: Final = "refused"
FAILED: Final = "failed"
TRANSFERS: Final = "transfers"
WORDS: Final = (FAILED, REFUSED, NO_AGENT, STARTING, TRANSFERS, OTHER_NODE, OFF, NONE)
SENTENCES: Final = {
    NONE: "no job crosses: no plan was published",
    OFF: "transfer is off; jobs stay where they are",
    STARTING: "the agent has not said yet how the node takes part",
    OTHER_NODE: "another node is the transfer host",
    NO_AGENT: "there is no agent on the node, or it cannot be reached: start subord-agent.socket",
    REFUSED: "the agent refuses the plan",
    FAILED: "the agent cannot follow the plan; no job crosses",
    TRANSFERS: "the node is the transfer host",
}
PACE_S: Final = 1.0
TEXT_CHARS_MAX: Final = 400
SHORT_CHARS_MAX: Final = 64
JOBS_MAX: Final = 1_000
"""In one State; those that need a person come first."""
WORDS_MAX: Final = 32
LEAVES: Final = "leaves"
COMES: Final = "comes"

_Text = Annotated[str, msgspec.Meta(max_length=TEXT_CHARS_MAX)]
_Short = Annotated[str, msgspec.Meta(max_length=SHORT_CHARS_MAX)]
Numbers = Annotated[dict[_Short, int], msgspec.Meta(max_length=WORDS_MAX)]


class JobState(msgspec.Struct, frozen=True, array_like=True):
    """A job that crosses. `way`: LEAVES or COMES. `job`, `task`: at home; 0: it is no task of an array. `user`: of
    this cluster, "": not known any more. `state`: a word of services/transfer/states.py or exchange.py. `id`: in the
    batch system away, "": none yet. `being`: as it was seen there last. `wanted`: what home wants. `since`: when it
    was started in the transfer queue, by the clock of its home. `end`: how it has ended. `host`, `wall_s`, `cpu_s`,
    `memory_bytes`: of the accounting where it has run, None: it does not tell. `is_over`: both sides have done all
    about it; the last ones of this cluster are kept."""

    way: _Short
    job: _Short
    task: int
    user: _Short
    state: _Short
    id: _Short
    being: _Short
    wanted: _Short
    since: float
    reason: _Text = ""
    end: _Short = ""
    host: _Short = ""
    wall_s: float | None = None
    cpu_s: float | None = None
    memory_bytes: int | None = None
    is_over: bool = False


class State(Told, frozen=True, kw_only=True):
    """`word`: of WORDS. `batch`: of the host. `at`: of the last look at the batch system that has succeeded, 0: none
    has; `fault`: why the last one failed, "": it did not. `heard_at`: of the last answer of the other cluster,
    `asked_at`: of its last message; 0: there was none. `link_fault`: why the last message has no answer.
    `listening_fault`: why the other cluster cannot ask. `key_fault`: why a key that has changed is not in use.
    `sensor_fault`: why the batch system does not hear how many jobs wait there. `unit_fault`: what the unit of the
    agent lacks. `refused_last`: the last stranger at the link, `refused_at`: when.
    `peer_pending`: jobs that wait there, None: not known; `offer`: how many more it takes. `pending`: jobs that wait
    here, None: not known; `room`: how many more could come. `permits_given`, `permits_held`: not used yet.
    `starters`: methods that wait for the end of a job. `leaving`, `coming`: jobs by state. `left`, `taken`: what came
    of jobs in this process, by words of services/transfer/driving/counting.py. `full`: jobs that were refused since
    there was no room for their records. `forged`: jobs here with marks that count for nothing. `calls`,
    `calls_failed`: of the batch system. `messages`, `bytes`, `refusals`, `failures`: of the link. `files`: bytes of
    files of jobs, `file_failures`: jobs whose files have not crossed, by cause. `directories`: here, of jobs that
    came with files. `waiting`: "jobs" whose files are packed and not fetched yet, "files" and "bytes" of them, and
    "results" that are to come. `spool`: "bytes" of archives on the host, and "free" bytes, for which there is room.
    `file_fault`: of the last job whose files have not crossed, `file_fault_at`: when. `left_out`: of `jobs` that are
    not over."""

    batch: _Text = ""
    cluster: _Short = ""
    peer: _Short = ""
    slots_max: int = 0
    idle_max: int | None = None
    poll_s: int = 0
    at: float = 0.0
    fault: _Text = ""
    heard_at: float = 0.0
    asked_at: float = 0.0
    link_fault: _Text = ""
    listening_fault: _Text = ""
    key_fault: _Text = ""
    sensor_fault: _Text = ""
    unit_fault: _Text = ""
    refused_last: _Text = ""
    refused_at: float = 0.0
    is_up: bool = False
    peer_pending: int | None = None
    offer: int = 0
    pending: int | None = None
    room: int = 0
    permits_given: int = 0
    permits_held: int = 0
    starters: int = 0
    leaving: Numbers = msgspec.field(default_factory=dict)
    coming: Numbers = msgspec.field(default_factory=dict)
    left: Numbers = msgspec.field(default_factory=dict)
    taken: Numbers = msgspec.field(default_factory=dict)
    full: int = 0
    forged: int = 0
    looks: int = 0
    calls_failed: int = 0
    messages: Numbers = msgspec.field(default_factory=dict)
    bytes: Numbers = msgspec.field(default_factory=dict)
    refusals: Numbers = msgspec.field(default_factory=dict)
    failures: Numbers = msgspec.field(default_factory=dict)
    files: Numbers = msgspec.field(default_factory=dict)
    file_failures: Numbers = msgspec.field(default_factory=dict)
    directories: int = 0
    waiting: Numbers = msgspec.field(default_factory=dict)
    spool: Numbers = msgspec.field(default_factory=dict)
    file_fault: _Text = ""
    file_fault_at: float = 0.0
    jobs: Annotated[tuple[JobState, ...], msgspec.Meta(max_length=JOBS_MAX)] = ()
    left_out: int = 0
