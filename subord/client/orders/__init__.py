"""Orders to all nodes: prepared by the daemon on this host, signed here with the operator's key, and given to it.

Inputs are the options of a command and what is to be ordered; output is what the daemon prepared and its verdict. The
key never leaves this process's ssh-keygen. Invariant: nothing is given unless all orders of the command are signed.
"""

from __future__ import annotations

import argparse
import base64
import json
from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import urlencode

from subord.client.daemon import Document, change
from subord.client.options import socket_path

AT_ONCE_MAX: Final = 16
AT_ONCE_BYTES_MAX: Final = 60_000
"""Of a request; the daemon reads 64 KiB (api/http/server.py)."""


def order(arguments: argparse.Namespace, what: Mapping[str, str], body: bytes | None = None) -> Document:
    """What the daemon prepared, with `principal`: the operator as this node names it. Raises CommandError."""
    path = socket_path(arguments)
    prepared = prepare(arguments, what, body)
    signed = [_signed(each, arguments) for each in prepared["orders"]]
    judged = [change(path, "/v1/orders", body=portion) for portion in _portions(signed)]
    principals = [each["principal"] for answer in judged for each in answer["orders"]]
    return {**prepared, "principal": principals[0] if principals else "", "judged": judged}


def prepare(arguments: argparse.Namespace, what: Mapping[str, str], body: bytes | None = None) -> Document:
    """What the daemon prepares; nothing is signed. Raises CommandError."""
    return change(socket_path(arguments), f"/v1/orders/prepare?{urlencode(what)}", body=body)


def statement(ordered: Document) -> Document:
    """What was said about nodes: the document that a command prints."""
    return {key: ordered[key] for key in ("schema_version", "nodes", "addresses", "principal")}


def _signed(prepared: Document, arguments: argparse.Namespace) -> Document:
    from subord.client.orders import signing

    signature = signing.sign(base64.b64decode(prepared["content"]), prepared["namespace"], arguments)
    kept = {key: prepared[key] for key in ("name", "version", "at_ms", "expires_ms", "body")}
    return {**kept, "signature": base64.b64encode(signature).decode("ascii")}


def _portions(signed: list[Document]) -> Iterator[bytes]:
    """The bodies of the requests."""
    portion: list[Document] = []
    size = 0
    for each in signed:
        length = len(json.dumps(each))
        if portion and (len(portion) >= AT_ONCE_MAX or size + length > AT_ONCE_BYTES_MAX):
            yield _body(portion)
            portion, size = [], 0
        portion.append(each)
        size += length
    if portion:
        yield _body(portion)


def _body(portion: list[Document]) -> bytes:
    return json.dumps({"orders": portion}).encode()
