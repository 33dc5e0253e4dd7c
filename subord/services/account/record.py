"""A record of a job: its schema, and whether one may be written.

Inputs are the fields of a job, and the time; output is the body of a record in the ledger, or a sentence that says
what is wrong. The version of the schema is `v`. A field that is added later keeps the version, and older releases
pass it over; a field with another meaning gets another version, and is unreadable for them. Invariant: what `body_of`
returns, `read` reads, in this release and all later ones.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Final

import msgspec

from subord.client.text import age, printable
from subord.core.carriage.ledger.bounds import RECORD_BYTES_MAX
from subord.core.decoding import UNREADABLE

JOB: Final = "job"
COMMAND: Final = "command"
FUTURE_S_MAX: Final = 300.0
"""How far the clocks of two nodes may differ."""
LATE_S: Final = 86_400.0
"""A record that is written, or stored, so long after the end of the job is late."""
TEXT_CHARS_MAX: Final = 128
LABELS_MAX: Final = 16
LABEL_CHARS_MAX: Final = 64
NUMBER_MAX: Final = (1 << 53) - 1
SLOTS_MAX: Final = 10_000_000
SIGNAL_MAX: Final = 64

_PRINTABLE: Final = r"\A[^\x00-\x1f\x7f-\x9f]*\Z"
_Text = Annotated[str, msgspec.Meta(max_length=TEXT_CHARS_MAX, pattern=_PRINTABLE)]
_Id = Annotated[str, msgspec.Meta(min_length=1, max_length=TEXT_CHARS_MAX, pattern=_PRINTABLE)]
_Label = Annotated[str, msgspec.Meta(max_length=LABEL_CHARS_MAX, pattern=_PRINTABLE)]
_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=LABEL_CHARS_MAX, pattern=_PRINTABLE)]
_Time = Annotated[float, msgspec.Meta(ge=1, le=NUMBER_MAX)]
_Seconds = Annotated[float, msgspec.Meta(ge=0, le=NUMBER_MAX)]


class Job(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="v", tag=1):
    """A job on one host. Times are seconds since 1970 UTC. A job on several hosts may have a record of each, with the
    same `cluster`, `id` and `started`. null: not known. `slots`: those of this record, such as the CPUs on its host.
    `rss_bytes`: the most memory that it has used at once."""

    id: _Id
    ended: _Time
    started: _Time | None = None
    submitted: _Time | None = None
    user: _Text = ""
    group: _Text = ""
    account: _Text = ""
    queue: _Text = ""
    cluster: _Text = ""
    host: _Text = ""
    status: Annotated[int, msgspec.Meta(ge=0, le=255)] | None = None
    signal: Annotated[int, msgspec.Meta(ge=0, le=SIGNAL_MAX)] | None = None
    slots: Annotated[int, msgspec.Meta(ge=1, le=SLOTS_MAX)] = 1
    cpu_user_s: _Seconds | None = None
    cpu_system_s: _Seconds | None = None
    rss_bytes: Annotated[int, msgspec.Meta(ge=0, le=NUMBER_MAX)] | None = None
    labels: Annotated[dict[_Name, _Label], msgspec.Meta(max_length=LABELS_MAX)] = {}

    @property
    def key(self) -> tuple[str, str, float]:
        """Equal in all records of one job."""
        return self.cluster, self.id, self.started or 0.0

    @property
    def wall_s(self) -> float:
        """0: it is not known."""
        return 0.0 if self.started is None else self.ended - self.started

    @property
    def cpu_s(self) -> float | None:
        """None: it is not known."""
        if self.cpu_user_s is None and self.cpu_system_s is None:
            return None
        return (self.cpu_user_s or 0.0) + (self.cpu_system_s or 0.0)

    @property
    def has_failed(self) -> bool:
        return bool(self.status or self.signal)


class _Given(Job, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A job of a writer, whose mistakes are told."""


class RecordError(Exception):
    """Why a record may not be written: a sentence without a full stop."""


FIELDS: Final = tuple(each.name for each in msgspec.structs.fields(Job))
_reader: Final = msgspec.json.Decoder(Job)
_given: Final = msgspec.json.Decoder(_Given)
_encode: Final = msgspec.json.Encoder(order="deterministic").encode
_PLAIN: Final = {
    "Object missing required field": "there is no field",
    "Object contains unknown field": "no record has a field",
    "`int`": "a whole number",
    "`float`": "a number",
    "`str`": "a text",
    " | null`": "`",
    "`object`": "a JSON object",
    "`array`": "a list",
}
"""Words of the decoder, and plain ones."""
_PLACE: Final = re.compile(r"(?s)(.*) - at `\$\.?(.*)`\Z")


def read(body: bytes) -> Job | None:
    """None: it is no record of a job that this release can read."""
    try:
        job = _reader.decode(body)
    except UNREADABLE:
        return None
    return None if job.wall_s < 0 else job


def of_line(line: bytes) -> Job:
    """A job from a line of JSON. Raises RecordError."""
    try:
        return _given.decode(line)
    except msgspec.ValidationError as error:
        raise RecordError(_words(str(error))) from None
    except UNREADABLE as error:
        raise RecordError(f"this is no JSON: {error}") from None


def of_texts(fields: Mapping[str, object]) -> Job:
    """A job from texts such as those of options. Raises RecordError."""
    try:
        return msgspec.convert(dict(fields), _Given, strict=False)
    except msgspec.ValidationError as error:
        raise RecordError(_words(str(error))) from None


def body_of(job: Job, now: float) -> bytes:
    """The body of a record that is written now. Raises RecordError."""
    for name, time in (("ended", job.ended), ("started", job.started), ("submitted", job.submitted)):
        if time is not None and time > now + FUTURE_S_MAX:
            raise RecordError(f"{name} is {age(time - now)} in the future: is the clock of this host right?")
    if job.wall_s < 0:
        raise RecordError("started is after ended")
    if job.submitted is not None and job.submitted > job.ended + FUTURE_S_MAX:
        raise RecordError("submitted is after ended")
    try:
        body = _encode(job)
    except UnicodeEncodeError:
        raise RecordError("a text is not UTF-8") from None
    if len(body) > RECORD_BYTES_MAX:
        raise RecordError(f"the record has {len(body)} bytes, and not at most {RECORD_BYTES_MAX}")
    return body


def wrong(body: bytes, now: float) -> str:
    """Why a record with this body may not be written now; "": it may."""
    try:
        body_of(of_line(body), now)
    except RecordError as error:
        return str(error)
    return ""


def is_late(job: Job, at: float) -> bool:
    """Whether a record that is written or stored at this time is late."""
    return at - job.ended > LATE_S


def _words(message: str) -> str:
    """`slots: expected a whole number >= 1`. Field names of a writer go to a terminal."""
    found = _PLACE.fullmatch(message)
    what, place = (found[1], found[2]) if found else (message, "")
    if "matching regex" in what:
        what = "control characters are not allowed"
    for words, plain in reversed(_PLAIN.items()):
        what = what.replace(words, plain)
    what = what[:1].lower() + what[1:]
    return printable(f"{place}: {what}" if place else what)
