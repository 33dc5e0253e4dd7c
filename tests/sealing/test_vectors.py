"""Test vectors: another implementation, written from docs/protocol/sealing.md, must make the same bytes.

The file was written once by `python tests/sealing/test_vectors.py`, and is checked here by separate code: HKDF from
hmac, the header from int.to_bytes; only AES-GCM is the library's.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from subord.sealing.header import NO_TICKET, Header, What, endpoint, pack, unpack
from subord.sealing.keys import INFO_AUTHORITY, derive, key_of, keyring_of
from subord.sealing.sealer import Sealer

FILE = Path(__file__).with_name("vectors.json")
VECTORS: list[dict[str, Any]] = json.loads(FILE.read_text()) if FILE.exists() else []


def hkdf(secret: bytes, info: bytes, length: int) -> bytes:
    """RFC 5869, for at most 32 bytes and no salt."""
    prk = hmac.digest(bytes(32), secret, hashlib.sha256)
    return hmac.digest(prk, info + b"\x01", hashlib.sha256)[:length]


def end(address: str, port: int) -> bytes:
    ip = ipaddress.ip_address(address)
    mapped = ip if ip.version == 6 else ipaddress.IPv6Address(f"::ffff:{address}")
    return mapped.packed + port.to_bytes(2, "big")


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_the_schedule_and_the_header(vector: dict[str, Any]) -> None:
    secret = bytes.fromhex(vector["secret"])
    sender, receiver = end(*vector["sender"]), end(*vector["receiver"])
    boot, number = vector["boot"], vector["number"]
    assert hkdf(secret, b"subord 1 key id", 4).hex() == vector["key_id"]
    assert hkdf(secret, b"subord 1 authority", 32).hex() == vector["authority_seed"]
    ring = hkdf(secret, b"subord 1 datagram" + sender + boot.to_bytes(8, "big"), 32)
    assert ring.hex() == vector["datagram_key"]
    header = (
        bytes((0x73, 2, vector["what"], vector["tells"]))
        + bytes.fromhex(vector["key_id"])
        + boot.to_bytes(8, "big")
        + number.to_bytes(8, "big")
        + bytes.fromhex(vector["ticket"])
    )
    assert header.hex() == vector["header"]
    nonce = bytes(4) + number.to_bytes(8, "big")
    sealed = AESGCM(ring).encrypt(nonce, bytes.fromhex(vector["content"]), header + sender + receiver)
    assert (header + sealed).hex() == vector["datagram"]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_the_sealer_makes_the_same_bytes(vector: dict[str, Any]) -> None:
    key = key_of(bytes.fromhex(vector["secret"]))
    assert key.name == vector["key_id"]
    assert derive(key.secret, INFO_AUTHORITY).hex() == vector["authority_seed"]
    assert endpoint(*vector["sender"]) == end(*vector["sender"])
    header = unpack(bytes.fromhex(vector["header"]))
    assert header is not None
    assert pack(header).hex() == vector["header"]
    assert (header.what, header.boot, header.number) == (What(vector["what"]), vector["boot"], vector["number"])
    sealer = Sealer(keyring_of(key), tuple(vector["sender"]), vector["boot"], bytes(32), 0.0)
    sealer._number = vector["number"] - 1
    content, ticket = bytes.fromhex(vector["content"]), bytes.fromhex(vector["ticket"])
    data, _ = sealer._encrypt(header.what, content, tuple(vector["receiver"]), key, ticket, with_ticket=False)
    if not header.tells:
        assert data.hex() == vector["datagram"]


def test_there_are_vectors_for_both_ip_versions() -> None:
    assert {":" in vector["sender"][0] for vector in VECTORS} == {True, False}


def _vector(name: str, secret: bytes, ends: tuple[Any, Any], boot: int, number: int, **more: Any) -> dict[str, Any]:
    key = key_of(secret)
    sender, receiver = ends
    ticket, content, tells = more.get("ticket", NO_TICKET), more["content"], more.get("tells", False)
    ring = derive(secret, b"subord 1 datagram" + endpoint(*sender) + boot.to_bytes(8, "big"))
    header = pack(Header(What.MESSAGE, tells, key.id, boot, number, ticket))
    aad = header + endpoint(*sender) + endpoint(*receiver)
    return {
        "name": name,
        "secret": secret.hex(),
        "key_id": key.name,
        "authority_seed": derive(secret, INFO_AUTHORITY).hex(),
        "sender": sender,
        "receiver": receiver,
        "boot": boot,
        "datagram_key": ring.hex(),
        "what": 0,
        "tells": int(tells),
        "number": number,
        "ticket": ticket.hex(),
        "header": header.hex(),
        "content": content.hex(),
        "datagram": (header + AESGCM(ring).encrypt(bytes(4) + number.to_bytes(8, "big"), content, aad)).hex(),
    }


def main() -> None:
    """Write the file."""
    first, second = bytes(range(32)), bytes(range(100, 132))
    four = (["10.0.0.1", 7117], ["10.0.0.2", 7117])
    six = (["fd00:5::1", 7117], ["fd00:5::2", 7117])
    vectors = [
        _vector(
            "first words, with a ticket for the receiver",
            first,
            four,
            1_700_000_000_000,
            1,
            content=b"12345678hello",
            tells=True,
        ),
        _vector(
            "later, with the ticket of the receiver",
            first,
            four,
            1_700_000_000_000,
            2,
            content=b"hello",
            ticket=b"abcdefgh",
        ),
        _vector(
            "IPv6, another key, a long life", second, six, (1 << 62) - 1, 1 << 40, content=b"", ticket=b"\xff" * 8
        ),
    ]
    FILE.write_text(json.dumps(vectors, indent=1) + "\n")


if __name__ == "__main__":
    main()
