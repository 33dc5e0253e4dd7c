"""What `subord files publish`, `status`, `diff`, `history` and `gc` print.

Inputs are sets as their documents say, and results of nodes; outputs are lines, or one JSON document, and an exit
code that is 0 only if every node of the sets has told that all is as published. A line stands for all nodes that have
told the same.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from subord.api.models.document import Count, Document, Time, time_text
from subord.client import exit_codes
from subord.client.errors import to_stderr
from subord.client.folding import folded, in_order
from subord.client.naming import names_for
from subord.client.text import count, printable
from subord.services.asking import say_coverage, say_unshown
from subord.services.files import outcome
from subord.services.files.manifest import shown
from subord.services.files.outcome import Pushed
from subord.services.files.sets import words
from subord.services.files.sets.known import Heard, Known
from subord.services.files.sets.results import Result
from subord.services.files.sets.words import STATES, Collected, Differing, Looked, Seen

SENTENCES = {**outcome.SENTENCES, **words.SENTENCES}


class VersionDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A version. `operator`: as the asked node names the key of the newest one; of earlier ones, as the operator of
    the later one says. `paths`: files, directories and links; `bytes`: of their contents, without holes. `of`: the
    version whose files these are; 0: they were new. `withdrawn`: the nodes look after the files no more."""

    version: Count
    time: Time
    operator: str
    paths: Count
    bytes: Count
    of: Count
    withdrawn: bool


class SetShown(VersionDocument, frozen=True, kw_only=True):
    """A set. `conflict`: another document had the same version, and this one counts."""

    name: str
    directory: str
    conflict: bool


class StateShown(msgspec.Struct, frozen=True, kw_only=True):
    """How a set is on some nodes. `version`: that is in place; 0: none. `differing`: paths that are not as
    published."""

    set: str
    nodes: tuple[str, ...]
    state: str
    version: Count
    cause: str
    detail: str
    differing: Count


class HistoryDocument(Document, frozen=True, kw_only=True):
    """The versions of a set, the newest first."""

    name: str
    directory: str
    versions: tuple[VersionDocument, ...]


