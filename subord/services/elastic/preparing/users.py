"""Gives a node the users and groups of the cluster, by the commands of the package `passwd`.

Inputs are the users of the plan; output is whether something was made. Invariants: a user or group that is there is
never changed; if one is there with another id, nothing at all is changed; a home is made only on this node's own
disk, never where one of the queue's node will be mounted. They are looked up by getent, so those of a directory
service such as LDAP count, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from subord.services.elastic.plan import Mount, User
from subord.services.elastic.preparing.faults import PreparingError
from subord.services.elastic.preparing.folders import make_home
from subord.services.elastic.preparing.machine import Machine, in_thread
from subord.services.elastic.preparing.rights import Need, of_read_only

NOT_FOUND: Final = 2
"""What getent ends with."""
PACKAGES: Final = {"getent": "libc-bin (Debian) or glibc-common", "groupadd": "passwd or shadow-utils"}
AGAIN: Final = "what was made before it stays; the order is given again"


async def make(users: Sequence[User], mounts: Sequence[Mount], machine: Machine) -> bool:
    """Whether something was missing. Raises PreparingError."""
    machine.demand_program("getent", PACKAGES["getent"])
    groups = [name for name in {user.group: user.gid for user in users}.items() if await _lacks_group(*name, machine)]
    fresh = [user for user in users if await _lacks_user(user, machine)]
    homes = [user for user in users if not is_mounted(user.home, mounts)]
    if groups or fresh:
        machine.demand(Need.ACCOUNTS)
        for program in ("groupadd", "useradd"):
            machine.demand_program(program, PACKAGES["groupadd"])
    for name, number in groups:
        await _done(("groupadd", "--gid", str(number), name), f"the group {name}", machine)
    for user in fresh:
        await _done(_words(user), f"the user {user.name}", machine)
    made = [user.name for user in homes if await _makes_home(user)]
    return bool(groups or fresh or made)


def is_mounted(home: str, mounts: Iterable[Mount]) -> bool:
    """Whether a mount of the plan brings it."""
    return any(f"{home}/".startswith(f"{mount.target}/") for mount in mounts)


def _words(user: User) -> tuple[str, ...]:
    """Without a line in lastlog, whose file grows with the id, and without a home: `_makes_home` makes it."""
    identity = ("--uid", str(user.uid), "--gid", str(user.gid), "--no-user-group", "--no-log-init")
    return ("useradd", *identity, "--no-create-home", "--home-dir", user.home, "--shell", user.shell, user.name)


async def _lacks_group(name: str, number: int, machine: Machine) -> bool:
    """Raises PreparingError."""
    found = await _entry("group", name, machine)
    if not found:
        other = await _entry("group", str(number), machine)
        if other:
            raise _taken("group", name, number, other[0])
        return True
    if found[2] != str(number):
        raise _differs("group", name, found[2], number)
    return False


async def _lacks_user(user: User, machine: Machine) -> bool:
    """Raises PreparingError."""
    found = await _entry("passwd", user.name, machine)
    if not found:
        other = await _entry("passwd", str(user.uid), machine)
        if other:
            raise _taken("user", user.name, user.uid, other[0])
        return True
    if found[2] != str(user.uid):
        raise _differs("user", user.name, found[2], user.uid)
    if found[3] != str(user.gid):
        raise PreparingError(
            f"this node has the user {user.name} with the group {found[3]}, the plan with the group {user.gid} "
            f"({user.group}); nothing was changed: make the two agree"
        )
    return False


async def _entry(database: str, key: str, machine: Machine) -> list[str]:
    """The fields of a line of passwd or group; []: there is none. Raises PreparingError."""
    ran = await machine.run("getent", database, key)
    if ran.code == NOT_FOUND:
        return []
    fields = ran.text.partition("\n")[0].split(":")
    if ran.code or len(fields) < 4:
        raise PreparingError(
            f"getent {database} {key} ended with {ran.code} on this node: {ran.words}; nothing was changed: "
            "correct /etc/nsswitch.conf, or the directory service that it names"
        )
    return fields


def _differs(kind: str, name: str, there: str, wanted: int) -> PreparingError:
    return PreparingError(
        f"this node has the {kind} {name} with the id {there}, the plan with the id {wanted}; nothing was changed: "
        f"give the {kind} the same id in the plan and in the image of the node"
    )


def _taken(kind: str, name: str, number: int, other: str) -> PreparingError:
    return PreparingError(
        f"the plan has the {kind} {name} with the id {number}, which on this node is that of the {kind} {other}; "
        f"nothing was changed: give {name} another id, or take {other} out of the image of the node"
    )


async def _done(words: tuple[str, ...], what: str, machine: Machine) -> None:
    """Raises PreparingError."""
    ran = await machine.run(*words)
    if ran.code:
        raise PreparingError(f"{what} cannot be made on this node: {ran.words} (code {ran.code}); {AGAIN}")


async def _makes_home(user: User) -> bool:
    """Raises PreparingError."""
    try:
        return await in_thread(lambda: make_home(user.home, user.uid, user.gid), user.home)
    except OSError as error:
        raise of_read_only(error, f"the home {user.home} of {user.name} cannot be made on this node") from None
