"""`subord elastic statistics`: lines, the CSV file, pictures, and what goes wrong with them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from subord.api.http.server import Query, Response
from subord.api.models.document import time_text
from subord.cli import main
from subord.client import exit_codes
from subord.services.elastic import PLOTS
from subord.services.elastic.commands import statistics
from subord.services.elastic.statistics import Statistics
from tests.api.fake_node_api import World
from tests.api.served_node import fake_daemon

Said = pytest.CaptureFixture[str]
NOW = 1_800_000_000.5


def poll(number: int) -> dict[str, Any]:
    found = Statistics(NOW + 60 * number, 3, 5, number, 12, 61.25, 30.0, 0.5)
    return {**found._asdict(), "time": time_text(found.time)}


def lines(*numbers: int) -> str:
    return "".join(Statistics(NOW + 60 * each, 3, 5, each, 12, 61.25, 30.0, 0.5).line() for each in numbers)


class Stage:
    """The queue's node, whose polls a test gives, and the command there."""

    def __init__(self, home: Path) -> None:
        self.path = ""
        self.polls = [poll(1), poll(2)]
        self.cluster = "summer"
        self.folder = home / "subord" / "elastic" / "summer"

    async def answer(self, _: Query) -> Response:
        await trio.lowlevel.checkpoint()
        return Response(json.dumps({"polls": self.polls, "cluster": self.cluster, "interval_s": 30}).encode())

    def type(self, capsys: Said, *words: str) -> tuple[int, str, str]:
        code = main(["elastic", "statistics", *words, "--socket", self.path])
        return code, *capsys.readouterr()


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    stage = Stage(tmp_path / "home")
    with fake_daemon(World().node(1), {statistics.POLLS: stage.answer}) as stage.path:
        yield stage


def follow(monkeypatch: pytest.MonkeyPatch, *rounds: Any) -> list[float]:
    """Before each round something happens; then comes Ctrl-C. The pauses between them."""
    paused: list[float] = []

    def sleep(seconds: float) -> None:
        if len(paused) == len(rounds):
            raise KeyboardInterrupt
        rounds[len(paused)]()
        paused.append(seconds)

    monkeypatch.setattr(statistics.time, "sleep", sleep)
    return paused


def test_lines_are_shown(stage: Stage, capsys: Said) -> None:
    assert stage.type(capsys) == (exit_codes.OK, lines(1, 2), "")
    code, out, _ = stage.type(capsys, "--json")
    assert code == exit_codes.OK
    assert json.loads(out)["polls"] == stage.polls


def test_without_a_poll_the_word_is_clear_and_no_file_is_made(stage: Stage, capsys: Said) -> None:
    stage.polls = []
    code, out, err = stage.type(capsys, "-d")
    assert (code, out) == (exit_codes.OK, f"{stage.folder}/elastic-stats.csv: 0 lines appended\n")
    assert "this node knows of no poll" in err


def test_lines_are_appended_once_to_a_file_of_the_cluster(stage: Stage, capsys: Said) -> None:
    file = stage.folder / "elastic-stats.csv"
    assert stage.type(capsys, "-d") == (exit_codes.OK, f"{file}: 2 lines appended\n", "")
    stage.polls.append(poll(3))
    assert stage.type(capsys, "-d") == (exit_codes.OK, f"{file}: 1 line appended\n", "")
    assert file.read_text() == lines(1, 2, 3)


@pytest.mark.parametrize(
    ("cluster", "folder"),
    [("", "cluster"), ("a/../b", "a_.._b"), ("..", "_."), ("été 7", "été_7"), ("x.y-z", "x.y-z")],
)
def test_any_name_of_a_cluster_is_one_folder(stage: Stage, capsys: Said, cluster: str, folder: str) -> None:
    stage.cluster = cluster
    assert stage.type(capsys, "-d")[0] == exit_codes.OK
    assert [each.name for each in stage.folder.parent.iterdir()] == [folder]


def test_a_named_file_is_made_with_its_folder(stage: Stage, capsys: Said, tmp_path: Path) -> None:
    file = tmp_path / "a" / "b.csv"
    assert stage.type(capsys, "-D", str(file))[0] == exit_codes.OK
    assert file.read_text() == lines(1, 2)


def test_a_file_of_other_content_is_refused(stage: Stage, capsys: Said, tmp_path: Path) -> None:
    file = tmp_path / "passwd"
    file.write_text("root:x:0\n")
    code, out, err = stage.type(capsys, "-D", str(file))
    assert (code, out) == (exit_codes.USAGE, "")
    assert "is no file of statistics, it begins with 'root:x:0': it was not changed; choose another with -D" in err
    assert file.read_text() == "root:x:0\n"


def test_a_place_that_cannot_be_written_is_named(stage: Stage, capsys: Said, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, _, err = stage.type(capsys, "-D", str(tmp_path / "file" / "b.csv"))
    assert code == exit_codes.OUTPUT
    assert "/file is no folder; no line was appended. Choose another place with -D or -P" in err


def test_a_full_disk_is_told(stage: Stage, capsys: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "append", full)
    code, _, err = stage.type(capsys, "-d")
    assert code == exit_codes.OUTPUT
    assert "No space left on device; no line was appended. Make room, or choose another place with -D or -P" in err


def full(*_: Any) -> int:
    raise OSError(28, "No space left on device")


@pytest.mark.slow
def test_pictures_are_drawn_of_the_lines_of_the_file(stage: Stage, capsys: Said, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="needs matplotlib: pip install 'subord[plots]'")
    pictures = tmp_path / "pictures"
    code, out, err = stage.type(capsys, "-d", "-P", str(pictures))
    assert (code, err) == (exit_codes.OK, "")
    assert {each.stem for each in pictures.iterdir()} == set(PLOTS)
    assert out.splitlines()[1] == f"{pictures}: {', '.join(f'{name}.png' for name in PLOTS)}"
    assert stage.type(capsys, "-p")[0] == exit_codes.OK
    assert (stage.folder / "queued.png").exists()


def test_without_matplotlib_nothing_is_written(stage: Stage, capsys: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    code, _, err = stage.type(capsys, "-d", "-p")
    assert code == exit_codes.CONFIGURATION
    assert "`pip install 'subord[plots]'`, on Debian python3-matplotlib. Nothing was written" in err
    assert not stage.folder.exists()


def test_followed_lines_are_shown_once_until_ctrl_c(
    stage: Stage, capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused = follow(monkeypatch, lambda: None, lambda: stage.polls.append(poll(3)))
    assert stage.type(capsys, "--follow") == (exit_codes.INTERRUPTED, lines(1, 2, 3), "")
    assert paused == [30, 30]


def test_a_full_disk_is_told_once_and_the_lines_come_later(
    stage: Stage, capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = statistics.append

    def fill() -> None:
        stage.polls.append(poll(3))
        monkeypatch.setattr(statistics, "append", full)

    follow(monkeypatch, fill, lambda: None, lambda: monkeypatch.setattr(statistics, "append", real))
    code, out, err = stage.type(capsys, "--follow", "-d")
    assert code == exit_codes.INTERRUPTED
    assert [line.rpartition(": ")[2] for line in out.splitlines()] == ["2 lines appended", "1 line appended"]
    assert err.count("No space left on device") == 1
    assert "trying again with each poll" in err
    assert (stage.folder / "elastic-stats.csv").read_text() == lines(1, 2, 3)
