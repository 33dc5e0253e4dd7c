"""Parses a TOML file and `--set` assignments into raw tables, and finds the line of each key for errors.

`tomllib` gives no line numbers. The line of a key is therefore searched: it is that of the first statement after
which the key exists. Values are not interpreted here; validate.py checks them against the types.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

FILE_BYTES_MAX = 1_000_000
"""A larger file is not a configuration, but for example a log or a device."""
LINES_SEARCHED_MAX = 1000
"""`line_of` parses every prefix of the file, so its cost grows with the square of the lines."""
SHOWN_CHARACTERS_MAX = 60


class ConfigError(Exception):
    """The configuration cannot be used. The text is one printable line for the operator.

    `passing`: the cause is temporary, such as a resolver that does not answer.
    """

    def __init__(self, text: str, *, passing: bool = False) -> None:
        line = " ".join(text.split())
        super().__init__("".join(each if each.isprintable() else "?" for each in line))
        self.passing = passing


@dataclass(frozen=True)
class RawConfig:
    """A parsed, unchecked configuration: `document[table][key]`, and the `--set` texts by (table, key)."""

    document: dict[str, Any]
    text: str
    file: str
    assigned: dict[tuple[str, str], str]

    def where(self, *path: str) -> str:
        """The source of a key as the prefix of an error: `subord.toml:3`, or the `--set` assignment."""
        if len(path) == 2 and (path[0], path[1]) in self.assigned:
            return f"--set {self.assigned[path[0], path[1]]}"
        line = line_of(self.text, path)
        name = self.file or "no configuration file"
        return name if line is None else f"{name}:{line}"


def read(path: str | None, assignments: Sequence[str]) -> RawConfig:
    """Parse a file (None: only assignments). Raises ConfigError."""
    text = "" if path is None else text_of(path, "configuration", "correct the path after --config", FILE_BYTES_MAX)
    document = _parsed(path or "", text)
    assigned: dict[tuple[str, str], str] = {}
    for assignment in assignments:
        table, key, value = _assignment(assignment)
        keys = document.setdefault(table, {})
        if not isinstance(keys, dict):
            raise ConfigError(f"{path}: [{table}] must be a table of keys, so --set {assignment} cannot be applied")
        keys[key] = value
        assigned[table, key] = assignment
    return RawConfig(document, text, path or "", assigned)


def text_of(path: str, what: str, remedy: str, bytes_max: int) -> str:
    """The text of a file. Raises ConfigError, which calls the file `what` and ends with `remedy`."""
    try:
        with open(path, "rb") as file:
            data = file.read(bytes_max + 1)
    except (OSError, ValueError) as error:  # ValueError: a null byte in the path
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
        raise ConfigError(f"{path}: cannot read the {what}: {reason}; {remedy}") from None
    if len(data) > bytes_max:
        raise ConfigError(f"{path}: longer than {bytes_max} bytes; this is not a subord {what}")
    try:
        # Some editors begin a file with a byte order mark; TOML 1.0 and host lists do not allow it.
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}:{line}: not UTF-8 text; save the file in UTF-8") from None


def line_of(text: str, path: Sequence[str]) -> int | None:
    """Line (1-based) of the statement that first makes `path` exist; None if it cannot be determined.

    A prefix of a valid file that ends inside a statement (a multi-line array or string) does not parse. The statement
    that defines the key therefore begins after the last prefix that parsed without the key.
    """
    lines = text.replace("\r\n", "\n").split("\n")  # tomllib rejects a bare carriage return
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
    """`text`, shortened to SHOWN_CHARACTERS_MAX."""
    return text if len(text) <= SHOWN_CHARACTERS_MAX else text[:SHOWN_CHARACTERS_MAX] + "..."


def quoted(text: str) -> str:
    """`text` in double quotes, escaped to one line and shortened."""
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
        raise ConfigError(f"{file}: not valid TOML: a number is too long, or brackets are nested too deep") from None


def _assignment(assignment: str) -> tuple[str, str, Any]:
    """`cluster.fanout=2` as ("cluster", "fanout", 2)."""
    name, equals, text = assignment.partition("=")
    table, dot, key = name.strip().partition(".")
    if not (equals and dot and table and key):
        raise ConfigError(f"--set {assignment}: expected TABLE.KEY=VALUE, e.g. --set cluster.fanout=2")
    return table, key, _value(assignment, text.strip())


def _value(assignment: str, text: str) -> Any:
    """A TOML value, or else the text itself: shells remove quotes, so `node.interface=eth0` must be accepted."""
    try:
        document = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError) as error:
        if text.startswith(('"', "'", "{")):
            raise ConfigError(f"--set {assignment}: the value is not valid TOML: {error}") from None
        return text
    return document["value"] if document.keys() == {"value"} else text
