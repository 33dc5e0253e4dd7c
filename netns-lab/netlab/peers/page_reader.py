"""Web pages that can be read only inside the lab, asked for from outside by one process in a node's namespace.

The process stays for all pages, because starting it takes longer than reading.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
import urllib.request
from typing import Any, NamedTuple

from netlab.common.json_lines import Lines
from netlab.common.waiting import await_end
from netlab.errors import LabError
from netlab.lab import Lab
from netlab.processes.enter import command_in
from netlab.processes.launch import SCRIPT

ANSWER_S_MAX = 20.0
END_S_MAX = 10.0


class Page(NamedTuple):
    """The last of some answers; `seconds` is what all of them took, seen from the namespace."""

    status: int  # 0: no answer, and `text` says why
    text: str
    seconds: float

    @property
    def size(self) -> int:
        return len(self.text.encode())


class PageReader:
    """Reads pages in the namespace of one node; usable as a context manager."""

    def __init__(self, lab: Lab, position: int) -> None:
        self._stream, inside = socket.socketpair()
        self._lines = Lines(self._stream)
        command = command_in(lab.options.name, str(position), [sys.executable, str(SCRIPT), "fetch", "{}"])
        with inside:
            self._process = subprocess.Popen(command, stdin=inside.fileno(), stdout=inside.fileno())

    def __enter__(self) -> PageReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.shutdown(socket.SHUT_WR)
        await_end(self._process, END_S_MAX)
        self._stream.close()

    def get(self, url: str, times: int = 1) -> Page:
        """The page; asked for so many times, one after the other. Raises LabError when the process is gone."""
        answer = self._lines.ask({"url": url, "times": times})
        if answer is None:
            raise LabError("The process that reads pages inside the lab has ended.")
        return Page(**answer)

    def json(self, url: str) -> Any:
        """The document of the page; None without an answer, or for something else than JSON."""
        page = self.get(url)
        try:
            return json.loads(page.text) if page.status == 200 else None
        except ValueError:
            return None


def fetch() -> dict[str, Any]:
    """Inside: a line of standard input, with a URL and how often to ask for it, is answered by a line with a Page."""
    without_proxy = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    for line in sys.stdin:
        asked = json.loads(line)
        began, status, text = time.perf_counter(), 0, ""
        for _ in range(asked["times"]):
            status, text = _get(without_proxy, asked["url"])
        print(json.dumps({"status": status, "text": text, "seconds": time.perf_counter() - began}), flush=True)
    return {}


def _get(opener: urllib.request.OpenerDirector, url: str) -> tuple[int, str]:
    try:
        with opener.open(url, timeout=ANSWER_S_MAX) as answer:
            return answer.status, answer.read().decode()
    except urllib.request.HTTPError as error:  # an answer, too
        with error:
            return error.code, error.read().decode(errors="replace")
    except OSError as reason:
        return 0, str(reason)
