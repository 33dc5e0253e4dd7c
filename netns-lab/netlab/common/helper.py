"""Helper processes: forked beside the controller, named, asked over JSON lines, never outliving their starter.

A helper's first message is {"ready": true}, or {"failed": REASON}.
"""

from __future__ import annotations

import os
import signal
import socket
import traceback
from collections.abc import Callable
from typing import TypeVar

from netlab.common import linux
from netlab.common.json_lines import Lines, Message
from netlab.errors import LabError

T = TypeVar("T")


def fork(name: str, prepare: Callable[[], T], serve: Callable[[T, Lines], None]) -> Lines:
    """Call both in a copy of this process, `serve` with what is prepared and a connection; the other end of that."""
    near, far = socket.socketpair()
    starter = os.getpid()
    if os.fork():
        far.close()
        return Lines(near)
    code = 1
    try:
        linux.die_with(starter, signal.SIGKILL)
        linux.set_name(name)
        for number in linux.ENDING_SIGNALS:
            signal.signal(number, signal.SIG_IGN)  # the controller decides when a helper ends
        linux.close_all_but(keep=(0, 1, 2, far.fileno()))
        code = _serve(Lines(far), prepare, serve)
    except BaseException:  # nothing of the starter's stack may run in this copy
        traceback.print_exc()
    finally:
        os._exit(code)


def _serve(starter: Lines, prepare: Callable[[], T], serve: Callable[[T, Lines], None]) -> int:
    try:
        prepared = prepare()
    except BaseException as reason:  # an import may fail in any way, and the user must read it
        traceback.print_exc()
        known = isinstance(reason, OSError) and reason.strerror
        starter.send({"failed": known or f"{type(reason).__name__}: {reason}"})
        return 1
    starter.send({"ready": True})
    serve(prepared, starter)
    return 0


def await_ready(helper: Lines, sentence: str) -> None:
    """Wait for the first message. Raises LabError with the sentence, and the reason in the place of {}."""
    message = next(iter(helper), {"failed": "it ended without a message"})
    if "ready" not in message:
        helper.close()
        raise LabError(sentence.format(message["failed"]))


def ask(helper: Lines, request: Message, gone: str) -> Message:
    """Its answer. Raises LabError with the sentence `gone` when it has ended."""
    answer = helper.ask(request)
    if answer is None:
        raise LabError(gone)
    return answer
