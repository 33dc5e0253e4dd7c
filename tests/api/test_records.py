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
from subord.runtime.ledger.keeper import FULL
from subord.services.serving import record_checks
from tests.api.served_ledger import FakeLedger


async def give(ledger: FakeLedger, body: Any, *, is_owner: bool = True) -> tuple[int, dict[str, Any]]:
    handler = record_handlers(SimpleNamespace(ledger=ledger), record_checks())["/v1/records"]  # type: ignore[arg-type]
    answer = await handler(Call({}, body if isinstance(body, bytes) else json.dumps(body).encode(), is_owner))
    return answer.status, json.loads(answer.body)


async def test_records_are_taken() -> None:
    ledger = FakeLedger()
    status, found = await give(ledger, [{"kind": "test", "body": "17 \u00fc"}, {"kind": "test", "body": ""}])
    assert (status, found["accepted"]) == (200, 2)
    assert ledger.kept == (Record("test", "17 \u00fc".encode()), Record("test", b""))


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        {"kind": "test", "body": ""},
        [{"kind": "", "body": ""}],
        [{"kind": "k" * 33, "body": ""}],
        [{"kind": "k\0", "body": ""}],
        [{"kind": "k\n", "body": ""}],
        [{"kind": "\x85k", "body": ""}],
        [{"kind": "test"}],
        [{"kind": "test", "body": "", "other": 1}],
        [{"kind": "test", "body": "x" * (bounds.RECORD_BYTES_MAX + 1)}],
        [{"kind": "test", "body": ""}, {"kind": "test", "body": 1}],
    ],
)
async def test_what_is_wrong_keeps_nothing(body: Any) -> None:
    ledger = FakeLedger()
    status, found = await give(ledger, body)
    assert status == 400
    assert "no record is kept" in found["error"]
    assert ledger.kept == ()


async def test_other_users_may_not_write() -> None:
    status, found = await give(FakeLedger(), [{"kind": "test", "body": ""}], is_owner=False)
    assert status == 403
    assert "no record is kept" in found["error"]


async def test_a_full_spool_is_told() -> None:
    assert await give(FakeLedger(room=0), [{"kind": "test", "body": ""}]) == (507, {"error": FULL})


JOB = json.dumps({"v": 1, "id": "17", "ended": 1_700_000_000})


@pytest.mark.parametrize("kind", ["job", "command"])
@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("", "this is no JSON: "),
        ("17 ok", "expected a JSON object, got a whole number"),
        ("{}", "there is no field `id`"),
        ('{"v": 2, "id": "17", "ended": 5}', "v: invalid value 2"),
        ('{"id": "17", "ended": 5, "usr": "ann"}', "no record has a field `usr`"),
        ('{"id": "17", "ended": 5, "user": "\\u0007"}', "user: control characters are not allowed"),
        ('{"id": "17", "ended": 5, "user": "\\ud800"}', "this is no JSON: "),
        ('{"id": "17", "ended": 5, "started": 6}', "started is after ended"),
        ('{"id": "17", "ended": 99999999999}', "is the clock of this host right?"),
    ],
)
async def test_a_record_of_a_job_is_checked(kind: str, body: str, sentence: str) -> None:
    ledger = FakeLedger()
    status, found = await give(ledger, [{"kind": kind, "body": body}])
    assert status == 400
    assert sentence in found["error"]
    assert found["error"].endswith("; no record is kept")
    status, found = await give(ledger, [{"kind": kind, "body": JOB}, {"kind": "job", "body": body}])
    assert found["error"].startswith("record 2: ")
    assert ledger.kept == ()


async def test_what_is_right_is_kept_as_it_is_and_other_kinds_are_not_read() -> None:
    ledger = FakeLedger()
    given = [("job", JOB), ("command", JOB), ("backup", "17 ok"), ("jobs", "{")]
    status, _ = await give(ledger, [{"kind": kind, "body": body} for kind, body in given])
    assert status == 200
    assert ledger.kept == tuple(Record(kind, body.encode()) for kind, body in given)
