"""Frames of orders as words, for traces and transcripts: `ask 3 climbs att 0 of 1-4,7 left 950`."""

from __future__ import annotations

from subord.core.carriage.blobs import bodies as blobs
from subord.core.carriage.engine.frames import Ack, Ask, Body, Check, End, Lost, Resolved, Told, decode, open_envelope
from subord.core.carriage.engine.interface import (
    Act,
    Action,
    Answer,
    CallDirect,
    Finished,
    Lane,
    Note,
    Progress,
    Renew,
    Stop,
)
from subord.core.carriage.engine.lanes import lane_of
from subord.core.carriage.engine.ranges import Ranges
from subord.core.carriage.ledger import bodies as ledger
from subord.core.carriage.reports.frames import Report, decode_report

Flat = tuple[int, ...]


def of_body(body: Body) -> str:
    """What one node says to another."""
    match body:
        case Ask():
            way = "climbs" if body.climbs else "goes down"
            part = "all" if body.climbs and body.order.flat_targets is None else _nodes(body.part)
            attempt = f", attempt {body.attempt}" if body.attempt else ""
            return f"ask {body.number}: {body.order.service} {way} for {part}, {body.left_ms} ms left{attempt}"
        case Ack() | Check() | Lost():
            return f"{type(body).__name__.lower()} {body.number}"
        case End():
            return f"end {body.number}{', and stop' if body.stops else ''}"
        case Resolved():
            lacks = f", lacks a coordinator ({body.lacks})" if body.lacks else ""
            return f"resolved {body.number}: {_nodes(body.targets)}{lacks}"
        case Told():
            lacks = f", lacks a coordinator ({body.lacks})" if body.lacks else ""
            more = "" if body.is_last else ", more to come"
            said = _groups([*body.groups, *((("others"), flat) for flat in (body.others,) if flat), *body.missing])
            return f"told {body.number}: {said or 'nothing'}{lacks}{more}"


def of_data(data: bytes) -> str:
    """What a frame says."""
    lane = lane_of(data)
    if lane is Lane.BLOB:
        return of_chunk(blobs.decode(open_envelope(data).body))
    if lane is Lane.LEDGER:
        return of_record_body(ledger.decode(open_envelope(data).body))
    if lane is Lane.REPORT:
        return of_report(decode_report(open_envelope(data).body))
    return of_body(decode(data).body)


def of_chunk(body: blobs.Body) -> str:
    """What one node says to another about a chunk."""
    word, name = type(body).__name__.lower(), body.name.hex()[:6]
    if isinstance(body, blobs.Piece):
        return f"{word} {name}: {body.offset}-{body.offset + len(body.data)} of {body.size}"
    return f"{word} {name}"


def of_record_body(body: ledger.Body) -> str:
    """What one node says to another about records."""
    match body:
        case ledger.Batch():
            last = body.first + len(body.records) - 1
            return f"records {body.first}-{last} of {body.origin} for the sink {body.sink}"
        case ledger.Stored():
            last = body.key.first + body.key.count - 1
            return f"stored {body.key.first}-{last} of {body.key.origin}"
        case ledger.Sinks():
            return f"sinks {' '.join(map(str, body.positions)) or 'none'}"


def of_report(report: Report) -> str:
    """What a subordinate says of its branch."""
    missing = "".join(f", {each.count} {each.cause}: {each.nodes}" for each in report.missing)
    return f"report {report.service}: of {report.told}, up to {report.age_ms} ms old{missing}"


def of_answer(answer: Answer) -> str:
    """What an issuer reads."""
    groups = [(result.decode("utf-8", "replace"), str(nodes)) for result, nodes in answer.groups]
    groups += [("others", str(answer.others))] if answer.others else []
    told = "; ".join(f"{nodes} {result!r}" for result, nodes in groups)
    missing = "; ".join(f"{nodes} {cause}" for cause, nodes in answer.missing)
    known = "" if answer.is_resolved else "; not all members are known"
    rest = f"; missing: {missing}" if missing else ""
    return f"{answer.told} of {len(answer.targets)}: {told or 'nothing'}{rest}{known}"


def of_action(action: Action) -> str:
    """What a node does besides sending; "": nothing worth a line."""
    text = ""
    match action:
        case CallDirect():
            text = f"calls {action.peer} directly: {of_data(action.data)}"
        case Note():
            text = "notes the tag"
        case Act():
            text = f"acts: {action.order.service}"
        case Renew():
            text = f"may go on for {action.lease_s:.1f} s"
        case Stop():
            text = "is to end what it does"
        case Progress():
            text = f"so far {of_answer(action.answer)}"
        case Finished():
            text = f"finished {of_answer(action.answer)}"
    return text


def _nodes(flat: Flat) -> str:
    return str(Ranges.unflat(flat)) or "none"


def _groups(groups: list[tuple[bytes | str, Flat]]) -> str:
    return "; ".join(
        f"{_nodes(flat)} {word.decode('utf-8', 'replace')!r}" if isinstance(word, bytes) else f"{_nodes(flat)} {word}"
        for word, flat in groups
    )
