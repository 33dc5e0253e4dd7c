#!/usr/bin/env python3
"""Measures the time of `subord tree`, for docs/evaluation.md.

    .venv/bin/python docs/measure_cli.py --json docs/figures/cli.json

The whole process is timed, including interpreter and imports, on a leaf of a real cluster in the lab: the answer
comes from the root.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(REPOSITORY / "netns-lab"), str(REPOSITORY)]

from netlab.common import measure, results  # noqa: E402
from netlab.errors import LabError  # noqa: E402
from netlab.lab import Lab  # noqa: E402

import subord  # noqa: E402 - found by the line above

SUBORD = Path(sys.executable).with_name("subord")
STABLE_S_MAX = 60.0


def main(words: list[str]) -> int:
    """The exit code."""
    given = _options(words)
    if given.json is not None:
        results.check_writable(given.json)
    machine = measure.machine()
    with Lab(given.nodes, given.fanout) as lab:
        lab.start_all()
        lab.wait_stable(STABLE_S_MAX)
        commands = {
            "tree": (["tree", "--socket", str(lab.control_socket(given.nodes))], f"{given.nodes} nodes, "),
            "position": (["position", "10.0.0.9", "--network", "10.0.0.0/24"], "10.0.0.9 in "),
        }
        records: list[dict[str, Any]] = [
            {
                "command": name,
                "nodes": given.nodes,
                "fanout": given.fanout,
                "repeat": number,
                "seconds": _timed(*line),
            }
            for number in range(given.repeat)
            for name, line in commands.items()
        ]
    for record in records:
        print(f"{record['command']}: {record['seconds']:.3f} s")
    if given.json is not None:
        about = {"machine": machine, "version": subord.__version__, "commit": measure.commit()}
        results.write_json(given.json, [{**record, **about} for record in records])
    return 0


def _options(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="how long `subord tree` takes")
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--fanout", type=int, default=8)
    parser.add_argument("--repeat", type=int, default=10)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the times to this file")
    return parser.parse_args(words)


def _timed(line: list[str], begins: str) -> float:
    """Seconds. Raises LabError when the output is not the expected one."""
    begun = time.perf_counter()
    ran = subprocess.run([SUBORD, *line], capture_output=True, text=True, check=False)  # noqa: S603 - our own command
    seconds = time.perf_counter() - begun
    if ran.returncode or not ran.stdout.startswith(begins):
        raise LabError(f"`subord {line[0]}` did not print what was expected: {(ran.stdout or ran.stderr)[:100]!r}")
    return seconds


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
