"""Checks a parsed scenario file against the types; an error names the step, the key and what is allowed."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec
from msgspec import inspect

from subord.config.source import cut, quoted
from subord.sim.scenario.selection import ScenarioError

KEY_PARTS_MAX = 8
NOT_KEYS = re.compile(r"""#[^\n]*|\"{3}(?:\\.|[^\\])*?\"{3}|'{3}.*?'{3}|"(?:\\.|[^"\\\n])*"|'[^'\n]*'""", re.DOTALL)
LONG_KEY = re.compile(rf"(?<![\w-])(?:[\w-]++[ \t]*+\.[ \t]*+){{{KEY_PARTS_MAX}}}")


def parsed(text: str) -> dict[str, Any]:
    """The tables of a TOML text. Raises ScenarioError."""
    # tomllib needs time and memory quadratic in the parts of a key, so a small file could exhaust both.
    if LONG_KEY.search(NOT_KEYS.sub("s", text)):
        raise ScenarioError(f"refused: a key has more than {KEY_PARTS_MAX} parts")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as reason:
        raise ScenarioError(f"no TOML: {reason}") from None
    except (ValueError, RecursionError):  # an integer of 5,000 digits, 5,000 brackets
        raise ScenarioError("no TOML: a number is too long, or brackets are nested too deep") from None


def check(given: object, kind: type[msgspec.Struct], where: str) -> None:
    """Raises ScenarioError unless `given` is a table that fits `kind`; `where` begins the message."""
    if not isinstance(given, dict):
        raise ScenarioError(f"{where}must be a table, not {shown(given)}")
    fields = fields_of(kind)
    for key, value in given.items():
        if key not in fields:
            keys = ", ".join(fields)
            raise ScenarioError(f"{where}no key `{cut(key)}`; " + (f"keys: {keys}" if keys else "it has no keys"))
        try:
            msgspec.convert(value, fields[key].type)
        except msgspec.ValidationError:
            must = in_words(fields[key].type)
            raise ScenarioError(f"{where}`{key}` must be {must}, not {shown(value)}") from None
    for key, field in fields.items():
        if field.required and key not in given:
            raise ScenarioError(f"{where}`{key}` is missing: {in_words(field.type)}")


@cache
def fields_of(kind: type[msgspec.Struct]) -> Mapping[str, msgspec.structs.FieldInfo]:
    """The keys of a struct, in the order of the source."""
    return {field.name: field for field in msgspec.structs.fields(kind)}


def in_words(annotation: Any) -> str:
    """What a key may hold: `a number from 0 to 1`, or what `Meta(extra={"words": ...})` says."""
    return _words(inspect.type_info(annotation))


def shown(value: object) -> str:
    """A value as in the file, on one line."""
    match value:
        case str():
            return quoted(value)
        case dict():
            return "a table"
        case list():
            return "a list" if value else "an empty list"
        case float():  # nan and inf as TOML spells them
            return str(value)
    return cut(json.dumps(value, default=str))


def _words(kind: inspect.Type) -> str:  # noqa: PLR0911 - one return per type
    match kind:
        case inspect.Metadata(extra={"words": str(words)}):
            return words
        case inspect.Metadata(type=inner):
            return _words(inner)
        case inspect.BoolType():
            return "true or false"
        case inspect.IntType(ge=low, le=high):
            return f"a whole number{_bounds(low, None, high)}"
        case inspect.FloatType(ge=low, gt=above, le=high):
            return f"a number{_bounds(low, above, high)}"
        case inspect.StrType(min_length=least, max_length=most):
            return "a text" if most is None else f"a text of {least or 0} to {most} characters"
        case inspect.LiteralType(values=values):
            return " or ".join(quoted(str(value)) for value in values)
        case inspect.VarTupleType(item_type=item, min_length=least):
            return f"a list{f' of at least {least}' if least else ''}, each {_words(item)}"
        case inspect.UnionType(types=kinds):
            return " or ".join(_words(each) for each in kinds if not isinstance(each, inspect.NoneType))
    raise AssertionError(f"no words for {kind}")


def _bounds(low: float | None, above: float | None, high: float | None) -> str:
    if above is not None:
        return f" above {above} and at most {high}"
    if high is None:
        return "" if low is None else f" from {low} upwards"
    return f" from {low} to {high}"
