"""Orders of services with effects: made and signed here, and given to the daemon on this host.

Inputs are the service, its payload, the targets and the options of a command; output is the body of the request. The
daemon says only the name of the cluster, so a daemon that lies can withhold an order and have nothing else signed.
"""

from __future__ import annotations

import argparse
import base64
import json
import secrets
import time

import msgspec

from subord.client import exit_codes
from subord.client.daemon import asked
from subord.client.errors import CommandError
from subord.client.orders import signing
from subord.core.carriage.engine.acting import service_orders
from subord.core.carriage.engine.bounds import TAG_BYTES
from subord.core.carriage.engine.frames import order_of
from subord.core.carriage.engine.ranges import Ranges
from subord.core.carriage.verdicts import namespace_of

ISSUER = 1
"""In the place of the daemon's own position, which is not signed."""


def signed_order(
    arguments: argparse.Namespace,
    service: str,
    payload: bytes,
    nodes: str | None,
    left_s: float,
    *,
    tag: bytes | None = None,
    signing_path: str | None = None,
) -> bytes:
    """`nodes`: positions such as 1-3,7; None: all members. `tag` None: a new one. `signing_path`: where the daemon
    says the name of the cluster; None: at the path of the service. Raises CommandError."""
    if len(arguments.user) > service_orders.USER_CHARS_MAX:
        most = service_orders.USER_CHARS_MAX
        raise CommandError(f"-u takes a name of at most {most} characters; nothing was given", exit_codes.USAGE)
    found = asked(arguments, signing_path or f"/v1/{service}")
    tag = tag or secrets.token_bytes(TAG_BYTES)
    order = order_of(tag, service, payload, None if nodes is None else _ranges(nodes), ISSUER)
    authority = service_orders.valid_for(arguments.user, int(time.time() * 1000), left_s)
    content = service_orders.content_of((found["name"], found["network"]), order, authority)
    signature = signing.sign(content, namespace_of(service), arguments)
    signed = service_orders.encode(msgspec.structs.replace(authority, signature=signature))
    given = {"tag": _text(tag), "nodes": nodes, "payload": _text(payload), "authority": _text(signed)}
    return json.dumps({**given, "receipts": arguments.receipts}).encode()


def _ranges(nodes: str) -> Ranges:
    pairs = (piece.split("-") for piece in nodes.split(","))
    return Ranges.of_pairs((int(pair[0]), int(pair[-1])) for pair in pairs)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
