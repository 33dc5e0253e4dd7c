"""`./dev demo`: a cluster arranges itself, loses an interior node, heals, and takes it back, in a minute."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from statistics import fmean

from netlab.cli.terminal import Terminal
from netlab.experiments import healing
from netlab.lab import Lab

NODES = 30
FANOUT = 3
VICTIM = 3
STABLE_S_MAX = 60.0
ALONE_MIB = 49
"""Resident memory of one daemon with a neighbour; measured, see docs/evaluation/rest.md."""


def run(nodes: int = NODES, fanout: int = FANOUT, *, rootless: bool = False) -> int:
    """Show it; 0. Raises LabError when the lab cannot be raised or does not settle."""
    terminal = Terminal()
    with Lab(nodes=nodes, fanout=fanout, rootless=rootless, progress=terminal.progress) as lab:
        terminal.progress(f"starting {nodes} daemons", 0, 0)
        lab.start_all()
        stable = lab.wait_stable(STABLE_S_MAX)
        terminal.say(_headline(f"{nodes} daemons, fan-out {fanout}: one tree, {stable.since_last_start_s:.2f} s"))
        terminal.say(
            f"after the last start, {stable.since_first_start_s:.2f} s after the first. Seen from any node:\n"
        )
        _show_tree(lab, nodes)

        address = lab.address(VICTIM)
        terminal.say(_headline(f"kill -9 of {address}, an interior node"))
        guests = lab.look().subordinates().get(address, [])
        struck = healing.strike(lab, VICTIM, "kill")
        terminal.say(_healed(struck, "had a new leader"))
        _show_tree(lab, nodes)

        terminal.say(_headline(f"{address} starts again"))
        revived = healing.revive(lab, VICTIM, struck, guests)
        terminal.say(_healed(revived, "were at home again"))
        _show_tree(lab, nodes)
        terminal.say(_headline("what it cost"))
        terminal.say(_costs(lab))
    terminal.say("All of it is gone again. Keep one running: netns-lab/lab up --nodes 30")
    return 0


def _headline(text: str) -> str:
    return f"\n\x1b[1m{text}\x1b[0m" if sys.stdout.isatty() else f"\n{text}"


def _show_tree(lab: Lab, last: int) -> None:
    subord = str(Path(sys.executable).with_name("subord"))
    subprocess.run([subord, "tree", "--socket", str(lab.control_socket(last))], check=True)
    print(flush=True)


def _healed(healed: healing.Healing, what: str) -> str:
    if not healed.attached_s:
        return f"It had no subordinates; the root's roster was right after {healed.roster_s:.2f} s.\n"
    return (
        f"Its {healed.orphans} subordinates {what} after {healed.attached_s[0]:.2f} to {healed.attached_s[-1]:.2f} s;"
        f" {healed.moves} nodes changed their place."
        f" The root's roster was right after {healed.roster_s:.2f} s.\n"
    )


def _costs(lab: Lab) -> str:
    status, used = lab.document(2, "/v1/status"), lab.processes("cpu_s", "pss_mib")
    return (
        f"{status['exchanges']} exchange for {status['address']} to join;"
        f" {1000 * fmean(used['cpu_s'].values()):.0f} ms of processor per daemon.\n"
        f"{fmean(used['pss_mib'].values()):.1f} MiB of memory per daemon: the lab's daemons share pages."
        f" A daemon alone needs {ALONE_MIB} MiB (docs/evaluation/rest.md).\n"
    )
