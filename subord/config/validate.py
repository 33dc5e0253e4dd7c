"""Checks raw tables against the typed tables of the schema.

In: a `RawConfig` and the struct of each table. A mismatch raises ConfigError with the place, the key, the wanted type
in words and, for an unknown name, the nearest known one. Pure.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import Any, Literal, NoReturn, get_args, get_origin

import msgspec
from msgspec import inspect

from subord.config.source import ConfigError, RawConfig, cut, quoted

Tables = Mapping[str, type[msgspec.Struct]]


def check(raw: RawConfig, tables: Tables) -> None:
    """Raises ConfigError at the first unknown table or key, or the first value of a wrong type."""
    for table, keys in raw.document.items():
        if table not in tables:
            _refuse_name(raw, tables, table, keys)
        if not isinstance(keys, dict):
            raise ConfigError(f"{raw.where(table)}: [{table}] must be a table of keys, not {shown(keys)}")
        for key, value in keys.items():
            _check_key(raw, tables, table, key)
            _check_value(raw, table, key, value, keys_of(tables[table])[key].type)


def refuse(raw: RawConfig, table: str, key: str, complaint: str) -> NoReturn:
    """Raise ConfigError at the place of a key: `subord.toml:3: fanout <complaint>`."""
    raise ConfigError(f"{raw.where(table, key)}: {key} {complaint}")


@functools.cache  # `fields` evaluates the annotations on each call: 0.5 ms
def keys_of(table: type[msgspec.Struct]) -> dict[str, msgspec.structs.FieldInfo]:
    """The keys of a table in the order of the schema."""
    return {field.name: field for field in msgspec.structs.fields(table)}


def in_words(annotation: Any) -> str:
    """A type in words: `a whole number from 2 to 1024`."""
    if get_origin(annotation) is Literal:  # in the order of the source; msgspec.inspect sorts
        values = [quoted(value) for value in get_args(annotation)]
        return values[0] if len(values) == 1 else "one of " + ", ".join(values)
    return _words(inspect.type_info(annotation))


def shown(value: Any) -> str:
    """A value in the spelling of TOML, on one line."""
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


def _check_key(raw: RawConfig, tables: Tables, table: str, key: str) -> None:
    if key in keys_of(tables[table]):
        return
    advice = _home_of(tables, key) or _nearest(key, keys_of(tables[table]))
    advice = advice or "its keys are " + ", ".join(keys_of(tables[table]))
    raise ConfigError(f"{raw.where(table, key)}: unknown key {quoted(key)} in [{table}]; {advice}")


def _check_value(raw: RawConfig, table: str, key: str, value: Any, annotation: Any) -> None:
    try:
        msgspec.convert(value, annotation)
    except msgspec.ValidationError:
        refuse(raw, table, key, f"must be {in_words(annotation)}, not {shown(value)}")
    for text in value if isinstance(value, list) else [value]:
        if isinstance(text, str) and not text.isprintable():
            refuse(raw, table, key, f"must not contain control characters, as {quoted(text)} does")


def _refuse_name(raw: RawConfig, tables: Tables, name: str, keys: Any) -> NoReturn:
    """Refuse an unknown top-level name: a mistyped table, or a key before its table."""
    key = next(iter(keys), "") if isinstance(keys, dict) else ""
    # A table that occurs only in a --set assignment has no line.
    place = raw.where(name, key) if (name, key) in raw.assigned else raw.where(name)
    known = "the tables are " + ", ".join(f"[{table}]" for table in tables)
    if isinstance(keys, dict):
        close = _closest(name, tables)
        advice = f"did you mean [{close}]?" if close else known
        raise ConfigError(f"{place}: unknown table {quoted(name)}; {advice}")
    advice = _home_of(tables, name) or known
    raise ConfigError(f"{place}: unknown key {quoted(name)} outside the tables; {advice}")


def _home_of(tables: Tables, key: str) -> str:
    home = next((table for table, kind in tables.items() if key in keys_of(kind)), None)
    return f"it belongs in [{home}]" if home else ""


def _nearest(name: str, names: Mapping[str, object]) -> str:
    close = _closest(name, names)
    return f"did you mean {quoted(close)}?" if close else ""


def _closest(name: str, names: Mapping[str, object]) -> str:
    from difflib import get_close_matches  # noqa: PLC0415 - a correct configuration needs it never

    return next(iter(get_close_matches(name.lower(), names, n=1)), "")
