"""What a push brings: the manifest, which lists every file, directory and link, and the bundle that it opens.

Input is a list of entries; output is bytes, and back. A bundle is HEAD, the length of the manifest, the manifest, and
the contents of its files in order, without their holes. It is one blob, whose name the operator signs. Invariant:
what `decode` accepts names nothing outside the target: each path is relative, has no `..`, and stands below entries
that are directories.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Annotated, Final, Literal

import msgspec

from subord.core.decoding import UNREADABLE

HEAD: Final = b"subord files 1\n"
LENGTH_BYTES: Final = 4
MANIFEST_BYTES_MAX: Final = 8 << 20
ENTRIES_MAX: Final = 20_000
PATH_BYTES_MAX: Final = 4_095
"""As of Linux (PATH_MAX), with the target."""
NAME_BYTES_MAX: Final = 255
FILE_BYTES_MAX: Final = 1 << 36
"""With holes; 64 GiB."""
EXTENTS_MAX: Final = 4_096
"""Of one file; one with more pieces counts as without holes."""
COMMAND_CHARS_MAX: Final = 4_096
DIGEST_BYTES: Final = 32
STAGED: Final = b".subord-files-"
"""How names begin under which files wait beside their targets; no entry may have such a name."""

FILE: Final = "file"
DIRECTORY: Final = "directory"
LINK: Final = "link"
Kind = Literal["file", "directory", "link"]

_Path = Annotated[bytes, msgspec.Meta(min_length=1, max_length=PATH_BYTES_MAX)]
_Size = Annotated[int, msgspec.Meta(ge=0, le=FILE_BYTES_MAX)]
_Name = Annotated[str, msgspec.Meta(max_length=64)]
_Command = Annotated[str, msgspec.Meta(max_length=COMMAND_CHARS_MAX)]


class Entry(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """`path`: below the target. `owner`, `group`: names, or numbers as text; "": those of the user that acts.
    `digest`: BLAKE2b of the content, holes as zeros. `extents`: offset and length of what is no hole. `target`: of a
    link."""

    path: _Path
    kind: Kind
    mode: Annotated[int, msgspec.Meta(ge=0, le=0o7777)]
    owner: _Name = ""
    group: _Name = ""
    size: _Size = 0
    digest: Annotated[bytes, msgspec.Meta(max_length=DIGEST_BYTES)] = b""
    extents: Annotated[tuple[tuple[_Size, _Size], ...], msgspec.Meta(max_length=EXTENTS_MAX)] = ()
    target: Annotated[bytes, msgspec.Meta(max_length=PATH_BYTES_MAX)] = b""

    @property
    def carried_bytes(self) -> int:
        """Of its content in the bundle."""
        return sum(length for _, length in self.extents)


class Manifest(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """`to`: the directory of the nodes, absolute. `check`: a command of the shell that must end with 0 before any
    file is visible; `after`: one that runs once afterwards; "": none."""

    to: _Path
    entries: Annotated[tuple[Entry, ...], msgspec.Meta(min_length=1, max_length=ENTRIES_MAX)]
    check: _Command = ""
    after: _Command = ""


class ManifestError(ValueError):
    """Bytes that are no manifest, or one that names what it must not. One clause."""


_decoder = msgspec.msgpack.Decoder(Manifest)
_encode = msgspec.msgpack.Encoder().encode


def digest_of(pieces: Iterable[bytes]) -> bytes:
    """Of the content of a file."""
    found = blake2b(digest_size=DIGEST_BYTES)
    for each in pieces:
        found.update(each)
    return found.digest()


def opening(manifest: Manifest) -> bytes:
    """The begin of the bundle, before the contents. Raises ManifestError."""
    check(manifest)
    data = _encode(manifest)
    if len(data) > MANIFEST_BYTES_MAX:
        raise ManifestError(f"the list of files has {len(data)} bytes, of at most {MANIFEST_BYTES_MAX}")
    return HEAD + len(data).to_bytes(LENGTH_BYTES, "big") + data


def length_in(begin: bytes) -> int:
    """The bytes of the manifest, from the first HEAD and LENGTH_BYTES of a bundle. Raises ManifestError."""
    length = int.from_bytes(begin[len(HEAD) : len(HEAD) + LENGTH_BYTES], "big")
    if not begin.startswith(HEAD) or len(begin) != len(HEAD) + LENGTH_BYTES or length > MANIFEST_BYTES_MAX:
        raise ManifestError("the content is not that of files, or is of another release")
    return length


def decode(data: bytes) -> Manifest:
    """Raises ManifestError."""
    try:
        found = _decoder.decode(data)
    except UNREADABLE as error:
        raise ManifestError(f"the list of files cannot be read: {error}") from None
    check(found)
    return found


def check(manifest: Manifest) -> None:
    """Raises ManifestError."""
    if not manifest.to.startswith(b"/") or bad_parts(manifest.to.strip(b"/")) not in ("", "it is empty"):
        raise ManifestError(f"the target {shown(manifest.to)} is not absolute, or has parts such as ..")
    if max(len(manifest.check), len(manifest.after)) > COMMAND_CHARS_MAX:
        raise ManifestError(f"a command of --check or --after has more than {COMMAND_CHARS_MAX} characters")
    kinds: dict[bytes, str] = {b"": DIRECTORY}
    for each in manifest.entries:
        wrong = bad_parts(each.path) or _wrong(each, kinds)
        if wrong:
            raise ManifestError(f"{shown(each.path)}: {wrong}")
        kinds[each.path] = each.kind


def bad_parts(path: bytes) -> str:
    """What is wrong with a relative path; "": nothing."""
    if not path:
        return "it is empty"
    if b"\0" in path:
        return "it has a NUL"
    for part in path.split(b"/"):
        if part in {b"", b".", b".."}:
            return "it is absolute, or has empty parts, . or .."
        if len(part) > NAME_BYTES_MAX:
            return f"a part is longer than {NAME_BYTES_MAX} bytes"
        if part.startswith(STAGED):
            return f"names that begin with {STAGED.decode()} are kept for staging"
    return ""


def _wrong(entry: Entry, kinds: dict[bytes, str]) -> str:
    if entry.path in kinds:
        return "it is listed twice"
    if kinds.get(parent_of(entry.path)) != DIRECTORY:
        return "it is not below a directory of the list"
    if entry.kind == LINK:
        return "" if entry.target and b"\0" not in entry.target else "it is a link to nothing"
    if entry.kind == DIRECTORY:
        return "it is a directory with content" if entry.size or entry.extents else ""
    end = 0
    for offset, length in entry.extents:
        if offset < end or not length or offset + length > entry.size:
            return "its pieces overlap, or are outside of it"
        end = offset + length
    return "" if len(entry.digest) == DIGEST_BYTES else "it has no digest"


def parent_of(path: bytes) -> bytes:
    """b"": the target itself."""
    return path.rpartition(b"/")[0]


def name_of(path: bytes) -> bytes:
    return path.rpartition(b"/")[2]


def shown(path: bytes) -> str:
    """A path in a sentence."""
    return path.decode("utf-8", "backslashreplace")
