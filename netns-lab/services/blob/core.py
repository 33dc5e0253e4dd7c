"""What a node does: `put FILE` keeps a file as a blob; `get NAME SOURCE FILE` fetches one, and writes it as a file.

A service of the product would fetch in a task of its own, and answer how far it is: an order ends after some seconds.
Here what has come stays until the next order, which goes on with it, because nothing is released.
"""

from __future__ import annotations

from pathlib import Path

from subord.api.models.coverage import CoverageDocument
from subord.api.node_api import NodeApi
from subord.runtime.blobs.store import BlobError
from subord.services.contract import Answered, Service
from subord.services.serving import of_coverage


class BlobDocument(CoverageDocument, frozen=True, kw_only=True):
    """`results`: nodes by what they say."""

    results: dict[str, int]


async def answer(node: NodeApi, payload: bytes) -> bytes:
    word, *rest = payload.decode().split()
    try:
        if word == "put":
            return (await node.blobs.put(Path(rest[0]))).hex().encode()
        name = bytes.fromhex(rest[0])
        await node.blobs.fetch(name, int(rest[1]))
        await node.blobs.copy(name, Path(rest[2]))
    except BlobError as reason:
        return str(reason).encode()
    return b"here"


def document(answered: Answered) -> CoverageDocument:
    results = {result.decode(errors="replace"): len(nodes) for result, nodes in answered.answer.groups}
    return of_coverage(BlobDocument, answered, results=results)


SERVICE = Service(answer, document, payload=str.encode)
