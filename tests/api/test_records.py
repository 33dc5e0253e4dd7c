"""`/v1/records`: what is taken into the ledger, and every reason why nothing is."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from subord.api.handlers.records import record_handlers
from subord.api.http.server import Call
from subord.core.carriage.ledger import bounds
from subord.core.carriage.ledger.bodies import Record


class FakeLedger:
    def __init__(self, reason: str = "") -> None:
        self.reason = reason
        self.kept: tuple[Record, ...] = ()

    async def append(self, records: tuple[Record, ...]) -> str:
        self.kept += () if self.reason else records
        return self.reason


async def give(ledger: FakeLedger, body: Any, *, is_owner: bool = True) -> tuple[int, dict[str, Any]]:
    handler = record_handlers(SimpleNamespace(ledger=ledger))["/v1/records"]  # type: ignore[arg-type]
    answer = await handler(Call({}, body if isinstance(body, bytes) else json.dumps(body).encode(), is_owner))
    return answer.status, json.loads(answer.body)


async def test_records_are_taken() -> None:
    ledger = FakeLedger()
    status, found = await give(ledger, [{"kind": "job", "body": "17 \u00fc"}, {"kind": "job", "body": ""}])
    assert (status, found["accepted"]) == (200, 2)
    assert ledger.kept == (Record("job", "17 \u00fc".encode()), Record("job", b""))


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        {"kind": "job", "body": ""},
        [{"kind": "", "body": ""}],
        [{"kind": "k" * 33, "body": ""}],
        [{"kind": "k\0", "body": ""}],
        [{"kind": "k\n", "body": ""}],
        [{"kind": "\x85k", "body": ""}],
        [{"kind": "job"}],
        [{"kind": "job", "body": "", "other": 1}],
        [{"kind": "job", "body": "x" * (bounds.RECORD_BYTES_MAX + 1)}],
        [{"kind": "job", "body": ""}, {"kind": "job", "body": 1}],
    ],
)
async def test_what_is_wrong_keeps_nothing(body: Any) -> None:
    ledger = FakeLedger()
    status, found = await give(ledger, body)
    assert status == 400
    assert "no record is kept" in found["error"]
    assert ledger.kept == ()


async def test_other_users_may_not_write() -> None:
    status, found = await give(FakeLedger(), [{"kind": "job", "body": ""}], is_owner=False)
    assert status == 403
    assert "no record is kept" in found["error"]


async def test_a_full_spool_is_told() -> None:
    assert await give(FakeLedger("the spool is full"), [{"kind": "job", "body": ""}]) == (
        507,
        {"error": "the spool is full"},
    )
