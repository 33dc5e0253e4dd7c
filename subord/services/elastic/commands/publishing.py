"""`subord elastic set` and `subord elastic off`: an order that an operator signs.

Inputs are options, the plan before, and what the queue's node says of its batch system; output is a document for all
nodes. Invariant: wrong options are named, and then nothing is signed.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

import msgspec

from subord.client import exit_codes
from subord.client.daemon import DAEMON_GRACE_S, Document, ask, asked
from subord.client.errors import CommandError
from subord.client.naming import names_for
from subord.client.node_sets.choice import chosen_one
from subord.client.options import socket_path
from subord.client.orders.publishing import NOTHING, Kind, ordered
from subord.client.text import columns, printable
from subord.core.address.network import Network
from subord.core.carriage.documents import BODY_BYTES_MAX, ELASTIC
from subord.services.asking import DAEMON_BUDGET_S_MAX, shown_document
from subord.services.elastic.commands import given
from subord.services.elastic.commands.layout import CONFLICT, heading, is_in_force, is_unreadable, rows_of
from subord.services.elastic.options import QUEUE, SLURM, Options
from subord.services.elastic.plan import Mount, Plan, User, encode_plan
from subord.services.elastic.telling.published import of_plan

PLAN_PATH: Final = "/v1/elastic/plan"
OWN: Final = ("options", "manager", "off", "prefix", "former", "kinds", "users", "mounts", "hosts", "trial")
KIND: Final = Kind({"action": "publish", "name": ELASTIC}, "plans", PLAN_PATH, OWN)
OF_ADDED: Final = ("users", "mounts")
RENEWED: Final = (
    "nodes that serve get these users and mounts as well, and keep those that they have until they are removed"
)


def publish(arguments: argparse.Namespace) -> int:
    """Publishes a plan. Raises CommandError: nothing was changed."""
    shown = asked(arguments, PLAN_PATH)
    if is_unreadable(shown):
        what = f"version {shown['version']} of the plan is of a later release, which this one cannot change"
        raise CommandError(f"{what}: use that release, or `subord elastic off` first; {NOTHING}", exit_codes.USAGE)
    status = asked(arguments, "/v1/status")
    network = Network.parse(status["settings"]["network"])
    before = _plan_of(shown, network)
    manager = _manager(arguments, shown, status["address"])
    try:
        plan = given.merged(arguments, before, _position(manager, network))
    except given.GivenError as error:
        raise CommandError(f"{error}; {NOTHING}", exit_codes.USAGE) from None
    batch = None if arguments.force else _checked(arguments, plan, manager, network)
    found, would = _ordered(arguments, plan, network, shown)
    if arguments.json:
        changes = [
            {"name": name, "before": old, "now": new} for name, new, old in _changes(found, shown) if old != new
        ]
        print(json.dumps({**found, "changed": changes, "batch": batch}))
        return exit_codes.OK
    return shown_document(arguments, found, _lines(found, shown, names_for(arguments, found), would))


def switch_off(arguments: argparse.Namespace) -> int:
    """Publishes that the cluster is not elastic; the rest of the plan stays. Raises CommandError: nothing was
    changed."""
    shown = asked(arguments, PLAN_PATH)
    network = Network.parse(asked(arguments, "/v1/status")["settings"]["network"])
    before = None if is_unreadable(shown) else _plan_of(shown, network)
    plan = Plan(manager=0) if before is None else msgspec.structs.replace(before, manager=0)
    found, would = _ordered(arguments, plan, network, shown)
    return shown_document(arguments, found, [heading(found, {}, would)])


# -- the plan -------------------------------------------------------------------------------------------------------


def _plan_of(shown: Document, network: Network) -> Plan | None:
    """None: there is none."""
    if not shown["version"]:
        return None
    return Plan(
        manager=_position(shown["manager"], network) if shown["manager"] else 0,
        options=None if shown["options"] is None else msgspec.convert(shown["options"], Options),
        prefix=shown["prefix"],
        former=tuple(shown["former"]),
        kinds=tuple(shown["kinds"]),
        users=tuple(msgspec.convert(shown["users"], list[User])),
        mounts=tuple(msgspec.convert(shown["mounts"], list[Mount])),
        has_hosts=shown["hosts"],
        is_trial=shown["trial"],
    )


def _manager(arguments: argparse.Namespace, shown: Document, own: str) -> str:
    """The address of the queue's node. Raises CommandError."""
    if arguments.manager is None:
        return shown["manager"] or own
    try:
        return chosen_one(arguments, arguments.manager)
    except CommandError as error:
        raise CommandError(f"--manager: {error}; {NOTHING}", error.exit_code) from None


def _position(address: str, network: Network) -> int:
    """Raises CommandError."""
    position = network.position_of(address)
    if position is None:
        text = f"--manager: {address} is no address of the network {network.text}; {NOTHING}"
        raise CommandError(text, exit_codes.NO_SUCH_NODE)
    return position


