"""The table of a TOML file that an operator gives to a command, and what msgspec says of it in words of the file.

Inputs are texts; outputs are the table, or NoTomlError with a sentence, and phrases. Invariant: no text ends the
command otherwise, also one that is nested deeper than the reader follows.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from typing import Any, Final

WORDS: Final[Mapping[str, str]] = {
    "int": "a whole number",
    "str": "a string",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
    "float": "a number with a point",
}


class NoTomlError(ValueError):
    """A sentence without a full stop."""


def toml_in(text: str) -> dict[str, Any]:
    """Raises NoTomlError."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise NoTomlError(f"it is no TOML: {error}") from None
    except RecursionError:
        raise NoTomlError("it is no TOML of a plan: its tables or lists are nested too deeply") from None


def limits(what: str) -> str:
    """`a whole number of at least 1, not a string`."""
    text = re.sub(r"`(\w+)`", lambda found: WORDS.get(found[1], found[1]), what.removeprefix("Expected "))
    text = re.sub(r" >= (-?\d+)", r" of at least \1", text)
    return re.sub(r" <= (-?\d+)", r" of at most \1", text).replace(", got ", ", not ")
