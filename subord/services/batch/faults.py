"""The sentences for what a batch system does not do: whose fault it is, what is unchanged, what to do.

Inputs are the outcome of a command and the patterns of the batch system; output is Unavailable. AnswerError is raised
by parsers, and never by adapters.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from subord.services.batch.records import Fault, Unavailable
from subord.services.batch.running import Ran


class AnswerError(Exception):
    """The text of a batch system is not what its command prints."""


class NoAnswerError(AnswerError):
    """The text says that its command had no answer. The command may have ended with 0 all the same."""


class Pattern(NamedTuple):
    """What a command prints, and what it means."""

    text: re.Pattern[str]
    fault: Fault
    advice: str


def failed(program: str, ran: Ran, patterns: Sequence[Pattern]) -> Unavailable:
    """For a command that did not end with 0."""
    how = f"ended with {ran.code}" if ran.code >= 0 else f"was ended by signal {-ran.code}"
    for each in patterns:
        if each.text.search(ran.words):
            return Unavailable(each.fault, f"{program} {how}: {ran.words}: {each.advice}")
    return Unavailable(Fault.FAILED, f"{program} {how}: {ran.words}")


def garbled(program: str, error: AnswerError, releases: str) -> Unavailable:
    return Unavailable(Fault.GARBLED, f"the output of {program} is not understood: {error}; {releases} is known here")
