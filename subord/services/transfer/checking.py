"""What hinders a node to be the transfer host, by its configuration and its files.

Input is the table [transfer], with a plan or without; outputs are sentences without a full stop that say what to do.
Nothing is changed, and no command is run. All functions block.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from subord.config.schema import TransferConfig
from subord.services.batch.programs import missing_programs

RUNUSER = "runuser"
RUN = Path("/run")
RESTART = "`systemctl restart subord.service subord-agent.service`"
"""Daemon and agent read the table only when they start, so what they lack may stand in the file."""
SET = f"set it, unless it is set since, and give {RESTART}"


def hosting_fault(config: TransferConfig) -> str:
    """Why this node cannot be the transfer host of a plan; "": nothing speaks against it."""
    if not config.batch:
        when = "when the agent of this node started, which the plan names as transfer host"
        return f"transfer.batch was empty {when}: {SET}"
    return ""


def overview(config: TransferConfig) -> str:
    """The part of this node, for `subord-agent --check`."""
    if not config.batch:
        return "this node is no transfer host: transfer.batch is empty"
    where = f"listens at {config.listen}" if config.listen else "does not listen, so no job comes"
    return f"this node may be the transfer host of a cluster of {config.batch}; it {where}"


def faults(config: TransferConfig) -> Iterator[str]:
    """For `subord-agent --check`."""
    if not config.batch:
        return
    yield from missing_programs("transfer", config.batch, config.batch_environment)
    if shutil.which(RUNUSER) is None:
        yield f"there is no {RUNUSER}, by which foreign jobs are submitted as their users: install util-linux"
    if fault := key_fault(config.key):
        yield fault
    folder = Path(config.socket).parent
    if folder.parent == RUN and not folder.exists():
        return  # systemd makes it when the unit starts (RuntimeDirectory), and removes it when it ends
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        yield f"transfer.socket: {folder} is no directory that can be written to: make it, or correct the setting"


def key_fault(path: str) -> str:
    """Why the link has no key; "": it has."""
    from subord.services.transfer.linking.certificate import CertificateError, read

    try:
        read(path)
    except CertificateError as error:
        return f"transfer.key: {error}"
    return ""
