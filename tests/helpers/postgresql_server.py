"""A real server of PostgreSQL for tests of sinks, in a directory of its own, without TCP."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def running() -> Iterator[str]:
    """The URL of its database. Skips the test where there is no server."""
    pytest.importorskip("psycopg", reason="needs psycopg: pip install 'subord[postgresql]'")
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not programs:
        pytest.skip("needs PostgreSQL: apt-get install postgresql")
    directory = Path(tempfile.mkdtemp(prefix="subord-postgresql-"))  # those of pytest are closed to other users
    user: list[str] = []
    if os.geteuid() == 0:  # the server refuses to run as root
        shutil.chown(directory, "postgres", "postgres")
        user = ["runuser", "-u", "postgres", "--"]

    def run(program: str, *words: str) -> None:
        done = subprocess.run(
            [*user, str(programs[-1] / program), "-D", str(directory / "data"), *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            cwd="/",
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr

    run("initdb", "--username=subord", "--auth=trust", "--no-sync")
    run("pg_ctl", "start", "-w", "-l", str(directory / "log"), "-o", f"-k {directory} -c listen_addresses=''")
    try:
        yield f"postgresql://subord@/postgres?host={directory}"
    finally:
        run("pg_ctl", "stop", "-m", "immediate")
        shutil.rmtree(directory)
