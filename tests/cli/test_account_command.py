"""`subord account`: records that are accepted or refused, reports of databases, and the status."""

from __future__ import annotations

import csv
import io
import json
import os
import socket as socket_of
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from subord.api.http.server import BODY_BYTES_MAX
from subord.cli import main
from subord.client import exit_codes
from subord.core.carriage.ledger.bounds import RECORD_BYTES_MAX
from subord.runtime.ledger.keeper import FULL
from subord.runtime.ledger.sinks import Row, open_sink
from subord.services.account import adding, reading
from subord.services.account.record import FUTURE_S_MAX, Job
from tests.api.fake_node_api import World
from tests.api.served_ledger import FakeLedger, served
from tests.api.served_node import fake_daemon
from tests.cli.test_json import fitting

NOW = time.time()
NOBODY = 65_534


def fed(monkeypatch: pytest.MonkeyPatch, text: str | bytes) -> None:
    data = text if isinstance(text, bytes) else text.encode()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))


# -- add --------------------------------------------------------------------------------------------------------


def test_a_record_of_options(socket: str, ledger: FakeLedger, capsys: pytest.CaptureFixture[str]) -> None:
    words = "--id 17 --user ann --queue all.q --host= --started 1000 --ended 2000 --status 1 --signal= --slots 4"
    more = "--cpu-user-s 12.5 --rss-bytes 4K --label gpu=a100 --label= --label x="
    assert main(["account", "add", *words.split(), *more.split(), "--socket", socket]) == exit_codes.OK
    assert ledger.jobs == [
        Job(
            id="17",
            user="ann",
            queue="all.q",
            started=1000,
            ended=2000,
            status=1,
            slots=4,
            cpu_user_s=12.5,
            rss_bytes=4096,
            labels={"gpu": "a100", "x": ""},
        )
    ]
    assert ledger.requests[0][0].kind == "job"
    late = "1 record accepted, 1 of them late: the job ended more than a day ago\n"
    assert capsys.readouterr().out == late


def test_a_job_ends_now_unless_it_says_when(socket: str, ledger: FakeLedger) -> None:
    before = time.time()
    assert main(["account", "add", "--id", "17", "-q", "--socket", socket]) == exit_codes.OK
    (job,) = ledger.jobs
    assert job is not None
    assert before <= job.ended <= time.time()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "there is no field `id`; no record is kept"),
        (["--id="], "there is no field `id`; no record is kept"),
        (["--id", "17", "--slots", "0"], "slots: expected a whole number >= 1; no record is kept"),
        (["--id", "17", "--slots", "x"], "slots: expected a whole number, got a text; no record is kept"),
        (["--id", "17", "--rss-bytes", "4T"], "rss_bytes: expected a whole number, got a text; no record is kept"),
        (["--id", "17", "--rss-bytes", "xK"], "rss_bytes: 'xK' is no number of bytes such as 4096, 4K or 4M"),
        (["--id", "17", "--rss-bytes", "K"], "rss_bytes: 'K' is no number of bytes"),
        (["--id", "17", "--label", "x"], "'x' is no label: give NAME=VALUE; no record is kept"),
        (["--id", "17", "--label", "=x"], "'=x' is no label: give NAME=VALUE; no record is kept"),
        (["--id", "17", "--label", "x=1", "--label", "x=2"], "the label 'x' is given twice; no record is kept"),
        (["--id", "17", "--user", "\udcff"], "a text is not UTF-8; no record is kept"),
        (["--id", "17", "--ended", str(NOW + 86_400)], "is the clock of this host right?; no record is kept"),
        (["--id", "17", "--stdin"], "give the options of one record or --stdin, not both; no record is kept"),
    ],
)
def test_options_that_are_wrong_keep_nothing(
    socket: str, ledger: FakeLedger, capsys: pytest.CaptureFixture[str], words: list[str], sentence: str
) -> None:
    assert main(["account", "add", *words, "--socket", socket]) == exit_codes.USAGE
    assert sentence in capsys.readouterr().err
    assert ledger.requests == []


