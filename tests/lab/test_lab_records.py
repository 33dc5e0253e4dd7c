"""How `evaluate accounting` counts records in databases, and what it reads of spools and sinks meanwhile."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from netlab.accounting import samples
from netlab.accounting.counts import Counts, Row, percentiles, rows_of
from netlab.accounting.writers import body
from netlab.errors import LabError

from subord.core.carriage.ledger.bodies import Record as LedgerRecord
from subord.runtime.ledger import sinks
from subord.runtime.ledger.spool import SqliteSpool

Record = dict[str, Any]


# -- what is in the databases ----------------------------------------------------------------------------------------


def row(name: int, number: int | None, delay_s: int = 0, node: str = "a") -> Row:
    return Row((node, 1, name), number, delay_s)


WHOLE = [row(1, 0), row(2, 1), row(3, 2)]


@pytest.mark.parametrize(
    ("first", "second", "unsure", "told"),
    [
        (WHOLE, [], (), {}),
        (WHOLE[:2], WHOLE[2:], (), {}),
        (WHOLE, WHOLE[:2], (), {"in_several": 2}),
        (WHOLE[:2], [], (), {"lost": 1, "stored": 2}),
        ([*WHOLE, row(4, 1)], [], (), {"double": 1}),
        (WHOLE, [row(4, 1)], (), {"double": 1, "in_several": 1}),
        (WHOLE, [row(1, 1, node="b")], (), {"double": 1, "in_several": 1}),
        ([*WHOLE, row(4, 1)], [], (1,), {"given_again": 1}),
        ([*WHOLE, row(4, 1), row(5, 2)], [], (1,), {"given_again": 1, "double": 1}),
        (WHOLE, [], (1,), {}),
        ([*WHOLE, row(4, None)], [], (), {"strangers": 1}),
    ],
)
def test_records_are_counted_by_their_names(
    first: list[Row], second: list[Row], unsure: tuple[int, ...], told: Record
) -> None:
    found = Counts(3)
    found.add("x", first)
    found.add("y", second)
    right = {"stored": 3, "lost": 0, "double": 0, "given_again": 0, "in_several": 0, "strangers": 0}
    shown = found.told(frozenset(unsure))
    assert {key: shown[key] for key in right} == {**right, **told}
    assert shown["databases"]["x"]["rows"] == len(first)


def test_the_delay_of_a_record_is_that_of_the_sink_that_had_it_first() -> None:
    found = Counts(3)
    found.add("x", [row(1, 0, 9), row(2, 1, 4)])
    found.add("y", [row(1, 0, 2)])
    assert found.told(())["delay_s"] == {"p50": 2, "p99": 4, "p100": 4}
    assert percentiles(range(1, 1001)) == {"p50": 500, "p99": 990, "p100": 1000}
    assert percentiles([]) == {"p50": None, "p99": None, "p100": None}


def test_rows_are_read_from_the_database_of_a_sink(tmp_path: Path) -> None:
    place = str(tmp_path / "records.sqlite")
    sink = sinks.open_sink(place)
    bodies = [each["body"].encode() for each in json.loads(body(range(3, 6), 1e9))]
    rows = [sinks.Row("a", 1, number, "job", text) for number, text in enumerate([*bodies, b"?"], 1)]
    sink.store([*rows, sinks.Row("a", 1, 9, "command", bodies[0])])
    sink.close()
    found = list(rows_of(place, 5))
    assert [(each.name, each.number) for each in found] == [
        (("a", 1, 1), 3),
        (("a", 1, 2), 4),
        (("a", 1, 3), None),  # there are only five
        (("a", 1, 4), None),
    ]
    assert found[0].delay_s > 1e8
    with pytest.raises(LabError, match="cannot be read"):
        list(rows_of(str(tmp_path / "nothing"), 5))


# -- samples ---------------------------------------------------------------------------------------------------------


def test_spools_are_read_beside_their_daemon(tmp_path: Path) -> None:
    assert samples.spool_of(tmp_path) == samples.Spool()
    spool = SqliteSpool(tmp_path / "spool.sqlite", 1, 1 << 20)
    found = samples.spool_of(tmp_path)
    assert found is not None
    assert (found.records, found.oldest_at) == (0, None)
    spool.append((LedgerRecord("job", b"1"), LedgerRecord("job", b"2")))
    found = samples.spool_of(tmp_path)
    assert found is not None
    assert (found.records, found.oldest_at) == (2, int(spool.oldest_at))
    assert found.octets >= sum(each.stat().st_size for each in tmp_path.iterdir() if each.name != "spool.sqlite-shm")
    spool.close()
    (tmp_path / "spool.sqlite").write_bytes(b"x" * 4096)
    assert samples.spool_of(tmp_path) is None


def test_rows_of_a_sink_are_counted_beside_its_daemon(tmp_path: Path) -> None:
    place = str(tmp_path / "records.sqlite")
    assert samples.held_by(place) is None
    sink = sinks.open_sink(place)
    rows = [sinks.Row("a", 1, number, "job", b"?") for number in range(1, 4)]
    sink.store(rows)
    sink.store([*rows, sinks.Row("a", 1, 4, "job", b"?")])
    found = samples.held_by(place)
    assert found is not None
    assert found.rows == 4
    assert found.octets > 0
    sink.close()


def test_processor_time_of_a_process_that_was_killed_begins_anew() -> None:
    assert samples.used_between({"a": 5.0, "b": 5.0}, {"a": 6.5, "b": 0.5, "c": 0.25}) == {
        "a": 1.5,
        "b": 0.5,
        "c": 0.25,
    }


def sample(**other: Any) -> Record:
    found = {
        "at_s": 1.0,
        "waiting": 5,
        "oldest_s": 1,
        "oldest_live_s": 0,
        "spool_bytes": 100,
        "spool_bytes_most": 60,
        "cpu_percent": 10.0,
    }
    return {**found, **other}


def test_the_age_is_that_of_the_oldest_record() -> None:
    spools = [samples.Spool(), samples.Spool(2, 95), samples.Spool(1, 90)]
    assert samples.age_s(spools, 100.9) == 10
    assert samples.age_s(spools[:1], 100.9) == 0
    assert samples.age_s(spools, 80.0) == 0, "a clock that was set back"


def test_the_largest_values_of_all_samples() -> None:
    found = samples.most([sample(), sample(waiting=3, oldest_s=9, spool_bytes_most=70, cpu_percent=20.0)])
    assert found == {
        "waiting_most": 5,
        "oldest_s_most": 9,
        "oldest_live_s_most": 0,
        "spool_bytes_most": 100,
        "spool_bytes_of_one": 70,
        "cpu_percent_mean": 15.0,
    }
