"""`subord log-level`: its output, its effect, and its permissions."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import get_args

import pytest

from subord.api.http import server
from subord.cli import main
from subord.cli.changes import log_level
from subord.client import exit_codes
from subord.config.schema import LogLevel
from tests.api.fake_node_api import World
from tests.api.served_node import fake_daemon, hanging


@pytest.fixture(autouse=True)
def _level_as_before() -> Iterator[None]:
    logger = logging.getLogger("subord")
    before = logger.level
    yield
    logger.setLevel(before)


def test_it_shows_and_changes(capsys: pytest.CaptureFixture[str]) -> None:
    node = World().node(4)
    with fake_daemon(node) as path:
        for words in ([], ["error"], [], ["debug", "--json"]):
            assert main(["log-level", *words, "--socket", path]) == exit_codes.OK
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == ["info (by node.log_level)", "error (by command)", "error (by command)"]
    assert json.loads(lines[3]) == {"schema_version": 1, "log_level": "debug", "source": "command"}
    assert (node.log.log_level, logging.getLogger("subord").level) == ("debug", logging.DEBUG)


def test_an_unknown_level(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["log-level", "loud"])
    assert caught.value.code == exit_codes.USAGE
    assert "'loud'" in capsys.readouterr().err


def test_the_command_and_the_daemon_know_the_same_levels() -> None:
    assert get_args(LogLevel) == log_level.LEVELS


def test_any_user_may_see_it_and_only_the_owner_change_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(server, "is_owner", lambda _: False)
    node = World().node(4)
    with fake_daemon(node) as path:
        assert main(["log-level", "--socket", path]) == exit_codes.OK
        assert main(["log-level", "debug", "--socket", path]) == exit_codes.PERMISSION
    assert "only root and the daemon's own user may make changes" in capsys.readouterr().err
    assert node.log.log_level == "info"


def test_a_hanging_daemon_ends_it() -> None:
    with fake_daemon(World().node(4), {"/v1/log-level": hanging}) as path:
        assert main(["log-level", "debug", "--socket", path, "--timeout", "0.1"]) == exit_codes.TRY_AGAIN
