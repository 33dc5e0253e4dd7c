"""`subord machines policy check`: what is wrong with a plan, without publishing it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from subord.client import exit_codes
from subord.client.daemon import Document
from subord.client.errors import CommandError
from subord.client.naming import names_for
from subord.client.text import count, printable
from subord.services.asking import coverage_line, name_missing
from subord.services.following import wrapped
from subord.services.machines.commands.asking import Heard, Wanted, heard, lacking, wanted
from subord.services.machines.commands.comparing import Compared
from subord.services.machines.commands.layout import plan_lines
from subord.services.machines.telling.published import of_plan

UNPUBLISHED = "; nothing was changed"
COVERAGE = ("schema_version", "asked", "told", "complete", "missing", "oldest_ms")


def run(arguments: argparse.Namespace) -> int:
    """Prints what is wrong. Raises CommandError: the plan cannot be read, or this node does not answer."""
    try:
        found = wanted(arguments)
    except CommandError as error:
        raise CommandError(str(error).removesuffix(UNPUBLISHED), error.exit_code, error.faults) from None
    said = heard(arguments, found)
    listed = said.listed
    names = names_for(arguments, listed)
    lacks = lacking(found, said, names)
    name_missing(listed, names)
    if arguments.json:
        print(json.dumps(_document(found, lacks, listed)))
    else:
        for line in (*map(printable, _lines(_plan(found), lacks, said, names)), coverage_line(listed)):
            print(line)
    if lacks.faults:
        return exit_codes.USAGE
    return exit_codes.OK if listed["complete"] and said.batch is not None else exit_codes.NOT_REACHED


def _plan(found: Wanted) -> Document:
    shown: Document = json.loads(msgspec.json.encode(of_plan(found.plan, found.network)))
    return shown


def _document(found: Wanted, lacks: Compared, listed: Document) -> dict[str, Any]:
    """A CheckDocument."""
    return {
        **{key: listed[key] for key in COVERAGE},
        "note": listed.get("note"),
        "faults": lacks.faults,
        "warnings": lacks.warnings,
        "plan": _plan(found),
        "servers": len(listed["servers"]),
    }


def _lines(plan: Document, lacks: Compared, said: Heard, names: Mapping[str, str]) -> Iterator[str]:
    servers = count(len(said.listed["servers"]), "server")
    stranger = "" if said.is_member else ", which is no member,"
    yield f"{names.get(plan['manager'], plan['manager'])}{stranger} is to have the queues; {servers} answered"
    yield from plan_lines(plan)
    for each in lacks.faults:
        yield from wrapped(f"wrong: {each}", "")
    for each in lacks.warnings:
        yield from wrapped(f"note: {each}", "")
    if not lacks.faults and not lacks.warnings:
        yield "nothing is wrong with it"
