"""The CSV file of statistics: each line once, whatever has happened to the file."""

from __future__ import annotations

import resource
import threading
from pathlib import Path

import pytest

from subord.services.elastic.statistics import Statistics, appending
from subord.services.elastic.statistics.appending import NotStatisticsError, append, last_rows

NOW = 1_800_000_000.0


def rows(number: int, first: int = 0) -> list[Statistics]:
    return [Statistics(NOW + 60 * each, each, 2, 3, 8, 60.0, 30.0, 0.25) for each in range(first, first + number)]


def text(*found: Statistics) -> str:
    return "".join(each.line() for each in found)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "stats.csv"


def test_lines_that_are_there_are_not_written_again(path: Path) -> None:
    assert append(str(path), rows(3)) == 3
    assert append(str(path), rows(5)) == 2
    assert append(str(path), rows(5)) == 0
    assert path.read_text() == text(*rows(5))
    assert last_rows(str(path)) == rows(5)


def test_a_poll_that_comes_twice_is_written_once(path: Path) -> None:
    assert append(str(path), [*rows(2), *rows(2)]) == 2


def test_after_a_step_of_the_clock_lines_still_come(path: Path) -> None:
    append(str(path), rows(2, first=100))
    assert append(str(path), rows(2)) == 2


@pytest.mark.parametrize("left", range(1, len(rows(1, first=1)[0].line())))
def test_a_line_that_was_cut_off_comes_again(path: Path, left: int) -> None:
    one, two, three = rows(3)
    path.write_text(text(one) + two.line()[:left])
    append(str(path), [two, three])
    assert path.read_text() == text(one, two, three)


def test_a_last_line_without_its_end_is_kept_although_its_poll_is_forgotten(path: Path) -> None:
    one, two, three = rows(3)
    path.write_text(text(one, two)[:-1])
    assert append(str(path), [three]) == 1
    assert path.read_text() == text(one, two, three)


def test_zeros_after_a_loss_of_power_go(path: Path) -> None:
    one, two = rows(2)
    path.write_bytes(text(one).encode() + bytes(20))
    append(str(path), [one, two])
    assert path.read_text() == text(one, two)
    path.write_bytes(bytes(20))
    append(str(path), [one, two])
    assert path.read_text() == text(one, two)


@pytest.mark.parametrize("content", ["root:x:0:0::/root:/bin/sh\n", "time,num_hosts\n", "hello", "\n", "\x7fELF\0\n"])
def test_a_file_of_other_content_is_not_changed(path: Path, content: str) -> None:
    path.write_text(content)
    with pytest.raises(NotStatisticsError):
        append(str(path), rows(1))
    assert path.read_text() == content


def test_on_a_full_disk_the_file_has_its_whole_lines(path: Path) -> None:
    append(str(path), rows(3))
    size = path.stat().st_size
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 70, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            append(str(path), rows(9))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_text() == text(*rows(3))
    assert append(str(path), rows(9)) == 6


def test_what_is_no_file_is_refused(path: Path, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="directory"):
        append(str(tmp_path), rows(1))
    with pytest.raises(OSError, match="no regular file"):
        append("/dev/full", rows(1))


def test_commands_at_once_double_nothing(path: Path) -> None:
    threads = [threading.Thread(target=append, args=(str(path), rows(200))) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert path.read_text() == text(*rows(200))


def test_only_the_end_of_a_long_file_is_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(appending, "TAIL_BYTES", 2000)
    monkeypatch.setattr(appending, "READ_BYTES", 2000)
    append(str(path), rows(100))
    assert append(str(path), rows(10, first=95)) == 5
    assert path.read_text() == text(*rows(105))
    assert last_rows(str(path)) == rows(105)[-len(last_rows(str(path))) :]
    assert len(last_rows(str(path))) < 50
