"""What the ledger of a lab holds at one moment: records that wait in spools, records in sinks, bytes, processor time.

Inputs are the files of all nodes, also of those whose daemon is dead, the databases, and the clocks of the processes;
no daemon is asked. Output is one sample after the other. What cannot be read for a moment, such as a file that its
daemon is just making, counts as it was before.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

from netlab.accounting.postgresql import CONNECT_S_MAX
from netlab.common.results import Record
from netlab.lab import Lab
from subord.runtime.ledger.keeper import SPOOL_FILE
from subord.runtime.ledger.sinks import POSTGRESQL

BUSY_S_MAX = 1.0
BLOCK_BYTES = 512  # of st_blocks, stat(2)
COMPANIONS = ("", "-wal", "-shm")
"""Of a file of SQLite: what belongs to it."""
MOST = ("waiting", "oldest_s", "oldest_live_s", "spool_bytes")
"""Figures whose largest value is told."""
OF_SPOOL = "select count(*), (select at from record order by number limit 1) from record"
OF_SQLITE = "select coalesce(max(rowid), 0) from record"
"""No row is ever deleted, so this is their number."""
OF_POSTGRESQL = "select count(*), pg_total_relation_size('record') from record"


class Spool(NamedTuple):
    """`oldest_at`: when the oldest record was accepted, since 1970; None: there is none. `octets`: of its files."""

    records: int = 0
    oldest_at: int | None = None
    octets: int = 0


class Held(NamedTuple):
    """What a database holds."""

    rows: int = 0
    octets: int = 0


def spool_of(directory: Path) -> Spool | None:
    """Of the state directory of a node; None: it cannot be read now. A node without records has no file."""
    path = directory / SPOOL_FILE
    if not path.exists():
        return Spool()
    found = _asked(path, OF_SPOOL)
    return None if found is None else Spool(found[0], found[1], octets_of(path))


def held_by(place: str) -> Held | None:
    """By the database of a sink; None: it cannot be read now."""
    if place.startswith(POSTGRESQL):
        return _held_by_postgresql(place)
    found = _asked(Path(place), OF_SQLITE)
    return None if found is None else Held(found[0], octets_of(Path(place)))


def octets_of(path: Path) -> int:
    """Of a file of SQLite and its companions, as the disk has them."""
    found = 0
    for each in COMPANIONS:
        with suppress(FileNotFoundError):
            found += path.with_name(path.name + each).stat().st_blocks * BLOCK_BYTES
    return found


def _asked(path: Path, query: str) -> tuple[int, ...] | None:
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=BUSY_S_MAX)) as connection:
            found: tuple[int, ...] = connection.execute(query).fetchone()
            return found
    except sqlite3.Error:
        return None


def _held_by_postgresql(url: str) -> Held | None:
    import psycopg

    try:
        with psycopg.connect(url, connect_timeout=CONNECT_S_MAX) as connection:
            found = connection.execute(OF_POSTGRESQL).fetchone()
    except psycopg.Error:
        return None
    return None if found is None else Held(*found)


class Sampler:
    """`sinks`: position -> place of the database. A sample is also the interval since the one before."""

    def __init__(self, lab: Lab, sinks: Mapping[int, str]) -> None:
        self._lab = lab
        self._sinks = sinks
        self._spools = dict.fromkeys(lab.positions, Spool())
        self._held = dict.fromkeys(sinks, Held())
        read = lab.processes("cpu_s")
        self._at, self._cpu_s = read["mono"], dict[str, float](read["cpu_s"])

    def take(self, at_s: float, accepted: int, down: Collection[int]) -> Record:
        """`at_s`: since the first record was due; `down`: nodes whose daemon is dead. `oldest_live_s`: of the others.
        Raises LabError."""
        for position in self._lab.positions:
            state = self._lab.directory.node(position) / "state"
            self._spools[position] = spool_of(state) or self._spools[position]
        for position, place in self._sinks.items():
            self._held[position] = held_by(place) or self._held[position]
        spools = self._spools.values()
        live = [spool for position, spool in self._spools.items() if position not in down]
        return {
            "at_s": round(at_s, 1),
            "accepted": accepted,
            "stored": [each.rows for each in self._held.values()],
            "waiting": sum(each.records for each in spools),
            "oldest_s": age_s(spools, time.time()),
            "oldest_live_s": age_s(live, time.time()),
            "spool_bytes": sum(each.octets for each in spools),
            "spool_bytes_most": max(each.octets for each in spools),
            "database_bytes": [each.octets for each in self._held.values()],
            "down": len(down),
            **self._cpu(),
        }

    def _cpu(self) -> Record:
        """Of one core, in the interval: all daemons, and those of the sinks. What a daemon has used in the interval
        in which it died is not known."""
        read = self._lab.processes("cpu_s")
        seconds = read["mono"] - self._at
        used = used_between(self._cpu_s, read["cpu_s"])
        self._at, self._cpu_s = read["mono"], dict(read["cpu_s"])
        sinks = [used.get(self._lab.address(each), 0.0) for each in self._sinks]
        return {
            "cpu_percent": _percent(sum(used.values()), seconds),
            "sink_cpu_percent": [_percent(each, seconds) for each in sinks],
        }


def age_s(spools: Iterable[Spool], now: float) -> int:
    """Of the oldest record in them, in whole seconds; 0: there is none."""
    oldest_at = min((each.oldest_at for each in spools if each.oldest_at is not None), default=int(now))
    return max(0, int(now) - oldest_at)


def used_between(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """Processor time by address. A process that has used less than the one before it is another one."""
    return {
        address: cpu_s - before.get(address, 0.0) if cpu_s >= before.get(address, 0.0) else cpu_s
        for address, cpu_s in after.items()
    }


def _percent(used_s: float, seconds: float) -> float:
    return round(100 * used_s / seconds, 1) if seconds > 0 else 0.0


def most(samples: Sequence[Record]) -> Record:
    """The largest values of all samples, and the means of processor time."""
    return {
        **{f"{key}_most": max(each[key] for each in samples) for key in MOST},
        "spool_bytes_of_one": max(each["spool_bytes_most"] for each in samples),
        "cpu_percent_mean": round(sum(each["cpu_percent"] for each in samples) / len(samples), 1),
    }
