"""What `subord exec` prints: lines with the name of the node, output folded by equal content, or JSON.

Inputs are results with their nodes, as they come, and the documents of the orders; outputs go to standard output and
standard error, as the command on the node has written them. Invariant: bytes go to a file or a pipe unchanged, and to
a terminal without control characters.
"""

from __future__ import annotations

import base64
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final, Protocol, TextIO

import msgspec

from subord import SCHEMA_VERSION
from subord.client.errors import to_stderr
from subord.client.folding import folded, in_order
from subord.client.text import printable
from subord.services.exec.outcome import EXITED, KILLED, SENTENCES, Ended, Part

RULE: Final = "-" * 15
"""As of ClusterShell."""


class View(Protocol):
    """What is printed while nodes end, and afterwards."""

    def add(self, ended: Ended, names: list[str], tag: str) -> None: ...
    def close(self) -> None: ...


class Lines:
    """`NAME: LINE`, for each node when it has ended."""

    def add(self, ended: Ended, names: list[str], tag: str) -> None:
        for name in sorted(names, key=in_order):
            _put_part(sys.stdout, ended.output, name, tag, ended)
            _put_part(sys.stderr, ended.errors, name, tag, ended)

    def close(self) -> None: ...


class Folded:
    """At the end, equal output once, below the set of its nodes; the output of most nodes first."""

    def __init__(self) -> None:
        self._by_output: dict[tuple[int, Part], list[str]] = defaultdict(list)
        self._notes: list[tuple[list[str], str, Ended]] = []

    def add(self, ended: Ended, names: list[str], tag: str) -> None:
        for number, part in enumerate((ended.output, ended.errors)):
            if part.size:
                self._by_output[number, part] += names
        if ended.cut:
            self._notes.append((names, tag, ended))

    def close(self) -> None:
        for (number, part), names in sorted(self._by_output.items(), key=_most_first):
            stream = sys.stderr if number else sys.stdout
            count = f" ({len(names)})" if len(names) > 1 else ""
            _put(stream, f"{RULE}\n{printable(folded(names))}{count}\n{RULE}\n".encode())
            for line in _lines(part.head):
                _put(stream, _shown(stream, line))
            for line in _lines(part.tail):
                _put(stream, _shown(stream, line))
        for names, tag, ended in self._notes:
            to_stderr(_cut_line(folded(names), ended.cut, tag, ended))


def _most_first(group: tuple[tuple[int, Part], list[str]]) -> tuple[object, ...]:
    (number, _), names = group
    return number, -len(names), min(map(in_order, names))


class NodeLine(msgspec.Struct, frozen=True, kw_only=True):
    """How the command ended on a node. `ended`: a word such as `exited`, `killed`, `timed out`; `signal`: of
    `killed`. `output`, `errors`: what it wrote to standard output and standard error, without `cut_bytes` in the
    middle; what is no UTF-8 also in Base64. `kept`: the node keeps all of it for a while. `tag`: of the order."""

    schema_version: int = SCHEMA_VERSION
    node: str
    ended: str
    exit_code: int
    signal: int | None
    output: str
    output_base64: str | None
    errors: str
    errors_base64: str | None
    cut_bytes: int
    kept: bool
    detail: str
    tag: str


class JsonLines:
    """One object for each node."""

    def add(self, ended: Ended, names: list[str], tag: str) -> None:
        (output, output_base64), (errors, errors_base64) = _text(ended.output), _text(ended.errors)
        line = NodeLine(
            node="",
            ended=ended.how,
            exit_code=ended.code,
            signal=ended.number if ended.how == KILLED else None,
            output=output,
            output_base64=output_base64,
            errors=errors,
            errors_base64=errors_base64,
            cut_bytes=ended.cut,
            kept=ended.is_kept,
            detail=ended.detail,
            tag=tag,
        )
        for name in sorted(names, key=in_order):
            print(msgspec.json.encode(msgspec.structs.replace(line, node=name)).decode(), flush=True)

    def close(self) -> None: ...


def _text(part: Part) -> tuple[str, str | None]:
    """As text; what is no UTF-8 also in Base64."""
    data = part.head + part.tail
    try:
        return data.decode(), None
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace"), base64.b64encode(data).decode("ascii")


# -- text ---------------------------------------------------------------------------------------------------


def _put_part(stream: TextIO, part: Part, name: str, tag: str, ended: Ended) -> None:
    begin = f"{printable(name)}: ".encode()
    _put(stream, b"".join(begin + _shown(stream, line) for line in _lines(part.head)))
    if part.cut:
        to_stderr(_cut_line(name, part.cut, tag, ended))
        _put(stream, b"".join(begin + _shown(stream, line) for line in _lines(part.tail)))


def _cut_line(names: str, cut: int, tag: str, ended: Ended) -> str:
    rest = f"all of it: subord exec --fetch {tag} NODE" if ended.is_kept else "the node does not keep all of it"
    return f"subord: {printable(names)}: {cut} bytes of output are cut here; {rest}"


def _lines(data: bytes) -> Iterator[bytes]:
    """Each without its end; the last one may have none."""
    if data:
        yield from data.removesuffix(b"\n").split(b"\n")


def _shown(stream: TextIO, line: bytes) -> bytes:
    if not stream.isatty():
        return line + b"\n"
    return printable(line.decode("utf-8", "replace").expandtabs()).encode() + b"\n"


def _put(stream: TextIO, data: bytes) -> None:
    """After what was printed before."""
    if data:
        stream.flush()
        stream.buffer.write(data)
        stream.buffer.flush()


def failures(found: Iterable[tuple[Ended, list[str]]]) -> Iterator[str]:
    """`node[1-3]: exit code 1`, for all that has not ended with 0, the most nodes first."""
    names: dict[str, list[str]] = defaultdict(list)
    for ended, each in found:
        if ended.code:
            names[_how(ended)] += each
    for how, each in sorted(names.items(), key=lambda pair: (-len(pair[1]), pair[0])):
        yield f"{printable(folded(each))}: {how}"


def _how(ended: Ended) -> str:
    if ended.how == EXITED:
        return f"exit code {ended.number}"
    if ended.how == KILLED:
        return f"killed by signal {ended.number}"
    detail = f" ({printable(ended.detail)})" if ended.detail else ""
    return f"{SENTENCES.get(ended.how, printable(ended.how))}{detail}"
