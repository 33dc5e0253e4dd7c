"""The document of the page about virtual machines, field by field."""

from __future__ import annotations

import msgspec

from subord.api.models.coverage import CoverageDocument
from subord.api.models.document import Address, Count, Sentence


class ShownAmount(msgspec.Struct, frozen=True, kw_only=True):
    """Of a server, without the reserve of its own system, or of all."""

    cores: Count
    memory_mb: Count


class ShownType(msgspec.Struct, frozen=True, kw_only=True):
    """Machines of one type, on all servers. `type` "": those that are not ours. `open`, `busy`: of those that are on.
    `coming`: they start, or are cloned. `left_alone`: paused, or in a state that is not known."""

    type: str
    on: Count
    off: Count
    open: Count
    busy: Count
    coming: Count
    left_alone: Count


class ShownPart(msgspec.Struct, frozen=True, kw_only=True):
    """Machines of one type that are on at a server. `type` null: of further types, which `types` has not."""

    type: str | None
    on: Count
    cores: Count
    memory_mb: Count


class ShownServer(msgspec.Struct, frozen=True, kw_only=True):
    """`used`: by all machines that count; what is in none of `parts` is for machines that are coming. `overbooked`:
    by cores, memory, disk or the number of machines. `fault`: why it is not reachable; null: it is. `age_s`: of its
    last answer, which the numbers are of; null: it has never answered."""

    name: str
    have: ShownAmount
    used: ShownAmount
    overbooked: bool
    drained: bool
    fault: Sentence | None
    age_s: Count | None
    parts: tuple[ShownPart, ...]


class ShownWhy(msgspec.Struct, frozen=True, kw_only=True):
    """`jobs`: that get nothing now, or not all, for this reason."""

    why: Sentence
    jobs: Count


class ShownFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Of the last round, `age_s` ago. `waiting`, `running`: jobs in queues of the plan; `unmet`: those that wait and
    get nothing now, or not all. `servers`: all, also those that are left out below; `unreachable`, `overbooked`,
    `drained`: of these. `have`, `used`: of all servers."""

    age_s: Count
    round: Count
    waiting: Count
    unmet: Count
    running: Count
    servers: Count
    unreachable: Count
    overbooked: Count
    drained: Count
    have: ShownAmount
    used: ShownAmount


class MachinesShownDocument(CoverageDocument, frozen=True, kw_only=True):
    """The node that has the queues, as it has answered; the coverage says whether it has. `version` null: no plan was
    published, and no node was asked; `off`: nor then. `address`: the queue's node. `state`: how it takes part, a
    word, `text`: the same as a sentence, `detail`: why; null: it has not answered. `figures` null: no round has read
    the queues. `hindrance`: why nothing is decided now; `fault`: why the batch system does not answer. `trial`:
    nothing is done. `types`: in the order of the plan. `whys`: the most frequent reasons first, and `whys_left_out`:
    jobs with others. `servers`: those that need an operator first. Numbers of what had no room end in `_left_out`."""

    version: Count | None
    off: bool
    address: Address | None = None
    state: str | None = None
    text: Sentence | None = None
    detail: Sentence | None = None
    trial: bool = False
    figures: ShownFigures | None = None
    hindrance: Sentence | None = None
    fault: Sentence | None = None
    types: tuple[ShownType, ...] = ()
    whys: tuple[ShownWhy, ...] = ()
    whys_left_out: Count = 0
    notes: tuple[Sentence, ...] = ()
    notes_left_out: Count = 0
    servers: tuple[ShownServer, ...] = ()
    servers_left_out: Count = 0
