"""As which user a job is submitted.

Input is the name of a user of this cluster; outputs are the words that begin its commands. Invariant: nothing is
submitted as an account of the system, whatever its name is, or by a name that a command could take for something
else.
"""

from __future__ import annotations

import re
from typing import Final

from subord.services.batch.faults import AnswerError, failed, garbled
from subord.services.batch.records import Refused, Unavailable
from subord.services.batch.running import Commands, Ran
from subord.services.transfer.plan import UID_MIN

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,31}", re.ASCII)
_UNKNOWN: Final = re.compile(r"runuser: user (.{1,40}) does not exist")
_NO_USER: Final = "no such user"
"""Of id."""
VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,255}", re.ASCII)


def as_user(user: str, *words: str) -> tuple[str, ...]:
    """runuser needs no shell and no password of the user."""
    return ("runuser", "-u", user, "--", *words)


async def wrong_user(commands: Commands, user: str, uid_min: int = UID_MIN) -> Refused | Unavailable | None:
    """`uid_min`: the least number of a user as whom jobs run. Root has other names on some hosts, and daemons have
    accounts, so the number counts, as the host of the commands has it."""
    if not _NAME.fullmatch(user) or user == "root":
        return _refused(user, "is no name of a user as whom jobs run")
    ran = await commands.run("id", "-u", "--", user)
    if isinstance(ran, Unavailable):
        return ran
    if ran.code != 0:
        return _no_account(user) if _NO_USER in ran.words else failed("id", ran, ())
    text = ran.text.strip()
    if not (text.isascii() and text.isdigit()):
        return garbled("id", AnswerError(f"{text[:40]!r} is no number of a user"), "GNU coreutils")
    if int(text) == 0 or int(text) < uid_min:
        return _refused(user, f"has the user number {int(text)}, below {uid_min} of the plan (uid_min)")
    return None


def _refused(user: str, why: str) -> Refused:
    return Refused(f"no job is submitted as {user[:40]!r}: it {why}; nothing was submitted: map to another user")


def unknown_user(ran: Ran) -> Refused | None:
    """What runuser says of a user that this node does not have."""
    found = _UNKNOWN.search(ran.words)
    return _no_account(found[1]) if found else None


def _no_account(user: str) -> Refused:
    return Refused(f"the user {user} has no account here; nothing was submitted: make one, or map the user")
