"""Results on disk: JSON for programs, and the same as CSV for spreadsheets.

Whether a file can be written is checked before anything is measured.
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
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise LabError(f"{path.parent} is no directory that we may write to: correct --json. Nothing was done.")


def check_pair(path: Path) -> None:
    """The same for a file that gets a CSV beside it. Raises LabError."""
    if path.suffix != ".json":
        raise LabError(f"{path} must end in .json: a .csv is written beside it. Nothing was done.")
    check_writable(path)


def write_pair(path: Path, records: list[Record]) -> None:
    write_json(path, records)
    rows = [flat(record) for record in records]
    text = io.StringIO()
    table = csv.DictWriter(text, list(dict.fromkeys(column for row in rows for column in row)), lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    _write(path.with_suffix(".csv"), text.getvalue())


def write_json(path: Path, document: object) -> None:
    _write(path, json.dumps(document, indent=1) + "\n")


def flat(record: Mapping[str, Any], before: str = "") -> Record:
    """With names such as `machine.cores` for what is in another record, and without lists."""
    found: Record = {}
    for name, value in record.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{before}{name}.")
        elif not isinstance(value, list | tuple):
            found[before + name] = value
    return found


def _write(path: Path, text: str) -> None:
    if path.exists() and not path.is_file():  # a device or a pipe is written to, and stays
        path.write_text(text)
    else:
        replace_file(path, text)


def replace_file(path: Path, text: str) -> None:
    """As a whole, so that a reader never sees half of one."""
    new = path.with_name(path.name + ".new")
    new.write_text(text)
    os.replace(new, path)
