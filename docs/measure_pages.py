#!/usr/bin/env python3
"""Says of what the memory of daemons at rest in a lab is, by pages, for docs/evaluation/releases.md.

    .venv/bin/python docs/measure_pages.py --against ../before --nodes 20 --repeat 3

The daemons of a lab are forked from one process that has imported all they need. Page tables (proc(5), pagemap) tell
which pages a daemon still shares with it, which it has copied because it wrote to them, and which are new.
`--against` measures another checkout, by turns. Needs root: Linux shows the numbers of page frames to no other user.
"""

from __future__ import annotations

import argparse
import os
import statistics
import struct
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path += [str(REPOSITORY / "netns-lab"), str(REPOSITORY / "docs")]  # after those of another checkout

from measures import natural  # noqa: E402 - found by the line above
from netlab.common import measure  # noqa: E402
from netlab.common.waiting import wait_until  # noqa: E402
from netlab.lab import Lab  # noqa: E402

PAGE_BYTES = 4096
IS_PRESENT, IS_OF_FILE, IS_EXCLUSIVE = 63, 61, 56  # bits of an entry of pagemap
FRAME = (1 << 55) - 1
ENTRIES_MAX = 1 << 24  # of one mapping; `[vsyscall]` is outside
FANOUT = 8
STABLE_S_MAX = 120.0
KINDS = ("of files", "shared", "copied: objects", "copied: malloc", "copied: libraries", "new")

Pages = dict[int, tuple[int, str]]
"""By number: an entry of pagemap, and what is mapped there."""


def main(words: list[str]) -> int:
    """The exit code."""
    given = _options(words)
    if given.here:
        print(*(f"{value:.3f}" for value in _measured(given)), sep="\t")
        return 0
    checkouts = [REPOSITORY] if given.against is None else [given.against.resolve(), REPOSITORY]
    found: dict[Path, list[list[float]]] = {each: [] for each in checkouts}
    for _ in range(given.repeat):
        for checkout in checkouts:
            found[checkout].append(_run(checkout, words))
    print(f"MiB of a daemon, mean of {given.nodes}; median of {given.repeat} runs")
    print(f"{'commit':<18}", *(f"{name:>17}" for name in ("PSS", "private", *KINDS)))
    for checkout, runs in found.items():
        cells = [statistics.median(values) for values in zip(*runs, strict=True)]
        print(f"{measure.commit(checkout):<18}", *(f"{cell:>17.2f}" for cell in cells))
    return 0


def _options(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="of what the memory of daemons in a lab is")
    parser.add_argument("--against", type=Path, metavar="DIR", help="also measure this checkout, by turns")
    parser.add_argument("--nodes", type=natural, default=20)
    parser.add_argument("--repeat", type=natural, default=3)
    parser.add_argument("--rest", type=float, default=12.0, metavar="SECONDS", help="after all have a place")
    parser.add_argument("--insecure", action="store_true", help="in the clear")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args(words)


def _run(checkout: Path, words: list[str]) -> list[float]:
    """In a process of the checkout."""
    environment = {**os.environ, "PYTHONSAFEPATH": "1", "PYTHONPATH": f"{checkout}:{checkout / 'netns-lab'}"}
    command = [str(checkout / ".venv/bin/python"), str(Path(__file__).resolve()), *words, "--here"]
    done = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode != 0:
        raise SystemExit(f"{checkout}: {done.stderr[-2000:]}")
    return [float(cell) for cell in done.stdout.split("\t")]


def _measured(given: argparse.Namespace) -> list[float]:
    """PSS, private memory, and pages of each kind, in MiB: means of the daemons of one lab."""
    with Lab(given.nodes, FANOUT, insecure=given.insecure, arp_proxy=True) as lab:
        lab.start_all("together", 1)
        if not wait_until(lambda: _placed(lab) == given.nodes, STABLE_S_MAX, interval_s=0.5):
            raise SystemExit("The tree is not whole.")
        time.sleep(given.rest)
        memory = lab.processes("pss_mib", "private_mib")
        pids = [each["pid"] for each in lab.client.ask("info")["nodes"] if each["pid"] is not None]
        (starter,) = {_parent(pid) for pid in pids}
        of_starter = _pages(starter)
        kinds = Counter[str]()
        for pid in pids:
            kinds.update(_kinds(_pages(pid), of_starter))
    means = [statistics.fmean(memory[name].values()) for name in ("pss_mib", "private_mib")]
    return means + [kinds[kind] * PAGE_BYTES / 2**20 / len(pids) for kind in KINDS]


def _placed(lab: Lab) -> int:
    return sum(bool(each.place) for each in lab.look().live())


def _kinds(pages: Pages, of_starter: Pages) -> Counter[str]:
    found = Counter[str]()
    for number, (entry, name) in pages.items():
        then = of_starter.get(number)
        if entry >> IS_OF_FILE & 1:
            found["of files"] += 1
        elif not entry >> IS_EXCLUSIVE & 1 or (then is not None and then[0] & FRAME == entry & FRAME):
            found["shared"] += 1
        elif then is None:
            found["new"] += 1
        else:
            found[{"": "copied: objects", "[heap]": "copied: malloc"}.get(name, "copied: libraries")] += 1
    return found


def _pages(pid: int) -> Pages:
    """Those in memory. Sources: proc(5), maps and pagemap."""
    found: Pages = {}
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps, open(f"/proc/{pid}/pagemap", "rb", 0) as table:
        for line in maps:
            span, _, _, _, _, *name = line.split(maxsplit=5)
            first, end = (int(each, 16) // PAGE_BYTES for each in span.split("-"))
            if first >= 1 << 47 or end - first > ENTRIES_MAX:
                continue
            table.seek(first * 8)
            entries = struct.unpack(f"{end - first}Q", table.read((end - first) * 8))
            of = name[0].strip() if name else ""
            found |= {first + n: (entry, of) for n, entry in enumerate(entries) if entry >> IS_PRESENT & 1}
    return found


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
