"""What the queue's node exports to the nodes that it has added, in a file of its own (exports(5)).

Inputs are addresses and the mounts of the plan; output is a fault, "" if it is as wanted. Invariants: the file is
replaced whole, and a file that is not of subord is never touched; what goes is noted in it until the kernel does not
export it any more, so after a death at any point the next call goes on; what a node has been exported to it keeps
until it leaves, also under a plan without it, because its jobs have files open there.

`exportfs -a` and `-u` are used, not `-ra`: that takes away what an administrator, or a program such as Pacemaker, has
exported by hand. Directories have `root_squash`: root of an added node is no root of these files. It needs not be: an
added node makes no file there as root, and it may have been lent by a supplier for an hour.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from ipaddress import ip_address
from pathlib import Path
from typing import Final, NamedTuple

from subord.runtime.state.whole import write_whole
from subord.services.elastic.plan import Mount
from subord.services.elastic.preparing.faults import PreparingError
from subord.services.elastic.preparing.folders import make_folders
from subord.services.elastic.preparing.machine import REAL, Machine, Turn, in_thread
from subord.services.elastic.preparing.rights import Need, of_read_only

HEAD: Final = "# Of subord (docs/elastic.md): written anew whenever a node is added or removed."
GONE: Final = "# gone"
OPTIONS: Final = "sync,root_squash,no_subtree_check"
PACKAGES: Final = "nfs-kernel-server (Debian) or nfs-utils"
EXPORT_S_MAX: Final = 60.0
"""Of a command; exportfs looks up the names of other people's exports."""
NOT_FOUND: Final = "could not find"
"""What exportfs says of an export that is none any more."""
_turn: Final = Turn("changes of exports")


class Export(NamedTuple):
    """A directory for an address."""

    directory: str
    host: str

    @property
    def words(self) -> str:
        """For `exportfs -u`."""
        return f"[{self.host}]:{self.directory}" if ":" in self.host else f"{self.host}:{self.directory}"


class Held(NamedTuple):
    """What a file says. `options`: by export. `gone`: those that may still be in force."""

    options: dict[Export, str]
    gone: frozenset[Export] = frozenset()


NOTHING: Final = Held({})


async def export(file: str, hosts: Iterable[str], mounts: Iterable[Mount], machine: Machine = REAL) -> str:
    """Export the directories of the plan to all these addresses, and nothing to others by this file; "": that is so.
    `file`: elastic.exports_file. Calls are carried out in the order in which they begin."""
    try:
        addresses = {_address(host) for host in hosts}
        wanted = wanted_of(addresses, mounts)
        async with _turn.lock():
            if wanted:
                machine.demand_program("exportfs", f"{PACKAGES} on the queue's node")
                folders = {each.directory for each in wanted}
                await in_thread(lambda: _demand_folders(folders), "a directory of the plan")
            await _become(file, addresses, wanted, machine)
            await _put_in_force(file, wanted, machine)
    except PreparingError as error:
        return str(error)
    return ""


async def unexport(file: str, hosts: Iterable[str], mounts: Iterable[Mount], machine: Machine = REAL) -> str:
    """Export nothing by this file to others than these addresses, which stay; "": that is so. Whatever is wrong with
    the directories of those that stay is no fault here: it must not hold up the end of a node."""
    try:
        addresses = {_address(host) for host in hosts}
        wanted = wanted_of(addresses, mounts)
        async with _turn.lock():
            await _become(file, addresses, wanted, machine)
    except PreparingError as error:
        return str(error)
    return ""


# -- the file ------------------------------------------------------------------------------------------------------


def wanted_of(hosts: Iterable[str], mounts: Iterable[Mount]) -> dict[Export, str]:
    """The options by export. A directory that is mounted twice may be written if one of the mounts may. Raises
    PreparingError."""
    modes: dict[str, str] = {}
    for mount in mounts:
        modes[mount.source] = "ro" if mount.read_only and modes.get(mount.source) != "rw" else "rw"
    addresses = sorted({_address(host) for host in hosts})
    return {Export(each, host): f"{mode},{OPTIONS}" for each, mode in sorted(modes.items()) for host in addresses}


def _address(host: str) -> str:
    """Raises PreparingError: a name, or a word with other characters, could mean more nodes than one."""
    try:
        return str(ip_address(host))
    except ValueError:
        raise PreparingError(f"{host[:64]!r} is no address of a node; nothing was exported to it") from None


