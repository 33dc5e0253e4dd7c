"""The log of a real daemon on loopback: changes of the level, and a standard error that is not read."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from full_pipe import full_pipe
from ports import free_port

from subord.cli import main

pytestmark = pytest.mark.slow

ENVIRONMENT = {key: value for key, value in os.environ.items() if key not in ("LOG_LEVEL", "JOURNAL_STREAM")}
WAIT_S_MAX = 60.0


def until(condition: Callable[[], object], what: str) -> None:
    end = time.monotonic() + WAIT_S_MAX
    while not condition():
        assert time.monotonic() < end, f"timed out: {what}"
        time.sleep(0.01)


class Daemon:
    """One daemon on 127.0.0.1."""

    def __init__(self, folder: Path, port: int, stderr: int | None = None, **environment: str) -> None:
        self.control = str(folder / "control")
        self.path = folder / "log"
        settings = {
            "cluster.network": "127.0.0.0/28",
            "cluster.timing": "lab",
            "cluster.port": port,
            "node.address": "127.0.0.1",
            "node.control_socket": self.control,
        }
        words = [word for name, text in settings.items() for word in ("--set", f"{name}={text}")]
        config = ["--config", str(folder / "file")] if (folder / "file").exists() else []
        with open(self.path, "ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "subord", "run", *config, *words],
                env={**ENVIRONMENT, **environment},
                stderr=log if stderr is None else stderr,
            )

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Without a last one that is being written."""
        return [json.loads(line) for line in self.path.read_text().rpartition("\n")[0].splitlines()]

    @property
    def messages(self) -> list[str]:
        return [line["message"] for line in self.lines]

    def command(self, *words: str) -> int:
        return main([*words, "--socket", self.control])

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(WAIT_S_MAX)


Begin = Callable[..., Daemon]


@pytest.fixture
def folder() -> Iterator[Path]:
    with TemporaryDirectory(prefix="s") as name:
        yield Path(name)


@pytest.fixture
def begin(folder: Path) -> Iterator[Begin]:
    daemons: list[Daemon] = []
    port = free_port(socket.SOCK_DGRAM, "127.0.0.1")

    def one(**options: Any) -> Daemon:
        daemons.append(Daemon(folder, port, **options))
        return daemons[-1]

    yield one
    for each in daemons:
        each.process.kill()
        each.process.wait()


def test_the_level_is_changed_by_command_signal_and_file(
    begin: Begin, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = folder / "file"
    file.write_text('[cluster]\n[node]\nlog_level = "info"\n')
    daemon = begin(LOG_LEVEL="warning")
    until(lambda: Path(daemon.control).exists(), "it runs")
    until(lambda: daemon.command("status") == 0, "it answers")
    capsys.readouterr()

    def level(*words: str) -> str:
        assert daemon.command("log-level", *words) == 0
        return capsys.readouterr().out.strip()

    assert level() == "warning (by LOG_LEVEL)"
    assert daemon.lines == []
    assert level("debug") == "debug (by command)"
    assert json.loads(level("--json")) == {"schema_version": 1, "log_level": "debug", "source": "command"}

    daemon.process.send_signal(signal.SIGHUP)
    until(lambda: any("configuration read again" in each for each in daemon.messages), "it reads the same file")
    assert level() == "debug (by command)"
    file.write_text('[cluster]\n[node]\nlog_level = "error"\n')
    daemon.process.send_signal(signal.SIGHUP)
    until(lambda: level() == "error (by node.log_level)", "the file has changed")
    daemon.process.send_signal(signal.SIGUSR2)
    until(lambda: level() == "debug (by signal)", "debug is on")
    daemon.process.send_signal(signal.SIGUSR2)
    until(lambda: level() == "error (by signal)", "debug is off")
    assert daemon.end() == 0
    changes = [each for each in daemon.messages if each.startswith("log level ")]
    assert changes == [
        "log level debug instead of warning (command)",
        "log level error instead of debug (node.log_level)",
        "log level debug instead of error (signal)",
        "log level error instead of debug (signal)",
    ]


def test_a_full_standard_error_does_not_block_the_daemon(begin: Begin, capsys: pytest.CaptureFixture[str]) -> None:
    reader, writer = full_pipe()
    daemon = begin(stderr=writer, LOG_LEVEL="debug")
    os.close(writer)
    until(lambda: Path(daemon.control).exists(), "it runs")
    until(lambda: daemon.command("wait", "--timeout", "20") == 0, "it has its place")
    assert daemon.command("log-level", "info") == 0
    assert daemon.end() == 0
    os.close(reader)
    capsys.readouterr()


def test_a_failed_start_with_a_full_pipe_keeps_its_exit_code(begin: Begin) -> None:
    first = begin()
    until(lambda: first.command("wait", "--timeout", "1") == 0, "the first has its place")
    reader, writer = full_pipe()
    second = begin(stderr=writer)
    os.close(writer)
    assert second.process.wait(WAIT_S_MAX) == 75
    os.close(reader)