class PathShown(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    how: str


class FreedShown(msgspec.Struct, frozen=True, kw_only=True):
    """What some nodes have deleted."""

    nodes: tuple[str, ...]
    directories: Count
    directory_bytes: Count
    chunks: Count
    chunk_bytes: Count
    detail: str


# -- publish and status -----------------------------------------------------------------------------------------


def show_published(arguments: argparse.Namespace, known: Known, heard: Heard | None) -> int:
    """A new version, and what came of it. `heard` None: no node was asked."""
    if heard is not None:
        return show_states(arguments, [known], heard, {}, "{told} of {asked} ended in {oldest}")
    if arguments.json:
        empty = {"asked": 0, "told": 0, "complete": False, "missing": [], "oldest_ms": 0.0, "ended": {}, "unshown": 0}
        print(json.dumps({"schema_version": Document().schema_version, **empty, **_sets([known]), "nodes": []}))
    else:
        print(f"{_head(known)}; see `subord files status {known.name}`")
    return exit_codes.OK


def show_states(
    arguments: argparse.Namespace,
    sets: list[Known],
    heard: Heard,
    positions: Mapping[str, int],
    words_of_coverage: str = "{told} of {asked} answered in {oldest}",
) -> int:
    """How sets are. `positions`: by address, of nodes that may be of only some of the sets."""
    names = names_for(arguments, heard.document)
    by_state = _by_state(sets, heard, positions)
    is_well = (
        heard.document["complete"] and not heard.unread and all(each.state == words.CURRENT for each in by_state)
    )
    ordered = sorted(by_state.items(), key=lambda pair: (STATES.index(pair[0].state), pair[0].version, pair[0].cause))
    shown_by = [(seen, [names.get(each, each) for each in nodes]) for seen, nodes in ordered]
    if arguments.json:
        nodes = [msgspec.to_builtins(_state(*each)) for each in shown_by]
        print(json.dumps({**heard.document, **_sets(sets), "nodes": nodes}))
    elif not (getattr(arguments, "quiet", False) and is_well):
        for known in sets:
            print(_head(known))
            for seen, nodes_of in shown_by:
                if seen.name == known.name:
                    print(_line(known, seen, nodes_of))
        _close(heard, names, words_of_coverage)
    return exit_codes.OK if is_well else exit_codes.NOT_REACHED


def _by_state(sets: list[Known], heard: Heard, positions: Mapping[str, int]) -> dict[Seen, list[str]]:
    """The nodes of each set by what they have told; a state of a later release counts as failed."""
    found = defaultdict[Seen, list[str]](list)
    for known in sets:
        for result, addresses in heard.results:
            mine = [each for each in addresses if not positions or known.said.is_for(positions[each])]
            for seen in _seen(known, result) if mine else ():
                found[seen] += mine
    return found


def _seen(known: Known, result: Result) -> list[Seen]:
    """How a set is at the nodes that have told this."""
    told = [each for each in result.sets if each.name == known.name] if isinstance(result, Looked) else []
    return [
        each if each.state in STATES else msgspec.structs.replace(each, state=words.FAILED)
        for each in told or [_untold(known, result)]
    ]


def _untold(known: Known, result: Result) -> Seen:
    """Of nodes that have refused the order, or have told nothing of the set."""
    cause, detail = _refusal(result)
    return Seen(known.name, words.FAILED, cause=cause, detail=detail)


def _refusal(result: Result) -> tuple[str, str]:
    """The word and the detail of a result of another kind than the order asks for."""
    if isinstance(result, Pushed) and result.how and not result.is_done:
        return result.how, result.detail
    return words.NOT_TOLD, ""


def _state(seen: Seen, nodes: list[str]) -> StateShown:
    return StateShown(
        set=seen.name,
        nodes=tuple(sorted(nodes, key=in_order)),
        state=seen.state,
        version=seen.version,
        cause=seen.cause,
        detail=seen.detail,
        differing=seen.differing,
    )


def _head(known: Known) -> str:
    """`motd version 3 of ann, 2026-11-25 16:50: 2 paths, 8 bytes, at /srv/motd`."""
    by = f" of {printable(known.principal)}, {_clock(known.order.at_ms)}" if known.principal else ""
    again = f", as version {known.said.content.of}" if known.said.content.of else ""
    twice = "; another document has the same version, and this one counts" if known.conflict else ""
    what = f"{count(known.said.content.entries, 'path')}, {count(known.said.content.size, 'byte')}"
    return (
        f"{known.name} version {known.order.version}{by}{again}: {what}, at {printable(shown(known.said.to))}{twice}"
    )


def _line(known: Known, seen: Seen, nodes: list[str]) -> str:
    """`  10.0.0.9: drifted, 1 path differs: see `subord files diff motd 10.0.0.9``."""
    parts, where = [seen.state], printable(folded(nodes))
    if seen.version and seen.version != known.order.version:
        parts.append(f"version {seen.version} is in place")
    if seen.cause:
        parts.append(SENTENCES.get(seen.cause, printable(seen.cause)))
    line = f"  {where}: {', '.join(parts)}" + (f" ({printable(seen.detail)})" if seen.detail else "")
    if seen.differing:
        differ = f"{count(seen.differing, 'path')} differ{'s' if seen.differing == 1 else ''}"
        line += f", {differ}: see `subord files diff {known.name} {printable(nodes[0])}`, publish again to restore"
    return line


def _sets(sets: list[Known]) -> dict[str, Any]:
    found = [
        SetShown(
            name=each.name,
            directory=shown(each.said.to),
            conflict=each.conflict,
            **msgspec.structs.asdict(_newest(each)),
        )
        for each in sets
    ]
    return {"sets": msgspec.to_builtins(found)}


def _close(heard: Heard, names: Mapping[str, str], words_of_coverage: str) -> None:
    say_unshown(heard.unread)
    say_coverage(heard.document, names, words_of_coverage)


# -- diff -------------------------------------------------------------------------------------------------------


def show_differing(arguments: argparse.Namespace, known: Known, node: str, heard: Heard) -> int:
    """The paths that differ on one node, one line each; NOT_REACHED if there are some."""
    told = next((result for result, _ in heard.results), None)
    found = told if isinstance(told, Differing) and told.seen.name == known.name else None
    names = names_for(arguments, heard.document)
    if found is not None:
        seen = found.seen
    else:
        seen = Seen(known.name, words.MISSING) if told is None else _untold(known, told)
    paths = [PathShown(path=shown(each.path), how=each.how) for each in (() if found is None else found.paths)]
    left_out = 0 if found is None else found.left_out
    if arguments.json:
        state = msgspec.to_builtins(_state(seen, [node] if told is not None else []))
        more = {"state": state, "paths": msgspec.to_builtins(paths), "left_out": left_out}
        print(json.dumps({**heard.document, **more}))
    else:
        for each in paths:
            print(f"{printable(each.how)}: {printable(each.path)}")
        if left_out:
            to_stderr(f"subord: and {count(left_out, 'path')} more")
        if told is not None and seen.state not in (words.CURRENT, words.DRIFTED):
            to_stderr(f"subord:{_line(known, msgspec.structs.replace(seen, differing=0), [node])[1:]}")
        _close(heard, names, "{told} of {asked} answered in {oldest}")
    return exit_codes.OK if seen.state == words.CURRENT else exit_codes.NOT_REACHED


# -- history ----------------------------------------------------------------------------------------------------


def show_history(arguments: argparse.Namespace, known: Known) -> int:
    """The versions, the newest first."""
    past = (_version(each.version, each.at_ms, each.by, each.content) for each in known.said.past)
    versions = (_newest(known), *past)
    if arguments.json:
        document = HistoryDocument(name=known.name, directory=shown(known.said.to), versions=versions)
        print(msgspec.json.encode(document).decode())
        return exit_codes.OK
    for one in versions:
        what = "withdrawn" if one.withdrawn else f"{count(one.paths, 'path')}, {count(one.bytes, 'byte')}"
        again = f", as version {one.of}" if one.of else ""
        at = datetime.fromisoformat(one.time).astimezone().strftime("%Y-%m-%d %H:%M")
        print(f"{one.version}  {at}  {printable(one.operator) or 'not known'}  {what}{again}")
    return exit_codes.OK


def _newest(known: Known) -> VersionDocument:
    return _version(known.order.version, known.order.at_ms, known.principal, known.said.content)


def _version(version: int, at_ms: int, by: str, content: Any) -> VersionDocument:
    return VersionDocument(
        version=version,
        time=time_text(at_ms / 1000),
        operator=by,
        paths=content.entries,
        bytes=content.size,
        of=content.of,
        withdrawn=not content.blob,
    )


def _clock(at_ms: int) -> str:
    """In the time zone of this host."""
    return datetime.fromisoformat(time_text(at_ms / 1000)).astimezone().strftime("%Y-%m-%d %H:%M")


# -- gc ---------------------------------------------------------------------------------------------------------


def show_collected(arguments: argparse.Namespace, heard: Heard) -> int:
    """What nodes have deleted; NOT_REACHED if one could not delete all, or has not answered."""
    names = names_for(arguments, heard.document)
    by_freed: dict[Collected, list[str]] = defaultdict(list)
    for result, addresses in heard.results:
        collected = result if isinstance(result, Collected) else _nothing(result)
        by_freed[collected] += [names.get(each, each) for each in addresses]
    is_well = heard.document["complete"] and not heard.unread and not any(each.detail for each in by_freed)
    if arguments.json:
        freed = [msgspec.to_builtins(_freed(*each)) for each in by_freed.items()]
        print(json.dumps({**heard.document, "freed": freed}))
        return exit_codes.OK if is_well else exit_codes.NOT_REACHED
    for line in _freed_lines(by_freed.items()):
        print(line)
    _close(heard, names, "{told} of {asked} answered in {oldest}")
    return exit_codes.OK if is_well else exit_codes.NOT_REACHED


def _nothing(result: Result) -> Collected:
    """Of nodes that have refused the order."""
    cause, detail = _refusal(result)
    return Collected(0, 0, 0, 0, SENTENCES.get(cause, cause) + (f" ({detail})" if detail else ""))


def _freed(collected: Collected, nodes: list[str]) -> FreedShown:
    return FreedShown(
        nodes=tuple(sorted(nodes, key=in_order)),
        directories=collected.directories,
        directory_bytes=collected.files_bytes,
        chunks=collected.chunks,
        chunk_bytes=collected.blob_bytes,
        detail=collected.detail,
    )


def _freed_lines(freed: Iterable[tuple[Collected, list[str]]]) -> Iterable[str]:
    for each, nodes in freed:
        size = f"{count(each.files_bytes + each.blob_bytes, 'byte')} freed"
        what = f"{count(each.directories, 'previous version')}, {count(each.chunks, 'chunk')}"
        why = f"; not all: {printable(each.detail)}" if each.detail else ""
        yield f"{printable(folded(nodes))}: {size} ({what}){why}"
