"""The load sensor: how many jobs wait in the other cluster, as the agent knows it.

Inputs are the lines by which execd asks, and the name of the value; outputs are the lines of its protocol (execd(8)).
Without an agent, or without an answer, it reports NONE_GOES, above every threshold: no job leaves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TextIO

from subord.services.transfer.local import PENDING, Sense
from subord.services.transfer.methods.asking import AgentError, ask

ANSWER_S_MAX: Final = 5.0
NONE_GOES: Final = 1_000_000
QUIT: Final = "quit"


def sense(path: str, words: Sequence[str], given: TextIO, output: TextIO) -> int:
    """`words`: the name of the value."""
    if len(words) != 1:
        return 2
    for line in given:
        if line.strip() == QUIT:
            break
        output.write(f"begin\nglobal:{words[0]}:{_pending(path)}\nend\n")
        output.flush()
    return 0


def _pending(path: str) -> int:
    try:
        answer, connection = ask(path, Sense(), ANSWER_S_MAX)
    except AgentError:
        return NONE_GOES
    connection.close()
    return answer.number if answer.word == PENDING else NONE_GOES