def test_many_records_of_standard_input(
    socket: str, ledger: FakeLedger, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [json.dumps({"id": str(each), "ended": NOW, "user": '"\\' * 40}) for each in range(3000)]
    fed(monkeypatch, "\n".join(["", *lines, "", ""]))
    assert main(["account", "add", "--stdin", "--socket", socket]) == exit_codes.OK
    assert [job.id for job in ledger.jobs if job] == [str(each) for each in range(3000)]
    assert len(ledger.requests) > 3
    assert capsys.readouterr().out == "3000 records accepted\n"


def test_the_largest_record_fits_in_a_request() -> None:
    """Escaped twice, it takes twice its bytes."""
    text = json.dumps({"kind": "job", "body": '"' * RECORD_BYTES_MAX})
    assert len(text) + 2 < adding.REQUEST_BYTES_MAX < BODY_BYTES_MAX


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ('{"id": 1}', "line 2001: id: expected a text, got a whole number; no record is kept"),
        ("{17", "line 2001: this is no JSON"),
        (json.dumps({"id": "1", "ended": NOW + FUTURE_S_MAX + 86_400}), "line 2001: ended is "),
        ('{"id": "\ud800"}'.encode("utf-8", "surrogatepass").decode("latin1"), "line 2001: "),
    ],
    ids=["kind", "json", "future", "surrogate"],  # a time in a name would differ between the processes of a run
)
def test_one_line_that_is_wrong_keeps_nothing_of_all(
    socket: str,
    ledger: FakeLedger,
    *,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    line: str,
    sentence: str,
) -> None:
    good = json.dumps({"id": "1", "ended": NOW}) + "\n"
    fed(monkeypatch, (2000 * good).encode() + line.encode("latin1"))
    assert main(["account", "add", "--stdin", "--socket", socket]) == exit_codes.USAGE
    assert sentence in capsys.readouterr().err
    assert ledger.requests == []


def test_too_much_at_once_is_refused(
    socket: str, ledger: FakeLedger, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(adding, "INPUT_BYTES_MAX", 1 << 20)
    fed(monkeypatch, 5 * (b" " * ((1 << 18) - 1) + b"\n"))
    assert main(["account", "add", "--stdin", "--socket", socket]) == exit_codes.USAGE
    assert "more than 1 MiB at once: give the lines in parts; no record is kept" in capsys.readouterr().err
    assert ledger.requests == []


class Endless(io.RawIOBase):
    """Gives bytes as long as it is asked. `given`: so many."""

    given: int = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self.given += len(buffer)
        assert self.given < 2 << 20, "the command reads on"
        buffer[:] = bytes(len(buffer))
        return len(buffer)


def test_a_line_without_end_is_refused_within_the_bound(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(Endless())))
    assert main(["account", "add", "--stdin", "--socket", "absent"]) == exit_codes.USAGE
    assert "line 1 has more than 256 KiB: give one record per line; no record is kept" in capsys.readouterr().err


def test_half_a_line_at_the_end_keeps_nothing(
    socket: str, ledger: FakeLedger, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fed(monkeypatch, json.dumps({"id": "1", "ended": NOW}) + "\n" + json.dumps({"id": "2", "ended": NOW})[:-4])
    assert main(["account", "add", "--stdin", "--socket", socket]) == exit_codes.USAGE
    assert "line 2: this is no JSON" in capsys.readouterr().err
    assert ledger.requests == []


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"])
def test_an_answer_that_breaks_off_leaves_open_what_is_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], answer: bytes
) -> None:
    """The daemon may have stopped after the records were on its disk."""
    with TemporaryDirectory() as folder, socket_of.socket(socket_of.AF_UNIX) as server:
        server.bind(f"{folder}/c")
        server.listen()

        def break_off() -> None:
            for _ in range(2):
                connection, _ = server.accept()
                with connection:
                    connection.recv(1 << 16)
                    connection.sendall(answer)

        thread = threading.Thread(target=break_off)
        thread.start()
        words = ["account", "add", "--socket", f"{folder}/c"]
        assert main([*words, "--id", "1"]) == exit_codes.DAEMON_UNREACHABLE
        assert "; whether the record is kept is not known" in capsys.readouterr().err
        fed(monkeypatch, 2 * (json.dumps({"id": "1", "ended": NOW}) + "\n"))
        assert main([*words, "--stdin"]) == exit_codes.DAEMON_UNREACHABLE
        assert "; no line before is kept, of lines 1 to 2 it is not known, and none after" in capsys.readouterr().err
        thread.join()