def text_of(held: Held) -> str:
    """One line a directory."""
    lines: dict[str, list[str]] = {}
    for each, options in held.options.items():
        lines.setdefault(each.directory, [each.directory]).append(f"{each.host}({options})")
    gone = [f"{GONE} {each.directory} {each.host}" for each in sorted(held.gone)]
    return "\n".join([HEAD, *map(" ".join, lines.values()), *gone, ""])


def read(text: str) -> Held | None:
    """None: the file is not of subord."""
    head, *lines = text.splitlines() or [""]
    if head != HEAD:
        return None
    options, gone = {}, set()
    for line in lines:
        if line.startswith(GONE):
            gone.add(Export(*line.removeprefix(GONE).split()[:2]))
            continue
        directory, *clients = line.split() or [""]
        for client in clients:
            host, _, rest = client.partition("(")
            options[Export(directory, host)] = rest.removesuffix(")")
    return Held(options, frozenset(gone))


def _held(file: str) -> Held:
    """Blocks. Raises PreparingError."""
    try:
        found = read(Path(file).read_text(encoding="utf-8", errors="replace"))
    except FileNotFoundError:
        return NOTHING
    except OSError as error:
        raise of_read_only(error, f"{file} of the queue's node cannot be read") from None
    if found is None:
        raise PreparingError(
            f"{file} of the queue's node was not written by subord; nothing was changed: name another file in "
            "elastic.exports_file, or move this one away"
        )
    return found


def _write(file: str, held: Held) -> None:
    """Blocks. Raises PreparingError."""
    try:
        if held == NOTHING:
            Path(file).unlink(missing_ok=True)
            return
        make_folders(os.path.dirname(file))
        write_whole(Path(file), text_of(held).encode())
    except OSError as error:
        raise of_read_only(error, f"{file} of the queue's node cannot be written, and is as before") from None


def _demand_folders(paths: Iterable[str]) -> None:
    """Blocks. Raises PreparingError."""
    for path in sorted(paths):
        if not os.path.isdir(path):
            raise PreparingError(
                f"the plan mounts {path} of the queue's node, where that is no directory; nothing was changed: make "
                "it, or correct the plan"
            )


# -- what is in force ----------------------------------------------------------------------------------------------


async def _become(file: str, addresses: set[str], plan: dict[Export, str], machine: Machine) -> None:
    """The file has what the plan exports, and what these addresses have from plans before; what it has lost is not
    exported. Raises PreparingError."""
    before = await in_thread(lambda: _held(file), file)
    earlier = {each: options for each, options in before.options.items() if each.host in addresses}
    wanted = earlier | plan
    gone = (before.gone | before.options.keys()) - wanted.keys()
    if before != Held(wanted):
        machine.demand(Need.EXPORTS)
        await in_thread(lambda: _write(file, Held(wanted, frozenset(gone))), file)
    if not gone:
        return
    faults = {each: fault for each in sorted(gone) if (fault := await _end(each, machine))}
    await in_thread(lambda: _write(file, Held(wanted, frozenset(faults))), file)
    if faults:
        raise PreparingError("; ".join(faults.values()))


async def _end(each: Export, machine: Machine) -> str:
    """A fault, or "". Without exportfs nothing can be in force. Raises PreparingError."""
    if machine.find("exportfs") is None:
        return ""
    ran = await machine.run("exportfs", "-u", each.words, limit_s=EXPORT_S_MAX)
    if not ran.code or NOT_FOUND in ran.words.lower():
        return ""
    return f"exportfs -u {each.words} ended with {ran.code} on the queue's node: {ran.words}; it is tried again"


async def _put_in_force(file: str, wanted: dict[Export, str], machine: Machine) -> None:
    """Raises PreparingError. exportfs also complains of other people's lines, which must not hold up ours."""
    if not wanted:
        return
    ran = await machine.run("exportfs", "-a", limit_s=EXPORT_S_MAX)
    shown = await machine.run("exportfs", "-s", limit_s=EXPORT_S_MAX)
    missing = wanted.keys() - shown_by(shown.text)
    if not missing:
        return
    first = min(missing)
    if ran.code or shown.code:
        why = f"{(ran if ran.code else shown).words}: correct what it names"
    else:
        why = f"exportfs does not read {file}: elastic.exports_file stands in /etc/exports.d, and ends in .exports"
    raise PreparingError(f"the queue's node does not export {first.directory} to {first.host}: {why}")


def shown_by(text: str) -> set[Export]:
    """What `exportfs -s` prints: `/srv/home  10.0.0.5(sync,...)`."""
    rows = [line.split() for line in text.splitlines()]
    return {Export(row[0], row[1].partition("(")[0]) for row in rows if len(row) > 1}
