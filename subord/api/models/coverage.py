"""The coverage of an answer, field by field: which nodes it is of, which are missing, and why.

Invariant: `told` and the nodes of `missing` are together `asked`.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from subord import SCHEMA_VERSION
from subord.api.models.document import Addresses, Count, Sentence


class MissingDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes without a result. `cause`: a word (docs/protocol/carriage.md); `text`: the same as a sentence."""

    cause: str
    text: Sentence
    count: Count
    addresses: Addresses


class Coverage(msgspec.Struct, frozen=True, kw_only=True):
    """`asked`: targets, `told`: those with a result. `complete`: none is missing, and all targets are known. `note`:
    why there may be targets that are not known; null: none.

    `oldest_ms`: no result is older than that.
    """

    asked: Count
    told: Count
    complete: bool
    missing: tuple[MissingDocument, ...]
    oldest_ms: float
    note: Sentence | None = None


class CoverageDocument(Coverage, frozen=True, kw_only=True):
    """An answer as a whole, with its coverage as fields of its own."""

    schema_version: int = SCHEMA_VERSION


class Covered(Protocol):
    """An answer with its coverage in one field, because it had fields of these names before."""

    @property
    def coverage(self) -> Coverage | None:
        """None: an older daemon has answered."""


class LevelDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes of one level that answered. `round_trip_ms_max`: of the edges to their leaders, none is longer (in
    steps of a factor of two); null: none is known."""

    level: int
    nodes: Count
    round_trip_ms_max: float | None


class PingDocument(CoverageDocument, frozen=True, kw_only=True):
    levels: tuple[LevelDocument, ...]