def test_a_spool_that_becomes_full_says_which_lines_are_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = FakeLedger(room=2500)
    fed(monkeypatch, "".join(json.dumps({"id": "1", "ended": NOW}) + "\n" for _ in range(3000)))
    with served(ledger) as path:
        assert main(["account", "add", "--stdin", "--socket", path]) == exit_codes.TRY_AGAIN
    kept = len(ledger.jobs)
    assert 0 < kept <= 2500
    words = f"{FULL}; lines 1 to {kept} are kept, and none from line {kept + 1} on"
    assert words in capsys.readouterr().err


def test_without_a_daemon_nothing_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    socket = str(tmp_path / "c")
    assert main(["account", "add", "--id", "1", "--socket", socket]) == exit_codes.DAEMON_UNREACHABLE
    assert capsys.readouterr().out == ""


# -- report -----------------------------------------------------------------------------------------------------


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An empty database of records."""
    if request.param == "sqlite":
        yield str(tmp_path / "sink.sqlite")
        return
    import psycopg

    url = str(request.getfixturevalue("postgresql"))
    with psycopg.connect(url, autocommit=True) as server:
        server.execute("drop table if exists record, subord_schema, subord_sink, subord_missing")
    yield url


def row(sequence: int, node: str = "10.0.0.4", **fields: Any) -> Row:
    job = {"v": 1, "id": str(sequence), "ended": NOW - 60, "started": NOW - 160, **fields}
    return Row(node, 7, sequence, "job", json.dumps(job).encode())


def fill(place: str, *rows: Row) -> str:
    sink = open_sink(place)
    sink.store(rows)
    sink.close()
    return place


def report(capsys: pytest.CaptureFixture[str], *words: str, code: int = exit_codes.OK) -> dict[str, Any]:
    assert main(["account", "report", "--json", *words]) == code
    return fitting("account report", capsys.readouterr().out)


ROWS = (
    row(1, user="ann", slots=2, cpu_user_s=150, status=0),
    row(2, user="ann", status=1),
    row(1, "10.0.0.5", id="3", user="b\u00fcb"),
    Row("10.0.0.5", 7, 2, "job", b"17 \xff ok"),
    Row("10.0.0.5", 7, 3, "other", b"of another writer"),
    Row("10.0.0.5", 7, 4, "command", row(9, user="root").body),
)


@pytest.mark.slow
def test_a_report_of_a_database(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    fill(place, *ROWS)
    found = report(capsys, "--database", place)
    assert found["rows"] == [
        {"name": "ann", "jobs": 2, "failed": 1, "wall_s": 200, "slot_s": 300, "cpu_s": 150},
        {"name": "b\u00fcb", "jobs": 1, "failed": 0, "wall_s": 100, "slot_s": 100, "cpu_s": 0},
    ]
    assert found["total"]["slot_s"] == 400
    assert (found["records"], found["unreadable"], found["late"]) == (3, 1, 0)
    assert (found["without_cpu"], found["without_status"], found["without_start"]) == (2, 1, 0)
    (database,) = found["databases"]
    assert database["records"] == 4
    assert database["newest_node"] in ("10.0.0.4", "10.0.0.5")
    assert [each["name"] for each in report(capsys, "--database", place, "--kind", "command")["rows"]] == ["root"]


def test_a_report_says_what_it_covers(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    fill(place, *ROWS)
    assert main(["account", "report", "--database", place, "--since", "2026-01-01", "--until", "2100-01-01"]) == 0
    head, *rows, covered, database = capsys.readouterr().out.splitlines()
    assert head.split() == ["user", "jobs", "failed", "wall_s", "slot_s", "cpu_s"]
    assert rows[0].split() == ["ann", "2", "1", "200", "300", "150"]
    assert rows[-1].split() == ["total", "3", "1", "300", "400", "150"]
    assert covered == (
        "jobs that ended from 2026-01-01 00:00:00 UTC on and before 2100-01-01 00:00:00 UTC: 3 records, "
        "1 unreadable, 2 without CPU time, 1 without exit status"
    )
    assert database.startswith(f"{reading.shown(place)}: 4 records read, the newest of 10.0.0.")


def test_a_report_says_what_was_written_again(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    fill(place, row(1), row(2)._replace(body=row(1).body))
    assert main(["account", "report", "--database", place]) == 0
    assert "1 record, 0 unreadable, 1 repeated and left out" in capsys.readouterr().out


def test_a_report_as_csv(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    fill(place, row(1, user='a,"n'), row(2, user="ann"), row(3, user="=1+1"))
    assert main(["account", "report", "--database", place, "--csv"]) == exit_codes.OK
    captured = capsys.readouterr()
    rows = list(csv.DictReader(io.StringIO(captured.out)))
    assert {each["user"]: each["slot_s"] for each in rows} == {'a,"n': "100.0", "ann": "100.0", "'=1+1": "100.0"}
    assert "3 records, 0 unreadable" in captured.err


def test_records_of_two_databases_count_once(place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill(place, *(row(each, f"10.0.0.{node}") for each in (1, 2) for node in (4, 30, 5)))
    other = fill(str(tmp_path / "other"), *(row(each, f"10.0.0.{node}") for each in (2, 3) for node in (5, 30, 4)))
    found = report(capsys, "--database", place, "--database", other, "--by", "host")
    assert {each["name"]: each["slot_s"] for each in found["rows"]} == {f"10.0.0.{n}": 300 for n in (4, 5, 30)}
    assert found["records"] == 9
    assert [each["records"] for each in found["databases"]] == [6, 6]


def test_an_empty_database_is_said(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    fill(place)
    assert main(["account", "report", "--database", place]) == exit_codes.OK
    out = capsys.readouterr().out
    assert out.startswith("jobs that ended at any time: 0 records, 0 unreadable\n")
    assert out.endswith(": 0 records read, there is none\n")


def test_the_configured_sink_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill(str(tmp_path / "sink"), row(1))
    config = tmp_path / "subord.toml"
    config.write_text('[cluster]\nnetwork = "10.0.0.0/24"\ninsecure = true\n[ledger]\nsink = "sink"\n')
    assert report(capsys, "--config", str(config))["records"] == 1
    config.write_text('[cluster]\nnetwork = "10.0.0.0/24"\ninsecure = true\n')
    assert main(["account", "report", "--config", str(config)]) == exit_codes.CONFIGURATION
    assert "names no ledger.sink: this node is no sink; run this on a sink, or name" in capsys.readouterr().err
    assert main(["account", "report", "--config", str(tmp_path / "absent")]) == exit_codes.CONFIGURATION


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["--since", "x"], exit_codes.USAGE, "--since 'x' is no time: "),
        (["--until", "2026-02-30"], exit_codes.USAGE, "--until '2026-02-30' is no time: "),
        (["--since", "1d", "--until", "2d"], exit_codes.USAGE, "--since is not before --until; nothing was read"),
        (["--database", "absent"], exit_codes.USAGE, "there is no database 'absent': "),
        (["--database", "."], exit_codes.USAGE, "there is no database '.': "),
        (["--database", "text"], exit_codes.USAGE, "text is no database, or damaged (file is not a database): "),
        (["--database", "empty"], exit_codes.USAGE, "empty is no database of a sink (no such table: record): "),
        (["--database", "later"], exit_codes.CONFIGURATION, "later: its schema 99 is of a later release than this "),
        (["--database", "typed"], exit_codes.USAGE, "typed has a row that no sink has written: its columns"),
        (["--database", "named"], exit_codes.USAGE, "named is no database, or damaged (malformed "),
        (["--database", "held"], exit_codes.TRY_AGAIN, "another program has locked held for "),
    ],
)
def test_wrong_input_is_one_sentence(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    code: int,
    sentence: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(reading, "BUSY_S_MAX", 0.1)
    (tmp_path / "text").write_text("no database " * 100)
    (tmp_path / "empty").touch()
    for name in ("later", "held"):
        fill(name, row(1))
    with sqlite3.connect("later") as later:
        later.execute("pragma user_version = 99")
    later.close()
    with sqlite3.connect("typed") as typed:
        typed.execute("create table record (node, incarnation, sequence, kind, body, stored_at)")
        typed.execute("insert into record values ('10.0.0.4', 7, 1, 'job', null, 5)")
    typed.close()
    with sqlite3.connect("named") as named:
        named.execute("pragma writable_schema = 1")
        named.execute("insert into sqlite_schema values ('table', 'x\x1b[2J', 'x', 5, 'create no table')")
    named.close()
    holder = sqlite3.connect("held", isolation_level=None)
    holder.execute("pragma locking_mode = exclusive")
    holder.execute("begin exclusive")
    before = {each.name: each.read_bytes() for each in tmp_path.iterdir() if each.name in ("later", "text", "empty")}
    assert main(["account", "report", *words]) == code
    holder.close()
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"subord: {sentence}")
    assert captured.err.count("\n") == 1
    assert captured.err[:-1].isprintable()
    assert all((tmp_path / name).read_bytes() == data for name, data in before.items())


def test_a_path_may_have_any_bytes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert report(capsys, "--database", fill(f"{tmp_path}/\udcff?#%41", row(1)))["records"] == 1


def test_records_of_any_clock_are_read(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    fill(place, row(1), row(2))
    for sequence, stored_at in ((1, -5), (2, 1 << 60)):
        changed(place, f"update record set stored_at = {stored_at} where sequence = {sequence}")
    found = report(capsys, "--database", place)
    assert found["records"] == 2
    assert found["databases"][0]["newest"].startswith("9999-")


def changed(place: str, statement: str) -> None:
    if "://" not in place:
        with sqlite3.connect(place) as file:
            file.execute(statement)
        file.close()
        return
    import psycopg

    with psycopg.connect(place, autocommit=True) as server:
        server.execute(statement.encode())


def test_hostile_bodies_are_unreadable_and_each_is_counted(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    job = '{"v":1,"id":"1","ended":%s}'
    bodies = (
        *(job % ended for ended in ("1e400", "9" * 9000, "-1", "1e-5", "true", "[" * 9000, '"5"')),
        *(job % f'5,"user":{user}' for user in (r'"\u001b[2J"', '"\x1b[2J"', r'"\ud800"', "{}")),
        *("null", "", "[]", "\0", "{" * 8000),
    )
    fill(place, *(Row("10.0.0.4", 7, at, "job", body.encode()) for at, body in enumerate(bodies)))
    found = report(capsys, "--database", place)
    assert (found["records"], found["unreadable"]) == (0, len(bodies))


def as_nobody(*words: str) -> int:
    """The exit code of a command of a user without rights, whose modules are imported."""
    if (child := os.fork()) == 0:
        code = exit_codes.INTERNAL
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            code = main(words)
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("closed", ["sink", "."])
def test_a_database_of_another_user_needs_rights(closed: str) -> None:
    with TemporaryDirectory() as folder:  # those of pytest are closed to other users
        os.chmod(folder, 0o755)
        place = fill(f"{folder}/sink", row(1))
        os.chmod(f"{folder}/{closed}", 0)
        words = ["account", "report", "--database", place]
        main(words)  # its modules are imported
        assert as_nobody(*words) == exit_codes.PERMISSION
        os.chmod(folder, 0o700)


def test_a_report_writes_nothing(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    with reading.opened(fill(place, row(1))) as database, pytest.raises(Exception, match=r"read.?only"):
        database._connection.execute("delete from record")  # type: ignore[attr-defined]


def test_a_report_does_not_hinder_the_sink(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    fill(place, *(row(each) for each in range(1, 10)))
    with reading.opened(place) as database:
        records = database.records("job", 0.0, in_order=False)
        next(records)
        fill(place, *(row(each) for each in range(10, 20)))
        assert len(list(records)) == 8
    assert report(capsys, "--database", place)["records"] == 19


def test_postgresql_that_is_not_right_is_said(
    postgresql: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import psycopg

    absent = f"postgresql://ann:secret@/postgres?host={tmp_path}"
    assert main(["account", "report", "--database", absent]) == exit_codes.TRY_AGAIN
    error = capsys.readouterr().err
    assert "postgresql://ann@/postgres does not answer: " in error
    assert "secret" not in error
    with psycopg.connect(postgresql, autocommit=True) as server:
        server.execute("drop table if exists record, subord_schema, subord_sink, subord_missing")
        assert main(["account", "report", "--database", postgresql]) == exit_codes.USAGE
        assert "is no database of a sink" in capsys.readouterr().err
        fill(postgresql, row(1))
        server.execute("insert into subord_schema values (99)")
        assert main(["account", "report", "--database", postgresql]) == exit_codes.CONFIGURATION
        assert "its schema 99 is of a later release" in capsys.readouterr().err
        server.execute("delete from subord_schema where version = 99")
        server.execute("drop role if exists other")
        server.execute("create role other login")
        other = postgresql.replace("subord@", "other@")
        assert main(["account", "report", "--database", other]) == exit_codes.PERMISSION
        assert "grant select on the tables record, subord_schema and subord_missing" in capsys.readouterr().err


@pytest.mark.parametrize("rest", ["[::1/x", "h/x?foo=1", "h%/x"])
def test_a_url_that_is_wrong_does_not_show_its_password(capsys: pytest.CaptureFixture[str], rest: str) -> None:
    assert main(["account", "report", "--database", f"postgresql://ann:secret@{rest}"]) == exit_codes.USAGE
    error = capsys.readouterr().err
    assert "is no URL of PostgreSQL: write postgresql://USER@HOST/DATABASE; nothing was changed" in error
    assert "secret" not in error


# -- status -----------------------------------------------------------------------------------------------------


def test_the_status_of_a_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    world = World()
    world.known = {each: world.node(each) for each in (1, 4, 5, 6)}
    world.known[6].counters.spool_state = "fails"
    world.known[1].counters.sink_state = "stores"
    for each in (4, 5):
        counters = world.known[each].counters
        counters.spool_state, counters.spool_records, counters.spool_bytes = "keeps", 5, 2000
        counters.spool_oldest_at = time.time() - 100
    world.gone = {9}
    with fake_daemon(world.node(2)) as path:
        assert main(["account", "status", "--addresses", "--socket", path]) == exit_codes.NOT_REACHED
        out = capsys.readouterr().out.splitlines()
        assert main(["account", "status", "--json", "--socket", path]) == exit_codes.NOT_REACHED
        found = fitting("account status", capsys.readouterr().out)
    assert out[0] == "10.0.0.[4-5]: up to 7 records (2 KiB) wait, the oldest up to 2 min; reaches no sink"
    assert "10.0.0.1: sink, stores records; nothing waits; " in out[1]
    assert "10.0.0.6: its spool cannot be read or written: its log says why; reaches no sink" in out
    assert out[-1].startswith("10 of 11 answered in ")
    assert out[-1].endswith("missing: 10.0.0.9 down")
    assert [each["nodes"] for each in found["spools"]] == [2, 1, 1, 6]
