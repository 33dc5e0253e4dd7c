"""Times of options: a date, a date with a time, or how long ago.

Input is a text and the time now; output are seconds since 1970 UTC. Without a zone a time is UTC. Invariant: a text
that no calendar has is refused with a sentence.
"""

from __future__ import annotations

import argparse
from datetime import UTC, datetime

from subord.client import exit_codes
from subord.client.errors import CommandError
from subord.client.options import duration


def parsed(option: str, text: str, now: float) -> float:
    """Raises CommandError."""
    if text[-1:].isalpha() and text[-1:] != "Z":
        try:
            return now - duration(text)
        except argparse.ArgumentTypeError:
            raise _wrong(option, text) from None
    try:
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise _wrong(option, text) from None


def day(seconds: float) -> str:
    """The day in UTC; "" for what no calendar has."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")
    except (ValueError, OverflowError, OSError):
        return ""


def _wrong(option: str, text: str) -> CommandError:
    words = f"{option} {text!r} is no time: give a date such as 2026-11-01 or 2026-11-01T12:30, or how long ago, 7d"
    return CommandError(f"{words}; nothing was read", exit_codes.USAGE)
