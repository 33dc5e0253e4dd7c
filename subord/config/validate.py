"""Does what was written fit the types? If not: whose line, which key, what would do.

Intuition: a child's box of shapes. Every key is a hole of one shape, said in words by its type; what does
not fit is held up beside the hole it was probably meant for.
"""

from __future__ import annotations

import difflib
import functools
import json
from collections.abc import Mapping
from typing import Any, Literal, NoReturn, get_args, get_origin

import msgspec
from msgspec import inspect

from subord.config.source import ConfigError, Given, cut, quoted

Tables = Mapping[str, type[msgspec.Struct]]


def check(given: Given, tables: Tables) -> None:
    """Raises ConfigError at the first table, key or value that the types do not know."""
    for table, keys in given.document.items():
        if table not in tables:
            _refuse_name(given, tables, table, keys)
        if not isinstance(keys, dict):
            raise ConfigError(f"{given.where(table)}: [{table}] must be a table of keys, not {shown(keys)}")
        for key, value in keys.items():
            _check_key(given, tables, table, key)
            _check_value(given, table, key, value, keys_of(tables[table])[key].type)


def refuse(given: Given, table: str, key: str, complaint: str) -> NoReturn:
    """Raise ConfigError at the place of a key: `subord.toml:3: fanout <complaint>`."""
    raise ConfigError(f"{given.where(table, key)}: {key} {complaint}")


@functools.cache  # the annotations of a class are evaluated anew every time: 0.5 ms
def keys_of(table: type[msgspec.Struct]) -> dict[str, msgspec.structs.FieldInfo]:
    """The keys of a table, in file order."""
    return {field.name: field for field in msgspec.structs.fields(table)}


def in_words(annotation: Any) -> str:
    """A type for people: `a whole number from 2 to 1024`."""
    if get_origin(annotation) is Literal:  # in the order of the source; msgspec.inspect sorts
        values = [quoted(value) for value in get_args(annotation)]
        return values[0] if len(values) == 1 else "one of " + ", ".join(values)
    return _words(inspect.type_info(annotation))


def shown(value: Any) -> str:
    """A value as its author would recognize it, on one line."""
    match value:
        case str():
            return f"the string {quoted(value)}"
        case float():  # nan and inf as TOML spells them
            return str(value)
    return cut(json.dumps(value, default=str))


def _words(kind: inspect.Type) -> str:
    match kind:
        case inspect.BoolType():
            words = "true or false"
        case inspect.IntType(ge=low, le=high):
            words = f"a whole number from {low} to {high}"
        case inspect.FloatType(ge=low, le=high):
            words = f"a number from {low} to {high}"
        case inspect.StrType():
            words = "a string"
        case inspect.VarTupleType(item_type=inspect.StrType(), max_length=most):
            words = "a list of strings" if most is None else f"a list of at most {most} strings"
        case inspect.UnionType(types=kinds):
            words = " or ".join(_words(each) for each in kinds if not isinstance(each, inspect.NoneType))
        case _:
            raise AssertionError(f"no words for {kind}")
    return words


def _check_key(given: Given, tables: Tables, table: str, key: str) -> None:
    if key in keys_of(tables[table]):
        return
    advice = _home_of(tables, key) or _nearest(key, keys_of(tables[table]))
    advice = advice or "its keys are " + ", ".join(keys_of(tables[table]))
    raise ConfigError(f"{given.where(table, key)}: unknown key {quoted(key)} in [{table}]; {advice}")


def _check_value(given: Given, table: str, key: str, value: Any, annotation: Any) -> None:
    try:
        msgspec.convert(value, annotation)
    except msgspec.ValidationError:
        refuse(given, table, key, f"must be {in_words(annotation)}, not {shown(value)}")
    for text in value if isinstance(value, list) else [value]:
        if isinstance(text, str) and not text.isprintable():
            refuse(given, table, key, f"must not contain control characters, as {quoted(text)} does")


def _refuse_name(given: Given, tables: Tables, name: str, keys: Any) -> NoReturn:
    """A name outside all tables: a mistyped table, or a key that stands before its table."""
    key = next(iter(keys), "") if isinstance(keys, dict) else ""
    # A table that only --set names has no line; the assignment itself is the place.
    place = given.where(name, key) if (name, key) in given.assigned else given.where(name)
    everything = "the tables are " + ", ".join(f"[{table}]" for table in tables)
    if isinstance(keys, dict):
        close = difflib.get_close_matches(name.lower(), tables, n=1)
        advice = f"did you mean [{close[0]}]?" if close else everything
        raise ConfigError(f"{place}: unknown table {quoted(name)}; {advice}")
    advice = _home_of(tables, name) or everything
    raise ConfigError(f"{place}: unknown key {quoted(name)} outside the tables; {advice}")


def _home_of(tables: Tables, key: str) -> str:
    home = next((table for table, kind in tables.items() if key in keys_of(kind)), None)
    return f"it belongs in [{home}]" if home else ""


def _nearest(name: str, names: Mapping[str, object]) -> str:
    close = difflib.get_close_matches(name.lower(), names, n=1)
    return f"did you mean {quoted(close[0])}?" if close else ""
