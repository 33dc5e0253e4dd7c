"""docs/measure_memory.py runs, and a ready daemon has not loaded what few nodes need."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).parents[1] / "docs" / "measure_memory.py"
NEEDED = ("trio", "msgspec", "subord.core.node", "cryptography.hazmat.primitives.ciphers.aead")
LATE_OR_NEVER = (
    *("h11", "subord.sealing.authority", "cryptography.x509", "cryptography.hazmat.primitives.serialization"),
    *("prometheus_client", "subord.api.handlers.metrics", "http.client", "http.server", "urllib.request", "email"),
    *("rich", "shtab", "subord.client.daemon", "subord.client.drawing", "subord.sim", "difflib"),
    *("asyncio", "multiprocessing", "importlib.resources", "xml", "unittest"),
    *(f"subord.services.{each}" for each in ("account.record", "answers", "exec.outcome", "files.sets.results")),
    *(f"subord.services.{each}" for each in ("elastic.past.public", "hosts.table", "machines.plan")),
    *(f"subord.services.{each}.telling.reading" for each in ("machines", "shares", "transfer")),
)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    file = tmp_path_factory.mktemp("memory") / "memory.json"
    command = [sys.executable, SCRIPT, "--repeat", "1", "--alone", "--json", file]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    if "Operation not permitted" in ran.stderr:
        pytest.skip("neither root nor user namespaces here")
    assert ran.returncode == 0, ran.stderr
    assert "modules of the ready daemon" in ran.stdout
    found: list[dict[str, Any]] = json.loads(file.read_text())
    return found


def test_each_state_and_each_import_is_measured(measured: list[dict[str, Any]]) -> None:
    states = [run["state"] for run in measured if run["what"] == "alone"]
    assert states == ["ready", "asked", "scraped"]
    assert all(20 < run["resident_mib"] < 60 for run in measured if run["what"] == "alone")
    assert sum(run["resident_mib"] for run in measured if run["what"] == "import") > 20
    assert not any(run["is_before"] for run in measured)


def test_a_ready_daemon_has_loaded_what_it_needs_and_no_more(measured: list[dict[str, Any]]) -> None:
    (loaded,) = [run["own_ms"] for run in measured if run["what"] == "modules"]
    assert set(NEEDED) <= set(loaded)
    # In another process: this one may have stand-ins.
    subprocess.run([sys.executable, "-c", f"import {', '.join(LATE_OR_NEVER)}"], check=True, timeout=60)
    assert sorted({*LATE_OR_NEVER} & {*loaded}) == []
