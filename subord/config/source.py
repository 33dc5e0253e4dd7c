"""What the operator wrote, and where: a TOML file and `--set` assignments, not yet understood.

Intuition: a proofreader marks the place of a mistake before saying what is wrong with it. `tomllib`
throws the line numbers away, so the line of a key is found again by reading the file as a person would,
from the top: the key is given by the first statement after which it exists.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

FILE_BYTES_MAX = 1_000_000
"""A configuration has a few dozen lines; more is a wrong file, e.g. a log or a device."""
LINES_SEARCHED_MAX = 1000
"""`line_of` parses every prefix of the file, so its cost grows with the square of the lines."""
SHOWN_CHARACTERS_MAX = 60


class ConfigError(Exception):
    """The operator's configuration is wrong. The text is one plain line; nothing was changed.

    `passing`: the same configuration may be right another time, when the resolver answers.
    """

    def __init__(self, text: str, *, passing: bool = False) -> None:
        line = " ".join(text.split())
        super().__init__("".join(each if each.isprintable() else "?" for each in line))
        self.passing = passing


@dataclass(frozen=True)
class Given:
    """Tables of keys of values as written; `assigned` holds the `--set` texts by (table, key)."""

    document: dict[str, Any]
    text: str
    file: str
    assigned: dict[tuple[str, str], str]

    def where(self, *path: str) -> str:
        """The place of a key as a prefix of an error: `subord.toml:3`, or the `--set` that gave it."""
        if len(path) == 2 and (path[0], path[1]) in self.assigned:
            return f"--set {self.assigned[path[0], path[1]]}"
        line = line_of(self.text, path)
        name = self.file or "no configuration file"
        return name if line is None else f"{name}:{line}"


def read(path: str | None, assignments: Sequence[str]) -> Given:
    """Read a file (None: nothing but assignments). Raises ConfigError: not readable, TOML or `key=value`."""
    text = "" if path is None else text_of(path, "configuration", "correct the path after --config", FILE_BYTES_MAX)
    document = _parsed(path or "", text)
    assigned: dict[tuple[str, str], str] = {}
    for assignment in assignments:
        table, key, value = _assignment(assignment)
        keys = document.setdefault(table, {})
        if not isinstance(keys, dict):
            raise ConfigError(f"{path}: [{table}] must be a table of keys, so --set {assignment} has no place")
        keys[key] = value
        assigned[table, key] = assignment
    return Given(document, text, path or "", assigned)


def text_of(path: str, what: str, remedy: str, bytes_max: int) -> str:
    """The text of a file, which is called `what`. Raises ConfigError; `remedy` ends it if there is no such file."""
    try:
        with open(path, "rb") as file:
            data = file.read(bytes_max + 1)
    except (OSError, ValueError) as error:  # ValueError: a null byte in the path
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
        raise ConfigError(f"{path}: cannot read the {what}: {reason}; {remedy}") from None
    if len(data) > bytes_max:
        raise ConfigError(f"{path}: longer than {bytes_max} bytes; this is not a subord {what}")
    try:
        # A byte order mark is what some editors put in front; neither TOML 1.0 nor a host list knows it.
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}:{line}: not UTF-8 text; save the file in UTF-8") from None


def line_of(text: str, path: Sequence[str]) -> int | None:
    """Line (1-based) of the statement that first makes `path` exist; None when unsure.

    Prefixes of a valid file which end inside a statement (a multi-line array or string) do not parse. So the
    statement that ends with the first prefix to know the key began after the last prefix that parsed.
    """
    lines = text.replace("\r\n", "\n").split("\n")  # tomllib takes a bare carriage return for an error
    if not path or len(lines) > LINES_SEARCHED_MAX:
        return None
    begin = 0
    for end in range(1, len(lines) + 1):
        try:
            document: Any = tomllib.loads("\n".join(lines[:end]))
        except (ValueError, RecursionError):
            continue
        if _exists(document, path):
            return begin + 1
        begin = end
    return None


def cut(text: str) -> str:
    """A text that may be long, at a readable length."""
    return text if len(text) <= SHOWN_CHARACTERS_MAX else text[:SHOWN_CHARACTERS_MAX] + "..."


def quoted(text: str) -> str:
    """Any text in double quotes, on one line, at a readable length."""
    return json.dumps(cut(text), ensure_ascii=not text.isprintable())


def _exists(document: Any, path: Sequence[str]) -> bool:
    for key in path:
        if not isinstance(document, dict) or key not in document:
            return False
        document = document[key]
    return True


def _parsed(file: str, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        what, _, place = str(error).rpartition(" (at ")
        line, _, column = place.removesuffix(")").removeprefix("line ").partition(", ")
        if line.isdigit():
            raise ConfigError(f"{file}:{line}: not valid TOML: {what} ({column})") from None
        raise ConfigError(f"{file}: not valid TOML: {error}") from None
    except (ValueError, RecursionError):  # an integer of 5000 digits, 5000 brackets
        raise ConfigError(f"{file}: not valid TOML: a number too long, or brackets nested too deep") from None


def _assignment(assignment: str) -> tuple[str, str, Any]:
    """`cluster.fanout=2` as ("cluster", "fanout", 2)."""
    name, equals, text = assignment.partition("=")
    table, dot, key = name.strip().partition(".")
    if not (equals and dot and table and key):
        raise ConfigError(f"--set {assignment}: expected TABLE.KEY=VALUE, e.g. --set cluster.fanout=2")
    return table, key, _value(assignment, text.strip())


def _value(assignment: str, text: str) -> Any:
    """A TOML value, or the text itself: shells eat quotes, so `node.interface=eth0` must do."""
    try:
        document = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError) as error:
        if text.startswith(('"', "'", "{")):
            raise ConfigError(f"--set {assignment}: the value is not valid TOML: {error}") from None
        return text
    return document["value"] if document.keys() == {"value"} else text
