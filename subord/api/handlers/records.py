"""Takes records of writers on this node into the ledger.

Input: a POST with a JSON list of records, from root or the daemon's own user, and the checks of services, by kind.
Output: how many are accepted, which is all or none; they are on the disk then. A writer without an answer does not
know, and may write twice. Invariant: the body of a kind without a check is not read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Annotated

import msgspec

from subord.api.http.server import Call, Orders, Response, document, failure
from subord.api.models.fields import RecordsDocument
from subord.api.node_api import NodeApi
from subord.core.carriage.ledger import bounds
from subord.core.carriage.ledger.bodies import Record
from subord.core.decoding import UNREADABLE


class _Given(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    kind: Annotated[str, msgspec.Meta(min_length=1, max_length=bounds.KIND_CHARS_MAX, pattern=bounds.KIND_PATTERN)]
    body: str


_decoder = msgspec.json.Decoder(Annotated[list[_Given], msgspec.Meta(max_length=bounds.BATCH_RECORDS_MAX)])


def record_handlers(node: NodeApi, checks: Mapping[str, Callable[[bytes, float], str]]) -> Orders:
    """The handler of `/v1/records`. `checks`: of a body at a time, with what is wrong with it."""

    async def take(call: Call) -> Response:
        if not call.is_owner:
            return failure(403, "only root and the daemon's own user may write records: no record is kept")
        try:
            given = _decoder.decode(call.body)
        except UNREADABLE as error:
            return failure(400, f"the records cannot be read: {error}; no record is kept")
        records = tuple(Record(each.kind, each.body.encode()) for each in given)
        if any(len(each.body) > bounds.RECORD_BYTES_MAX for each in records):
            return failure(400, f"a record has more than {bounds.RECORD_BYTES_MAX} bytes: no record is kept")
        if wrong := _wrong(records, checks):
            return failure(400, f"{wrong}; no record is kept")
        reason = await node.ledger.append(records)
        return failure(507, reason) if reason else document(RecordsDocument(accepted=len(records)))

    return {"/v1/records": take}


def _wrong(records: tuple[Record, ...], checks: Mapping[str, Callable[[bytes, float], str]]) -> str:
    """What is wrong with the first record that is; "": nothing."""
    now = time.time()
    for number, each in enumerate(records, 1):
        check = checks.get(each.kind)
        if check is not None and (why := check(each.body, now)):
            which = f"record {number}: " if len(records) > 1 else ""
            return f"{which}{why}"
    return ""
