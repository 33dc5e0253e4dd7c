"""The plan that a TOML file gives.

Input is the text; output is the plan, and the name of the queue's node as the file has it. Invariant: what is wrong
is named with its key, and then there is no plan.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from subord.client.orders.given import NoTomlError, limits, toml_in
from subord.services.machines.plan import Headroom, Plan, Type, Waits, faults

FILE_BYTES_MAX: Final = 256 * 1024
OF_COMMAND: Final[Mapping[str, str]] = {"is_trial": "--trial", "trial": "--trial"}
"""Keys that are options of the command."""
FORMS: Final[Mapping[str, str]] = {
    "name": "at most 40 small letters, digits and -, with a letter first",
    "template": "a name of libvirt: at most 63 letters, digits and ._-, with a letter or digit first",
    "queues": "names: at most 63 letters, digits and ._-, with a letter or digit first",
    "always_on": "names: at most 63 letters, digits and ._-, with a letter or digit first",
}
TABLES: Final[Mapping[str, type[msgspec.Struct]]] = {"types": Type, "headroom": Headroom, "waits": Waits}
SINGLE: Final = {name: form for name, form in TABLES.items() if name != "types"}
NEEDED: Final[Mapping[str, str]] = {"queues": "name each queue that the machines serve"}
"""Of lists that must not be empty."""
NO_LIST: Final = "types must be a list of tables: write [[types]] with two brackets before each type"
EMPTY: Final = "` of length >= 1"
_ERROR: Final = re.compile(r"(?P<what>.*?)(?: - at `(?P<path>[^`]*)`)?\Z", re.DOTALL)
_STEP: Final = re.compile(r"\.(?P<key>[A-Za-z_]\w*)|\[(?P<index>\d+|\.\.\.)\]")


class GivenError(ValueError):
    """What is wrong: each fault as a sentence without a full stop."""

    def __init__(self, *faults: str) -> None:
        super().__init__("; ".join(faults))
        self.faults = faults


class Given(NamedTuple):
    """`manager`: a name or an address; "": the file has none. The plan has no manager yet."""

    plan: Plan
    manager: str


def parsed(text: str) -> Given:
    """Raises GivenError."""
    try:
        document = toml_in(text)
    except NoTomlError as error:
        raise GivenError(str(error)) from None
    for key, option in OF_COMMAND.items():
        if key in document:
            raise GivenError(f"{key} is no key of a plan: give {option} with the command")
    manager = document.pop("manager", "")
    if not isinstance(manager, str):
        raise GivenError("manager must be a string: the name or the address of the node that has the queues")
    try:
        plan = msgspec.convert({**document, "manager": 0}, Plan)
    except msgspec.ValidationError as error:
        whole = said(str(error), document)
        raise GivenError(*(_of_parts(document) or [whole])) from None
    if not plan.types:
        raise GivenError("it has no types of machines: write a table [[types]] for each")
    if wrong := list(faults(plan)):
        raise GivenError(*wrong)
    return Given(plan, manager)


def _of_parts(document: Mapping[str, Any]) -> list[str]:
    """What is wrong with each table, as the whole is read up to the first fault only."""
    types = document.get("types", [])
    rest = {key: value for key, value in document.items() if key not in SINGLE} | {"manager": 0}
    parts: list[tuple[str, Any, type[msgspec.Struct]]]
    parts = [("", rest | {"types": [] if isinstance(types, list) else types}, Plan)]
    if isinstance(types, list):
        parts += [(f".types[{index}]", one, Type) for index, one in enumerate(types)]
    parts += [(f".{name}", document[name], form) for name, form in SINGLE.items() if name in document]
    found = (_fault(step, part, form, document) for step, part, form in parts)
    return [each for each in found if each]


def _fault(step: str, part: object, form: type[msgspec.Struct], document: Mapping[str, Any]) -> str:
    """`step`: where the part stands in the document, as msgspec writes it."""
    try:
        msgspec.convert(part, form)
    except msgspec.ValidationError as error:
        what, _, path = str(error).partition(" - at `$")
        return said(f"{what} - at `${step}{path.removesuffix('`')}`", document)
    return ""


def said(text: str, document: Mapping[str, Any]) -> str:
    """What msgspec says of a document, in words of the file."""
    match = _ERROR.match(text)
    assert match is not None  # it matches every text
    what, steps = match["what"], [each.groupdict() for each in _STEP.finditer(match["path"] or "")]
    keys = [each["key"] for each in steps if each["key"]]
    place = _place(steps, document)
    if found := re.search(r"unknown field `(.*)`", what):
        form = TABLES.get(keys[0], Plan) if keys else Plan
        known = ", ".join(each for each in form.__struct_fields__ if each not in OF_COMMAND)
        return f"{place}there is no key {found[1][:64]!r}: its keys are {known}"
    if found := re.search(r"missing required field `(.*)`", what):
        return f"{place}the key {found[1]} is missing"
    if keys == ["types"] and not steps[1:] and what.startswith("Expected `array`"):
        return f"the plan: the key {NO_LIST}"
    key = f"the key {keys[-1]}" if keys else "it"
    if what.endswith(EMPTY):
        return f"{place}{key} must not be empty: {NEEDED.get(keys[-1], 'name one at least')}"
    if len(keys) < 2:  # of the plan itself
        place = "the plan: "
    shape = FORMS.get(keys[-1], "a name") if keys and "matching regex" in what else ""
    return f"{place}{key} must be {shape or limits(what)}"


def _place(steps: list[dict[str, str | None]], document: Mapping[str, Any]) -> str:
    """`the type alma: `, `the table waits: `, or `the plan: `."""
    names = [each["key"] for each in steps if each["key"]]
    if not names or names[0] not in TABLES:
        return "the plan: "
    if names[0] != "types":
        return f"the table {names[0]}: "
    index = next((each["index"] for each in steps if each["index"]), None)
    types = document.get("types")
    if index is None or not index.isdigit() or not isinstance(types, list):
        return "types: "
    one = types[int(index)] if int(index) < len(types) else None
    name = one.get("name") if isinstance(one, dict) else None
    return f"the type {name[:40]}: " if isinstance(name, str) and name else f"the type number {int(index) + 1}: "
