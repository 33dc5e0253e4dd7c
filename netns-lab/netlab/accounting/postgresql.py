"""A server of PostgreSQL for a sink of a lab, in a directory of its own, reached by a Unix socket alone.

It ends with the process that started it. It is durable as installed: `fsync` is on.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from netlab.common import linux
from netlab.common.waiting import wait_until
from netlab.errors import LabError

PROGRAMS = Path("/usr/lib/postgresql")
OWNER = "postgres"
"""The user of the server: it refuses to run as root."""
READY_S_MAX = 60.0
CONNECT_S_MAX = 2


def programs() -> Path | None:
    """The directory of the newest release that is installed."""
    found = sorted(PROGRAMS.glob("*/bin/postgres"), key=lambda each: int(each.parts[-3]))
    return found[-1].parent if found else None


def missing() -> str | None:
    """What to install; None: all is there."""
    if programs() is None:
        return "apt-get install postgresql"
    return None if find_spec("psycopg") else "pip install 'subord[postgresql]'"


class Server:
    """Until the end of a `with` block; its database is empty at the beginning."""

    def __enter__(self) -> Server:
        """Raises LabError."""
        found = programs()
        assert found is not None
        self._programs = found
        self._directory = Path(tempfile.mkdtemp(prefix="lab-postgresql-"))
        self._directory.chmod(0o755)  # the daemons of a lab without root have no right to more
        self._user: dict[str, Any] = {}
        if os.geteuid() == 0:
            shutil.chown(self._directory, OWNER, OWNER)
            self._user = {"user": OWNER, "group": OWNER, "extra_groups": ()}
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._make()
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        shutil.rmtree(self._directory)

    @property
    def url(self) -> str:
        return f"postgresql://subord@/postgres?host={self._directory}"

    @property
    def version(self) -> str:
        """Such as `PostgreSQL 15.8`."""
        words = subprocess.run(
            [self._programs / "postgres", "--version"], capture_output=True, text=True, check=False
        )
        return f"PostgreSQL {words.stdout.split()[2]}"

    def _make(self) -> None:
        command = [str(self._programs / "initdb"), "-D", str(self._data), "--username=subord", "--auth=trust", "-N"]
        done = subprocess.run(command, capture_output=True, text=True, cwd="/", check=False, **self._user)
        if done.returncode:
            raise LabError(f"initdb failed: {done.stderr.strip()}")

    @property
    def _data(self) -> Path:
        return self._directory / "data"

    def start(self) -> None:
        """Until it takes connections. Raises LabError."""
        starter = os.getpid()
        with (self._directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._programs / "postgres", "-D", self._data, "-k", self._directory, "-c", "listen_addresses="],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,
                preexec_fn=lambda: linux.die_with(starter, signal.SIGQUIT),  # noqa: PLW1509 - it has one thread
                **self._user,
            )
        if not wait_until(self._answers, READY_S_MAX, 0.1):
            words = (self._directory / "log").read_text(errors="replace")[-1000:]
            raise LabError(f"PostgreSQL does not answer: {words.strip()}")

    def _answers(self) -> bool:
        import psycopg

        assert self._process is not None
        if self._process.poll() is not None:
            raise LabError(f"PostgreSQL ended with {self._process.returncode}.")
        try:
            psycopg.connect(self.url, connect_timeout=CONNECT_S_MAX).close()
        except psycopg.OperationalError:
            return False
        return True

    def stop(self) -> None:
        """At once, as after a crash: it recovers from its log when it is started again."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait()
            self._process = None
