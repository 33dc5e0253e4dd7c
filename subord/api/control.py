"""What the control socket serves: the addresses under /v1 and their documents.

Intuition: an information desk. It answers about its own house at once, telephones another house when
asked to, and has an answer within a second even when nobody there picks up.
"""

from __future__ import annotations

import msgspec
import trio

from subord.api import answers, documents, keys, trees
from subord.api.forms import JobsDocument, KeysDocument, RotatedDocument, WhyDocument
from subord.api.rootward import find_roster
from subord.api.serve import App, Query, Response, failure
from subord.api.shown import AskFailure, Question, Shown
from subord.wire import UNREADABLE

ASK_S_MAX = 0.8
KEYS_S = 3.0
"""For a roll call: half a second is left for the tenth level."""
ROOTS_ASKED_MAX = 3
ROOT_CHANGES_S = 0.5
"""Until we know the next root, as a rule."""
NOT_NOW = 503
"""Nothing was changed, and the same may be asked again; after 504 nobody knows."""


def control_app(shown: Shown) -> App:
    """The handlers of the control socket.

    - `/v1/status`, `/v1/counters`: this node.
    - `/v1/tree`: the whole cluster, nested; with `?form=rows` flat, in depth-first order.
    - `/v1/why?address=A`: the node A; without `address` this one.
    - `/v1/keys`: which nodes have which keys.
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

    async def all_keys(_: Query) -> Response:
        return _passed_on(await answers.of_root(shown, Question("keys", keys.EVERYBODY, KEYS_S)), KeysDocument)

    served = {"/v1/status": status, "/v1/counters": counters, "/v1/tree": tree, "/v1/why": why}
    return {**served, "/v1/keys": all_keys if shown.keeping is not None else _no_keys}


def control_changes(shown: Shown) -> App:
    """The handlers of what changes something, which not everybody may ask who may ask at all.

    - `/v1/job-done[?weight=W]`: a job was completed on this node.
    - `/v1/keys/install`, `/v1/keys/use?key=K`, `/v1/keys/remove?key=K[&force=1]`: change the cluster's keys.
    """

    async def rotate(*words: str) -> Response:
        for _ in range(ROOTS_ASKED_MAX):
            response = _passed_on(await answers.of_root(shown, Question("rotate", words, KEYS_S)), RotatedDocument)
            if response.status != NOT_NOW:
                break
            await trio.sleep(ROOT_CHANGES_S)
        return response

    async def install(_: Query) -> Response:
        return await rotate("install")

    async def use(query: Query) -> Response:
        return await rotate("use", query.get("key", "")[:32])

    async def remove(query: Query) -> Response:
        return await rotate("remove", query.get("key", "")[:32], *(["force"] if query.get("force") == "1" else []))

    async def job_done(query: Query) -> Response:
        return _job_done(shown, query.get("weight", "1"))

    rotations = {"/v1/keys/install": install, "/v1/keys/use": use, "/v1/keys/remove": remove}
    return {
        "/v1/job-done": job_done,
        **(rotations if shown.keeping is not None else dict.fromkeys(rotations, _no_keys)),
    }


def _job_done(shown: Shown, weight: str) -> Response:
    try:
        jobs = float(weight[:32])
    except ValueError:
        return failure(400, "a weight must be a number: nothing was counted")
    complaint = shown.performance.job_done(jobs)
    if complaint is not None:
        return failure(409, complaint)
    done, per_hour = shown.counters.jobs_done, shown.performance.jobs_per_hour
    return Response(msgspec.json.encode(JobsDocument(jobs_done=done, jobs_per_hour=per_hour)))


async def _no_keys(_: Query) -> Response:
    return failure(409, keys.NO_KEYS)


def _passed_on(answer: bytes | AskFailure, form: type[KeysDocument] | type[RotatedDocument]) -> Response:
    """Checked before it reaches a terminal."""
    if isinstance(answer, AskFailure):
        return failure(504, answer.reason)
    try:
        found = msgspec.json.decode(answer, type=form)
    except UNREADABLE:
        return failure(502, "the root answers something else than was asked: does it run this version?")
    if isinstance(found, RotatedDocument) and found.error is not None:
        return failure(NOT_NOW if found.passing else 409, found.error)
    return Response(msgspec.json.encode(found))


async def _why(shown: Shown, address: str) -> Response:
    network = shown.settings.network
    position = network.position_of(address)
    if position is None:
        return failure(404, f"{address!r} is no address of the network {network.text}: nobody was asked")
    address = network.address_text_of(position)
    if address == shown.address:
        return Response(await answers.answer(shown, Question("why")))
    with trio.move_on_after(ASK_S_MAX):
        answer = await shown.ask(address, Question("why"), ASK_S_MAX)
        if isinstance(answer, AskFailure):
            return failure(504, f"{address} {answer.reason}")
        try:
            return Response(msgspec.json.encode(msgspec.json.decode(answer, type=WhyDocument)))
        except UNREADABLE:
            return failure(502, f"{address} answers something else than its reasons: does it run this version?")
    return failure(504, f"{address} does not answer")
