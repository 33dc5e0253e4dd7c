"""`subord transfer plan` and `subord transfer off`: a document that an operator signs.

Inputs are a file, the plan before, and what the transfer host says; output is a document for all nodes. Invariant:
what is wrong is named, and then nothing is signed.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from functools import partial
from typing import Final

import msgspec

from subord.client import exit_codes
from subord.client.daemon import DAEMON_GRACE_S, Document, ask, asked
from subord.client.errors import CommandError
from subord.client.naming import names_for
from subord.client.node_sets.choice import chosen_one
from subord.client.options import socket_path
from subord.client.orders.plan_file import name_of, text_of
from subord.client.orders.publishing import NOTHING, Kind, ordered
from subord.client.text import printable
from subord.core.address.network import Network
from subord.core.carriage.documents import TRANSFER
from subord.services.asking import DAEMON_BUDGET_S_MAX, shown_document
from subord.services.following import wrapped
from subord.services.transfer.checking import SET
from subord.services.transfer.commands.given import FILE_BYTES_MAX, Given, GivenError, parsed
from subord.services.transfer.commands.layout import CONFLICT, heading, is_in_force, plan_lines
from subord.services.transfer.plan import BODY_MAX, Plan, encode_plan
from subord.services.transfer.telling.published import of_plan

PATH: Final = "/v1/transfer/plan"
KIND: Final = Kind({"action": "publish", "name": TRANSFER}, "plans", PATH, ("host", "off", "digest"))
FORCE: Final = "--force publishes it all the same"


def publish(arguments: argparse.Namespace) -> int:
    """Publishes a plan. Raises CommandError: nothing was changed."""
    given = _given(arguments.file)
    prints = _fingerprints(given.plan)
    before = asked(arguments, PATH)
    status = asked(arguments, "/v1/status")
    network = Network.parse(status["settings"]["network"])
    host = _host(arguments, given, before["host"] or status["address"])
    position = network.position_of(host)
    if position is None:
        text = f"{host} is no address of the network {network.text}; {NOTHING}"
        raise CommandError(text, exit_codes.NO_SUCH_NODE)
    plan = msgspec.structs.replace(given.plan, host=position)
    batch = _batch(arguments, plan, host)
    names = names_for(arguments, {"plan": {"host": host}})
    shown, would = _ordered(arguments, plan, network, before)
    warnings = [*_warnings(plan), *_renamings(before, shown)]
    lines = [heading(shown, names, would), *plan_lines(shown)]
    lines += [f"compare with `subord transfer key` of the other cluster: SHA-256 {each}" for each in prints]
    if shown["digest"] == before["digest"] and is_in_force(before):
        lines.append(f"nothing differs from version {before['version']}")
    lines += [line for each in warnings for line in wrapped(f"note: {each}", "")]
    lines += [CONFLICT] if shown["conflict"] else []
    return shown_document(arguments, {**shown, "batch": batch, "warnings": warnings}, lines)


def switch_off(arguments: argparse.Namespace) -> int:
    """Publishes that no job crosses. Raises CommandError: nothing was changed."""
    before = asked(arguments, PATH)
    network = Network.parse(asked(arguments, "/v1/status")["settings"]["network"])
    shown, would = _ordered(arguments, Plan(host=0), network, before)
    document = {**shown, "batch": None, "warnings": []}
    return shown_document(arguments, document, [heading(shown, {}, would)])


def _warnings(plan: Plan) -> Iterator[str]:
    if not plan.queues and not plan.slots_max:
        yield "no job leaves, and none comes: the plan has neither queues nor slots_max"


def _renamings(before: Document, shown: Document) -> Iterator[str]:
    """Of jobs under way, by the plan before."""
    if not is_in_force(before):
        return
    names, others = ((each["cluster"], each["peer"]["name"]) for each in (before, shown))
    if names != others:
        yield (
            f"the cluster was {names[0]} with the peer {names[1]} before: the transfer host does not follow this "
            "plan as long as jobs by these names are under way (`subord transfer jobs`)"
        )
    if before["host"] != shown["host"]:
        yield (
            f"the transfer host was {before['host']} before, and its records stay there: if jobs are under way "
            "(`subord transfer jobs`), publish the plan with that host again, and wait until they are over"
        )


# -- what is given --------------------------------------------------------------------------------------------------


def _given(path: str) -> Given:
    """Raises CommandError."""
    try:
        return parsed(text_of(path, FILE_BYTES_MAX))
    except GivenError as error:
        raise CommandError(f"{name_of(path)}: {printable(str(error))}; {NOTHING}", exit_codes.USAGE) from None


def _fingerprints(plan: Plan) -> list[str]:
    """Of the certificates of the peer. Raises CommandError if one is none; the plan itself tests their form alone,
    because X.509 costs each node memory."""
    from subord.services.transfer.linking.certificate import CertificateError, der_of, fingerprint_of

    try:
        return [fingerprint_of(der_of(each)) for each in (plan.peer.certificates if plan.peer else ())]
    except CertificateError as error:
        raise CommandError(f"{error}; {NOTHING}", exit_codes.USAGE) from None


def _host(arguments: argparse.Namespace, given: Given, otherwise: str) -> str:
    """The address of the transfer host. Raises CommandError."""
    word, what = (arguments.host, "--host") if arguments.host is not None else (given.host, "host")
    if not word:
        return otherwise
    try:
        return chosen_one(arguments, word)
    except CommandError as error:
        raise CommandError(f"{what}: {error}; {NOTHING}", error.exit_code) from None


def _batch(arguments: argparse.Namespace, plan: Plan, host: str) -> str | None:
    """The batch system of the transfer host; None: it is not known. Raises CommandError if it cannot follow the
    plan."""
    budget_s = min(arguments.timeout, DAEMON_BUDGET_S_MAX)
    target = f"/v1/transfer?nodes={plan.host}&budget={budget_s:.3f}"
    told = ask(socket_path(arguments), target, arguments.timeout + DAEMON_GRACE_S)
    batch = str(told["batches"][0]["batch"]) if told["batches"] else ""
    if arguments.force:
        return batch or None
    if not told["states"]:
        causes = [each["text"] for each in told["missing"]]
        why = printable(causes[0]) if causes else "its answer cannot be read: it is of another release"
        text = f"whether {host} has a batch system is not known: {why}; try again, or {FORCE}; {NOTHING}"
        raise CommandError(text, exit_codes.TRY_AGAIN)
    if not batch:
        text = f"transfer.batch was empty when the daemon of {host} started: {SET} there, or give --host"
        raise CommandError(f"{text}; {FORCE}; {NOTHING}", exit_codes.CONFIGURATION)
    return batch


# -- the order ------------------------------------------------------------------------------------------------------


def _ordered(arguments: argparse.Namespace, plan: Plan, network: Network, before: Document) -> tuple[Document, str]:
    """The document that counts now, or would, and the word for that. Raises CommandError."""
    body = encode_plan(plan)
    if len(body) > BODY_MAX:
        text = f"the plan has {len(body)} bytes, and at most {BODY_MAX} have room: shorten its tables; {NOTHING}"
        raise CommandError(text, exit_codes.USAGE)
    return ordered(arguments, KIND, body, before, partial(_as_json, plan, network))


def _as_json(plan: Plan, network: Network, version: int, principal: str | None) -> Document:
    """A PlanDocument as the daemon would send it."""
    found: Document = json.loads(msgspec.json.encode(of_plan(plan, network, version, principal=principal)))
    return found
