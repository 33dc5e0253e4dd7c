"""The event log: one write per line, and failed writes that lose only lines."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from subord.runtime.log.event_log import EventLog


def test_one_write_per_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = EventLog(str(tmp_path / "events"), "10.0.0.2")
    writes: list[bytes] = []
    real = os.write

    def recorded(file: int, data: bytes) -> int:
        writes.append(data)
        return real(file, data)

    monkeypatch.setattr(os, "write", recorded)
    log.write("place", place="home", leader="10.0.0.1", old=None)
    log.write("odd", reason='two\nlines, "quotes" and \x1b[31mcolours')
    assert len(writes) == 2
    lines = (tmp_path / "events").read_bytes().splitlines()
    assert len(lines) == 2
    first, second = map(json.loads, lines)
    assert set(first) == {"mono", "wall", "node", "event", "place", "leader", "old"}
    assert (first["node"], first["event"], first["leader"], first["old"]) == ("10.0.0.2", "place", "10.0.0.1", None)
    assert second["reason"] == 'two\nlines, "quotes" and \x1b[31mcolours'


def test_daemons_may_share_a_file(tmp_path: Path) -> None:
    logs = [EventLog(str(tmp_path / "events"), f"10.0.0.{number}") for number in (1, 2)]
    for number in range(50):
        logs[number % 2].write("tick", number=number)
    lines = [json.loads(line) for line in (tmp_path / "events").read_text().splitlines()]
    assert [line["number"] for line in lines] == list(range(50))
    assert [line["node"] for line in lines[:2]] == ["10.0.0.1", "10.0.0.2"]


def test_a_full_disk_is_logged_once(warnings: list[str]) -> None:
    log = EventLog("/dev/full", "10.0.0.2")
    for _ in range(3):
        log.write("tick")
    assert warnings == ["cannot write the event log: No space left on device; events are lost until there is room"]


def test_a_partial_write_is_logged_once(tmp_path: Path, warnings: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    log = EventLog(str(tmp_path / "events"), "10.0.0.2")
    monkeypatch.setattr(os, "write", lambda _file, _data: 1)
    log.write("tick")
    log.write("tick")
    assert warnings == [
        "cannot write the event log: the last line was cut short; events are lost until there is room"
    ]


def test_a_full_pipe_does_not_block(tmp_path: Path, warnings: list[str]) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    log = EventLog(str(tmp_path / "pipe"), "10.0.0.2")
    for _ in range(2000):  # a pipe holds 64 KiB
        log.write("tick", filler="x" * 100)
    os.close(reader)
    assert len(warnings) == 1


def test_a_file_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        EventLog(str(tmp_path / "none" / "events"), "10.0.0.2")


def test_standard_error_and_nowhere(capfd: pytest.CaptureFixture[str]) -> None:
    EventLog("-", "10.0.0.2").write("tick")
    EventLog("", "10.0.0.2").write("tock")
    out, err = capfd.readouterr()
    assert out == ""
    assert json.loads(err)["event"] == "tick"
