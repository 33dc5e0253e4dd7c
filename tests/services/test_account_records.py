"""Records of jobs: what may be written, every mistake and its sentence, and what is read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from loops import over

from subord.core.carriage.ledger.bounds import RECORD_BYTES_MAX
from subord.services.account.record import (
    FUTURE_S_MAX,
    LATE_S,
    Job,
    RecordError,
    body_of,
    is_late,
    of_line,
    of_texts,
    read,
)

NOW = 1_800_000_000.0
JOB: dict[str, Any] = {"id": "17", "ended": NOW - 10, "started": NOW - 100}
WHOLE: dict[str, Any] = {
    **JOB,
    "submitted": NOW - 200.5,
    "user": "ann",
    "group": "staff",
    "account": "physics",
    "queue": "all.q",
    "cluster": "one",
    "host": "n4",
    "status": 1,
    "signal": 9,
    "slots": 4,
    "cpu_user_s": 12.5,
    "cpu_system_s": 0.5,
    "rss_bytes": 1 << 30,
    "labels": {"gpu": "a100", "\u00fc": ""},
}


def line(**fields: Any) -> bytes:
    return json.dumps({**JOB, **fields}).encode()


@pytest.mark.parametrize("fields", [{"id": "1", "ended": 1}, JOB, WHOLE, {**WHOLE, "v": 1}])
def test_what_is_written_is_read(fields: dict[str, Any]) -> None:
    body = body_of(of_line(json.dumps(fields).encode()), NOW)
    found = read(body)
    assert found is not None
    assert body.startswith(b'{"v":1,')
    for name, value in fields.items():
        assert name == "v" or getattr(found, name) == value
    assert body_of(found, NOW) == body


def test_texts_of_options_are_the_same_job() -> None:
    texts = {name: value if name == "labels" else str(value) for name, value in WHOLE.items()}
    assert of_texts(texts) == of_line(json.dumps(WHOLE).encode())


@over(
    ("given", "words"),
    [
        (b"{", "this is no JSON: Input data was truncated"),
        (b"\xff{}", "this is no JSON"),
        (b'{"id": ' + b"[" * 9_999, "id: expected a text, got a list"),
        (b"[]", "expected a JSON object, got a list"),
        (b"{}", "there is no field `id`"),
        (b'{"id": "1"}', "there is no field `ended`"),
        (line(v=2), "v: invalid value 2"),
        (line(id=""), "id: expected a text of length >= 1"),
        (line(id=17), "id: expected a text, got a whole number"),
        (line(id="x" * 129), "id: expected a text of length <= 128"),
        (line(user="a\nb"), "user: control characters are not allowed"),
        (line(user="a\0b"), "user: control characters are not allowed"),
        (line(ended="now"), "ended: expected a number, got a text"),
        (line(ended=0), "ended: expected a number >= 1.0"),
        (b'{"id": "1", "ended": NaN}', "this is no JSON"),
        (b'{"id": "1", "ended": 1e999}', "ended: number out of range"),
        (line(status=-1), "status: expected a whole number >= 0"),
        (line(status=256), "status: expected a whole number <= 255"),
        (line(status=1.5), "status: expected a whole number, got a number"),
        (line(signal=65), "signal: expected a whole number <= 64"),
        (line(slots=0), "slots: expected a whole number >= 1"),
        (line(slots=10**400), "slots"),
        (line(cpu_user_s=-1), "cpu_user_s: expected a number >= 0.0"),
        (line(rss_bytes=1 << 60), "rss_bytes: expected a whole number <= 9007199254740991"),
        (line(labels={"": "x"}), "labels"),
        (line(labels={"x": 1}), "labels[...]: expected a text, got a whole number"),
        (line(labels={str(each): "" for each in range(17)}), "labels: expected a JSON object of length <= 16"),
        (line(usr="ann"), "no record has a field `usr`"),
        (line(**{"\x1b[31m": 1}), "no record has a field `?[31m`"),
    ],
)
def test_a_malformed_line_is_told_what_is_wrong(given: bytes, words: str) -> None:
    with pytest.raises(RecordError) as error:
        of_line(given)
    assert words in str(error.value)
    assert str(error.value).isprintable()
    assert read(given) is None or b"usr" in given or b"[31m" in given  # of a later release


@pytest.mark.parametrize("text", ["nan", "inf", "-1", "x", "1e999"])
def test_an_option_that_is_no_number_is_told(text: str) -> None:
    with pytest.raises(RecordError, match="ended: "):
        of_texts({"id": "1", "ended": text})


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"ended": NOW + FUTURE_S_MAX + 3600}, "ended is 1 h in the future: is the clock of this host right?"),
        ({"started": NOW + FUTURE_S_MAX + 3600, "ended": NOW}, "started is 1 h in the future"),
        ({"submitted": NOW + FUTURE_S_MAX + 60, "ended": NOW}, "submitted is 6 min in the future"),
        ({"started": NOW, "ended": NOW - 1}, "started is after ended"),
        ({"submitted": NOW, "ended": NOW - FUTURE_S_MAX - 1}, "submitted is after ended"),
        ({"labels": {f"{each:064}": "\U0001f600" * 64 for each in range(16)}}, ""),
    ],
)
def test_impossible_times_are_refused(fields: dict[str, Any], words: str) -> None:
    job = of_line(json.dumps({"id": "1", "ended": NOW, **fields}).encode())
    if not words:
        assert len(body_of(job, NOW)) <= RECORD_BYTES_MAX
        return
    with pytest.raises(RecordError) as error:
        body_of(job, NOW)
    assert words in str(error.value)


def test_the_longest_record_has_a_bound() -> None:
    """Escaped characters take six bytes; then the record is refused, and not cut."""
    texts = dict.fromkeys(("id", "user", "group", "account", "queue", "cluster", "host"), "\U0001f600" * 128)
    job = Job(ended=NOW, **texts, labels={f"{each:064}": '"' * 64 for each in range(16)})
    assert len(body_of(job, NOW)) <= RECORD_BYTES_MAX


def test_a_text_that_is_no_utf_8_is_refused() -> None:
    """An argument of a command may have any bytes."""
    with pytest.raises(RecordError, match="a text is not UTF-8"):
        body_of(of_texts({"id": "1", "ended": NOW, "user": "ann\udcff"}), NOW)


def test_a_year_old_record_is_accepted_and_late() -> None:
    job = of_line(line(ended=NOW - 365 * 86_400, started=None))
    assert read(body_of(job, NOW)) == Job(id="17", ended=NOW - 365 * 86_400)
    assert is_late(job, NOW)
    assert not is_late(job, job.ended + LATE_S)


def test_clocks_may_differ_a_little() -> None:
    body_of(of_line(line(ended=NOW + FUTURE_S_MAX, submitted=NOW + 2)), NOW)


def test_a_record_of_a_later_release_with_more_fields_is_read() -> None:
    assert read(b'{"v":1,"id":"1","ended":5,"energy_j":3}') == Job(id="1", ended=5)
    assert read(b'{"v":2,"id":"1","ended":5}') is None
    assert read(b'{"v":1,"id":"1","ended":5,"started":9}') is None


@pytest.mark.parametrize(
    ("fields", "failed"),
    [({}, False), ({"status": 0}, False), ({"status": 3}, True), ({"signal": 0}, False), ({"signal": 9}, True)],
)
def test_what_counts_as_failed(fields: dict[str, Any], failed: bool) -> None:
    assert Job(id="1", ended=1.0, **fields).has_failed is failed


@pytest.mark.parametrize(
    ("fields", "cpu_s"),
    [
        ({}, None),
        ({"cpu_user_s": 2.0}, 2.0),
        ({"cpu_user_s": 2.0, "cpu_system_s": 0.5}, 2.5),
        ({"cpu_system_s": 0}, 0),
    ],
)
def test_cpu_seconds(fields: dict[str, Any], cpu_s: float | None) -> None:
    assert Job(id="1", ended=1.0, **fields).cpu_s == cpu_s
