"""The file of a plan that a command is to publish.

Input is a path, or standard input; output is the text, or the sentence about what is wrong with it. Invariant: at
most one byte above the bound is read.
"""

from __future__ import annotations

import sys
from typing import Final

from subord.client import exit_codes
from subord.client.errors import CommandError
from subord.client.orders.publishing import NOTHING
from subord.client.text import printable

STDIN: Final = "-"


def name_of(path: str) -> str:
    """Of the file, in messages."""
    return "standard input" if path == STDIN else printable(path)


def text_of(path: str, bytes_max: int) -> str:
    """Raises CommandError."""
    try:
        if path == STDIN:
            data = sys.stdin.buffer.read(bytes_max + 1)
        else:
            with open(path, "rb") as file:
                data = file.read(bytes_max + 1)
    except OSError as error:
        raise _error(f"cannot read {name_of(path)}: {error.strerror or error}") from None
    if len(data) > bytes_max:
        raise _error(f"{name_of(path)} has more than {bytes_max} bytes, so it is no plan")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise _error(f"{name_of(path)} is no text in UTF-8") from None


def _error(text: str) -> CommandError:
    return CommandError(f"{text}; {NOTHING}", exit_codes.USAGE)
