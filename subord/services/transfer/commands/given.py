"""The plan that a file gives, in TOML or JSON.

Input is the text; output is the plan, and the name of the transfer host as the file has it. Invariant: what is wrong
is named with its key, and then there is no plan.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from subord.client.orders.given import NoTomlError, limits, toml_in
from subord.services.transfer.plan import Plan, faults

FILE_BYTES_MAX: Final = 64 * 1024
_ERROR: Final = re.compile(r"(?P<what>.*?)(?: - at `\$\.?(?P<path>[^`]*)`)?\Z", re.DOTALL)


PEER: Final = "name, addresses and certificates"
_CLUSTER: Final = "at most 32 small letters, digits and -, with a letter or digit first"
_ACCOUNT: Final = "the name of an account"
_REQUEST: Final = "at most 64 letters, digits and _.:/-, with a letter first"
FORMS: Final[Mapping[str, str]] = {
    "cluster": f"it must be {_CLUSTER}",
    "peer.name": f"it must be {_CLUSTER}",
    "peer.addresses": "each must be HOST:PORT",
    "peer.certificates": "each must be one line, as `subord transfer key` prints it in the other cluster",
    "users.theirs": f"it must be {_ACCOUNT}",
    "users.ours": f"it must be {_ACCOUNT}",
    "requests.name": f"it must be {_REQUEST}",
    "requests.to": f"it must be {_REQUEST}, or empty",
    "opt_out": f"it must be {_REQUEST}",
    "sensor": f"it must be {_REQUEST}",
}
"""Of texts, by their keys."""
NAME: Final = "it must be at most 128 letters, digits and _.@*-"
TABLE: Final = f"it must be a table: write [peer], and {PEER} below it"


class GivenError(ValueError):
    """What is wrong, as a sentence without a full stop."""


class Given(NamedTuple):
    """`host`: a name or an address; "": the file has none. The plan has no host yet."""

    plan: Plan
    host: str


def parsed(text: str) -> Given:
    """Raises GivenError."""
    if not text.strip():
        raise GivenError(f"it is empty: write at least a table [peer] with {PEER}")
    document = _json(text) if text.lstrip().startswith("{") else _toml(text)
    host = document.pop("host", "")
    if not isinstance(host, str):
        raise GivenError("host must be a string: the name or the address of the transfer host")
    if "peer" not in document:
        raise GivenError(f"it names no other cluster: write a table [peer] with {PEER}")
    try:
        plan = msgspec.convert({**document, "host": 0}, Plan)
    except msgspec.ValidationError as error:
        raise GivenError(_said(str(error))) from None
    if wrong := list(faults(msgspec.structs.replace(plan, host=1))):
        raise GivenError("; ".join(wrong))
    return Given(plan, host)


def _toml(text: str) -> dict[str, Any]:
    try:
        return toml_in(text)
    except NoTomlError as error:
        raise GivenError(str(error)) from None


def _json(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise GivenError(f"it is no JSON: {error}") from None
    return dict(found)


def _said(text: str) -> str:
    """What msgspec says of a document, with the key before it."""
    match = _ERROR.match(text)
    assert match is not None  # it matches every text
    what, place = match["what"].replace("`", ""), match["path"] or "the plan"
    if unknown := re.search(r"unknown field (\S+)", what):
        return f"{place}: there is no key {unknown[1][:64]}"
    if missing := re.search(r"missing required field (\S+)", what):
        return f"{place}: the key {missing[1]} is missing"
    key = re.sub(r"\[[^\]]*\]", "", place)
    if "matching regex" in what or (key in FORMS and "str of length" in what):
        return f"{key}: {FORMS.get(key, NAME)}"
    if key == "peer":
        return f"{key}: {TABLE}"
    return f"{place}: it must be {limits(match['what'])}"
