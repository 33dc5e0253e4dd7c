"""The log: formats of a record, the level and its source, and a standard error without a reader."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import re
import socket
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from full_pipe import full_pipe

from subord.config.load import load
from subord.config.schema import Config, LogFormat
from subord.runtime.log import formats, journal
from subord.runtime.log.logger import ASKED, Log
from subord.runtime.log.writer import QUEUE_BYTES_MAX, LogWriter, fill_standard_streams, to_stderr

logger = logging.getLogger("subord")
HEAD = ["time", "level", "node", "event", "message"]
FORGED = "x\n<0>now root\x1b[2J\u202e\udcff"
PLACE = {"place": "guest", "leader": "10.0.0.3", "old": None}


@pytest.fixture(autouse=True)
def _level_as_before() -> Iterator[None]:
    before = logger.level
    yield
    logger.setLevel(before)


def made(words: str, *args: object, level: int = logging.INFO, **extra: object) -> logging.LogRecord:
    record = logger.makeRecord("subord", level, "", 0, words, args, None, extra=extra)
    record.created = 1795358974.4264
    return record


def waited(condition: Callable[[], object]) -> bool:
    until = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.002)
    return True


# -- forms ----------------------------------------------------------------------------------------------------------


def failed() -> logging.LogRecord:
    """As `logger.exception` makes it."""
    try:
        try:
            json.loads("{")
        except ValueError as error:
            raise ExceptionGroup("several", [error]) from None
    except ExceptionGroup as group:
        record = made("a poll failed", level=logging.ERROR)
        record.exc_info = (type(group), group, group.__traceback__)
        return record


@pytest.mark.parametrize(
    "render", [formats.text, formats.as_json, formats.bare, formats.prioritised(formats.bare), formats.for_journal]
)
def test_a_line_about_an_error_says_which_and_where(render: formats.Render) -> None:
    line = render(failed(), "n").decode()
    assert "a poll failed: JSONDecodeError: Expecting property name" in line
    assert re.search(r"decoder\.py:\d+ raw_decode, decoder\.py:\d+ decode, .*test_logger\.py:\d+ failed\)", line)
    assert line.count("\n") == 1 or render is formats.for_journal


def test_json_has_the_same_keys_first_in_every_line_and_then_the_fields() -> None:
    place = formats.as_json(made("now %(place)s of %(leader)s", PLACE, event="place"), "10.0.0.4")
    assert place == (
        b'{"time": "2026-11-22T14:49:34.426Z", "level": "info", "node": "10.0.0.4", "event": "place", '
        b'"message": "now guest of 10.0.0.3", "place": "guest", "leader": "10.0.0.3", "old": null}\n'
    )
    plain = json.loads(formats.as_json(made("stopped %s", 1, level=logging.ERROR), ""))
    assert list(plain) == HEAD
    assert (plain["level"], plain["node"], plain["event"], plain["message"]) == ("error", None, None, "stopped 1")


def test_a_field_does_not_replace_a_common_key() -> None:
    line = json.loads(formats.as_json(made("%(message)s", {"message": "a", "time": 0}, event="e"), "n"))
    assert (line["message"], line["time"][:4]) == ("a", "2026")


def test_text_has_time_level_and_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC-2")
    time.tzset()
    line = formats.text(made("lost %s", "x", level=logging.WARNING), "10.0.0.4")
    monkeypatch.undo()
    time.tzset()
    assert line == b"2026-11-22 16:49:34.426 WARNING lost x\n"


@pytest.mark.parametrize("render", [formats.text, formats.as_json, formats.bare, formats.prioritised(formats.bare)])
def test_a_field_cannot_add_lines_or_control_a_terminal(render: formats.Render) -> None:
    line = render(made("said: %(words)s", {"words": FORGED}), "10.0.0.4").decode()
    assert line.count("\n") == 1
    assert line[:-1].isprintable()
    assert re.search(r"said: x\\+n<0>now root\\+x1b\[2J\\+u202e\\+udcff", line)


def test_a_journal_entry_has_message_priority_and_fields() -> None:
    entry = formats.for_journal(
        made("bad %(reason)s", {"reason": FORGED, "old": None}, level=30, event="e"), "10.0.0.4"
    )
    assert entry.decode().splitlines() == [
        r"MESSAGE=bad x\n<0>now root\x1b[2J\u202e\udcff",
        "PRIORITY=4",
        "SYSLOG_IDENTIFIER=subord",
        "SUBORD_NODE=10.0.0.4",
        "SUBORD_EVENT=e",
        r"SUBORD_REASON=x\n<0>now root\x1b[2J\u202e\udcff",
    ]


def test_a_huge_entry_fits_a_datagram() -> None:
    assert len(formats.for_journal(made("state: %s", "x" * 10**6), "")) < 1.1 * journal.VALUE_CHARS_MAX


# -- which form -----------------------------------------------------------------------------------------------------


@contextmanager
def stderr_is(descriptor: int) -> Iterator[None]:
    kept = os.dup(2)
    os.dup2(descriptor, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def stream_of(descriptor: int) -> str:
    found = os.fstat(descriptor)
    return f"{found.st_dev}:{found.st_ino}"


def log_two_lines(wanted: LogFormat, descriptor: int, environment: dict[str, str]) -> None:
    """One line and one error, with this descriptor as standard error."""
    with stderr_is(descriptor), Log() as log:
        log.open(wanted, environment)
        log.node = "10.0.0.4"
        logger.setLevel("INFO")
        logger.warning("hear", extra=ASKED)
        log.put_error("subord: no port")


@pytest.mark.parametrize(
    ("wanted", "is_journal", "expected"),
    [
        ("auto", False, r'\{"time": .*, "message": "hear"\}\nsubord: no port\n'),
        ("json", False, r'\{"time": .*, "message": "hear"\}\nsubord: no port\n'),
        ("text", False, r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} WARNING hear\nsubord: no port\n"),
        ("text", True, r"<4>hear\n<3>subord: no port\n"),
        ("json", True, r'<4>\{"time": .*, "message": "hear"\}\n<3>subord: no port\n'),
        ("auto", True, r"<4>hear\n<3>subord: no port\n"),  # its socket cannot be reached
    ],
)
def test_into_a_pipe(
    wanted: LogFormat, is_journal: bool, expected: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(journal.Journal.__init__, "__defaults__", (str(tmp_path / "none"),))
    reader, writer = os.pipe()
    log_two_lines(wanted, writer, {"JOURNAL_STREAM": stream_of(writer)} if is_journal else {"JOURNAL_STREAM": "1:2"})
    os.close(writer)
    assert re.fullmatch(expected, os.read(reader, 65536).decode())
    os.close(reader)


def test_on_a_terminal() -> None:
    ours, theirs = os.openpty()
    log_two_lines("auto", theirs, {})
    assert re.fullmatch(r"[-\d]{10} [:.\d]{12} WARNING hear\r\nsubord: no port\r\n", os.read(ours, 65536).decode())
    os.close(ours)
    os.close(theirs)


def test_a_journal_behind_standard_error_gets_entries(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(journal.Journal.__init__, "__defaults__", (str(tmp_path / "socket"),))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "socket"))
        listening.settimeout(20)
        reader, writer = os.pipe()
        log_two_lines("auto", writer, {"JOURNAL_STREAM": stream_of(writer)})
        os.close(writer)
        assert listening.recv(65536).startswith(b"MESSAGE=hear\nPRIORITY=4\n")
        assert os.read(reader, 65536) == b"<3>subord: no port\n"
        os.close(reader)


def test_a_restarted_journal_is_found_again(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    first, second = (socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(2))
    first.bind(str(path))
    ours = journal.Journal(str(path))
    ours.send(b"MESSAGE=one\n")
    first.close()
    path.unlink()
    with pytest.raises(FileNotFoundError):
        ours.send(b"MESSAGE=two\n")
    second.bind(str(path))
    ours.send(b"MESSAGE=three\n")
    assert second.recv(100) == b"MESSAGE=three\n"
    second.close()
    ours.close()


# -- levels ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variable", "assignments", "level", "source"),
    [
        (None, (), "warning", "node.log_level"),
        ("debug", (), "debug", "LOG_LEVEL"),
        ("ERROR", (), "error", "LOG_LEVEL"),
        ("loud", (), "warning", "node.log_level"),
        ("", (), "warning", "node.log_level"),
        ("debug", ("node.log_level=info",), "info", "node.log_level"),
    ],
)
def test_the_source_of_the_first_level(
    variable: str | None, assignments: tuple[str, ...], level: str, source: str, tmp_path: Path
) -> None:
    log = Log()
    log.choose(configured(tmp_path, assignments), {} if variable is None else {"LOG_LEVEL": variable})
    assert (log.log_level, log.source, logging.getLevelName(logger.level).lower()) == (level, source, level)


def configured(tmp_path: Path, assignments: tuple[str, ...] = ()) -> Config:
    file = tmp_path / "subord.toml"
    file.write_text('[cluster]\nnetwork = "10.0.0.0/24"\n[node]\nlog_level = "warning"\n')
    return load(str(file), assignments)


def test_an_unknown_level_in_the_variable_is_logged_and_ignored(tmp_path: Path, warnings: list[str]) -> None:
    Log().choose(configured(tmp_path), {"LOG_LEVEL": "loud"})
    assert warnings == ["LOG_LEVEL=loud is not used: it must be one of debug, info, warning, error"]


def test_debug_goes_on_and_off(warnings: list[str]) -> None:
    log = Log()
    log.take("error", "command")
    log.toggle_debug()
    assert (log.log_level, log.source, logger.level) == ("debug", "signal", logging.DEBUG)
    log.toggle_debug()
    assert (log.log_level, logger.level) == ("error", logging.ERROR)
    assert warnings == [
        "log level error instead of info (command)",
        "log level debug instead of error (signal)",
        "log level error instead of debug (signal)",
    ]


def test_debug_from_the_start_goes_off() -> None:
    log = Log()
    log.take("debug", "command")
    log.toggle_debug()
    assert log.log_level == "info"


# -- mistakes and repeats -------------------------------------------------------------------------------------------


def written(tmp_path: Path, say: Callable[[Log], None]) -> list[dict[str, object]]:
    with open(tmp_path / "log", "wb") as file, stderr_is(file.fileno()), Log() as log:
        log.open("json", {})
        logger.setLevel("INFO")
        say(log)
    return [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]


def test_a_wrong_format_string_is_logged(tmp_path: Path) -> None:
    def say(_: Log) -> None:
        logger.info("%d jobs", "two")
        logger.info("%(a)s", {"b": 1})

    found = [line["message"] for line in written(tmp_path, say)]
    assert found == ["a line of the log has a mistake: '%d jobs'", "a line of the log has a mistake: '%(a)s'"]


def test_held_lines_are_written_at_the_end_and_counted(tmp_path: Path) -> None:
    counts: list[dict[str, int]] = []

    def say(log: Log) -> None:
        for _ in range(9):
            logger.warning("the disk is broken: %(path)s", {"path": "x"})
        for _ in range(2):
            logger.info("read again", extra=ASKED)
        waited(lambda: log.counts["written"] == 3)
        counts.append(dict(log.counts))

    found = written(tmp_path, say)
    assert [line["message"] for line in found[:3]] == ["the disk is broken: x", "read again", "read again"]
    assert found[3]["message"] == "the disk is broken: x (repeated 8 times in 30 s)"
    assert (found[3]["repeated"], found[3]["path"], len(found)) == (8, "x", 4)
    assert counts == [{"written": 3, "repeated": 8, "lost": 0}]


# -- no reader ------------------------------------------------------------------------------------------------------


def read_until(reader: int, until: bytes) -> bytes:
    found = b""
    while until not in found:
        found += os.read(reader, 65536)
    return found


def test_a_full_pipe_does_not_block_and_lost_lines_are_reported() -> None:
    reader, writer = full_pipe()
    with stderr_is(writer), Log() as log:
        log.open("json", {})
        logger.setLevel("INFO")
        began = time.monotonic()
        for number in range(3000):
            logger.info("%(number)d " + "x" * 1000, {"number": number}, extra=ASKED)
        assert time.monotonic() - began < 10
        lost = log.counts["lost"]
        assert 3000 - lost < QUEUE_BYTES_MAX / 1000
        found = read_until(reader, f'"number": {3000 - lost - 1}}}\n'.encode())  # those that had room, in order
        assert found.count(b'"number"') == 3000 - lost
        log._report_lost()
        read_until(reader, b"%d lines of the log were lost" % lost)
        log._report_lost()  # once
        waited(lambda: log.counts["written"] == 3000 - lost + 1)
    os.close(reader)
    os.close(writer)


def test_the_process_can_end_with_a_full_pipe() -> None:
    reader, writer = full_pipe()
    with stderr_is(writer):
        began = time.monotonic()
        with Log() as log:
            log.open("json", {})
            log.put_error("subord: this is lost")
        assert time.monotonic() - began < 10
        os.write(2, bytes(100_000))  # later output does not block either
    os.close(reader)
    os.close(writer)


def test_failed_writes_are_counted_as_lost() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    full = os.open("/dev/full", os.O_WRONLY)
    for descriptor in (writer, full):
        with stderr_is(descriptor), Log() as log:
            log.open("json", {})
            logger.error("hear")
            waited(lambda log=log: log.counts["lost"] == 1)
        os.close(descriptor)


def test_a_non_blocking_pipe_loses_nothing() -> None:
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    os.set_blocking(writer, False)
    data = b"".join(b"%d\n" % number for number in range(5000))
    with stderr_is(writer):
        thread = threading.Thread(target=to_stderr, args=(data,))
        thread.start()
        found = b""
        while len(found) < len(data):
            found += os.read(reader, 1000)
        thread.join()
    assert found == data
    os.close(reader)
    os.close(writer)


def test_a_closed_standard_error_is_not_reused_by_the_next_file(tmp_path: Path) -> None:
    kept = os.dup(2)
    os.close(2)
    try:
        fill_standard_streams()
        assert stat.S_ISCHR(os.fstat(2).st_mode)
        fresh = os.open(tmp_path / "precious", os.O_CREAT | os.O_WRONLY)
        assert fresh > 2
        os.close(fresh)
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def test_the_writer_writes_its_queue_before_it_closes() -> None:
    found: list[bytes] = []
    writer = LogWriter()
    for number in range(100):
        assert writer.put(found.append, b"%d" % number)
    assert writer.close(20.0)
    assert found == [b"%d" % number for number in range(100)]
    assert not writer.put(found.append, b"late")
    assert (writer.written, writer.lost) == (100, 1)
