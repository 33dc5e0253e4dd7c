"""The user as which a command runs, and the environment and the directory that it gets.

Inputs are the name of the user in the order, the user database of this node, and the task; outputs are the options of
a new process. Invariant: a process gets the groups of its user and no others, and never the environment of the agent.

The user database may be on a server, and a home or a program, too: all functions may block.
"""

from __future__ import annotations

import os
import pwd
from typing import Any, Final, NamedTuple

from subord.services.acting import Context
from subord.services.exec.task import Run
from subord.services.program import read_start

PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
LANG: Final = "C.UTF-8"
UMASK: Final = 0o022
ROOT_DIRECTORY: Final = "/"


class Account(NamedTuple):
    """A user of this node."""

    name: str
    uid: int
    gid: int
    home: str
    shell: str


def account_of(name: str) -> Account | None:
    """None: there is no such user."""
    try:
        found = pwd.getpwnam(name)
    except (KeyError, ValueError):
        return None
    return Account(found.pw_name, found.pw_uid, found.pw_gid, found.pw_dir, found.pw_shell or "/bin/sh")


def environment(account: Account, run: Run, context: Context) -> dict[bytes, bytes]:
    """Everything that the command gets. The order may replace all but the names that begin with SUBORD."""
    usual = {
        "PATH": PATH,
        "HOME": account.home,
        "USER": account.name,
        "LOGNAME": account.name,
        "SHELL": account.shell,
        "LANG": LANG,
    }
    own = {"SUBORD_TAG": context.tag.hex(), "SUBORD_NODE": context.node, "SUBORD_PRINCIPAL": context.principal}
    return {**_encoded(usual), **dict(run.environment), **_encoded(own)}


def directory(account: Account, run: Run) -> str:
    """That of the order; else the home, or / if it cannot be entered."""
    if run.directory:
        os.path.exists(run.directory)  # blocks here, and not where the process is started, if its server hangs
        return os.fsdecode(run.directory)
    return account.home if os.path.isdir(account.home) else ROOT_DIRECTORY


def options(account: Account, run: Run, context: Context) -> dict[str, Any]:
    """Of subprocess.Popen, what makes a process one of the user: in a session of its own, without a descriptor of
    ours."""
    found: dict[str, Any] = {"umask": UMASK, "start_new_session": True, "close_fds": True}
    found |= {"cwd": directory(account, run), "env": environment(account, run, context)}
    read_start(run.words[0], found["cwd"], found["env"])
    if account.uid != os.geteuid():
        groups = os.getgrouplist(account.name, account.gid)
        found |= {"user": account.uid, "group": account.gid, "extra_groups": groups}
    return found


def _encoded(texts: dict[str, str]) -> dict[bytes, bytes]:
    return {os.fsencode(name): os.fsencode(text) for name, text in texts.items()}
