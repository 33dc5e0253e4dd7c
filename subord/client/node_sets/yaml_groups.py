"""Reads the part of YAML in which ClusterShell's group files are written.

In: the text of a `groups.d/*.yaml`, sources with lines `group: nodes` below them. Out: the groups by source.
Invariant: what is understood means the same in YAML. Anchors, tags, escapes, text of several lines, and words that
YAML takes for numbers or truth values are refused, not guessed. A whole reader of YAML would be one more dependency
for one file format.
"""

from __future__ import annotations

import re
from typing import Final

_PLAIN = r"[A-Za-z0-9_](?:[A-Za-z0-9_.\[\],!&^@*/=+-]|:(?=[A-Za-z0-9:]))*"
_IN_LIST = r"[A-Za-z0-9_][A-Za-z0-9_.!&^@*/=+-]*"
_QUOTED = r"'[^']*'|\"[^\"\\]*\""
_END = r" *(?:(?<= )#.*)?"
_SOURCE = re.compile(rf"({_QUOTED}|{_IN_LIST}):{_END}")
_GROUP = re.compile(rf"( +)({_QUOTED}|{_IN_LIST}):(?: +({_QUOTED}|{_PLAIN}|\[.*\]))?{_END}")
_ITEM = re.compile(rf"( +)- +({_QUOTED}|{_PLAIN}){_END}")
_LIST = re.compile(rf"\[ *(?:(?:{_QUOTED}|{_IN_LIST}) *(?:, *(?:{_QUOTED}|{_IN_LIST}) *)*)?\]")
_NO_TEXT: Final = re.compile(r"(?i)y|n|yes|no|on|off|true|false|null|0[xob].*|[0-9:,_e+-]*\.?[0-9:,_e+-]*|[0-9-]+t.*")
"""Words without quotes that are, or may be, no text."""


class NotReadError(ValueError):
    """A line is no YAML, or beyond this reader. The message begins with its number."""


def sources_in(text: str) -> dict[str, dict[str, str]]:
    """The groups by source; the nodes of a list are joined by commas. Raises NotReadError."""
    reader = _Reader()
    for number, written in enumerate(text.split("\n"), start=1):
        line = written.rstrip("\r ")
        if line.lstrip(" ").startswith("#") or not line or (line == "---" and not reader.sources):
            continue
        if not reader.takes(line):
            raise NotReadError(
                f"{number}: {line.strip()[:60]!r} is not read: write \"rack1: 'node[1-4]'\" below a source"
            )
    return reader.sources


class _Reader:
    """The sources so far, and where the last line stands."""

    def __init__(self) -> None:
        self.sources: dict[str, dict[str, str]] = {}
        self._groups: dict[str, str] | None = None
        self._indent = self._indent_of_items = 0
        self._open = ""  # the group whose list may follow

    def takes(self, line: str) -> bool:
        """Whether the line is understood."""
        source, item, group = (form.fullmatch(line) for form in (_SOURCE, _ITEM, _GROUP))
        if source is not None:
            return self._source(_text(source[1]))
        if item is not None:
            return self._item(len(item[1]), _text(item[2]))
        return group is not None and self._group(len(group[1]), _text(group[2]), group[3])

    def _source(self, name: str | None) -> bool:
        if name is None or name in self.sources:
            return False
        self._groups = self.sources[name] = {}
        self._indent, self._open = 0, ""
        return True

    def _group(self, indent: int, name: str | None, nodes: str | None) -> bool:
        if self._groups is None or name is None or name in self._groups or indent != (self._indent or indent):
            return False
        each = _items(nodes or "")
        if each is None:
            return False
        self._groups[name] = ",".join(each)
        self._indent, self._indent_of_items, self._open = indent, 0, "" if nodes else name
        return True

    def _item(self, indent: int, nodes: str | None) -> bool:
        is_below = indent >= self._indent and indent == (self._indent_of_items or indent)
        if self._groups is None or not self._open or nodes is None or not is_below:
            return False
        self._groups[self._open] = ",".join(filter(None, (self._groups[self._open], nodes)))
        self._indent_of_items = indent
        return True


def _items(nodes: str) -> list[str] | None:
    """The texts of a value, one or a list in brackets; None: they are not understood."""
    texts = [nodes] if nodes else []
    if nodes.startswith("["):
        if not _LIST.fullmatch(nodes):
            return None
        texts = re.findall(rf"{_QUOTED}|{_IN_LIST}", nodes)
    found = [_text(each) for each in texts]
    return None if None in found else [each for each in found if each is not None]


def _text(scalar: str) -> str | None:
    """The text of a scalar; None: YAML may read something else."""
    if scalar[0] in "'\"":
        return scalar[1:-1]
    return None if _NO_TEXT.fullmatch(scalar) else scalar
