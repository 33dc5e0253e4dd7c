"""What hinders a node to take its part in elastic growth, by its configuration and its files.

Input is the table [elastic], with a plan or without; outputs are sentences without a full stop that say what to do.
Nothing is changed, and no command is run. All functions block.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from subord.config.kinds import kinds_of
from subord.config.schema import ElasticConfig
from subord.services.batch.programs import missing_programs
from subord.services.elastic.asking import key_fault
from subord.services.elastic.options import SLURM
from subord.services.elastic.plan import Plan
from subord.services.elastic.suppliers import unsafe

OF_MANAGER: Final = ("start", "stop", "list")
OF_ADDED: Final = ("batch_daemon", "batch_daemon_stop")


def managing_fault(config: ElasticConfig, plan: Plan) -> str:
    """Why this node cannot manage a cluster by a plan; "": nothing speaks against it. A trial starts and stops
    nothing."""
    if not config.batch:
        return (
            "elastic.batch is empty on this node, which the plan says has the queue: name its batch system and "
            "restart the agent"
        )
    if plan.options is not None and plan.options.decides == SLURM != config.batch:
        return f"elastic.batch of this node is {config.batch}, and the plan has --decides slurm: publish another plan"
    unknown = [each for each in plan.kinds if each not in kinds_of(config.kinds)]
    if unknown:
        return f"elastic.kinds of this node does not have {', '.join(unknown)}: add them, or change the plan"
    return "" if plan.is_trial else next(_of_manager(config), "")


def overview(config: ElasticConfig) -> str:
    """The part of this node, for `subord-agent --check`."""
    if config.batch:
        kinds = ", ".join(f"{name} with {slots} slots" for name, slots in kinds_of(config.kinds).items())
        return f"this node may manage a cluster of {config.batch}; it adds nodes of {kinds or 'one kind'}"
    daemon = (
        f"starts its batch daemon by {config.batch_daemon[0]}" if config.batch_daemon else "starts no batch daemon"
    )
    return f"this node may be added to a cluster; it {daemon}"


def faults(config: ElasticConfig) -> Iterator[str]:
    """For `subord-agent --check`."""
    if config.batch:
        yield from missing_programs("elastic", config.batch, config.batch_environment)
        yield from _of_manager(config)
        if config.exports_file:
            yield from _folder_fault("exports_file", config.exports_file)
    yield from _unsafe(config, OF_ADDED)
    if config.hosts_file and not Path(config.hosts_file).is_file():
        yield f"elastic.hosts_file: there is no file {config.hosts_file}: make it, or correct the setting"
    elif config.hosts_file:
        yield from _folder_fault("hosts_file", config.hosts_file)


def _of_manager(config: ElasticConfig) -> Iterator[str]:
    if fault := key_fault(config.key):
        yield fault
    for setting in ("start", "stop"):
        if not getattr(config, setting):
            yield f"elastic.{setting} is empty: name the command that {setting}s a node"
    yield from _unsafe(config, OF_MANAGER)


def _unsafe(config: ElasticConfig, settings: tuple[str, ...]) -> Iterator[str]:
    for setting in settings:
        command = getattr(config, setting)
        if command and (fault := unsafe(command)):
            yield f"elastic.{setting}: {fault}"


def _folder_fault(setting: str, path: str) -> Iterator[str]:
    folder = Path(path).parent
    if not folder.is_dir():
        yield f"elastic.{setting}: there is no directory {folder}: make it, or correct the setting"
    elif not os.access(folder, os.W_OK):
        yield f"elastic.{setting}: {folder} cannot be written to: start the agent as root, or correct the setting"
