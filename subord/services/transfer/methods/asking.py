"""One request to the agent, and the first line of its answer.

Inputs are the path of the agent's socket and a request; outputs are the answer, and the connection, which stays open.
"""

from __future__ import annotations

import socket
import sys
from typing import NamedTuple

from subord.services.transfer.local import ANSWER_BYTES_MAX, WRONG, Answer, Request, answer_in, line_of


class AgentError(Exception):
    """The agent gave no answer. A sentence without a full stop. `was_sent`: it may have taken the request."""

    def __init__(self, sentence: str, *, was_sent: bool) -> None:
        super().__init__(sentence)
        self.was_sent = was_sent


class Asked(NamedTuple):
    answer: Answer
    connection: socket.socket


def ask(path: str, request: Request, seconds: float | None) -> Asked:
    """`seconds`: for the answer. Raises AgentError, and ValueError for a request that is no text in UTF-8."""
    line = line_of(request)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    was_sent = False
    try:
        connection.settimeout(seconds)
        connection.connect(path)
        was_sent = True
        connection.sendall(line)
        return Asked(answer_in(_line(connection)), connection)
    except (OSError, ValueError) as error:
        connection.close()
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise AgentError(f"the agent at {path} does not answer: {reason}", was_sent=was_sent) from None


def complain(method: str, reason: str) -> None:
    """In the output of the job, or the log of the batch system."""
    print(f"subord transfer {method}: {reason}", file=sys.stderr, flush=True)


def refusal(answer: Answer) -> str:
    return answer.reason if answer.word == WRONG else f"the agent said {answer.word!r}, which is no answer to this"


def _line(connection: socket.socket) -> bytes:
    """Byte by byte: what follows is for the shell that waits. Raises OSError, ValueError."""
    found = b""
    while not found.endswith(b"\n"):
        part = connection.recv(1)
        if not part or len(found) > ANSWER_BYTES_MAX:
            raise ValueError("it has closed the connection")
        found += part
    return found
