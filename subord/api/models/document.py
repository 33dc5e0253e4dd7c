"""What all JSON documents of a node share: the types of their fields, the version of the format, and renamed fields.

docs/json.md has the style.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, ClassVar

import msgspec
from msgspec.structs import force_setattr

from subord import SCHEMA_VERSION

# Documents of other nodes are checked against these patterns before any text of them reaches a terminal.
Address = Annotated[str, msgspec.Meta(max_length=45, pattern=r"^[0-9a-fA-F.:]+\Z")]
Addresses = Annotated[tuple[Address, ...], msgspec.Meta(max_length=512)]
KeyName = Annotated[str, msgspec.Meta(max_length=8, pattern=r"^[0-9a-f]{8}\Z")]
KeyNames = Annotated[tuple[KeyName, ...], msgspec.Meta(min_length=1, max_length=16)]
Fingerprint = Annotated[str, msgspec.Meta(max_length=50, pattern=r"^SHA256:[0-9A-Za-z+/]{43}\Z")]
Count = Annotated[int, msgspec.Meta(ge=0)]
Sentence = Annotated[str, msgspec.Meta(max_length=1000)]
Time = Annotated[str, msgspec.Meta(max_length=32, extra_json_schema={"format": "date-time"})]
"""RFC 3339, in UTC, with milliseconds."""


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """An answer as a whole."""

    schema_version: int = SCHEMA_VERSION


class Renamed(msgspec.Struct, frozen=True, kw_only=True):
    """Has fields with a new name. Nodes of release 0.1 send only the old name, and read only that one."""

    OLD_NAMES: ClassVar[Mapping[str, str]] = {}
    """The old name of each new one. Both are sent since 0.2; 0.4 drops the old one."""

    def __post_init__(self) -> None:
        for new, old in self.OLD_NAMES.items():
            force_setattr(self, new, getattr(self, old))


def time_text(seconds: float) -> str:
    """A time since 1970 as in `Time`; the earliest or latest one for what no calendar has."""
    try:
        at = datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        at = datetime.min.replace(tzinfo=UTC) if seconds < 0 else datetime.max.replace(tzinfo=UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
