"""Why a step is not done."""

from __future__ import annotations

from typing import Final

DROP_IN: Final = "/usr/share/doc/subord/examples/subord-agent-elastic.conf"


class PreparingError(Exception):
    """A sentence without a full stop: whose fault it is, what is unchanged, what to do."""


def words_of(error: OSError) -> str:
    return error.strerror or str(error)
