"""`subord machines plan` and `subord machines off`: a document that an operator signs.

Inputs are a file, the plan before, and what nodes say; output is a document for all nodes. Invariant: what is wrong
is named, and then nothing is signed.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from functools import partial
from typing import Final

import msgspec

from subord.client import exit_codes
from subord.client.daemon import Document, asked
from subord.client.errors import CommandError
from subord.client.naming import names_for
from subord.client.orders.publishing import NOTHING, Kind, ordered
from subord.client.text import columns
from subord.core.address.network import Network
from subord.core.carriage.documents import MACHINES
from subord.services.asking import shown_document
from subord.services.following import wrapped
from subord.services.machines.commands.asking import PLAN_PATH, Heard, Wanted, heard, lacking, several, wanted
from subord.services.machines.commands.comparing import Compared
from subord.services.machines.commands.layout import CONFLICT, heading, is_in_force, plan_lines, some, values_of
from subord.services.machines.plan import Headroom, Plan, Type, Waits, encode
from subord.services.machines.telling.published import of_plan

OWN: Final = (
    "manager",
    "off",
    "types",
    "headroom",
    "period_s",
    "waits",
    "store_mb",
    "moves",
    "always_on",
    "trial",
)
KIND: Final = Kind({"action": "publish", "name": MACHINES}, "plans", PLAN_PATH, OWN)
NONE_TO_END: Final = "there is no plan to end"
FORCE: Final = "--force publishes it all the same"


def publish(arguments: argparse.Namespace) -> int:
    """Publishes a plan. Raises CommandError: nothing was changed."""
    found = wanted(arguments, is_trial=arguments.trial)
    said = heard(arguments, found)
    names = names_for(arguments, said.listed)
    lacks = lacking(found, said, names)
    if not arguments.force:
        _demand(found, said, lacks)
    shown, would = ordered(
        arguments, KIND, encode(found.plan), found.before, partial(_as_json, found.plan, found.network)
    )
    changed = _changes(shown, found.before)
    warnings = [*lacks.faults, *lacks.warnings]
    document = {**shown, "changed": changed, "batch": said.batch or None, "warnings": warnings}
    lines = [heading(shown, names, would), *_lines(shown, found.before, changed)]
    notes = (line for each in warnings for line in wrapped(f"note: {each}", ""))
    return shown_document(arguments, document, [*lines, *notes])


def _demand(found: Wanted, said: Heard, lacks: Compared) -> None:
    """Raises CommandError if the plan could not be followed."""
    if lacks.faults:
        raise several("", lacks.faults, f"{FORCE}; {NOTHING}", exit_codes.CONFIGURATION)
    if said.batch is None:
        text = f"whether {found.manager} has a batch system is not known: {said.why}"
        raise CommandError(f"{text}; try again, or publish with --force; {NOTHING}", exit_codes.TRY_AGAIN)


def switch_off(arguments: argparse.Namespace) -> int:
    """Publishes that no machine is started or stopped; the rest of the plan stays. Without a plan in force nothing is
    published. Raises CommandError: nothing was changed."""
    before = asked(arguments, PLAN_PATH)
    if not is_in_force(before) and not before["fault"]:
        return shown_document(arguments, before, [heading(before, {}), f"{NONE_TO_END}; {NOTHING}"])
    network = Network.parse(asked(arguments, "/v1/status")["settings"]["network"])
    plan = _kept(before)
    shown, would = ordered(arguments, KIND, encode(plan), before, partial(_as_json, plan, network))
    return shown_document(arguments, shown, [heading(shown, {}, would)])


def _kept(before: Document) -> Plan:
    """The plan before without a queue's node; of none, or one that this release cannot follow, an empty one."""
    fields = {key: before[key] for key in ("period_s", "store_mb", "moves")}
    return Plan(
        manager=0,
        types=tuple(msgspec.convert(before["types"], list[Type])),
        headroom=msgspec.convert(before["headroom"], Headroom),
        waits=msgspec.convert(before["waits"], Waits),
        always_on=tuple(before["always_on"]),
        **fields,
    )


def _as_json(plan: Plan, network: Network, version: int, principal: str | None) -> Document:
    """A PlanDocument as the daemon would send it."""
    found: Document = json.loads(msgspec.json.encode(of_plan(plan, network, version, principal=principal)))
    return found


# -- what is printed ------------------------------------------------------------------------------------------------


def _changes(now: Document, before: Document) -> list[Document]:
    """A ChangedDocument for each key of the plan."""
    is_first = not before["version"] or bool(before["fault"])
    old, new = {} if is_first else values_of(before), values_of(now)
    keys = [*new, *(key for key in old if key not in new)]
    rows = [{"name": key, "before": old.get(key), "now": new.get(key)} for key in keys]
    return [each for each in rows if each["before"] != each["now"]]


def _lines(now: Document, before: Document, changed: list[Document]) -> Iterator[str]:
    yield from plan_lines(now)
    if is_in_force(before):
        if changed:
            yield from columns([("changed", "now", "before"), *_rows(changed, now, before)])
        else:
            yield f"nothing differs from version {before['version']}"
    if now["conflict"]:
        yield CONFLICT


def _rows(changed: list[Document], now: Document, before: Document) -> Iterator[tuple[str, str, str]]:
    """A row for each key, and one for each type of machines."""
    for each in changed:
        if not each["name"].startswith("types."):
            yield each["name"], each["now"], each["before"]
    after, earlier = ({kind["name"]: kind for kind in plan["types"]} for plan in (now, before))
    for name in {**after, **earlier}:
        if name not in earlier:
            yield f"types.{name}", "as above", "-"
        elif name not in after:
            yield f"types.{name}", "-", f"template {earlier[name]['template']}, {some(earlier[name]['queues'])}"
        else:
            keys = [each for each in changed if each["name"].startswith(f"types.{name}.")]
            if keys:
                yield f"types.{name}", _values(keys, "now"), _values(keys, "before")


def _values(changed: list[Document], when: str) -> str:
    """`cores 8, memory_mb 4096`."""
    return ", ".join(f"{each['name'].rpartition('.')[2]} {each[when]}" for each in changed)
