"""The script of a job, as the batch system keeps it on the host where the job starts.

Input is its path; output is its text, or what is wrong with it. Invariant: nothing is raised for what a user has
written, and at most SCRIPT_BYTES_MAX are kept.
"""

from __future__ import annotations

from pathlib import Path

from subord.services.transfer.jobs import SCRIPT_BYTES_MAX


def script_in(path: Path, *, skips_line: bool = False) -> tuple[str, str]:
    """The text, and what is wrong with it. `skips_line`: without its first line."""
    try:
        with path.open("rb") as file:
            if skips_line:
                file.readline()
            raw = file.read(SCRIPT_BYTES_MAX + 1)
        if len(raw) > SCRIPT_BYTES_MAX:
            return "", f"the script has more than {SCRIPT_BYTES_MAX} bytes"
        return raw.decode(), ""
    except UnicodeDecodeError:
        return "", "the script is no text in UTF-8"
    except OSError as error:
        return "", f"the script cannot be read: {error.strerror}"
