"""The process of a daemon with keys: no core dumps, and no reading by other processes of its user."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

LOOK = """
import ctypes, json, os, resource, sys
from prometheus_client.metrics_core import Metric
from prometheus_client.process_collector import ProcessCollector
from subord.runtime.security.credentials import protect_memory

if os.geteuid() == 0:  # root may read every process
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # a change of user is forbidden to be read, too

def read_by_another():
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)
        try:
            open(f"/proc/{os.getppid()}/environ", "rb").close()
            os.write(writing, b"read")
        except PermissionError:
            os.write(writing, b"refused")
        os._exit(0)
    os.waitpid(child, 0)
    return os.read(reading, 100).decode()

def figures():
    return sorted(each.name for each in ProcessCollector(registry=None).collect())

before = read_by_another(), figures()
protect_memory()
after = read_by_another(), figures()
limits = resource.getrlimit(resource.RLIMIT_CORE)
print(json.dumps({"before": before, "after": after, "dumpable": ctypes.CDLL(None).prctl(3), "limits": limits}))
"""


def test_other_processes_cannot_read_the_memory_and_metrics_continue() -> None:
    ran = subprocess.run([sys.executable, "-c", LOOK], capture_output=True, text=True, timeout=60, check=True)
    found = json.loads(ran.stdout)
    assert ran.stderr == ""
    assert found["dumpable"] == 0
    assert max(found["limits"]) <= 1
    assert [reader for reader, _ in (found["before"], found["after"])] == ["read", "refused"]
    assert found["before"][1] == found["after"][1]
    assert {"process_open_fds", "process_resident_memory_bytes", "process_cpu_seconds"} <= set(found["after"][1])
