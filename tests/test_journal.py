"""The log in the journal of a real systemd-journald in a mount namespace with its own /run."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from ports import free_port

JOURNALD = "/usr/lib/systemd/systemd-journald"
APART = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
# What systemd does for a unit: standard error is a stream of the journal, and JOURNAL_STREAM names it.
SCRIPT = """
set -eu
mount -t tmpfs none /run
mkdir -p /run/systemd/journald.conf.d
printf '[Journal]\\nStorage=volatile\\nReadKMsg=no\\nAudit=no\\n' >/run/systemd/journald.conf.d/ours.conf
JOURNALD >/dev/null 2>&1 &
journald=$!
trap 'kill $journald' EXIT
waited() {
  end=$(($(date +%s) + 180))
  until "$1"; do
    if [ "$(date +%s)" -ge "$end" ]; then echo "timed out: $1" >&2; exit 1; fi
    sleep 0.02
  done
}
listens() { [ -S /run/systemd/journal/stdout ]; }
placed() { journal SUBORD_EVENT=place | grep -q . && journal SUBORD_EVENT=sent | grep -q . ; }
mistaken() { journal --priority err | grep -q 'fanout'; }
waited listens
unit() {
  systemd-cat sh -c 'JOURNAL_STREAM=$(stat -L -c %d:%i /proc/self/fd/2) exec "$@"' sh "$@" || true
}
journal() {
  journalctl --directory /run/log/journal --no-pager --output json "$@"
}
LOG_LEVEL=debug
export LOG_LEVEL
unit "$@" --set node.address=127.0.0.1 &
unit=$!
waited placed
kill "$(journal SUBORD_EVENT=place | sed 's/.*"_PID":"\\([0-9]*\\)".*/\\1/')"
wait $unit
unit "$@" --set node.address=127.0.0.9
unit "$1" -m subord run --set cluster.fanout=none
waited mistaken
journal >"$OUT/all"
journal --priority warning >"$OUT/warnings"
"""


@pytest.fixture(scope="module")
def journals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Sequence[dict[str, Any]]]:
    """The entries of a daemon that ran, of one that could not start, and of one with a wrong configuration."""
    if os.geteuid() != 0:
        pytest.skip("only root can start a systemd-journald")
    if not os.access(JOURNALD, os.X_OK):
        pytest.skip("no systemd-journald here: apt-get install systemd")
    if subprocess.run([*APART, "mount", "-t", "tmpfs", "none", "/run"], check=False).returncode:
        pytest.skip("no mount namespaces here")
    out = tmp_path_factory.mktemp("journal")
    settings = {
        "cluster.network": "127.0.0.0/28",
        "cluster.timing": "lab",
        "cluster.port": free_port(socket.SOCK_DGRAM, "127.0.0.1"),
        "node.control_socket": "/run/control",
    }
    words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    command = [*APART, "sh", "-c", SCRIPT.replace("JOURNALD >", f"{JOURNALD} >"), "sh"]
    environment = {**os.environ, "OUT": str(out), "PYTHONPATH": str(Path(__file__).parents[1])}
    ran = [sys.executable, "-m", "subord", "run", *words]
    try:
        done = subprocess.run([*command, *ran], env=environment, capture_output=True, check=False, timeout=600)
    except subprocess.TimeoutExpired as late:
        raise AssertionError(f"it did not end; its errors: {(late.stderr or b'').decode()}") from None
    assert done.returncode == 0, done.stderr.decode()
    shown = {name: (out / name).read_text().splitlines() for name in ("all", "warnings")}
    return {name: [json.loads(line) for line in lines] for name, lines in shown.items()}


@pytest.mark.slow
def test_entries_have_the_message_and_the_fields(journals: dict[str, Sequence[dict[str, Any]]]) -> None:
    (place,) = [entry for entry in journals["all"] if entry.get("SUBORD_EVENT") == "place"]
    assert (place["MESSAGE"], place["PRIORITY"]) == ("now root: no lower position answers", "6")
    assert (place["SYSLOG_IDENTIFIER"], place["_TRANSPORT"]) == ("subord", "journal")
    assert (place["SUBORD_NODE"], place["SUBORD_PLACE"], place["SUBORD_CHANGES"]) == ("127.0.0.1", "root", "0")
    assert "SUBORD_LEADER" not in place
    sent = [entry for entry in journals["all"] if entry.get("SUBORD_EVENT") == "sent"]
    assert {entry["PRIORITY"] for entry in sent} == {"7"}
    assert all(entry["SUBORD_PEER"].startswith("127.0.0.") for entry in sent)


def test_a_failed_start_is_logged_as_an_error(journals: dict[str, Sequence[dict[str, Any]]]) -> None:
    errors = [(entry["PRIORITY"], entry["MESSAGE"].partition(":")[2][:30]) for entry in journals["warnings"]]
    assert errors == [("3", " this machine does not have th"), ("3", " --set cluster.fanout=none: fa")]
