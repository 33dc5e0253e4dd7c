"""Lives of deciding processes on the disk of a node, and their clock."""

from __future__ import annotations

from pathlib import Path

import pytest

from subord.services.machines.managing.clock import steady
from subord.services.machines.managing.lives import FILE_NAME, FOLDER, Life, Lives, LivesError


def begun(directory: Path, version: int, now: float) -> Life:
    lives = Lives(str(directory))
    try:
        return lives.begin(version, now)
    finally:
        lives.close()


def test_each_life_is_above_all_before(tmp_path: Path) -> None:
    assert begun(tmp_path, 3, 1000.0) == Life(1_000_000, is_alone=False), "another node may have decided before"
    assert begun(tmp_path, 3, 1010.0) == Life(1_010_000, is_alone=True)
    assert begun(tmp_path, 3, 900.0) == Life(1_010_001, is_alone=True), "the clock was set back"
    assert begun(tmp_path, 4, 1020.0) == Life(1_020_000, is_alone=False), "another node may have had version 3.5"


def test_a_damaged_file_is_as_good_as_none(tmp_path: Path) -> None:
    begun(tmp_path, 3, 1000.0)
    (tmp_path / FOLDER / FILE_NAME).write_text("{")
    assert begun(tmp_path, 3, 1001.0) == Life(1_001_000, is_alone=False)


def test_of_two_processes_of_a_node_one_decides(tmp_path: Path) -> None:
    first = Lives(str(tmp_path))
    with pytest.raises(LivesError, match="another process of this node decides about machines; nothing is done here"):
        Lives(str(tmp_path))
    first.close()
    Lives(str(tmp_path)).close()


def test_what_cannot_be_kept_is_told(tmp_path: Path) -> None:
    (tmp_path / FOLDER).write_text("")
    with pytest.raises(LivesError, match=r"cannot be kept: .*; make room there, or correct"):
        Lives(str(tmp_path))


def test_the_clock_goes_on_evenly_though_the_time_of_day_is_set() -> None:
    wall, running = [1000.0], [50.0]
    now = steady(lambda: wall[0], lambda: running[0])
    assert now() == 1000.0
    wall[0], running[0] = 5.0, 60.0
    assert now() == 1010.0
    assert steady()() > 1e9
