"""What the control socket serves: the addresses under /v1 and their documents.

Intuition: an information desk. It answers about its own house at once, telephones another house when
asked to, and has an answer within a second even when nobody there picks up.
"""

from __future__ import annotations

import msgspec
import trio

from subord.api import documents, trees
from subord.api.forms import WhyDocument
from subord.api.rootward import find_roster
from subord.api.serve import App, Query, Response, failure
from subord.api.shown import AskFailure, Shown
from subord.wire import UNREADABLE

ASK_S_MAX = 0.8


def control_app(shown: Shown) -> App:
    """The handlers of the control socket.

    - `/v1/status`, `/v1/counters`: this node.
    - `/v1/tree`: the whole cluster, nested; with `?form=rows` flat, in depth-first order.
    - `/v1/why?address=A`: the node A; without `address` this one.
    """

    async def status(_: Query) -> Response:
        return Response(msgspec.json.encode(documents.status(shown)))

    async def counters(_: Query) -> Response:
        return Response(msgspec.json.encode(documents.counters(shown)))

    async def tree(query: Query) -> Response:
        found = await find_roster(shown)
        document = trees.tree(found.roster, found.complete, found.note)
        if query.get("form") == "rows":
            return Response(msgspec.json.encode(document))
        return Response(trees.encoded(document))

    async def why(query: Query) -> Response:
        return await _why(shown, query.get("address", shown.address))

    return {"/v1/status": status, "/v1/counters": counters, "/v1/tree": tree, "/v1/why": why}


async def _why(shown: Shown, address: str) -> Response:
    network = shown.settings.network
    position = network.position_of(address)
    if position is None:
        return failure(404, f"{address!r} is no address of the network {network.text}: nobody was asked")
    address = network.address_text_of(position)
    if address == shown.address:
        return Response(documents.answer(shown, "why"))
    with trio.move_on_after(ASK_S_MAX):
        answer = await shown.ask(address, "why", ASK_S_MAX)
        if isinstance(answer, AskFailure):
            return failure(504, f"{address} {answer.reason}")
        try:
            return Response(msgspec.json.encode(msgspec.json.decode(answer, type=WhyDocument)))
        except UNREADABLE:
            return failure(502, f"{address} answers something else than its reasons: does it run this version?")
    return failure(504, f"{address} does not answer")
