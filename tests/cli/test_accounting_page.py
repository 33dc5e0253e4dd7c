"""docs/accounting.md: its commands are typed on a node with a sink, its queries on databases; its tables are true."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import postgresql_server
import pytest

from subord.services.account import record
from subord.services.account.words import BY
from tests.cli.test_account_command import fill, row

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = (REPOSITORY / "docs" / "accounting.md").read_text(encoding="utf-8")
SINK = "/var/lib/subord/records.sqlite"
WAIT_S_MAX = 60.0
Shell = Callable[[str], str]


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


@contextmanager
def node_of_the_page(folder: Path) -> Iterator[Shell]:
    """A daemon with the configuration of the page, in a folder; runs lines of the page."""
    (text,) = blocks("toml")
    for old, new in (("10.0.0.0/24", "127.0.0.1/32"), ("/var/lib/subord", str(folder))):
        assert old in text
        text = text.replace(old, new)
    text = text.replace("[node]\n", f'insecure = true\n\n[node]\ncontrol_socket = "{folder}/c"\n')
    (folder / "subord.toml").write_text(text)
    python = f"{sys.executable} -P -m subord"
    program = folder / "bin" / "subord"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\ncase $2 in report) set -- "$@" --config {folder}/subord.toml ;; esac\nexec {python} "$@"\n'
    )
    program.chmod(0o755)
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "SUBORD_SOCKET": f"{folder}/c"}
    environment["PATH"] = f"{program.parent}:{environment['PATH']}"

    def shell(line: str) -> str:
        command = ["sh", "-c", line]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.replace(str(folder / "records.sqlite"), SINK).replace("127.0.0.1", "10.0.0.1")

    daemon = subprocess.Popen([program, "run", "--config", folder / "subord.toml"], env=environment)
    try:
        shell("subord wait --state placed --timeout 60")
        yield shell
    finally:
        daemon.terminate()
        daemon.wait(30)


def plain(text: str) -> str:
    """Without what differs from run to run."""
    return re.sub(
        r"in \d+ ms", "in MS", re.sub(r"of 10.0.0.1, \d{4}-\d\d-\d\d [\d:]{8} UTC", "of 10.0.0.1, TIME", text)
    )


@pytest.mark.slow
def test_its_commands_print_what_is_shown(tmp_path: Path) -> None:
    """A record is on the sink some moments after it is accepted."""
    parts = [part for block in blocks("text") for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]
    assert len(parts) == 5
    with node_of_the_page(tmp_path) as shell:
        for part in parts:
            line, _, output = part.partition("\n")
            until = time.monotonic() + WAIT_S_MAX
            while plain(found := shell(line)) != plain(output):
                assert "account add" not in line, found
                assert time.monotonic() < until, f"{line}\n{found}"
        for line in "".join(blocks("sh")).splitlines():
            if "postgresql://" not in line:
                assert shell(line)


def test_its_query_of_sqlite(tmp_path: Path) -> None:
    fill(str(tmp_path / "sink"), row(1, user="ann"), row(2, user="bob"), row(3)._replace(body=b"17 ok"))
    with sqlite3.connect(tmp_path / "sink") as database:
        assert database.execute(blocks("sql")[0]).fetchall() == [("ann", 1), ("bob", 1)]
    database.close()


@pytest.mark.slow
def test_its_query_of_postgresql() -> None:
    with postgresql_server.running() as url:
        import psycopg

        fill(url, row(1, user="ann"), row(2, user="bob"))
        with psycopg.connect(url) as database:
            assert database.execute(blocks("sql")[1].encode()).fetchall() == [("ann", 1), ("bob", 1)]


def test_its_way_to_bring_records_of_a_lost_database_back(tmp_path: Path) -> None:
    place, lost = (str(tmp_path / name) for name in ("sink", "lost"))
    fill(place, row(1), row(4))
    fill(lost, row(1), row(2), row(3))
    with sqlite3.connect(place) as database:
        database.executescript(blocks("sql")[2].replace("/var/lib/subord/lost.sqlite", lost))
        assert database.execute("select sequence from record order by 1").fetchall() == [(1,), (2,), (3,), (4,)]
    database.close()


def test_its_tables_name_all_fields_and_rows() -> None:
    table = PAGE.partition("## The record")[2].partition("\n## ")[0]
    named = {name for line in table.splitlines() if line.startswith("| `") for name in re.findall(r"`(\w+)`", line)}
    assert {"v", *record.FIELDS} <= named
    (rows,) = re.findall(r"^`--by` is (.*?)\. ", PAGE, re.MULTILINE)
    assert tuple(re.findall(r"`(\w+)`", rows)) == BY


def test_its_numbers_are_those_of_the_code() -> None:
    assert record.FUTURE_S_MAX == 5 * 60
    assert record.LATE_S == 86_400
    assert (record.TEXT_CHARS_MAX, record.LABELS_MAX, record.LABEL_CHARS_MAX) == (128, 16, 64)
    assert record.SLOTS_MAX == 10_000_000
