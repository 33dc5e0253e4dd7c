"""The plan that the options of `subord elastic set` and the plan before make together. Pure.

Inputs are the options, None for one that was not given, and the plan before; output is a plan. Invariant: what makes
no sense is named with its option, and then there is no plan.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

from subord.services.elastic.options import Options, faults
from subord.services.elastic.plan import FORMER_MAX, KINDS_MAX, MOUNTS_MAX, USERS_MAX, Mount, Plan, User
from subord.services.elastic.preparing import checks

OFF: Final = "off"
NONE: Final = "none"
ALL: Final = "all"
USER_FORM: Final = "NAME:UID:GROUP:GID:HOME[:SHELL], such as ann:1001:users:100:/users/ann"
MOUNT_FORM: Final = "SOURCE[:TARGET][:ro] with whole paths, such as /home or /srv/apps:/apps:ro"
QUEUE: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,63}")
PREFIX: Final = re.compile(r"[a-z](?:[a-z0-9-]{0,39}[a-z-])?")
PREFIX_FORM: Final = "small letters, digits and -, with a letter first and no digit last"
KIND: Final = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
WORD: Final = "at most 32 small letters, digits, _ and -, and begins with a letter or _"
ID: Final = "a number from 1 to 65533"
PATH: Final = "a whole path of letters, digits and ._-/, at most 200"
FIELDS: Final[Mapping[str, str]] = {
    "name": f"the name is {WORD}",
    "uid": f"the uid is {ID}",
    "group": f"the group is {WORD}",
    "gid": f"the gid is {ID}",
    "home": f"the home is {PATH}",
    "shell": f"the shell is {PATH}",
    "source": f"the source is {PATH}",
    "target": f"the target is {PATH}",
}
"""What each field of a user and a mount must be."""
Form = TypeVar("Form", User, Mount)


class GivenError(ValueError):
    """What is wrong with an option, as a sentence without a full stop."""


def merged(arguments: argparse.Namespace, before: Plan | None, manager: int) -> Plan:
    """`before` None: there was no plan. `manager`: position of the queue's node. Raises GivenError."""
    plan = before or Plan(manager=manager)
    fields: dict[str, Any] = {"manager": manager, "options": _options(arguments, plan.options)}
    if arguments.prefix is not None:
        fields["prefix"] = prefix = _matching("--prefix", arguments.prefix, PREFIX, PREFIX_FORM)
        if before is not None:
            fields["former"] = tuple(each for each in before.prefixes if each != prefix)[:FORMER_MAX]
    if arguments.kinds is not None:
        fields["kinds"] = _kinds(arguments.kinds)
    if arguments.users is not None:
        fields["users"] = _users(arguments.users)
    if arguments.mounts is not None:
        fields["mounts"] = _mounts(arguments.mounts)
    if arguments.hosts is not None:
        fields["has_hosts"] = arguments.hosts
    if arguments.trial is not None:
        fields["is_trial"] = arguments.trial
    found = msgspec.structs.replace(plan, **fields)
    if wrong := list(checks.faults(found.users, found.mounts)):
        raise GivenError("; ".join(wrong))
    return found


def _options(arguments: argparse.Namespace, before: Options | None) -> Options:
    given = {name: getattr(arguments, name) for name in Options.__struct_fields__ if _is_given(arguments, name)}
    given |= {name: None for name in ("idle_min", "lasts_s") if given.get(name) == OFF}
    if "queue" in given:
        _matching("--queue", given["queue"], QUEUE, "letters, digits and ._@-")
    if before is None and "max_nodes" not in given:
        raise GivenError("--max_nodes (-m) is missing: no plan before says how large the cluster may be")
    found = Options(**given) if before is None else msgspec.structs.replace(before, **given)
    if wrong := list(faults(found)):
        raise GivenError("; ".join(wrong))
    return found


def _is_given(arguments: argparse.Namespace, name: str) -> bool:
    return getattr(arguments, name) is not None


def _matching(option: str, text: str, pattern: re.Pattern[str], what: str) -> str:
    if not pattern.fullmatch(text):
        raise GivenError(f"{option} {quoted(text)} is no name: it is of {what}, and not too long")
    return text


def _kinds(text: str) -> tuple[str, ...]:
    if text == ALL:
        return ()
    kinds = tuple(text.split(","))
    for each in kinds:
        _matching("--kinds", each, KIND, "small letters, digits, _ and -")
    _demand_different("--kinds", kinds)
    _demand_few("--kinds", kinds, KINDS_MAX)
    return kinds


# -- users and mounts -----------------------------------------------------------------------------------------------


def _users(texts: Sequence[str]) -> tuple[User, ...]:
    users = tuple(map(_user, _named("--user", texts)))
    _demand_few("--user", users, USERS_MAX)
    return users


def _user(text: str) -> User:
    fields = text.split(":")
    if not 5 <= len(fields) <= 6:
        raise GivenError(f"--user {quoted(text)} has {len(fields)} fields: it is {USER_FORM}")
    names = ("name", "uid", "group", "gid", "home", "shell")[: len(fields)]
    return _made("--user", text, User, dict(zip(names, fields, strict=True)))


def _mounts(texts: Sequence[str]) -> tuple[Mount, ...]:
    mounts = tuple(map(_mount, _named("--mount", texts)))
    _demand_few("--mount", mounts, MOUNTS_MAX)
    return mounts


def _mount(text: str) -> Mount:
    fields = text.split(":")
    read_only = len(fields) > 1 and fields[-1] == "ro"
    paths = fields[:-1] if read_only else fields
    if not 1 <= len(paths) <= 2:
        raise GivenError(f"--mount {quoted(text)} is no mount: it is {MOUNT_FORM}")
    found = _made("--mount", text, Mount, {"source": paths[0], "target": paths[-1], "read_only": read_only})
    if found.target.strip("/") == "":
        raise GivenError(f"--mount {quoted(text)}: the target is the root of the node, where nothing can be mounted")
    return found


def _made(option: str, text: str, form: type[Form], fields: dict[str, Any]) -> Form:
    """Of texts. Raises GivenError."""
    try:
        found = msgspec.convert(fields, form, strict=False)
    except msgspec.ValidationError as error:
        field = str(error).rpartition("$.")[2].rstrip("`")
        raise GivenError(f"{option} {quoted(text)}: {FIELDS.get(field, str(error))}") from None
    for each in fields.values():
        if isinstance(each, str) and ".." in each.split("/"):
            raise GivenError(f"{option} {quoted(text)}: a path has no `..` in it")
    return found


def _named(option: str, texts: Sequence[str]) -> Iterator[str]:
    """Nothing for `none`, which stands alone."""
    if NONE in texts:
        if len(texts) > 1:
            raise GivenError(f"{option} none stands alone: leave out it or the others")
        return
    yield from texts


def _demand_different(what: str, words: Sequence[str]) -> None:
    for place, each in enumerate(words):
        if each in words[:place]:
            raise GivenError(f"{what} {each} is given twice")


def _demand_few(option: str, items: Sequence[object], most: int) -> None:
    if len(items) > most:
        raise GivenError(f"{option} is given {len(items)} times: at most {most} have room in a plan")


def quoted(text: str) -> str:
    """As a word of a message."""
    return repr(text[:80])
