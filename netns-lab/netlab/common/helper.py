"""Helper processes: forked beside the controller, named, asked over JSON lines, never outliving their starter.

A helper's first message is {"ready": true}, or {"failed": REASON}.
"""

from __future__ import annotations

import os
import signal
import socket
import traceback
from collections.abc import Callable

from netlab.common import linux
from netlab.common.json_lines import Lines


def fork(name: str, body: Callable[[Lines], None]) -> Lines:
    """Run `body`, with its end of a connection, in a copy of this process; the other end."""
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
        body(Lines(far))
        code = 0
    except BaseException:  # nothing of the starter's stack may run in this copy
        traceback.print_exc()
    finally:
        os._exit(code)


def failure(helper: Lines) -> str | None:
    """Wait for the first message: None when the helper is ready, else why it is not."""
    message = next(iter(helper), {"failed": "it ended without a message"})
    return None if "ready" in message else str(message["failed"])
