"""What a cell of Slurm needs for transfer partitions: a pure function of the settings, to print or to write.

Input are the settings of the plan; outputs are lines of slurm.conf, and files of the transfer host. All transfer
partitions have one node, a slurmd of its own on the transfer host, with a configuration of its own beside that of the
cell. Its TaskProlog puts a first line before the script of each job, which names the starter, so that slurmd runs the
starter with the path of the script. Invariant: a job whose prolog fails does not run on the transfer host; it fails.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from subord.services.transfer.methods import SOCKET
from subord.services.transfer.methods.of_slurm import SAVED, SCRIPT

NODE: Final = "transfer"
PORT: Final = 6830
"""Beside 6818 of another slurmd on the same host."""
SPOOL: Final = "/var/spool/subord-transfer-slurmd"
CONFIGURATION: Final = "/etc/slurm/slurm.conf"
UNIT: Final = "/etc/systemd/system/subord-transfer-slurmd.service"
_HIDDEN: Final = ("LD_PRELOAD", "LD_LIBRARY_PATH")
MODE, FILE_MODE = 0o755, 0o644


class Settings(NamedTuple):
    """`host`: the transfer host, as slurm.conf is to name it. `socket`: of the agent. `program`: words that run the
    methods there. `partitions`: the transfer queues of the plan. `slots`: processors of jobs abroad. `folder`: of the
    files, on the transfer host. `configuration`: the slurm.conf of the cell. `spool`: a directory on that host that
    slurmd makes. `run`: where slurmd has its number."""

    host: str
    socket: str
    program: tuple[str, ...]
    partitions: tuple[str, ...]
    slots: int = 40
    folder: str = "/etc/subord/transfer"
    configuration: str = CONFIGURATION
    node: str = NODE
    port: int = PORT
    spool: str = SPOOL
    run: str = "/run"
    log: str = "/var/log/subord-transfer-slurmd.log"


def cell_lines(own: Settings) -> str:
    """Of slurm.conf, the same on all hosts."""
    first = f"NodeName={own.node} NodeHostname={own.host} Port={own.port} CPUs={own.slots} State=UNKNOWN"
    rest = (f"PartitionName={each} Nodes={own.node} MaxNodes=1 PriorityTier=0 State=UP" for each in own.partitions)
    return _lines((first, *rest))


def files(own: Settings) -> dict[str, tuple[str, int]]:
    """Text and mode, by the path on the transfer host."""
    return {
        f"{own.folder}/start": (_start(own), MODE),
        f"{own.folder}/prolog": (_prolog(own), MODE),
        own_configuration(own): (_configuration(own), FILE_MODE),
    }


def own_configuration(own: Settings) -> str:
    return f"{own.folder}/slurm.conf"


def unit(own: Settings) -> str:
    """Of systemd."""
    return _lines(
        (
            "[Unit]\nDescription=slurmd of the transfer partitions\nAfter=network-online.target munge.service\n",
            f"[Service]\nExecStart=/usr/sbin/slurmd -D -N {own.node} -f {own_configuration(own)}",
            "KillMode=process\nDelegate=yes\nLimitNOFILE=131072\nRestart=on-failure\n",
            "[Install]\nWantedBy=multi-user.target",
        )
    )


def printed(own: Settings) -> str:
    """For an administrator: what to write where."""
    return "\n".join(_sections(own))


def _sections(own: Settings) -> Iterator[str]:
    yield f"# {own.configuration} on all hosts: add; then restart slurmctld, and give `scontrol reconfigure`"
    yield cell_lines(own)
    for path, (text, mode) in files(own).items():
        yield f"# {path} on {own.host}, with mode {mode:o} (--apply writes it):\n{text}"
    yield f"# {UNIT} on {own.host}; then start it:\n{unit(own)}"


def _configuration(own: Settings) -> str:
    return _lines(
        (
            "# Of the slurmd of the transfer partitions alone, made by `subord transfer setup`.",
            f"include {own.configuration}",
            f"SlurmdSpoolDir={own.spool}",
            f"SlurmdPidFile={own.run}/subord-transfer-slurmd.pid",
            f"SlurmdLogFile={own.log}",
            "SlurmdParameters=config_overrides",
            f"TaskProlog={own.folder}/prolog",
            "TaskPlugin=task/none",
            "ProctrackType=proctrack/linuxproc",
            "JobAcctGatherType=jobacct_gather/none",
        )
    )


def _start(own: Settings) -> str:
    """It waits for a program that is being replaced: its end would be that of the job."""
    program = own.program[0]
    saved = (f'[ -z "${{{each}+x}}" ] || export {SAVED}{each}="${each}"' for each in _HIDDEN)
    wait = f"until [ -x {shlex.quote(program)} ]; do /bin/sleep 2; done"
    return _lines(
        (
            "#!/bin/sh\n# The starter of the transfer partitions, made by `subord transfer setup`.",
            *saved,
            f"unset {' '.join(_HIDDEN)}",
            *((wait,) if program.startswith("/") else ()),
            f'exec {shlex.join([*own.program, "start", SOCKET, own.socket])} "$@"',
        )
    )


def _prolog(own: Settings) -> str:
    """As the user of the job. What it prints, Slurm would read."""
    return f"""\
#!/bin/sh
# The TaskProlog of the transfer partitions, made by `subord transfer setup`: slurmd runs the starter with the script.
set -eu
PATH=/usr/bin:/bin
unset {" ".join(_HIDDEN)}
script=$(printf '%s/job%05d/{SCRIPT}' {shlex.quote(own.spool)} "$SLURM_JOB_ID")
if ! [ -f "$script" ]; then
  echo "print a job without a script does not run in a transfer partition"
  exit 1
fi
[ -x {shlex.quote(own.folder)}/start ]
copy=$(mktemp -p /tmp)
trap 'rm -f "$copy"' EXIT
{{ echo "#!"{shlex.quote(own.folder)}/start; cat "$script"; }} >"$copy"
cat "$copy" >"$script"
"""


def _lines(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
