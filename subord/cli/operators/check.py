"""`subord operator check`: what an operators file grants, and what is wrong with it.

In: a path; no daemon is asked. Out: the table of its lines, and faults. Only faults make the exit code CONFIGURATION.
"""

from __future__ import annotations

import argparse
import json
import os
import stat
import time
from collections.abc import Iterator
from math import inf
from typing import NamedTuple

from subord import SCHEMA_VERSION
from subord.cli.operators.table import table
from subord.client import exit_codes
from subord.client.daemon import Document
from subord.client.text import count
from subord.core.carriage.verdicts import sentence
from subord.runtime.security import allowed_signers, operators_file
from subord.runtime.security.allowed_signers import Fault, Signer
from subord.services import NAMES
from subord.services.acting import has_effects

DAEMON_USER = "subord"


class _User(NamedTuple):
    """The daemon's."""

    name: str
    uid: int
    gids: frozenset[int]


def run(arguments: argparse.Namespace) -> int:
    """Prints what the file grants."""
    found = checked(arguments.file)
    if arguments.json:
        print(json.dumps(found))
    else:
        print("\n".join(_text(found)))
    return exit_codes.OK if found["ok"] else exit_codes.CONFIGURATION


def checked(path: str) -> Document:
    """The document of the file."""
    user, now_s = _daemon_user(), time.time()
    with operators_file.opened(path, user.uid) as file:
        lines = [] if file.word else allowed_signers.parse(operators_file.read(file))
        about = os.fstat(file.descriptor) if not file.word else None
    signers = [each for each in lines if isinstance(each, Signer)]
    faults = [{"line": each.line, "text": each.what} for each in lines if isinstance(each, Fault)]
    if file.word:
        faults.append({"line": 0, "text": f"{sentence(file.word)} ({file.detail})"})
    elif about is not None and not _is_readable(about, user):
        faults.append({"line": 0, "text": f"user {user.name} of the daemon cannot read it; chmod 644"})
    elif not signers:
        faults.append({"line": 0, "text": "it names no operator, so no order is taken"})
    return {
        "schema_version": SCHEMA_VERSION,
        "file": path,
        "ok": not faults,
        "operators": [_shown(each, now_s) for each in signers],
        "faults": faults,
        "doubts": [{"line": line, "text": text} for line, text in _doubts(signers, now_s)],
    }


def _doubts(signers: list[Signer], now_s: float) -> Iterator[tuple[int, str]]:
    services = [each for each in NAMES if has_effects(each)]
    for each in signers:
        for text in allowed_signers.doubts(each, services):
            yield each.line, text
        if not each.is_valid(now_s):
            yield each.line, "the key is not valid now (valid-after, valid-before)"
    for earlier, each in allowed_signers.repeated(signers):
        yield each.line, f"the key stands in line {earlier.line} for other operators; only that line counts"


def _shown(signer: Signer, now_s: float) -> Document:
    from subord.api.models.document import time_text

    return {
        "line": signer.line,
        "principals": list(signer.principals),
        "key_type": signer.key_type,
        "fingerprint": signer.fingerprint,
        "authority": signer.is_authority,
        "powers": list(signer.powers),
        "valid_after": time_text(signer.valid_after) if signer.valid_after else None,
        "valid_before": time_text(signer.valid_before) if signer.valid_before < inf else None,
        "valid": signer.is_valid(now_s),
    }


def _text(found: Document) -> Iterator[str]:
    verdict = "ok" if found["ok"] else "not ok"
    yield f"{found['file']}: {verdict}, {count(len(found['operators']), 'operator')}"
    yield from table(found["operators"])
    for kind, items in (("fault", found["faults"]), ("doubt", found["doubts"])):
        for each in items:
            place = f"line {each['line']}: " if each["line"] else ""
            yield f"{kind}: {place}{each['text']}"


def _daemon_user() -> _User:
    """Of an installation as a service; else the user of this process."""
    import pwd

    try:
        entry = pwd.getpwnam(DAEMON_USER)
        return _User(DAEMON_USER, entry.pw_uid, frozenset(os.getgrouplist(DAEMON_USER, entry.pw_gid)))
    except KeyError:
        return _User("of this process", os.geteuid(), frozenset((os.getegid(), *os.getgroups())))


def _is_readable(about: os.stat_result, user: _User) -> bool:
    mode = about.st_mode
    if user.uid == 0 or mode & stat.S_IROTH:
        return True
    return bool(
        (about.st_uid == user.uid and mode & stat.S_IRUSR) or (about.st_gid in user.gids and mode & stat.S_IRGRP)
    )
