"""The documents of `subord hosts`, field by field."""

from __future__ import annotations

from typing import Annotated

import msgspec

from subord.api.models.coverage import CoverageDocument
from subord.api.models.document import Address, Addresses, Count, Document, Sentence, Time
from subord.services.hosts.table import NAME_CHARS_MAX

Name = Annotated[str, msgspec.Meta(max_length=NAME_CHARS_MAX, pattern=r"^[0-9a-z.-]+\Z")]


class EntryDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A name of a node, and its address."""

    name: Name
    address: Address


class TableDocument(Document, frozen=True, kw_only=True):
    """The table as the asked node holds it. `version` 0: none was published. `mark`: of its content; "": there is
    none. `principal`: the operator, as the file of the asked node names the key; null: not known. `readable` false:
    it is of a later release. `conflict`: another table had the same version; this one counts."""

    version: Count
    mark: str
    principal: str | None
    time: Time | None
    readable: bool
    conflict: bool
    entries: tuple[EntryDocument, ...]


class StateDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes that say the same of the table. `state`: a word, `text`: the same as a sentence. `detail`: why; `notes`:
    what is odd but hinders nothing. `version`, `mark`: of the table that they have, 0 and "": none. `applied`: it is
    that of the asked node, and its names are in their files; or the configuration of these nodes says that they
    follow no table."""

    state: str
    text: Sentence
    detail: Sentence
    notes: tuple[Sentence, ...]
    version: Count
    mark: str
    applied: bool
    nodes: Count
    addresses: Addresses


class HostsDocument(CoverageDocument, frozen=True, kw_only=True):
    """`version`, `mark`: of the table that the asked node holds. `states`: those that need an operator first.
    `unread`: nodes whose answers cannot be read."""

    version: Count
    mark: str
    states: tuple[StateDocument, ...]
    unread: Count
