"""A command as it is typed, in the process of the test."""

from __future__ import annotations

import pytest

from subord.cli import main

Said = pytest.CaptureFixture[str]


def type_command(capsys: Said, *words: str) -> tuple[int, list[str], str]:
    """The exit code, the lines, and what stands on standard error."""
    try:
        code = main([*words])
    except SystemExit as error:
        code = int(str(error.code))
    out, err = capsys.readouterr()
    return code, out.splitlines(), err
