"""`subord operator who` and `revoked`: the operators of this node, and what is revoked in the cluster."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator

from subord.cli.operators.table import table
from subord.client import exit_codes
from subord.client.daemon import Document, asked
from subord.client.orders.signing import own_keys
from subord.client.text import columns, count, printable


def run(arguments: argparse.Namespace) -> int:
    """Prints what the daemon knows."""
    found = asked(arguments, "/v1/operators")
    if arguments.action == "revoked":
        kept = {key: found[key] for key in ("schema_version", "revocations")}
        print(json.dumps(kept) if arguments.json else "\n".join(revocations(found)))
        return exit_codes.OK
    own = [_own(path, found["operators"]) for path in own_keys()]
    if arguments.json:
        print(json.dumps({**found, "own": own}))
    else:
        print("\n".join(_text(found, own)))
    return exit_codes.OK


def _own(path: str, operators: list[Document]) -> Document:
    """A public key of the operator, and whether this node knows it."""
    from subord.runtime.security.sshsig import SshsigError, decoded, public_key_of

    fingerprint = None
    try:
        with open(path, "rb") as file:
            words = file.read(65_536).split()
        fingerprint = public_key_of(decoded(words[1])).fingerprint
    except (OSError, IndexError, SshsigError):
        pass  # no public key
    return {
        "file": path,
        "fingerprint": fingerprint,
        "known": any(each["fingerprint"] == fingerprint for each in operators),
    }


def _text(found: Document, own: list[Document]) -> Iterator[str]:
    if found["word"]:
        yield printable(found["sentence"])
    else:
        yield f"{count(len(found['operators']) + found['more'], 'operator')} in {printable(found['file'])}"
        yield from table(found["operators"], {each["fingerprint"] for each in own})
    if found["more"]:
        yield f"{found['more']} more"
    if found["faults"]:
        lines = count(len(found["faults"]), "line")
        yield f"{lines} with faults: see `subord operator check {printable(found['file'])}`"
    for each in own:
        if not each["known"]:
            yield f"your key {printable(each['file'])} is not among them (a certificate may be)"
    if found["revocations"]:
        yield f"{count(len(found['revocations']), 'revocation')}: see `subord operator revoked`"


def revocations(found: Document) -> list[str]:
    """The list as a table."""
    rows = [
        [printable(each[key]) for key in ("what", "kind", "time", "by", "reason")] for each in found["revocations"]
    ]
    return columns([["revoked", "kind", "since", "by", "reason"], *rows]) if rows else ["nothing is revoked"]
