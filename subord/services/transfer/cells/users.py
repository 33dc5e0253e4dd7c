"""As which user a job is submitted.

Input is the name of a user of this cluster; outputs are the words that begin its commands. Invariant: nothing is
submitted as root, or by a name that a command could take for something else.
"""

from __future__ import annotations

import re
from typing import Final

from subord.services.batch.records import Refused
from subord.services.batch.running import Ran

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,31}", re.ASCII)
_UNKNOWN: Final = re.compile(r"runuser: user (.{1,40}) does not exist")
VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,255}", re.ASCII)


def as_user(user: str, *words: str) -> tuple[str, ...]:
    """runuser needs no shell and no password of the user."""
    return ("runuser", "-u", user, "--", *words)


def wrong_user(user: str) -> Refused | None:
    if _NAME.fullmatch(user) and user != "root":
        return None
    return Refused(f"{user[:40]!r} is no user as whom jobs are submitted; nothing was submitted: name another one")


def unknown_user(ran: Ran) -> Refused | None:
    """What runuser says of a user that this node does not have."""
    if found := _UNKNOWN.search(ran.words):
        return Refused(f"the user {found[1]} has no account here; nothing was submitted: make one, or map the user")
    return None
