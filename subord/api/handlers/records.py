"""Takes records of writers on this node into the ledger.

Input: a POST with a JSON list of records, from root or the daemon's own user. Output: how many are accepted, which is
all or none; they are on the disk then. A writer without an answer does not know, and may write twice.
"""

from __future__ import annotations

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


def record_handlers(node: NodeApi) -> Orders:
    """The handler of `/v1/records`."""

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
        reason = await node.ledger.append(records)
        return failure(507, reason) if reason else document(RecordsDocument(accepted=len(records)))

    return {"/v1/records": take}