# -- the queue's node -----------------------------------------------------------------------------------------------


def _checked(arguments: argparse.Namespace, plan: Plan, manager: str, network: Network) -> str:
    """The batch system of the queue's node. Raises CommandError if it cannot follow the plan."""
    budget_s = min(arguments.timeout, DAEMON_BUDGET_S_MAX)
    target = f"/v1/elastic?nodes={_position(manager, network)}&budget={budget_s:.3f}"
    found = ask(socket_path(arguments), target, arguments.timeout + DAEMON_GRACE_S)
    if not found["states"]:
        raise CommandError(_unheard(found, manager), exit_codes.TRY_AGAIN)
    if not found["queues"]:
        what = "set elastic.batch in its configuration and restart its daemon and agent"
        text = f"{manager} has no queue: {what}, or name another node with --manager"
        raise CommandError(f"{text}; --force publishes nevertheless; {NOTHING}", exit_codes.CONFIGURATION)
    (queue,) = found["queues"]
    batch, kinds = str(queue["batch"]), queue["kinds"]
    if unknown := [each for each in plan.kinds if each not in kinds]:
        known = printable(", ".join(kinds)) or "none"
        text = f"--kinds: {manager} has no kind {', '.join(unknown)} in elastic.kinds, which has {known}"
        raise CommandError(f"{text}; --force publishes nevertheless; {NOTHING}", exit_codes.USAGE)
    assert plan.options is not None
    if batch != SLURM and plan.options.decides == SLURM:
        text = f"--decides slurm: {manager} has {batch}; name a node with Slurm by --manager, or decide by subord"
        raise CommandError(f"{text}; --force publishes nevertheless; {NOTHING}", exit_codes.CONFIGURATION)
    if batch == SLURM and plan.options.queue == QUEUE and arguments.queue is None:
        text = f"--queue is missing: {manager} has Slurm, and {QUEUE} is a queue of Grid Engine; name the partition"
        raise CommandError(f"{text}; {NOTHING}", exit_codes.USAGE)
    return batch


def _unheard(found: Document, manager: str) -> str:
    """Why the queue's node has told nothing."""
    causes = [each["text"] for each in found["missing"]]
    why = causes[0] if causes else "its answer cannot be read: it is of another release"
    text = f"whether {manager} has a queue is not known: {printable(why)}"
    return f"{text}; try again, or publish with --force; {NOTHING}"


# -- the order ------------------------------------------------------------------------------------------------------


def _ordered(arguments: argparse.Namespace, plan: Plan, network: Network, before: Document) -> tuple[Document, str]:
    """The document that counts now, or would, and the word for that. `before`: the one that counted until now. Raises
    CommandError."""
    body = encode_plan(plan)
    if len(body) > BODY_BYTES_MAX:
        text = f"the plan has {len(body)} bytes, and at most {BODY_BYTES_MAX} have room: give fewer users or mounts"
        raise CommandError(f"{text}; {NOTHING}", exit_codes.USAGE)
    return ordered(arguments, KIND, body, before, partial(_as_json, plan, network))


def _as_json(plan: Plan, network: Network, version: int, principal: str | None) -> Document:
    """A PlanDocument as the daemon would send it."""
    found: Document = json.loads(msgspec.json.encode(of_plan(plan, network, version, principal, None)))
    return found


# -- what is printed ------------------------------------------------------------------------------------------------


def _changes(now: Document, before: Document) -> Iterator[tuple[str, str, str | None]]:
    """Each option, its text, and its text before; None: there was no plan. The same text twice: nothing differs."""
    old: dict[str, tuple[Any, str]] = rows_of(before) if before["version"] and not is_unreadable(before) else {}
    for name, (value, text) in rows_of(now).items():
        if name not in old:
            yield name, text, None
        elif old[name][0] != value and old[name][1] == text:
            yield name, text, "others of these names"
        else:
            yield name, text, old[name][1]


def _lines(now: Document, before: Document, names: Mapping[str, str], would: str) -> Iterator[str]:
    yield heading(now, names, would)
    rows = [(name, text, "" if old in (None, text) else str(old)) for name, text, old in _changes(now, before)]
    if any(old for *_, old in rows):
        yield from columns([("option", "now", "before"), *rows])
    else:
        yield from columns([("option", "now"), *((name, text) for name, text, _ in rows)])
        if is_in_force(before):
            yield f"nothing differs from version {before['version']}"
    old, new = before["manager"], now["manager"]
    if old is not None and old != new:
        old, new = (names.get(each, each) for each in (old, new))
        yield f"nodes that {old} has added stay: {new} does not know them, and does not remove them"
    elif is_in_force(before) and [now[each] for each in OF_ADDED] != [before[each] for each in OF_ADDED]:
        yield RENEWED
    if now["conflict"]:
        yield CONFLICT
