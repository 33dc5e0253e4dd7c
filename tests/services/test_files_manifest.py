"""The manifest of a push and the plan of a node, as tables."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from subord.services.files.manifest import (
    DIRECTORY,
    FILE,
    LINK,
    STAGED,
    Entry,
    Manifest,
    ManifestError,
    check,
    decode,
    digest_of,
    opening,
)
from subord.services.files.outcome import FilesError
from subord.services.files.plan import OTHER, Conflict, Found, Plan, Step, differing, plan, tag_at
from subord.services.files.stream import Stream

TAG = bytes(16)
NAME = STAGED + b"0" * 32


def file(path: bytes, content: bytes = b"x", **given: Any) -> Entry:
    known = {"size": len(content), "digest": digest_of([content]), "extents": ((0, len(content)),) if content else ()}
    return Entry(path, FILE, 0o644, **(known | given))


def folder(path: bytes) -> Entry:
    return Entry(path, DIRECTORY, 0o755)


def link(path: bytes, target: bytes = b"x") -> Entry:
    return Entry(path, LINK, 0o777, target=target)


GOOD = [
    (file(b"a b"),),
    (file(b"\xff\n"), folder(b"d"), file(b"d/e"), link(b"d/l", b"../../etc/passwd")),
    (file(b"hole", b"", size=1 << 36, digest=bytes(32), extents=((4096, 10), (1 << 35, 1))),),
    (file(b"..."), file(b"..a"), file(b"x" * 255)),
]


@pytest.mark.parametrize("entries", GOOD)
def test_what_is_encoded_comes_back(entries: tuple[Entry, ...]) -> None:
    manifest = Manifest(b"/srv", entries, "true", "false")
    content = b"\0\1\2"
    stream = Stream(iter([opening(manifest)[:20], opening(manifest)[20:] + content[:1], content[1:]]))
    assert stream.manifest() == manifest
    assert b"".join(stream.pieces(3)) == content
    with pytest.raises(FilesError, match="ends early"):
        stream.skip(1)


BAD = {
    "absolute": (file(b"/etc/passwd"),),
    "above": (file(b"../x"),),
    "above, inside": (folder(b"d"), file(b"d/../../x")),
    "here": (file(b"./x"),),
    "empty part": (folder(b"d"), file(b"d//x")),
    "ends in a slash": (folder(b"d/"),),
    "NUL": (file(b"a\0b"),),
    "long": (file(b"x" * 256),),
    "staged": (file(STAGED + b"x"),),
    "twice": (file(b"a"), file(b"a")),
    "no parent": (file(b"d/x"),),
    "below a file": (file(b"d"), file(b"d/x")),
    "below a link": (link(b"d", b"/etc"), file(b"d/x")),
    "parent later": (file(b"d/x"), folder(b"d")),
    "link to nothing": (link(b"l", b""),),
    "link with NUL": (link(b"l", b"a\0"),),
    "no digest": (file(b"a", digest=b""),),
    "pieces overlap": (file(b"a", size=9, extents=((0, 5), (4, 2))),),
    "piece outside": (file(b"a", size=9, extents=((8, 2),)),),
    "piece of nothing": (file(b"a", size=9, extents=((8, 0),)),),
    "directory with content": (msgspec.structs.replace(folder(b"d"), size=1),),
}


@pytest.mark.parametrize("why", BAD)
def test_what_is_refused(why: str) -> None:
    manifest = Manifest(b"/srv", BAD[why])
    with pytest.raises(ManifestError):
        check(manifest)
    with pytest.raises(ManifestError):
        decode(msgspec.msgpack.encode(manifest))


@pytest.mark.parametrize("to", [b"srv", b"/srv/../etc", b"/srv//x", b"/a\0b"])
def test_targets_that_are_refused(to: bytes) -> None:
    with pytest.raises(ManifestError):
        check(Manifest(to, (file(b"a"),)))


@pytest.mark.parametrize("name", ["check", "after"])
def test_a_command_that_no_node_would_read_is_refused(name: str) -> None:
    check(Manifest(b"/srv", (file(b"a"),), **{name: "x" * 4096}))
    with pytest.raises(ManifestError, match="more than 4096 characters"):
        check(Manifest(b"/srv", (file(b"a"),), **{name: "x" * 4097}))


def test_a_target_may_be_the_root() -> None:
    check(Manifest(b"/", (file(b"a"),)))


@pytest.mark.parametrize("data", [b"", b"\xff" * 99, msgspec.msgpack.encode([b"/", []]), b"\x91" * 5000])
def test_bytes_that_are_no_manifest(data: bytes) -> None:
    with pytest.raises(ManifestError):
        decode(data)


@pytest.mark.parametrize("data", [b"", b"subord files 2\n" + bytes(40), b"subord files 1\n\xff\xff\xff\xff"])
def test_bytes_that_are_no_bundle(data: bytes) -> None:
    with pytest.raises(FilesError, match="malformed"):
        Stream(iter([data] if data else [])).manifest()


def planned(entries: tuple[Entry, ...], **found: Found) -> Plan:
    given = plan(entries, {name.replace("__", "/").encode(): each for name, each in found.items()}, TAG)
    assert isinstance(given, Plan)
    return given


def test_new_files_are_staged_beside_their_places() -> None:
    given = planned((file(b"a"), folder(b"d"), file(b"d/e")), d=Found(DIRECTORY, same=True))
    assert given.steps == (Step(b"", NAME + b"-0", b"a"), Step(b"d", NAME + b"-1", b"e"))
    assert [each.path for each in given.made] == [NAME + b"-0", b"d/" + NAME + b"-1"]
    assert (given.replaced, given.unchanged, given.adjusted) == ((), 1, ())


def test_a_new_directory_is_staged_whole() -> None:
    given = planned((folder(b"d"), folder(b"d/e"), file(b"d/e/f"), file(b"z")))
    assert given.steps == (Step(b"", NAME + b"-0", b"d"), Step(b"", NAME + b"-1", b"z"))
    assert [each.path for each in given.made] == [NAME + b"-0" + each for each in (b"", b"/e", b"/e/f")] + [
        NAME + b"-1"
    ]


def test_what_is_as_it_should_be_stays() -> None:
    same = Found(FILE, same=True)
    assert planned((file(b"a"), file(b"b")), a=same, b=same).is_empty
    given = planned((file(b"a"), link(b"b"), folder(b"d")), a=same, b=Found(FILE), d=Found(DIRECTORY))
    assert given.steps == (Step(b"", NAME + b"-0", b"b"),)
    assert (given.replaced, given.unchanged, given.adjusted) == ((b"b",), 1, (folder(b"d"),))


@pytest.mark.parametrize(
    ("entry", "there"),
    [
        (file(b"a"), DIRECTORY),
        (link(b"a"), DIRECTORY),
        (folder(b"a"), FILE),
        (folder(b"a"), LINK),
        (file(b"a"), OTHER),
        (folder(b"a"), OTHER),
    ],
)
def test_another_kind_in_the_way(entry: Entry, there: str) -> None:
    assert plan((entry,), {b"a": Found(there)}, TAG) == Conflict(b"a", entry.kind, there)


def test_what_differs_is_named_in_short() -> None:
    given = planned(
        (file(b"a"), folder(b"d"), file(b"d/e"), folder(b"n"), file(b"n/x"), *(file(b"z%d" % n) for n in range(9))),
        a=Found(FILE),
        d=Found(DIRECTORY),
        d__e=Found(),
    )
    assert differing(given) == "new d/e, n, z0, z1, z2 and 6 more; other a; other mode or owner d"
    assert differing(planned(())) == ""


def test_nodes_that_share_a_disk_stage_under_different_names() -> None:
    assert len({tag_at(TAG, f"10.0.0.{number}") for number in range(1, 9)}) == 8
