"""Results on disk: for programs (JSON), and the same for spreadsheets (CSV).

Intuition: a laboratory book. Every page is copied fair as a whole, so nobody ever reads half a line; and before the
first glass is filled somebody looks whether the pen writes.
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from netlab.errors import LabError

Record = dict[str, Any]


def check_writable(path: Path) -> None:
    """Minutes of measuring must not end with a mistyped path. Raises LabError."""
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise LabError(f"{path.parent} is no directory that we may write to: correct --json. Nothing was done.")


def check_pair(path: Path) -> None:
    """The same for a file that gets a CSV beside it. Raises LabError."""
    if path.suffix != ".json":
        raise LabError(f"{path} must end in .json: a .csv is written beside it. Nothing was done.")
    check_writable(path)


def write_pair(path: Path, records: list[Record]) -> None:
    """As JSON, and as CSV beside it."""
    write_json(path, records)
    write_csv(path.with_suffix(".csv"), records)


def write_json(path: Path, records: list[Record]) -> None:
    _write(path, json.dumps(records, indent=1) + "\n")


def write_csv(path: Path, records: list[Record]) -> None:
    """A column `machine.cores` for what stands deeper; lists, which no cell can hold, are left out."""
    rows = [_flat(record) for record in records]
    text = io.StringIO()
    table = csv.DictWriter(text, list(dict.fromkeys(column for row in rows for column in row)), lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    _write(path, text.getvalue())


def _flat(record: Mapping[str, Any], before: str = "") -> Record:
    flat: Record = {}
    for name, value in record.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{before}{name}.")
        elif not isinstance(value, list | tuple):
            flat[before + name] = value
    return flat


def _write(path: Path, text: str) -> None:
    """Whole or not at all: a reader never sees half a file."""
    new = path.with_name(path.name + ".new")
    new.write_text(text)
    os.replace(new, path)
