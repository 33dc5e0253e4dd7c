"""Standard input of `subord account add`: read twice or copied, in parts, and checked before a record is given."""

from __future__ import annotations

import io
import json
import os
import tempfile
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from subord.cli import main
from subord.client import exit_codes
from subord.core.carriage.ledger.bounds import RECORD_BYTES_MAX
from subord.services.account import adding
from tests.api.served_ledger import FakeLedger

NOW = time.time()
LINE = (json.dumps({"id": "1", "ended": NOW}) + "\n").encode()


class Pipe(io.BytesIO):
    """Can be read once."""

    def seekable(self) -> bool:
        return False


class Changing(io.BytesIO):
    """Line 2001 is another when it is read again."""

    def seek(self, *place: int) -> int:
        with self.getbuffer() as bytes_:
            at = 2000 * len(LINE)
            bytes_[at : at + 6] = b"{1d: 2"
        return super().seek(*place)


def given(monkeypatch: pytest.MonkeyPatch, source: io.BytesIO, socket: str) -> int:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(source))
    return main(["account", "add", "--stdin", "--socket", socket])


@pytest.mark.parametrize("kind", [io.BytesIO, Pipe])
def test_all_lines_are_given_or_none(
    kind: type[io.BytesIO],
    socket: str,
    ledger: FakeLedger,
    *,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert given(monkeypatch, kind(3000 * LINE + b"{}"), socket) == exit_codes.USAGE
    assert "line 3001: there is no field `id`; no record is kept" in capsys.readouterr().err
    assert ledger.requests == []
    assert given(monkeypatch, kind(3000 * LINE), socket) == exit_codes.OK
    assert len(ledger.kept) == 3000


def test_input_is_read_from_where_it_stands(
    tmp_path: Path, socket: str, ledger: FakeLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shell may have read a line of the file."""
    (tmp_path / "input").write_bytes(b"head\n" + 2 * LINE)
    with (tmp_path / "input").open() as source:
        os.lseek(source.fileno(), 5, os.SEEK_SET)
        monkeypatch.setattr("sys.stdin", source)
        assert main(["account", "add", "--stdin", "--socket", socket]) == exit_codes.OK
    assert len(ledger.kept) == 2


def test_input_that_changes_meanwhile_says_what_is_kept(
    socket: str, ledger: FakeLedger, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert given(monkeypatch, Changing(3000 * LINE), socket) == exit_codes.USAGE
    kept = len(ledger.kept)
    assert 0 < kept <= 2000
    error = capsys.readouterr().err
    assert "line 2001: this is no JSON: " in error
    assert error.endswith(f": the input was changed meanwhile; lines 1 to {kept} are kept, and none after\n")


@pytest.mark.slow
@pytest.mark.parametrize("kind", [io.BytesIO, Pipe])
def test_many_lines_take_little_memory(
    kind: type[io.BytesIO], socket: str, ledger: FakeLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def append(records: tuple[object, ...]) -> str:
        return ""

    monkeypatch.setattr(ledger, "append", append)
    assert given(monkeypatch, kind(LINE), socket) == exit_codes.OK  # its modules are imported
    source = kind(40_000 * LINE)
    tracemalloc.start()
    try:
        assert given(monkeypatch, source, socket) == exit_codes.OK
        assert tracemalloc.get_traced_memory()[1] < 4 << 20  # with the daemon, which is a thread; a list takes 10 MiB
    finally:
        tracemalloc.stop()


def test_a_disk_that_is_full_keeps_nothing(
    socket: str, ledger: FakeLedger, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Full(io.BytesIO):
        def write(self, _: Any) -> int:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", Full)
    assert given(monkeypatch, Pipe(LINE), socket) == exit_codes.TRY_AGAIN
    words = "the input cannot be kept on the disk while it is checked (No space left on device): free space, or set "
    assert words in capsys.readouterr().err
    assert ledger.requests == []


def test_a_record_in_escapes_fits_in_a_line() -> None:
    assert 6 * RECORD_BYTES_MAX < adding.LINE_BYTES_MAX
