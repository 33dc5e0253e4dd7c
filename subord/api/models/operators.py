"""The JSON document of the operators that a node knows, and of what is revoked."""

from __future__ import annotations

from typing import Literal

import msgspec

from subord.api.models.document import Count, Document, Sentence, Time


class OperatorDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the operators file. `authority`: the key signs certificates of operators. Times null: no limit.

    `valid`: its time has come and not passed. `revoked`: the principal or the key is on the list of revocations.
    """

    line: Count
    principals: tuple[str, ...]
    key_type: str
    fingerprint: str
    authority: bool
    powers: tuple[str, ...]
    valid_after: Time | None
    valid_before: Time | None
    valid: bool
    revoked: bool


class FaultDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong with a line, or doubtful."""

    line: Count
    text: Sentence


class RevocationDocument(msgspec.Struct, frozen=True, kw_only=True):
    """`what`: a principal, the fingerprint of a key, or a node's address. `by`: as the operator called itself."""

    kind: Literal["operator", "node"]
    what: str
    reason: str
    time: Time
    by: str


class OperatorsDocument(Document, frozen=True, kw_only=True):
    """The operators of one node. `word`: why its file does not count, `sentence`: what that means; empty: it does.

    `faults`: lines that grant nothing. `more`: lines for which there was no room.
    """

    file: str
    word: str
    sentence: Sentence
    operators: tuple[OperatorDocument, ...]
    more: Count
    faults: tuple[FaultDocument, ...]
    revocations: tuple[RevocationDocument, ...]
