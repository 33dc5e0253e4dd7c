"""Records that databases lack since they were restored: what a report and the status say of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from subord.cli import main
from subord.client import exit_codes
from subord.runtime.ledger.missing import Range, write
from subord.runtime.ledger.sinks import open_sink
from tests.api.fake_node_api import World
from tests.api.served_node import fake_daemon
from tests.cli.test_account_command import changed, fill, report, row
from tests.cli.test_json import fitting

NODE = "10.0.0.4"


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database of records 1 and 5 to 6 that lacks 2 to 4."""
    found = str(tmp_path / "sink")
    if request.param == "postgresql":
        found = str(request.getfixturevalue("postgresql"))
        changed(found, "drop table if exists record, subord_schema, subord_sink, subord_missing")
    return lacking(fill(found, row(1), row(5), row(6)), Range(NODE, 7, 2, 4))


def lacking(place: str, *ranges: Range) -> str:
    sink = open_sink(place)
    with sink.transaction() as run:
        write(run, ranges)
    sink.close()
    return place


@pytest.mark.slow
def test_a_report_says_what_is_missing(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = report(capsys, "--database", place)
    assert (found["records"], found["missing"]) == (3, 3)
    assert main(["account", "report", "--database", place]) == exit_codes.OK
    assert "not complete: 3 records missing since a database was restored" in capsys.readouterr().out


def test_what_another_database_has_is_not_missing(
    place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both lack record 4, and it counts once."""
    other = lacking(fill(str(tmp_path / "other"), row(2), row(3), row(5)), Range(NODE, 7, 4, 4))
    found = report(capsys, "--database", place, "--database", other)
    assert (found["records"], found["missing"]) == (5, 1)
    changed(place, "delete from record where sequence = 6")
    lacking(place, Range(NODE, 7, 6, 6))
    assert report(capsys, "--database", place, "--database", other)["missing"] == 2


def test_what_came_back_is_not_missing(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    fill(place, row(2), row(3), row(4))
    assert report(capsys, "--database", place)["missing"] == 0


def test_a_database_of_an_earlier_schema_lacks_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = fill(str(tmp_path / "sink"), row(1))
    changed(place, "drop table subord_missing")
    changed(place, "pragma user_version = 2")
    assert report(capsys, "--database", place)["missing"] == 0


def test_a_reader_without_the_right_is_told(postgresql: str, capsys: pytest.CaptureFixture[str]) -> None:
    fill(postgresql, row(1))
    changed(postgresql, "drop role if exists reader")
    changed(postgresql, "create role reader login")
    changed(postgresql, "grant select on record, subord_schema to reader")
    reader = postgresql.replace("subord@", "reader@")
    try:
        assert report(capsys, "--database", reader)["missing"] is None
        assert main(["account", "report", "--database", reader]) == exit_codes.OK
        words = "whether records are missing since a restore is not known: grant select on the table subord_missing"
        assert words in capsys.readouterr().out
    finally:
        changed(postgresql, "drop owned by reader")


def test_the_status_names_a_sink_that_lacks_records(capsys: pytest.CaptureFixture[str]) -> None:
    world = World()
    world.known = {each: world.node(each) for each in (1, 4)}
    world.known[1].counters.sink_state = world.known[4].counters.sink_state = "stores"
    world.known[4].counters.records_missing = 5
    with fake_daemon(world.node(2)) as path:
        main(["account", "status", "--addresses", "--socket", path])
        first = capsys.readouterr().out.splitlines()[0]
        main(["account", "status", "--json", "--socket", path])
        spools = fitting("account status", capsys.readouterr().out)["spools"]
    words = "10.0.0.4: sink, stores records; its database was restored to an earlier state and lacks up to 7 records"
    assert first.startswith(words)
    assert sorted(each["missing_max"] for each in spools) == [0, 0, 7]
