"""A command as it is typed, in the process of the test."""

from __future__ import annotations

from functools import partial
from typing import Any
from unittest.mock import patch

import pytest

from subord.cli import main
from subord.client import daemon

Said = pytest.CaptureFixture[str]
PATIENCE_S = 30.0
"""How much longer than its timeout a command waits here: the daemon of the test has the same busy processor."""


def type_command(capsys: Said, *words: str) -> tuple[int, list[str], str]:
    """The exit code, the lines, and what stands on standard error."""
    try:
        with patch.object(daemon, "_exchange", partial(_patiently, daemon._exchange)):
            code = main([*words])
    except SystemExit as error:
        code = int(str(error.code))
    out, err = capsys.readouterr()
    return code, out.splitlines(), err


def _patiently(exchange: Any, path: str, method: str, target: str, timeout_s: float, *rest: Any, **named: Any) -> Any:
    return exchange(path, method, target, timeout_s + PATIENCE_S, *rest, **named)
