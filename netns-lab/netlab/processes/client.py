"""A connection to the controller of a running lab: one request, one answer."""

from __future__ import annotations

import os
import select
import signal
import socket
from typing import Any

from netlab.common.json_lines import Lines
from netlab.errors import LabError
from netlab.processes.rundir import RunDirectory, find

ANSWER_S_MAX = 120.0
END_S_MAX = 60.0


class Client:
    def __init__(self, directory: RunDirectory) -> None:
        self.directory = directory
        stream = socket.socket(socket.AF_UNIX)
        stream.settimeout(ANSWER_S_MAX)
        try:
            stream.connect(str(directory.socket))
        except OSError:
            stream.close()
            raise LabError(
                f"The lab {directory.path.name} does not answer: it is being raised or ended just now, or was killed."
                " Try again; the next `netns-lab/lab up` cleans up after a killed one."
            ) from None
        self._lines = Lines(stream)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._lines.close()

    def fileno(self) -> int:
        """Readable when the lab has ended, as long as no request is under way."""
        return self._lines.fileno()

    def end(self) -> None:
        """End the lab and wait until nothing of it is left. Raises LabError when that takes too long."""
        info = self.ask("info")
        keeper = os.pidfd_open(info["keeper"])
        try:
            os.kill(info["controller"], signal.SIGTERM)
            if not select.select([keeper], [], [], END_S_MAX)[0]:
                raise LabError(
                    f"{self.directory.path} is still there after {END_S_MAX:g} s; its lab.log may say why."
                )
        finally:
            os.close(keeper)

    def ask(self, do: str, **fields: Any) -> Any:
        """The answer. Raises LabError with the controller's sentence."""
        answer = self._lines.ask({"do": do, **fields})
        if answer is None:
            what = "ended before it answered" if self._lines.ended else f"did not answer within {ANSWER_S_MAX:g} s"
            raise LabError(f"The lab {self.directory.path.name} {what}; its lab.log may say why.")
        if "error" in answer:
            raise LabError(answer["error"])
        return answer["ok"]


def attach(name: str) -> Client:
    return Client(find(name))
